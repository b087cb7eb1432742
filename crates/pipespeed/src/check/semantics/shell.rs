//! A child process: a shell, since it is there nearly everywhere, and starts
//! with the signals as any program does.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::check::pipes::readable_within;
use crate::check::{Outcome, refusal};

/// Seconds that a script may take.
const PATIENCE: u32 = 2;

/// A change to the signals that this thread blocks, until it is dropped.
pub(super) struct Mask {
    before: SigSet,
}

impl Mask {
    /// Blocks or unblocks these.
    ///
    /// # Errors
    /// Those of sigprocmask(2).
    pub fn change(set: &SigSet, how: SigmaskHow) -> nix::Result<Self> {
        let before = set.thread_swap_mask(how)?;
        Ok(Mask { before })
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

/// A shell under way, killed and reaped when it is dropped.
#[derive(Debug)]
pub(super) struct Shell(Child);

impl Shell {
    /// Starts a script that is quiet on standard error. It gets the ends given
    /// and no other descriptor.
    ///
    /// # Errors
    /// What the check comes to where there is no shell to be started.
    pub fn start(
        script: &str,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> Result<Self, anyhow::Result<Outcome>> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let command = command.stdin(stdin).stdout(stdout).stderr(Stdio::null());
        // Children inherit the mask, and whoever started us may have blocked it.
        let pipe = SigSet::from(Signal::SIGPIPE);
        let _unblocked = Mask::change(&pipe, SigmaskHow::SIG_UNBLOCK);
        command.spawn().map(Shell).map_err(not_started)
    }

    /// Waits for its end, and no longer than a while.
    ///
    /// # Errors
    /// Where it goes on, or can't be waited for.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let pidfd =
            pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).context("pidfd_open")?;
        if !readable_within(&pidfd, PATIENCE)? {
            bail!("a shell has not ended within {PATIENCE} s");
        }
        self.0.wait().context("wait")
    }
}

/// What the check comes to where there is no shell.
fn not_started(error: io::Error) -> anyhow::Result<Outcome> {
    if refusal::out_of_descriptors(&error) {
        return Err(anyhow::Error::new(error).context("a shell"));
    }
    let refused = Outcome::refused(format!("no shell can be started: {error}"));
    Ok(refused.noting(match error.kind() {
        io::ErrorKind::WouldBlock => refusal::out_of_processes(),
        _ => "it is tried out with /bin/sh and /dev/null; in a container, take an image that has \
              both"
            .to_owned(),
    }))
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both do nothing where it was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
