//! The first process of a stage, which stops until it is sampled and then executes
//! the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid,
    kill_process, pidfd_open, set_parent_process_death_signal, waitid, waitpid,
};

use pipespeed_base::failure::{fork_error, say};
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_pipeline::proc::Proc;

/// The argument of the hidden subcommand under which a stage begins.
pub const ROLE: &str = "stage";

/// Exit statuses of sh for a command that does not exist, or can't be executed
/// (POSIX.1-2024, Shell Command Language, 2.8.2).
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Stops until SIGCONT, then executes the command. The arguments: the process id of
/// its parent, and the command.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let starter = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let starter = starter.and_then(Pid::from_raw);
    // A stopped process needs a parent that continues or kills it.
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if bound.is_err() || getppid() != starter || kill_process(getpid(), Signal::STOP).is_err() {
        return ExitCode::FAILURE;
    }
    let Some(program) = args.next() else {
        return ExitCode::FAILURE;
    };
    // From here on this is the user's command, which outlives pipespeed, as under `perf
    // record`: killing only some stages would be worse.
    if set_parent_process_death_signal(None).is_err() {
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(args).exec();
    say(&format!("pipespeed: {}: {error}", program.display()));
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    })
}

/// A stage's first process.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its pidfd, readable once it has ended.
    pub ending: OwnedFd,
    /// Its running time before the command.
    ran_before: Duration,
    started: Instant,
    /// Its name before the command.
    name: Option<String>,
}

/// The end of a stage, and its usage.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// From the start to the end of its first process.
    pub wall: Duration,
    /// Processor time of that process and of the children that it waited for.
    pub cpu: Duration,
    /// Its wait status.
    pub status: WaitStatus,
}

impl Process {
    /// Starts a process that stops before it executes the command.
    ///
    /// # Errors
    /// Those of spawning.
    pub fn start(command: &[String], stdin: Stdio, stdout: Stdio) -> io::Result<Self> {
        let child = Command::new(ProcessRunner::this_program())
            .args([SUBCOMMAND, ROLE, &getpid().to_string()])
            .args(command)
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .map_err(fork_error)?;
        let pid = Pid::from_child(&child);
        let ending = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| kill(pid))?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), stopped))?;
        if !status.is_some_and(|status| status.stopped()) {
            let _ = waitpid(Some(pid), WaitOptions::empty());
            return Err(io::Error::other(
                "the process ended before it could execute the command",
            ));
        }
        Ok(Process {
            pid,
            ending,
            ran_before: Proc::default()
                .schedule(pid.as_raw_pid(), pid.as_raw_pid())
                .map_or(Duration::ZERO, |(ran, _)| ran),
            started: Instant::now(),
            name: Proc::default().name(pid.as_raw_pid()),
        })
    }

    /// Lets it execute the command.
    ///
    /// # Errors
    /// Those of kill(2).
    pub fn go(&mut self) -> io::Result<()> {
        self.started = Instant::now();
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Time since the start of the command.
    pub fn wall(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the process that has ended did not execute the command: it still has
    /// the name of pipespeed, or of the shell that it should have replaced.
    pub fn is_unchanged(&self, replaces_shell: bool) -> bool {
        let now = Proc::default().name(self.pid.as_raw_pid());
        now.is_some() && (now == self.name || replaces_shell && now.as_deref() == Some("sh"))
    }

    /// Reaps it once it has ended.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn reap(&self) -> io::Result<Ended> {
        let wall = self.started.elapsed();
        let (status, cpu) = reap(self.pid)?;
        Ok(Ended {
            wall,
            cpu: cpu.saturating_sub(self.ran_before),
            status,
        })
    }
}

/// Kills a child and waits for its end.
fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// Reaps a process that has ended. Returns its status and its processor time with
/// that of the children it waited for.
///
/// # Errors
/// Those of waitpid(2).
pub fn reap(pid: Pid) -> io::Result<(WaitStatus, Duration)> {
    let before = reaped_time();
    let (_, status) = waitpid(Some(pid), WaitOptions::NOHANG)?
        .ok_or_else(|| io::Error::other("a process that has ended still runs"))?;
    Ok((status, reaped_time().saturating_sub(before)))
}

/// Processor time of all reaped children and their reaped children (getrusage(2)).
fn reaped_time() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(time.num_microseconds() as u64)
    })
}
