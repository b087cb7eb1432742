//! Why a trial has no result: what is refused here, and what fails.

use std::io;

use rustix::io::Errno;

use crate::record::{NotRun, TrialDeadlock};
use pipespeed_base::failure::{Interrupted, out_of_descriptors};
use pipespeed_base::{size, text::pluralize};
use pipespeed_host::refusals::{self, is_refusal};

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The case can't be run here.
    #[error(transparent)]
    NotRun(#[from] NotRun),
    /// Both processes wait for each other.
    #[error("deadlock after {}", pluralize(.0.round_trips as usize, "round trip"))]
    Deadlock(Box<TrialDeadlock>),
    /// The run was interrupted by a signal.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Something went wrong.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl TrialError {
    /// Converts it to an `anyhow::Error`: to [`Interrupted`], or to the error behind a failure.
    pub fn into_failure(self) -> anyhow::Error {
        match self {
            TrialError::Failed(error) => error,
            TrialError::Interrupted(signal) => signal.into(),
            other => other.into(),
        }
    }
}

/// The peer is gone. How the peer ended explains the failure, not this error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PeerGone(pub(crate) String);

/// The [`NotRun`] of a message that is too long for a channel.
pub(crate) fn over_limit(max: usize, reason: &str) -> TrialError {
    let message = format!(
        "a message has at most {} here ({reason})",
        if max < 1 << 20 && !max.is_multiple_of(1024) {
            format!("{max} bytes")
        } else {
            size::format(max as u64)
        }
    );
    NotRun::limit(message).into()
}

/// Converts an error of creating `what`: [`NotRun`] if this machine refuses it, else a
/// failure.
pub(crate) fn open_error<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> TrialError {
    move |error| {
        let error = error.into();
        match Errno::from_io_error(&error) {
            Some(
                Errno::PERM
                | Errno::ACCESS
                | Errno::NOSYS
                | Errno::AFNOSUPPORT
                | Errno::PROTONOSUPPORT
                | Errno::OPNOTSUPP
                | Errno::ADDRNOTAVAIL
                // Without a loopback device, or with one that is down.
                | Errno::NETUNREACH
                | Errno::NETDOWN
                // RLIMIT_FSIZE (ulimit -f).
                | Errno::FBIG,
            ) => NotRun::refused(format!("{what} is not available here: {error}")).into(),
            _ => TrialError::Failed(match out_of_descriptors(&error) {
                Some(hint) => anyhow::anyhow!("{what}: {hint}"),
                None => anyhow::Error::new(error).context(what),
            }),
        }
    }
}

/// The [`NotRun`] of a system call that this machine refuses, with the cause.
pub(crate) fn not_allowed(call: &str, error: &io::Error) -> NotRun {
    let refusal = refusals::explain(call, error);
    NotRun::refused(
        refusal.map_or_else(|| format!("{call}: {error}"), |refusal| refusal.to_string()),
    )
}

/// Converts an error of a call that has not moved anything yet: a refusal if this
/// machine does not allow the call (by a seccomp filter, for example), else a failure.
pub(crate) fn refusal_or_failure(call: &str, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    match os_error(&error) {
        Some(cause) if is_refusal(&cause) => not_allowed(call, &cause).into(),
        _ => error.context(call.to_owned()),
    }
}

/// The operating system's error in the chain.
pub(crate) fn os_error(error: &anyhow::Error) -> Option<io::Error> {
    match (
        error.downcast_ref::<Errno>(),
        error.downcast_ref::<io::Error>(),
    ) {
        (Some(errno), _) => Some((*errno).into()),
        (None, Some(error)) => error.raw_os_error().map(io::Error::from_raw_os_error),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;

    #[test]
    fn refused_calls_are_not_failures() {
        let error = |errno: Errno| open_error("a thing")(errno);
        for errno in [
            Errno::PERM,
            Errno::NOSYS,
            Errno::ADDRNOTAVAIL,
            Errno::NETUNREACH,
            Errno::NETDOWN,
            Errno::FBIG,
        ] {
            let TrialError::NotRun(not_run) = error(errno) else {
                panic!("{errno}")
            };
            assert_eq!(not_run.kind, NotRunKind::Refused);
            assert!(not_run.reason.contains("a thing"), "{not_run}");
        }
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::IO] {
            assert!(matches!(error(errno), TrialError::Failed(_)), "{errno}");
        }
    }
}
