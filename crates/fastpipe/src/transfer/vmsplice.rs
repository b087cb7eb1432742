//! vmsplice(2): the pipe's slots refer to the caller's pages; nothing is
//! copied. In the other direction, from a pipe to memory, the kernel copies.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

use super::{Incomplete, Input, MAX_PIECES, Output, Zero, target, transfer};
use crate::buffer::{Buffer, PageSlice};
use crate::wait::Interest;

/// What else to tell vmsplice(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VmspliceOptions {
    /// SPLICE_F_GIFT: the pages are the kernel's to keep. It changes nothing
    /// that can be observed today and is here for the experiment.
    pub gift: bool,
}

impl<F: AsFd> Output<F> {
    /// Hands all of `pieces`, in order, to the pipe by reference.
    ///
    /// An aligned piece takes one slot a page; one that begins or ends within
    /// a page takes a slot for each page it touches.
    ///
    /// The pages must not be written until nobody holds them; see
    /// [`PageSlice`].
    ///
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` where no reader is left, EBADF if it is no
    /// pipe or not open for writing, EMFILE where no descriptor is left for a
    /// [duplicate](Output), `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never), and those of vmsplice(2),
    /// which a seccomp filter may refuse with EPERM or ENOSYS.
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
        let mut cursor = Cursor::default();
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
    /// Fills `buffer` by vmsplice(2), until it is full or the data ends.
    /// Returns the bytes that came.
    ///
    /// The kernel copies, as for read(2), which moves no page into a program's
    /// memory either (fs/splice.c, above `vmsplice_to_user`): here for the
    /// experiment.
    ///
    /// # Errors
    /// [`Incomplete`]: EBADF if it is not the read end of a pipe, and those of
    /// vmsplice(2).
    pub fn vmsplice(&mut self, buffer: &mut Buffer) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        must_be_a_read_end(fd).map_err(|source| Incomplete { moved: 0, source })?;
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
                // SAFETY: the memory is borrowed for writing. Should the
                // descriptor stand for a write end by now, the pipe comes to
                // refer to it, as it may to a buffer's (see `vmsplice` below).
                unsafe { rustix::pipe::vmsplice(fd, &[IoSliceRaw::from_slice_mut(rest)], flags) }
            },
        )
        .map(|moved| moved as usize)
    }
}

/// On a descriptor that may be written vmsplice(2) takes the pieces for data to
/// be sent.
fn must_be_a_read_end(fd: BorrowedFd<'_>) -> io::Result<()> {
    if rustix::fs::fcntl_getfl(fd)? & OFlags::ACCMODE != OFlags::RDONLY {
        return Err(Errno::BADF.into());
    }
    Ok(())
}

/// Where in a list of pieces the transfer stands.
#[derive(Default)]
struct Cursor {
    moved: u64,
    piece: usize,
    offset: usize,
}

impl Cursor {
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
            // The usual case, without a list on the heap.
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

/// Only ever called with parts of [`PageSlice`]s and an `Output`'s duplicate.
fn vmsplice(
    fd: BorrowedFd<'_>,
    pieces: &[IoSliceRaw<'_>],
    flags: SpliceFlags,
) -> rustix::io::Result<usize> {
    // SAFETY: the pieces are parts of buffers of their own mapping, which are
    // unmapped and never handed to an allocator: the pages that the pipe goes
    // on to hold can't become somebody else's memory. On the read end of a pipe
    // the kernel would write to them; the descriptor is open for writing, and a
    // duplicate whose number nobody else knows, so it stays so.
    unsafe { rustix::pipe::vmsplice(fd, pieces, flags) }
}
