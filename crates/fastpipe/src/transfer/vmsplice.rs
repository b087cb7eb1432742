//! vmsplice(2): makes the pipe's slots refer to the caller's pages, without a
//! copy. In the other direction, from a pipe to memory, the kernel copies.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

use super::{Incomplete, Input, MAX_PIECES, Output, Zero, target, transfer};
use crate::buffer::{Buffer, PageSlice};
use crate::wait::Interest;

/// Flags of vmsplice(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VmspliceOptions {
    /// SPLICE_F_GIFT: offers the pages to the kernel. Without observable effect
    /// today, for experiments.
    pub gift: bool,
}

impl<F: AsFd> Output<F> {
    /// Sends all `pieces`, in order, by reference.
    ///
    /// A piece takes a slot for each page that it touches.
    ///
    /// The pages must not be written while anybody refers to them; see
    /// [`PageSlice`].
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` if there is no reader; EBADF if the output
    /// is not a pipe or not open for writing; EMFILE if no descriptor is
    /// available for a [duplicate](Output); `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never); and those of vmsplice(2),
    /// where EPERM and ENOSYS usually mean a seccomp filter.
    pub fn vmsplice(
        &mut self,
        pieces: &[PageSlice<'_>],
        options: VmspliceOptions,
    ) -> Result<(), Incomplete> {
        self.duplicate().map_err(|errno| Incomplete {
            moved: 0,
            source: errno.into(),
        })?;
        let fd = target(&self.fd, &self.duplicate);
        let total = pieces.iter().map(|p| p.as_bytes().len() as u64).sum();
        let mut cursor = PieceCursor::default();
        transfer(
            total,
            Zero::Refusal,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Writable(fd)],
            |attempt, _| {
                cursor.advance_to(attempt.moved, pieces);
                let mut flags = SpliceFlags::empty();
                flags.set(SpliceFlags::NONBLOCK, !attempt.may_block);
                flags.set(SpliceFlags::GIFT, options.gift);
                cursor.send(fd, pieces, flags)
            },
        )
        .map(drop)
    }
}

impl<F: AsFd> Input<F> {
    /// Fills `buffer` by vmsplice(2), until it is full or the data ends. Returns
    /// the number of bytes received.
    ///
    /// The kernel copies as for read(2); it never moves pages into a program's
    /// memory (fs/splice.c, comment on `vmsplice_to_user`). For experiments.
    ///
    /// # Errors
    /// [`Incomplete`]: EBADF if it is not the read end of a pipe, and those of
    /// vmsplice(2).
    pub fn vmsplice(&mut self, buffer: &mut Buffer) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        check_read_end(fd).map_err(|source| Incomplete { moved: 0, source })?;
        transfer(
            buffer.len() as u64,
            Zero::EndOfData,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Readable(fd)],
            |attempt, _| {
                let rest = &mut buffer[attempt.moved as usize..];
                let mut flags = SpliceFlags::empty();
                flags.set(SpliceFlags::NONBLOCK, !attempt.may_block);
                // SAFETY: the memory is borrowed for writing. If the descriptor
                // refers to a write end by now, the pipe will refer to the
                // memory, which is sound for a buffer (see `vmsplice` below).
                unsafe { rustix::pipe::vmsplice(fd, &[IoSliceRaw::from_slice_mut(rest)], flags) }
            },
        )
        .map(|moved| moved as usize)
    }
}

/// Fails with EBADF unless `fd` is read-only. On a write end vmsplice(2) would
/// send the memory.
fn check_read_end(fd: BorrowedFd<'_>) -> io::Result<()> {
    if rustix::fs::fcntl_getfl(fd)? & OFlags::ACCMODE != OFlags::RDONLY {
        return Err(Errno::BADF.into());
    }
    Ok(())
}

/// Position of a transfer in a list of pieces.
#[derive(Default)]
struct PieceCursor {
    moved: u64,
    piece: usize,
    offset: usize,
}

impl PieceCursor {
    fn advance_to(&mut self, moved: u64, pieces: &[PageSlice<'_>]) {
        let mut step = (moved - self.moved) as usize;
        self.moved = moved;
        while self.piece < pieces.len() {
            let left = pieces[self.piece].as_bytes().len() - self.offset;
            if step < left {
                self.offset += step;
                return;
            }
            step -= left;
            self.piece += 1;
            self.offset = 0;
        }
    }

    fn send(
        &self,
        fd: BorrowedFd<'_>,
        pieces: &[PageSlice<'_>],
        flags: SpliceFlags,
    ) -> rustix::io::Result<usize> {
        let first = &pieces[self.piece].as_bytes()[self.offset..];
        let rest = &pieces[self.piece + 1..];
        if rest.is_empty() {
            // The usual case, without allocating a list.
            return vmsplice(fd, &[IoSliceRaw::from_slice(first)], flags);
        }
        let list: Vec<_> = std::iter::once(first)
            .chain(rest.iter().map(PageSlice::as_bytes))
            .filter(|bytes| !bytes.is_empty())
            .take(MAX_PIECES)
            .map(IoSliceRaw::from_slice)
            .collect();
        vmsplice(fd, &list, flags)
    }
}

/// Calls vmsplice(2). `fd` must be an `Output`'s duplicate, `pieces` parts of
/// [`PageSlice`]s.
fn vmsplice(
    fd: BorrowedFd<'_>,
    pieces: &[IoSliceRaw<'_>],
    flags: SpliceFlags,
) -> rustix::io::Result<usize> {
    // SAFETY: the pieces are parts of buffers with mappings of their own, which
    // are unmapped and never given to an allocator, so the pages that the pipe
    // refers to can't become other data of this process. The kernel would write
    // to the pieces if `fd` were the read end of a pipe; it is open for writing,
    // and stays so since no other code knows the duplicate's number.
    unsafe { rustix::pipe::vmsplice(fd, pieces, flags) }
}
