//! The end of a writer: a report, or an error that keeps the unsent bytes.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::auto::{self, TrialOutcome, Way};
use super::send::LONG_PIECE;
use super::{CopyReason, Writer};
use crate::method::Method;
use crate::pipe::{self, is_pipe};
use crate::sys::unsent;
use crate::transfer::Counts;
use crate::wait::{Wait, await_room};

/// Statistics of a writer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How bytes were sent in the end: the method that was asked for, or a safer one, or that which
    /// [`Method::Auto`] chose.
    pub method: Method,
    /// See [`reason`](Self::reason).
    reason: Option<CopyReason>,
    /// Bytes, system calls and would-blocks.
    pub counts: Counts,
    /// Number of bytes that were handed over rather than copied.
    pub zero_copy_bytes: u64,
    /// Number of used-up slabs (parts of the memory to send from, usually a huge page) whose pages were
    /// replaced by new ones.
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
    /// The latest trials of [`Method::Auto`], oldest first.
    pub trials: Vec<Trial>,
    /// Recent rate of the way in use under [`Method::Auto`](crate::Method::Auto), in
    /// bytes per second.
    pub rate: Option<f64>,
}

impl Report {
    pub(super) fn new<F: AsFd>(writer: &Writer<F>) -> Self {
        let mut slabs = writer.slab_counts;
        slabs += writer.region.counts();
        let (method, reason) = writer.method();
        Report {
            method,
            reason,
            counts: writer.out_ref().counts(),
            zero_copy_bytes: writer.spliced,
            slabs_renewed: slabs.renewed,
            slabs_reused: slabs.reused,
            held_bytes: slabs.held_bytes,
            regions_mapped: writer.regions_mapped,
            trials: writer.auto.as_ref().map_or_else(Vec::new, |auto| {
                auto.trials().iter().map(Trial::new).collect()
            }),
            rate: writer.auto.as_ref().and_then(|auto| auto.rate()),
        }
    }
}

impl Report {
    /// Whether pages are handed over rather than copied. Bytes of [`repeat`](Writer::repeat), which
    /// has ways of its own, don't count.
    pub fn is_zero_copy(&self) -> bool {
        self.reason.is_none()
    }

    /// Why bytes are copied; `None` if pages are handed over.
    pub fn reason(&self) -> Option<CopyReason> {
        self.reason
    }
}

/// For people: `vmsplice, fresh pages`, or `write: the output is a regular file`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason, self.method) {
            (Some(reason), _) => write!(f, "write: {reason}"),
            (None, Method::Drained(_)) => f.write_str("vmsplice, drained pages"),
            (None, Method::CowChecked) => f.write_str("vmsplice, cow_checked pages"),
            (None, _) => f.write_str("vmsplice, fresh pages"),
        }
    }
}

/// A comparison of two methods on the stream itself.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// Stream offset at which it ended, in bytes.
    pub ended_at: u64,
    /// Method in use until then.
    pub incumbent: Method,
    /// Method compared with it.
    pub challenger: Method,
    /// Mean rate of the incumbent's windows, in bytes per second.
    pub incumbent_rate: f64,
    /// Mean rate of the challenger's windows, in bytes per second.
    pub challenger_rate: f64,
    /// What came of it.
    pub outcome: TrialOutcome,
}

impl Trial {
    fn new(trial: &auto::Trial) -> Self {
        let method = |way| match way {
            Way::Copy => Method::copy(),
            Way::CopyLong => Method::Copy { piece: LONG_PIECE },
            Way::Fresh => Method::Fresh,
            Way::CowChecked => Method::CowChecked,
        };
        Trial {
            ended_at: trial.ended_at,
            incumbent: method(trial.incumbent),
            challenger: method(trial.challenger),
            incumbent_rate: trial.incumbent_rate,
            challenger_rate: trial.challenger_rate,
            outcome: trial.outcome,
        }
    }
}

/// [`Writer::finish`] failed to send everything.
///
/// Contains the writer with the unsent bytes, which [`into_parts`](Self::into_parts) returns. `?` in a
/// function that returns [`io::Error`] gives them up:
///
/// ```
/// # use std::os::fd::OwnedFd;
/// # use fastpipe::Writer;
/// fn done(out: Writer<OwnedFd>) -> std::io::Result<()> {
///     out.finish()?;
///     Ok(())
/// }
/// ```
pub struct FinishError<F: AsFd> {
    error: io::Error,
    writer: Box<Writer<F>>,
}

impl<F: AsFd> FinishError<F> {
    pub(crate) fn new(error: io::Error, writer: Writer<F>) -> Self {
        FinishError {
            error,
            writer: Box::new(writer),
        }
    }

    /// Returns the error of sending.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// Returns the error, and the writer with the unsent bytes. Dropping the
    /// writer tries to send them once more, if the error is `Interrupted` until the reader takes nothing for a second.
    pub fn into_parts(self) -> (io::Error, Writer<F>) {
        (self.error, *self.writer)
    }
}

/// Gives up the unsent bytes: drops the writer, which tries to send them once more, if the error is `Interrupted` until
/// the reader takes nothing for a second.
impl<F: AsFd> From<FinishError<F>> for io::Error {
    fn from(error: FinishError<F>) -> Self {
        error.error
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

impl<F: AsFd> Writer<F> {
    /// Sends what is queued as long as the reader takes some of it: the signal that ended the last wait may come only
    /// once, or there was none.
    pub(super) fn push_while_read(&mut self) {
        /// A reader that has taken nothing for as long may never do so.
        const MAX_PAUSE: Duration = Duration::from_secs(1);
        /// Of what a reader takes, poll(2) tells only once it is much.
        const INTERVAL: Duration = Duration::from_millis(20);
        self.is_interruption_due = false;
        self.out().set_wait(Wait::Never);
        let mut moved = (None, Instant::now());
        loop {
            match self.push() {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                _ => return,
            }
            let fd = self.as_fd();
            let is_pipe = is_pipe(fd).is_ok_and(|is_pipe| is_pipe);
            let unread = is_pipe.then(|| pipe::unread(fd).ok());
            let state = (self.out_ref().counts().bytes, unread, unsent(fd).ok());
            if moved.0 != Some(state) {
                moved = (Some(state), Instant::now());
            } else if moved.1.elapsed() >= MAX_PAUSE {
                return;
            }
            await_room(fd, INTERVAL);
        }
    }
}
