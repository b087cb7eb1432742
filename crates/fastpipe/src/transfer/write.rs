//! write(2): the kernel copies into pages of its own.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

use super::{Incomplete, Output, Zero, target, transfer};
use crate::wait::Interest;

impl<F: AsFd> Output<F> {
    /// Writes all of `data`.
    ///
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` if there is no reader (preceded by SIGPIPE
    /// unless that is ignored, as in Rust programs, or the output is a socket and
    /// [`Wait`](crate::wait::Wait) is not `Block`); `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never); `Interrupted` after a part if it is [interruptible], though
    /// sometimes no signal came; and those of write(2).
    ///
    /// [interruptible]: Output::interruptible
    pub fn write(&mut self, data: &[u8]) -> Result<(), Incomplete> {
        let fd = target(&self.fd, &self.duplicate);
        let nowait = &mut self.nowait;
        // A signal may have ended a blocking write that had written a part, and another one would not notice it.
        let is_interruptible = self.waiter.is_interruptible();
        let mut was_short = false;
        transfer(
            data.len() as u64,
            Zero::Refusal,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Writable(fd)],
            |attempt, counts| {
                let rest = &data[attempt.moved as usize..];
                if was_short {
                    return Err(Errno::INTR);
                }
                if attempt.may_block {
                    let written = rustix::io::write(fd, rest);
                    // Another process may have made it non-blocking.
                    was_short = is_interruptible
                        && written.is_ok_and(|n| n < rest.len())
                        && !is_nonblocking(fd);
                    written
                } else {
                    nowait.write(fd, rest, counts)
                }
            },
        )
        .map(drop)
    }
}

fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}
