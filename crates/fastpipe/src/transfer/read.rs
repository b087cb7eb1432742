//! read(2): the kernel copies into the caller's memory.

use std::os::fd::AsFd;

use super::{Incomplete, Input, Zero, transfer};
use crate::wait::Interest;

impl<F: AsFd> Input<F> {
    /// Reads until `buffer` is full or the data ends. Returns the number of bytes
    /// read, which is less than the buffer's length only at the end.
    ///
    /// Not for pipes in packet mode (O_DIRECT; pipe(2)): each system call takes one
    /// packet, and the part of the last one that does not fit is lost. The read end
    /// does not show the mode. Use [`read_some`](Self::read_some) there.
    ///
    /// # Errors
    /// [`Incomplete`]; its `moved` bytes are in the buffer.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        let nowait = &mut self.nowait;
        transfer(
            buffer.len() as u64,
            Zero::EndOfData,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Readable(fd)],
            |attempt, counts| {
                let rest = &mut buffer[attempt.moved as usize..];
                if attempt.may_block {
                    rustix::io::read(fd, rest)
                } else {
                    nowait.read(fd, rest, counts)
                }
            },
        )
        .map(|moved| moved as usize)
    }

    /// Reads the available bytes, and waits only if there are none. Returns 0 at
    /// the end of the data, or for an empty buffer. From a pipe in packet mode
    /// takes one packet, which always fits into a page, and the other bytes before it: the
    /// part that does not fit is lost.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), with no byte moved.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        let nowait = &mut self.nowait;
        // Done after one byte, but the call may read more.
        transfer(
            1.min(buffer.len() as u64),
            Zero::EndOfData,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Readable(fd)],
            |attempt, counts| {
                if attempt.may_block {
                    rustix::io::read(fd, &mut *buffer)
                } else {
                    nowait.read(fd, &mut *buffer, counts)
                }
            },
        )
        .map(|moved| moved as usize)
    }
}
