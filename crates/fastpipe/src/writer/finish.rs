//! The end of a writer: an account, or an error that keeps what was not sent.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use super::{Path, Writer};
use crate::transfer::Counts;

/// What a writer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The technique in use at the end.
    pub path: Path,
    /// Bytes, system calls and would-blocks of sending.
    pub counts: Counts,
    /// Those of the bytes that were handed over rather than copied.
    pub zero_copy_bytes: u64,
    /// How often a used-up slab of pages was let go for new ones.
    pub slabs_renewed: u64,
    /// How often one was written again.
    pub slabs_reused: u64,
}

impl Report {
    pub(super) fn new<F: AsFd>(writer: &Writer<F>) -> Self {
        let mut turns = writer.turns;
        turns += writer.region.turns();
        Report {
            path: writer.path(),
            counts: writer.out_ref().counts(),
            zero_copy_bytes: writer.spliced,
            slabs_renewed: turns.renewed,
            slabs_reused: turns.reused,
        }
    }
}

/// [`Writer::finish`] could not send everything.
///
/// It holds the writer with the bytes that are left, so `?` does not turn it
/// into an [`io::Error`]: that would discard them without a word.
///
/// ```compile_fail,E0277
/// # use std::os::fd::OwnedFd;
/// # use fastpipe::writer::Writer;
/// fn done(out: Writer<OwnedFd>) -> std::io::Result<()> {
///     out.finish()?;
///     Ok(())
/// }
/// ```
///
/// See [`abandon`](Self::abandon) and [`into_parts`](Self::into_parts).
pub struct FinishError<F: AsFd> {
    error: io::Error,
    writer: Box<Writer<F>>,
}

impl<F: AsFd> FinishError<F> {
    pub(super) fn new(error: io::Error, writer: Writer<F>) -> Self {
        FinishError {
            error,
            writer: Box::new(writer),
        }
    }

    /// The error.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// Gives up the bytes that were not sent and returns the error.
    ///
    /// The writer is dropped, which tries to send them once more.
    pub fn abandon(self) -> io::Error {
        self.error
    }

    /// The error, and the writer with what was not sent. Dropping the writer
    /// tries once more.
    pub fn into_parts(self) -> (io::Error, Writer<F>) {
        (self.error, *self.writer)
    }
}

impl<F: AsFd> fmt::Debug for FinishError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishError")
            .field("error", &self.error)
            .field("queued", &self.writer.queued())
            .finish_non_exhaustive()
    }
}

impl<F: AsFd> fmt::Display for FinishError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes could not be sent", self.writer.queued())
    }
}

impl<F: AsFd> std::error::Error for FinishError<F> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
