//! How the command ends: exit codes and the one line on standard error.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The command line asks for something that makes no sense, or lacks
/// something: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A signal ended the work: exit status 128 plus its number, as shells say it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {}", crate::signal_name(*.0))]
pub struct Interrupted(pub i32);

/// Standard output was closed by its reader, who has had enough: the normal end
/// of a producer.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct Closed;

/// What went wrong has been said already, with this as the exit status.
#[derive(Debug, thiserror::Error)]
#[error("failed with status {0}")]
pub struct Told(pub u8);

/// Names standard output in an error of writing to it.
///
/// # Errors
/// [`Closed`] if nobody reads it any more, else the error in context.
pub fn to_stdout(written: io::Result<()>) -> anyhow::Result<()> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Closed.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    })
}

/// Says a line on standard error. That it can't be written is no reason to
/// fail, and there would be nowhere to tell.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// An error with its causes, `: ` between them. A cause that the error before it
/// tells of itself, as some do, is not told twice.
pub fn in_full(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What to say where a program, most often this one by its file in /proc, could
/// not be started to play a role: `writer`.
pub fn cant_start(role: &str, program: &Path, error: io::Error) -> anyhow::Error {
    let what = format!("can't start the {role}");
    let missing = Errno::from_io_error(&error) == Some(Errno::NOENT);
    if missing && program.starts_with("/proc") {
        let name = program.display();
        return anyhow!("{what}: {name} is needed for that, but is not there: is /proc mounted?");
    }
    match out_of_descriptors(&error) {
        Some(hint) => anyhow!("{what}: {hint}"),
        None => anyhow::Error::new(error).context(what),
    }
}

/// What to do where this process may open no more files: which limit it is.
pub fn out_of_descriptors(error: &io::Error) -> Option<String> {
    let too_many = Errno::from_io_error(error) == Some(Errno::MFILE);
    too_many.then(|| {
        let now = match getrlimit(Resource::Nofile).current {
            Some(limit) => format!(", now {limit}"),
            None => String::new(),
        };
        format!("no descriptor is left: {error}; raise the limit (ulimit -n{now})")
    })
}

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
    if error.is::<Closed>() {
        return ExitCode::SUCCESS;
    }
    if let Some(Told(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    say(&format!("{program}: {}", in_full(&error)));
    if error.is::<Usage>() {
        ExitCode::from(2)
    } else if let Some(Interrupted(signal)) = error.downcast_ref() {
        ExitCode::from(128u8.wrapping_add(*signal as u8))
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_told_already_is_not_told_twice() {
        let cause = || io::Error::from(Errno::NOMEM);
        let plain = anyhow::Error::new(cause()).context("mmap");
        assert_eq!(in_full(&plain), format!("mmap: {}", cause()));
        let told = anyhow::Error::new(cause()).context(format!("no memory: {}", cause()));
        assert_eq!(in_full(&told), format!("no memory: {}", cause()));
    }

    #[test]
    fn a_program_that_is_only_in_proc_needs_proc() {
        let told = |program: &str| {
            let error = cant_start("echo", Path::new(program), Errno::NOENT.into());
            in_full(&error)
        };
        assert!(told("/proc/self/exe").contains("can't start the echo: /proc/self/exe is needed"));
        assert!(!told("/bin/x").contains("/proc"), "{}", told("/bin/x"));
    }
}
