//! splice(2): moves references to pages between a pipe and another descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::pipe::SpliceFlags;

use super::{Counts, Incomplete, Input, MAX_BYTES, Output, Zero, target, transfer};
use crate::wait::Interest;

/// Flags of splice(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpliceOptions {
    /// SPLICE_F_MOVE: a hint without effect since Linux 2.6.21, for experiments.
    pub move_pages: bool,
    /// SPLICE_F_MORE: more data will follow, so sockets hold back short packets.
    pub more: bool,
}

impl SpliceOptions {
    fn splice(
        self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        len: u64,
        may_block: bool,
    ) -> rustix::io::Result<usize> {
        let mut flags = SpliceFlags::empty();
        flags.set(SpliceFlags::NONBLOCK, !may_block);
        flags.set(SpliceFlags::MOVE, self.move_pages);
        flags.set(SpliceFlags::MORE, self.more);
        let len = len.min(MAX_BYTES) as usize;
        rustix::pipe::splice(from, None, to, None, len, flags)
    }
}

impl<F: AsFd> Input<F> {
    /// Moves `len` bytes to `out`, or fewer if the data ends before (`u64::MAX`
    /// moves everything). One of the two descriptors must be a pipe. Returns the
    /// number of bytes moved.
    ///
    /// Between two pipes nothing is copied: readers of `out` see the pages of
    /// the original writer.
    ///
    /// [`Wait`](crate::wait::Wait) fully applies to pipes only. SPLICE_F_NONBLOCK
    /// does not affect sockets: a call on a full socket blocks unless its open
    /// file is non-blocking. Only under [`Wait::Poll`](crate::wait::Wait::Poll), and
    /// [`Wait::Adaptive`](crate::wait::Wait::Adaptive) once it sleeps, does the end of
    /// the output's reader end a wait for the input; otherwise it is noticed when
    /// there are bytes to move.
    ///
    /// # Errors
    /// [`Incomplete`]: EINVAL if neither is a pipe or `out` has O_APPEND;
    /// `BrokenPipe`; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never); and those of splice(2).
    pub fn splice(
        &mut self,
        out: impl AsFd,
        len: u64,
        options: SpliceOptions,
    ) -> Result<u64, Incomplete> {
        let fd = self.fd.as_fd();
        let out = out.as_fd();
        let mut moved = 0;
        loop {
            let step = transfer(
                len - moved,
                Zero::EndOfData,
                &mut self.waiter,
                &mut self.counts,
                &[Interest::Readable(fd), Interest::Writable(out)],
                |attempt, _| {
                    let left = len - moved - attempt.moved;
                    options.splice(fd, out, left, attempt.may_block)
                },
            );
            match step {
                Ok(n) => moved += n,
                Err(incomplete) => {
                    return Err(Incomplete {
                        moved: moved + incomplete.moved,
                        ..incomplete
                    });
                }
            }
            if moved == len || !has_more_after_zero(fd, &mut self.counts) {
                return Ok(moved);
            }
        }
    }

    /// Moves the available bytes to `out`, at most `most`, and waits only if
    /// there are none. Returns 0 at the end of the data.
    ///
    /// # Errors
    /// Those of [`splice`](Self::splice), with no byte moved.
    pub fn splice_some(
        &mut self,
        out: impl AsFd,
        most: usize,
        options: SpliceOptions,
    ) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        let out = out.as_fd();
        loop {
            // Done after one byte, but the call may move more.
            let got = transfer(
                1.min(most as u64),
                Zero::EndOfData,
                &mut self.waiter,
                &mut self.counts,
                &[Interest::Readable(fd), Interest::Writable(out)],
                |attempt, _| options.splice(fd, out, most as u64, attempt.may_block),
            )?;
            if got > 0 || most == 0 || !has_more_after_zero(fd, &mut self.counts) {
                return Ok(got as usize);
            }
        }
    }

    /// Discards `len` bytes, or fewer if the data ends before, by splicing them
    /// to /dev/null.
    ///
    /// # Errors
    /// Those of [`splice`](Self::splice) and of opening /dev/null.
    pub fn discard(&mut self, len: u64) -> io::Result<u64> {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        Ok(self.splice(null, len, SpliceOptions::default())?)
    }
}

impl<F: AsFd> Output<F> {
    /// Moves `len` bytes that are in the pipe `from` already.
    pub(crate) fn splice_from(&mut self, from: impl AsFd, len: u64) -> Result<u64, Incomplete> {
        let from = from.as_fd();
        let fd = target(&self.fd, &self.duplicate);
        transfer(
            len,
            Zero::Refusal,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Writable(fd)],
            |attempt, _| {
                let left = len - attempt.moved;
                SpliceOptions::default().splice(from, fd, left, attempt.may_block)
            },
        )
    }
}

/// Whether there may be more data after splice(2) has returned 0.
///
/// It returns 0 not only at the end of the data; for a pipe FIONREAD shows
/// whether there are unread bytes. For other inputs 0 is taken as the end, as
/// for read(2).
fn has_more_after_zero(fd: BorrowedFd<'_>, counts: &mut Counts) -> bool {
    counts.syscalls += 1;
    crate::pipe::is_pipe(fd).unwrap_or(false)
        && crate::pipe::unread(fd).is_ok_and(|bytes| bytes > 0)
}
