//! A command that is run as a child, and waited for.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Once;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use pipespeed_base::failure::{AlreadyReported, full_message, say, start_error, usage};
use pipespeed_base::interrupt::{Interrupt, continue_stopped};
use pipespeed_base::process::{ChildWatch, is_any_ready, shell};
use pipespeed_base::{signal_name, standard};
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::terminate::{self, Survivor};

/// Interval of reaping the processes that a command leaves behind.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// A command gets this long to end by the signal that a terminal or timeout(1) sends to all
/// processes of a group.
const GROUP_GRACE: Duration = Duration::from_millis(500);
/// What a command that was ended by a signal leaves behind gets this long to end, too.
const REST_GRACE: Duration = Duration::from_secs(1);

/// A command that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    /// Readable once it has ended.
    pub(super) ending: OwnedFd,
    /// What this process had before: a shell's process substitution, say.
    pub(super) others: OtherProcesses,
}

/// From now on, processes that a child leaves behind become children of this one.
pub(super) fn adopt_orphans() -> anyhow::Result<()> {
    // Only a filter refuses it.
    set_child_subreaper(Some(getpid())).context(
        "prctl(PR_SET_CHILD_SUBREAPER), without which nothing could be said of what the command leaves behind, is \
         refused here, as by a seccomp filter; run this outside of it",
    )
}

/// Starts a command: one word is a pipeline for sh, several are a program and its arguments.
/// Processes that it leaves behind become children of this one.
pub(super) fn start(
    words: &[OsString],
    prepare: impl FnOnce(&mut Command),
) -> anyhow::Result<Started> {
    adopt_orphans()?;
    let mut command = match words {
        [text] if text.as_encoded_bytes().trim_ascii().is_empty() => {
            return Err(usage("the command is empty"));
        }
        [text] => shell(text),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args);
            command
        }
        [] => return Err(usage("the command is missing")),
    };
    prepare(&mut command);
    let name = command.get_program().to_string_lossy().into_owned();
    spawn(&mut command).map_err(|error| command_error(&name, error))
}

/// The failed start of a command: printed, with the exit status of shells if they have one.
pub(super) fn command_error(name: &str, error: io::Error) -> anyhow::Error {
    let status = match error.kind() {
        io::ErrorKind::NotFound if !standard::lacks_null() => Some(127),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ArgumentListTooLong => Some(126),
        _ => None,
    };
    let error = start_error(&format!("command {name}"), Path::new(name), error);
    let Some(status) = status else {
        return error;
    };
    say(&format!("pipespeed: {}", full_message(&error)));
    AlreadyReported(status).into()
}

/// Starts a command, which finds blocked and ignored signals and closed descriptors as this
/// process found them.
pub(super) fn spawn(command: &mut Command) -> io::Result<Started> {
    standard::start_as_by_exec(command);
    standard::close_on_exec();
    let watch = ChildWatch::prepare()?;
    let others = OtherProcesses::find(&Proc::default());
    let mut child = command.spawn()?;
    others.set_command(child.id() as i32);
    match watch.watch(Pid::from_child(&child)) {
        Ok(ending) => Ok(Started {
            child,
            ending,
            others,
        }),
        Err(error) => {
            // The caller says that it was not started.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Waits until a signal arrives or the child ends. Returns whether that happened in time. True,
/// too, if poll(2) fails, which is said: a caller that waited again would do so for ever.
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
    let ready = is_any_ready(&mut polled, within.as_ref());
    if let Err(error) = &ready {
        say_blind(error);
    }
    // It is noticed here: what is shown later is shown in spite of it.
    let is_interrupted = interrupt.signal().is_some();
    is_interrupted || ready.unwrap_or(true)
}

/// Says once that nothing more is observed.
fn say_blind(error: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| say(&format!("pipespeed: nothing more can be observed: {error}")));
}

/// Waits for the end of the command, and reaps others meanwhile. A signal that arrives is passed
/// on to all processes of the command, unless it ends by itself or was typed at a terminal, and what is left after the
/// command has ended is ended, too.
pub(super) fn wait(
    proc: &Proc,
    interrupt: &Interrupt,
    command: &mut Started,
) -> anyhow::Result<ExitStatus> {
    let Started {
        child,
        ending,
        others,
    } = command;
    while !is_over(interrupt, Some(ending), Some(REAP_INTERVAL)) {
        reap(proc, Pid::from_child(child), others);
    }
    let Some(signal) = interrupt.signal() else {
        return child.wait().context("the command");
    };
    // A real-time signal has no name.
    let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
    // A second one might mean more to the command, which has got what was typed at a terminal.
    if interrupt.is_from_terminal() {
        continue_stopped(child);
        let status = child.wait().context("the command")?;
        end_rest(proc, others, REST_GRACE);
        return Ok(status);
    }
    let mut polled = [PollFd::new(ending, PollFlags::IN)];
    let end = Instant::now() + GROUP_GRACE;
    let lives_on = loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match is_any_ready(&mut polled, timeout.as_ref()) {
            // Another signal ends the wait, too.
            Ok(false) if !left.is_zero() => {}
            is_ready => break matches!(is_ready, Ok(false)),
        }
    };
    if lives_on {
        let refused = terminate::signal_descendants(proc, others, signal);
        for pid in refused {
            say(&format!(
                "pipespeed: {} (pid {pid}) may not be signalled: its end is waited for",
                proc.name(pid).unwrap_or_default()
            ));
        }
    }
    let status = child.wait().context("the command")?;
    end_rest(proc, others, REST_GRACE);
    Ok(status)
}

/// Reaps what the command has left behind, and all `others` that have ended.
pub(super) fn reap(proc: &Proc, child: Pid, others: &OtherProcesses) {
    // Their children become ours.
    others.update(proc);
    terminate::reap_others(proc, child, &OtherProcesses::default());
}

/// Ends all processes of the command. Says so if any is left; returns whether none is.
pub(super) fn end(proc: &Proc, command: &Started) -> bool {
    end_rest(proc, &command.others, Duration::ZERO)
}

fn end_rest(proc: &Proc, others: &OtherProcesses, grace: Duration) -> bool {
    let survivors = terminate::end_descendants(proc, others, grace);
    say_survivors(&survivors);
    survivors.is_empty()
}

/// Says which processes of a command could not be ended.
pub(super) fn say_survivors(survivors: &[Survivor]) {
    for survivor in survivors {
        say(&format!("pipespeed: {survivor}"));
    }
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
