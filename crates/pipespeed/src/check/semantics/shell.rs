//! A child process: a shell, since it is there nearly everywhere, and starts
//! with the signals as any program does.

use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::check::Outcome;

/// Seconds that a script may take.
const PATIENCE: i64 = 2;

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
        command.spawn().map(Shell).map_err(|error| {
            Ok(Outcome::refused(format!("/bin/sh: {error}"))
                .noting("it is tried out with a shell; in a container, take an image that has one"))
        })
    }

    /// Waits for its end, and no longer than a while.
    ///
    /// # Errors
    /// Where it goes on, or can't be waited for.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let pidfd =
            pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).context("pidfd_open")?;
        let patience = Timespec {
            tv_sec: PATIENCE,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let ended = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&patience)));
        if ended.context("poll")? == 0 {
            bail!("a shell has not ended within {PATIENCE} s");
        }
        self.0.wait().context("wait")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both do nothing where it was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
