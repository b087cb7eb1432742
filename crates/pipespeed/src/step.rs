//! A step of `report`: a command in a process of its own, which ends with the report.
//!
//! It is started as `pipespeed SUBCOMMAND step REPORT COMMAND...`, with the process id of the
//! report.

use std::ffi::OsString;

use anyhow::bail;
use pipespeed_base::failure::{AlreadyReported, Interrupted};
use pipespeed_measure::session::SUBCOMMAND;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// The role of such a process, after [`SUBCOMMAND`].
pub const ROLE: &str = "step";
/// Number of arguments before those of the command, with the program's name.
const BEFORE: usize = 4;

/// The arguments before those of the command of a step of this process.
pub(crate) fn prefix() -> [String; BEFORE - 1] {
    let report = std::process::id().to_string();
    [SUBCOMMAND.to_owned(), ROLE.to_owned(), report]
}

/// Whether this process is a step.
pub(crate) fn is_step() -> bool {
    let mut args = std::env::args_os().skip(1);
    args.next().is_some_and(|word| word == SUBCOMMAND)
        && args.next().is_some_and(|word| word == ROLE)
}

/// The arguments of this process: in a step, those of its command. A record names the command
/// by them.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if args.len() >= BEFORE && is_step() {
        args.drain(1..BEFORE);
    }
    args
}

/// Leaves it to `report` to say that a signal arrived, which it passes on to its steps.
///
/// # Errors
/// Those of the command; for a signal in a step its status.
pub fn leave_interruption(outcome: anyhow::Result<()>) -> anyhow::Result<()> {
    outcome.map_err(|error| match error.downcast_ref() {
        Some(Interrupted(signal)) if is_step() => {
            AlreadyReported(128u8.wrapping_add(*signal as u8)).into()
        }
        _ => error,
    })
}

/// Has this process interrupted when its parent dies, which should be `report`.
///
/// # Errors
/// The report has died already, or the kernel refuses.
pub fn end_with(report: Option<OsString>) -> anyhow::Result<()> {
    // Not SIGINT, which a background job of a shell ignores. It is set here, not before
    // execve(2), which clears it for a program with file capabilities.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It is not sent if the report died before that call.
    let report = report.and_then(|id| id.to_str()?.parse().ok());
    if getppid().map(Pid::as_raw_pid) != report {
        bail!("the report has ended");
    }
    Ok(())
}
