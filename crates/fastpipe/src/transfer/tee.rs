//! tee(2): makes a second pipe refer to the same pages.

use std::os::fd::AsFd;

use rustix::pipe::SpliceFlags;

use super::splice::SpliceOptions;
use super::{Incomplete, Input, Zero, transfer};
use crate::wait::Interest;

impl<F: AsFd> Input<F> {
    /// Duplicates at most `len` bytes from the front of this pipe into the pipe
    /// `copy`, without consuming them. Returns the number of bytes duplicated, 0
    /// at the end of the data.
    ///
    /// Makes one successful call: until the bytes are consumed, another would
    /// duplicate the same bytes again.
    ///
    /// # Errors
    /// [`Incomplete`] with no byte moved: EINVAL if one is not a pipe;
    /// `BrokenPipe`; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never); and those of tee(2).
    pub fn tee(&mut self, copy: impl AsFd, len: usize) -> Result<usize, Incomplete> {
        let fd = self.fd.as_fd();
        let copy = copy.as_fd();
        transfer(
            1.min(len as u64),
            Zero::EndOfData,
            &mut self.waiter,
            &mut self.counts,
            &[Interest::Readable(fd), Interest::Writable(copy)],
            |attempt, _| {
                let mut flags = SpliceFlags::empty();
                flags.set(SpliceFlags::NONBLOCK, !attempt.may_block);
                rustix::pipe::tee(fd, copy, len, flags)
            },
        )
        .map(|moved| moved as usize)
    }

    /// Moves `len` bytes to `out`, as [`splice`](Self::splice) does, and leaves
    /// a duplicate in the pipe `copy`. Returns the number of bytes moved, which is
    /// less than `len` only at the end of the data. [`counts`](Self::counts)
    /// counts each byte twice, for tee and for splice.
    ///
    /// # Errors
    /// Those of [`tee`](Self::tee) and [`splice`](Self::splice). `moved` bytes
    /// went to both; up to one pipeful more may be in `copy` alone, so the
    /// transfer can't be resumed. Not suitable for
    /// [`Wait::Never`](crate::wait::Wait::Never).
    pub fn tee_and_splice(
        &mut self,
        copy: impl AsFd,
        out: impl AsFd,
        len: u64,
        options: SpliceOptions,
    ) -> Result<u64, Incomplete> {
        let mut moved = 0;
        while moved < len {
            let want = (len - moved).min(usize::MAX as u64) as usize;
            let before = |incomplete: Incomplete| Incomplete {
                moved: moved + incomplete.moved,
                ..incomplete
            };
            let duplicated = self.tee(&copy, want).map_err(before)? as u64;
            if duplicated == 0 {
                break;
            }
            // These bytes are in the pipe, so exactly as many are moved.
            moved += self.splice(&out, duplicated, options).map_err(before)?;
        }
        Ok(moved)
    }
}
