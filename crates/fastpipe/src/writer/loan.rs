//! [`Loan`]: memory that a writer lends.

use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;

use super::{Writer, ignore_would_block};

/// Memory for the next bytes of a stream, from
/// [`Writer::lend`](super::Writer::lend). Dropping it sends nothing.
///
/// It is a `[u8]`, whose first bytes are sent by [`commit`](Self::commit). Or bytes are written to it
/// from its start on, and sent by [`commit_written`](Self::commit_written):
///
/// ```
/// use std::io::{Read, Write};
///
/// # let (mut reader, writer) = std::io::pipe()?;
/// # let mut out = fastpipe::Writer::new(writer)?;
/// let mut loan = out.lend(64)?;
/// write!(loan, "{} and {}", 1, 2)?;
/// loan.commit_written()?;
/// # out.finish()?;
/// # let mut got = String::new();
/// # reader.read_to_string(&mut got)?;
/// # assert_eq!(got, "1 and 2");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a loan that is not committed sends nothing"]
pub struct Loan<'a, F: AsFd> {
    writer: &'a mut Writer<F>,
    /// Minimum length that was asked for, in bytes.
    asked: usize,
    /// Number of bytes that were written through [`Write`].
    written: usize,
}

impl<'a, F: AsFd> Loan<'a, F> {
    pub(super) fn new(writer: &'a mut Writer<F>, asked: usize) -> Self {
        Loan {
            writer,
            asked,
            written: 0,
        }
    }

    /// Returns the number of bytes written through [`Write`]. If a write fails because the loan is full
    /// (`WriteZero`), they include a part of what it wrote.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Sends what was written to the loan through [`Write`].
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn commit_written(self) -> io::Result<()> {
        let written = self.written;
        self.commit(written)
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

/// Fills the loan from its start, until it is full: `write!(loan, ...)`.
/// [`commit_written`](Loan::commit_written) sends that.
impl<F: AsFd> Write for Loan<'_, F> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let from = self.written;
        let n = data.len().min(self.len() - from);
        self[from..][..n].copy_from_slice(&data[..n]);
        self.written += n;
        Ok(n)
    }

    /// Does nothing: only committing sends.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
