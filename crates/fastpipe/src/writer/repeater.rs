//! Bytes that are sent over and over, from a pipe that is never emptied.
//!
//! ```text
//! master: all copies of a layout, written once
//! for ever:
//!     tee    master -> duplicate     refers to the same pages once more
//!     splice duplicate -> output     moves these references
//! ```
//! Two calls for a mebibyte, of which none has to look up pages of this
//! process, as vmsplice(2) must. Base pages do better than huge ones there: one
//! count of references is then not fought over for each of 512 slots. Measured:
//! 70 GiB/s against 55.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::SpliceFlags;

use crate::pipe;
use crate::transfer::{Incomplete, Output};
use crate::wait::Wait;

#[derive(Debug)]
pub(super) struct Repeater {
    master: OwnedFd,
    duplicate: (OwnedFd, OwnedFd),
    /// Bytes in the master, and what is in the duplicate.
    len: usize,
    left: usize,
}

impl Repeater {
    /// From the layout's first byte on. None where the pipes for it can't be
    /// had.
    pub(super) fn new(layout: &[u8]) -> Option<Self> {
        let master = pipe_of(layout.len()).ok()?;
        Output::new(master.1, Wait::Never).write(layout).ok()?;
        Some(Repeater {
            master: master.0,
            duplicate: pipe_of(layout.len()).ok()?,
            len: layout.len(),
            left: 0,
        })
    }

    /// Sends up to `most` bytes, and up to the layout's end.
    pub(super) fn send(
        &mut self,
        out: &mut Output<impl AsFd>,
        most: u128,
    ) -> Result<u64, Incomplete> {
        if self.left == 0 {
            self.left = self.fill()?;
        }
        let len = most.min(self.left as u128) as usize;
        let sent = out.splice_from(&self.duplicate.0, len as u64);
        let moved = sent.as_ref().map_or_else(|error| error.moved, |n| *n);
        self.left -= moved as usize;
        sent
    }

    /// Fills the duplicate, which is empty and as large as the master: there is
    /// nothing to wait for.
    fn fill(&self) -> Result<usize, Incomplete> {
        let (from, to) = (&self.master, &self.duplicate.1);
        match rustix::pipe::tee(from, to, self.len, SpliceFlags::NONBLOCK) {
            Ok(n) if n == self.len => Ok(n),
            _ => Err(Incomplete {
                moved: 0,
                source: io::ErrorKind::Unsupported.into(),
            }),
        }
    }
}

/// A pipe that takes so many bytes from their beginning on.
fn pipe_of(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe::create()?;
    if pipe::capacity(&ends.1)? < bytes {
        pipe::set_capacity(&ends.1, bytes)?;
    }
    Ok(ends)
}
