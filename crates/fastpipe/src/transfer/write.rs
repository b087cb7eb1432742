//! write(2): the kernel copies into pages of its own.

use std::os::fd::AsFd;

use super::{Incomplete, Output, Zero, target, transfer};
use crate::wait::Interest;

impl<F: AsFd> Output<F> {
    /// Writes all of `data`.
    ///
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` if there is no reader (preceded by SIGPIPE
    /// unless that is ignored, as in Rust programs, or the output is a socket and
    /// [`Wait`](crate::wait::Wait) is not `Block`); `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never); and those of write(2).
    pub fn write(&mut self, data: &[u8]) -> Result<(), Incomplete> {
        let fd = target(&self.fd, &self.duplicate);
        let nowait = &mut self.nowait;
        transfer(
            data.len() as u64,
            Zero::Refusal,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Writable(fd)],
            |attempt, counts| {
                let rest = &data[attempt.moved as usize..];
                if attempt.may_block {
                    rustix::io::write(fd, rest)
                } else {
                    nowait.write(fd, rest, counts)
                }
            },
        )
        .map(drop)
    }
}
