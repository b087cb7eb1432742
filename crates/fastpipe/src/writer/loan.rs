//! [`Loan`]: memory that a writer lends.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;

use super::{Writer, ignore_would_block};

/// Memory for the next bytes of a stream, from
/// [`Writer::lend`](super::Writer::lend). Dropping it sends nothing.
#[derive(Debug)]
#[must_use = "a loan that is not committed sends nothing"]
pub struct Loan<'a, F: AsFd> {
    writer: &'a mut Writer<F>,
    /// Minimum length that was asked for, in bytes.
    asked: usize,
}

impl<'a, F: AsFd> Loan<'a, F> {
    pub(super) fn new(writer: &'a mut Writer<F>, asked: usize) -> Self {
        Loan { writer, asked }
    }

    /// Sends the first `n` bytes.
    ///
    /// # Errors
    /// Those of vmsplice(2) and write(2); `BrokenPipe` if there is no reader.
    /// Unsent bytes remain queued; see [`Writer`].
    ///
    /// # Panics
    /// If the loan is shorter than `n` bytes.
    pub fn commit(self, n: usize) -> io::Result<()> {
        let len = self.len();
        assert!(n <= len, "{n} bytes of a loan of {len}");
        self.writer.filled += n;
        self.writer.copied = self.writer.would_waste(n, self.asked);
        ignore_would_block(self.writer.push())
    }
}

impl<F: AsFd> Deref for Loan<'_, F> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let writer = &*self.writer;
        &writer.region.bytes()[writer.filled..writer.end]
    }
}

impl<F: AsFd> DerefMut for Loan<'_, F> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let writer = &mut *self.writer;
        &mut writer.region.bytes_mut()[writer.filled..writer.end]
    }
}
