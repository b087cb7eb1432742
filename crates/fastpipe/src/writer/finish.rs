//! The end of a writer: a report, or an error that keeps the unsent bytes.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use super::{Path, Trial, Writer};
use crate::transfer::Counts;

/// Statistics of a writer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Technique in use at the end.
    pub path: Path,
    /// Bytes, system calls and would-blocks.
    pub counts: Counts,
    /// Number of bytes that were handed over rather than copied.
    pub zero_copy_bytes: u64,
    /// Number of used-up slabs whose pages were replaced by new ones.
    pub slabs_renewed: u64,
    /// Number of used-up slabs whose pages were written again.
    pub slabs_reused: u64,
    /// Length of the slabs whose bytes had left the pipe when their turn came, but to
    /// which another pipe or process still referred, in bytes. Known under [`Method::CowChecked`](crate::Method::CowChecked)
    /// only.
    pub held_bytes: u64,
    /// Number of times memory was mapped to send from. Loans that are longer than
    /// [`WriterBuilder::region`](crate::WriterBuilder::region) need mappings of their own.
    pub regions_mapped: u64,
    /// The latest trials of [`Method::Auto`](crate::Method::Auto), oldest first.
    pub trials: Vec<Trial>,
    /// Recent rate of the way in use under [`Method::Auto`](crate::Method::Auto), in
    /// bytes per second.
    pub rate: Option<f64>,
}

impl Report {
    pub(super) fn new<F: AsFd>(writer: &Writer<F>) -> Self {
        let mut slabs = writer.slab_counts;
        slabs += writer.region.counts();
        Report {
            path: writer.path(),
            counts: writer.out_ref().counts(),
            zero_copy_bytes: writer.spliced,
            slabs_renewed: slabs.renewed,
            slabs_reused: slabs.reused,
            held_bytes: slabs.held_bytes,
            regions_mapped: writer.regions_mapped,
            trials: writer
                .auto
                .as_ref()
                .map_or_else(Vec::new, |auto| auto.trials().to_vec()),
            rate: writer.auto.as_ref().and_then(|auto| auto.rate()),
        }
    }
}

/// [`Writer::finish`] failed to send everything.
///
/// Contains the writer with the unsent bytes. It does not convert into
/// [`io::Error`], since `?` would then discard these bytes silently:
///
/// ```compile_fail,E0277
/// # use std::os::fd::OwnedFd;
/// # use fastpipe::Writer;
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

    /// Returns the error of sending.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// Returns the error and gives up the unsent bytes.
    ///
    /// Drops the writer, which tries to send them once more.
    pub fn abandon(self) -> io::Error {
        self.error
    }

    /// Returns the error, and the writer with the unsent bytes. Dropping the
    /// writer tries to send them once more.
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
