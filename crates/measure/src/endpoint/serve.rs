//! The side of a trial's process: it receives its instructions, pins itself, runs and
//! reports.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::control::{Control, ProcessReport};
use crate::failure::{PeerGone, not_allowed, os_error};
use crate::record::NotRun;
use crate::spec::ProcessRole;
use crate::sys::SharedWords;
use pipespeed_base::failure::{full_message, out_of_descriptors};

/// Number of words of memory that the processes of a trial share.
pub(crate) const SHARED_WORDS: usize = 6;

/// The instructions that a process receives: its specification and descriptors.
pub(crate) struct Instructions<T> {
    pub(crate) spec: T,
    pub(crate) words: SharedWords,
    /// The standard descriptor that is not the control socket.
    pub(crate) channel: OwnedFd,
    /// The descriptors that came with the spec.
    pub(crate) fds: std::vec::IntoIter<OwnedFd>,
}

/// Runs a process of a trial: receives its instructions, pins it to its processor,
/// calls `run` and reports the outcome.
///
/// # Errors
/// If the report can't be sent.
pub(crate) fn serve<T: DeserializeOwned, O: Serialize>(
    role: ProcessRole,
    run: impl FnOnce(&mut Control, Instructions<T>) -> anyhow::Result<O>,
) -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let (control, channel) = match role {
        ProcessRole::Reader => (stdout, stdin),
        _ => (stdin, stdout),
    };
    let mut control = Control::new(UnixStream::from(control));
    let outcome = receive_and_pin(&mut control, channel)
        .and_then(|instructions| run(&mut control, instructions));
    let report: ProcessReport<(), O> = match outcome {
        Ok(outcome) => ProcessReport::Done(Box::new(outcome)),
        Err(error) => match (
            error.downcast_ref::<NotRun>(),
            error.downcast_ref::<PeerGone>(),
        ) {
            (Some(not_run), _) => ProcessReport::NotRun(not_run.clone()),
            (None, Some(PeerGone(how))) => ProcessReport::PeerGone(how.clone()),
            (None, None) => {
                let hint = os_error(&error).and_then(|cause| out_of_descriptors(&cause));
                ProcessReport::Failed(hint.unwrap_or_else(|| full_message(&error)))
            }
        },
    };
    control.send(&report)
}

/// Binds this process to its parent's life, receives the instructions and pins it to
/// its processor.
fn receive_and_pin<T: DeserializeOwned>(
    control: &mut Control,
    channel: OwnedFd,
) -> anyhow::Result<Instructions<T>> {
    // The signal is not sent if the parent died before this call. Then the control
    // socket is closed, which ends this process too.
    let bound =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let ((cpu, spec), fds): ((Option<usize>, T), _) =
        control.receive_with().context("the control socket")?;
    // The parent sends its instructions before it listens to errors.
    bound.map_err(|errno| not_allowed("prctl (PR_SET_PDEATHSIG)", &errno.into()))?;
    let mut fds = fds.into_iter();
    let words = fds.next().context("no shared words received")?;
    let words = SharedWords::open(words, SHARED_WORDS)?;
    if let Some(cpu) = cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|errno| NotRun::refused(format!("can't pin to processor {cpu}: {errno}")))?;
    }
    Ok(Instructions {
        spec,
        words,
        channel,
        fds,
    })
}
