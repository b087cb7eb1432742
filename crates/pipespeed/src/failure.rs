//! How the command ends: exit codes and the one line on standard error.

use std::io;
use std::process::ExitCode;

/// The command line asks for something that makes no sense, or lacks
/// something: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A signal ended the work: exit status 128 plus its number, as shells say it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {}", crate::runner::signal_name(*.0))]
pub struct Interrupted(pub i32);

/// An error of bad usage.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Turns the outcome of `program` into an exit status, and says in one line on
/// standard error what went wrong. A closed pipe at standard output ends it
/// normally.
pub fn exit_code(program: &str, outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(closed) {
        return ExitCode::SUCCESS;
    }
    eprintln!("{program}: {error:#}");
    if error.is::<Usage>() {
        ExitCode::from(2)
    } else if let Some(Interrupted(signal)) = error.downcast_ref() {
        ExitCode::from(128u8.wrapping_add(*signal as u8))
    } else {
        ExitCode::FAILURE
    }
}
