//! The exit status, in pv's bits.

/// What went wrong, as pv(1) counts it: each kind of failure sets a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(u8);

impl Status {
    /// A file, or a process to watch, could not be found, opened or looked at.
    pub const ACCESS: Status = Status(2);
    /// An input was the output as well, and was left out.
    pub const SAME_FILE: Status = Status(4);
    /// Bytes could not be read, or not be written.
    pub const TRANSFER: Status = Status(16);

    /// Sets the bit of one more failure.
    pub fn add(&mut self, failure: Status) {
        self.0 |= failure.0;
    }

    /// The number to exit with: 0 if nothing went wrong.
    pub fn code(self) -> u8 {
        self.0
    }
}
