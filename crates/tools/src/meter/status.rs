//! The exit status, with pv's bits.

/// Kinds of failure that occurred; each sets a bit, as in pv(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(u8);

impl Status {
    /// A file or a process could not be accessed.
    pub const ACCESS: Status = Status(2);
    /// An input was left out, since it is the output.
    pub const SAME_FILE: Status = Status(4);
    /// Bytes could not be read or written.
    pub const TRANSFER: Status = Status(16);

    /// Sets the bit of a failure.
    pub fn add(&mut self, failure: Status) {
        self.0 |= failure.0;
    }

    /// The exit status: 0 without failures.
    pub fn code(self) -> u8 {
        self.0
    }
}
