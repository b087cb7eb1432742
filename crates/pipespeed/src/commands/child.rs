//! A command that is run as a child, and waited for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, getpid, pidfd_open, set_child_subreaper};
use rustix::termios::tcgetpgrp;

use pipespeed_base::failure::{AlreadyReported, full_message, say, start_error, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_pipeline::act;
use pipespeed_pipeline::proc::Proc;

/// Interval of reaping the processes that a command leaves behind.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// A command that was started, with its pidfd.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) ending: OwnedFd,
}

/// Starts a command: one word is a pipeline for sh, several are a program and its arguments.
/// Processes that it leaves behind become children of this one.
pub(super) fn start(
    words: &[String],
    prepare: impl FnOnce(&mut Command),
) -> anyhow::Result<Started> {
    set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    let mut command = match words {
        [text] if text.trim().is_empty() => return Err(usage("the command is empty")),
        [text] => {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        }
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args);
            command
        }
        [] => return Err(usage("the command is missing")),
    };
    let name = words.first().map_or("sh", String::as_str);
    prepare(&mut command);
    spawn(&mut command).map_err(|error| {
        // As shells do.
        let status = match error.kind() {
            io::ErrorKind::NotFound => Some(127),
            io::ErrorKind::PermissionDenied => Some(126),
            _ => None,
        };
        let error = start_error(&format!("command {name}"), Path::new(name), error);
        let Some(status) = status else {
            return error;
        };
        say(&format!("pipespeed: {}", full_message(&error)));
        AlreadyReported(status).into()
    })
}

/// Starts a command.
pub(super) fn spawn(command: &mut Command) -> io::Result<Started> {
    // Fails if there is no pidfd, or no descriptor for it: nobody would wait for the command.
    let reserved = pidfd_open(getpid(), PidfdFlags::empty())?;
    let child = command.spawn()?;
    drop(reserved);
    let ending = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    Ok(Started { child, ending })
}

/// Waits until a signal arrives or the child ends. Returns whether that happened in time.
pub(super) fn is_over(
    interrupt: &Interrupt,
    child: Option<&OwnedFd>,
    within: Option<Duration>,
) -> bool {
    let fds = [Some(interrupt.as_fd()), child.map(AsFd::as_fd)];
    let mut polled: Vec<PollFd<'_>> = fds
        .into_iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    match poll(&mut polled, within.as_ref()) {
        Ok(ready) => ready > 0,
        // A signal, which the next call sees.
        Err(_) => interrupt.signal().is_some(),
    }
}

/// Waits for the end of the command, and reaps others meanwhile. A signal that arrives is passed
/// on, and what is left after the command has ended by it is ended, too.
pub(super) fn wait(
    proc: &Proc,
    interrupt: &Interrupt,
    command: &mut Started,
) -> anyhow::Result<ExitStatus> {
    let Started { child, ending } = command;
    while !is_over(interrupt, Some(ending), Some(REAP_INTERVAL)) {
        act::reap_others(proc, Pid::from_child(child));
    }
    let Some(signal) = interrupt.signal().and_then(Signal::from_named_raw) else {
        return child.wait().context("the command");
    };
    // Ctrl-C on a terminal goes to all of its foreground group; a second one may mean more.
    if !(matches!(signal, Signal::INT | Signal::QUIT) && is_in_foreground()) {
        act::signal_descendants(proc, signal);
    }
    let status = child.wait().context("the command")?;
    end_descendants(proc);
    Ok(status)
}

/// Whether the terminal sends Ctrl-C to this process.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

/// Ends all processes of the command. Says so if any is left; returns whether none is.
pub(super) fn end_descendants(proc: &Proc) -> bool {
    let is_done = act::end_descendants(proc);
    if !is_done {
        say("pipespeed: not all processes of the command could be ended");
    }
    is_done
}

/// Ends with the status of the command, as shells do.
pub(super) fn exit_as(status: ExitStatus) -> anyhow::Result<()> {
    if let Some(signal) = status.signal() {
        say(&format!(
            "pipespeed: the command was ended by {}",
            signal_name(signal)
        ));
        return Err(AlreadyReported(128u8.wrapping_add(signal as u8)).into());
    }
    match status.code() {
        Some(0) | None => Ok(()),
        Some(code) => Err(AlreadyReported(code as u8).into()),
    }
}
