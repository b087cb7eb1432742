//! read(2): the kernel copies into the caller's memory.

use std::os::fd::AsFd;

use super::{Incomplete, Input, Zero, transfer};
use crate::wait::Interest;

impl<F: AsFd> Input<F> {
    /// Reads until `buffer` is full or the data ends. Returns the bytes read:
    /// fewer than the buffer holds only at the end.
    ///
    /// # Errors
    /// [`Incomplete`], whose `moved` bytes are in the buffer.
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

    /// Reads what is there, waiting for the first byte only. Returns 0 at the
    /// end of the data, or for an empty buffer.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), with nothing moved.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        let nowait = &mut self.nowait;
        // One byte satisfies it; more may come with it.
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
