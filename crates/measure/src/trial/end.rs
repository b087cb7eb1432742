//! A process at one end of a trial, and how it ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use anyhow::anyhow;

use crate::endpoint::control::Control;
use crate::endpoint::process::Role;
use crate::runner::TrialError;
use pipespeed_base::interrupt::INTERRUPTING;
use pipespeed_base::signal_name;

/// A process at one end, killed and reaped when it is dropped.
#[derive(Debug)]
pub(super) struct End {
    pub(super) role: Role,
    pub(super) child: Child,
    pub(super) control: Control,
    pub(super) reported: bool,
    pub(super) reaped: bool,
}

impl End {
    pub(super) fn reap(&mut self) -> io::Result<()> {
        self.child.wait()?;
        self.reaped = true;
        Ok(())
    }

    /// What to say of an end that does not answer any more.
    pub(super) fn gone(&mut self, error: io::Error) -> TrialError {
        let how = match self.finish() {
            Ok(status) => match asked_to_end(status) {
                Some(signal) => return TrialError::Interrupted(signal),
                None => describe(status),
            },
            Err(error) => error.to_string(),
        };
        TrialError::Failed(anyhow!("the {} {how} ({error})", self.role.name()))
    }

    /// What to say where something could not be done to an end: it may have been
    /// told to end meanwhile.
    pub(super) fn lost(&mut self, error: anyhow::Error) -> TrialError {
        match self.finish().ok().and_then(asked_to_end) {
            Some(signal) => TrialError::Interrupted(signal),
            None => TrialError::Failed(error),
        }
    }

    /// Ends it, if it has not ended yet. It can't be waiting for us, but it might
    /// still hang elsewhere.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        let _ = self.child.kill();
        self.reaped = true;
        self.child.wait()
    }
}

/// The signal that ended a process, if it is one that asks a run to end: a terminal
/// sends Ctrl-C to all of us, and to an end first perhaps.
fn asked_to_end(status: ExitStatus) -> Option<i32> {
    status
        .signal()
        .filter(|signal| INTERRUPTING.contains(signal))
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}
