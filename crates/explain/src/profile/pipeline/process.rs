//! A stage's first process: stopped until it is watched, then the command.

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

use super::account::{name, schedule};
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_measure::trial::ProcessRunner;

/// The argument of the hidden subcommand under which a stage begins.
pub const ROLE: &str = "stage";

/// What sh says where there is no such command, and where it can't be run
/// (POSIX.1-2024, Shell Command Language, 2.8.2).
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Stops until it is told to go on, then becomes the command. The arguments:
/// who started it, the command.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let starter = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let starter = starter.and_then(Pid::from_raw);
    // Who is stopped has to be sure that somebody will let it go on, or kill it.
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if bound.is_err() || getppid() != starter || kill_process(getpid(), Signal::STOP).is_err() {
        return ExitCode::FAILURE;
    }
    let Some(program) = args.next() else {
        return ExitCode::FAILURE;
    };
    // From here on it is somebody's own command, and goes on without us, with all
    // that it starts, as one under `perf record` does: a pipeline of which half is
    // gone is worse than none and worse than all.
    if set_parent_process_death_signal(None).is_err() {
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(args).exec();
    pipespeed_base::failure::say(&format!("pipespeed: {}: {error}", program.display()));
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
    /// Readable once it has ended.
    pub ending: OwnedFd,
    /// How long it had run before the command.
    ran_before: Duration,
    began: Instant,
    /// What it was called before the command.
    name: Option<String>,
}

/// How a stage ended, and what it used.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// From the start of its first process to that one's end.
    pub wall: Duration,
    /// Processor time of it, and of the children that it waited for.
    pub cpu: Duration,
    /// Its status.
    pub status: WaitStatus,
}

impl Process {
    /// Starts one that stops before it becomes the command.
    ///
    /// # Errors
    /// Those of spawning.
    pub fn start(command: &[String], stdin: Stdio, stdout: Stdio) -> io::Result<Self> {
        let child = Command::new(ProcessRunner::this_program())
            .args([SUBCOMMAND, ROLE, &getpid().to_string()])
            .args(command)
            .stdin(stdin)
            .stdout(stdout)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let ending = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| kill(pid))?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match waitid(WaitId::Pid(pid), stopped) {
                Err(rustix::io::Errno::INTR) => {}
                status => break status?,
            }
        };
        if !status.is_some_and(|status| status.stopped()) {
            let _ = waitpid(Some(pid), WaitOptions::empty());
            return Err(io::Error::other("it ended before it began"));
        }
        Ok(Process {
            pid,
            ending,
            ran_before: schedule(&format!("/proc/{}/schedstat", pid.as_raw_pid()))
                .unwrap_or_default()
                .0,
            began: Instant::now(),
            name: name(pid),
        })
    }

    /// Lets it become the command.
    ///
    /// # Errors
    /// Those of kill(2).
    pub fn go(&mut self) -> io::Result<()> {
        self.began = Instant::now();
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Time since it was let go on.
    pub fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// Kills it, before it could begin.
    pub fn kill(&self) {
        kill(self.pid);
    }

    /// Whether what has ended is still what was there before the command: itself,
    /// or the shell that was to make way for it.
    pub fn is_unchanged(&self, command: &[String]) -> bool {
        let shell = match command {
            [sh, option, text] if option == "-c" => text
                .strip_prefix("exec ")
                // The shell itself can be run, or it would not be there.
                .filter(|text| text.split_ascii_whitespace().next() != Some(sh))
                .map(|_| sh),
            _ => None,
        };
        let now = name(self.pid);
        now.is_some() && (now == self.name || now.as_ref() == shell)
    }

    /// What became of it, once it has ended, and no more of it is left then.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn reap(&self) -> io::Result<Ended> {
        let wall = self.began.elapsed();
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

/// Waits for a process that has ended; its status and its processor time, with
/// that of the children it waited for.
///
/// # Errors
/// Those of waitpid(2).
pub fn reap(pid: Pid) -> io::Result<(WaitStatus, Duration)> {
    let before = reaped_time();
    let (_, status) = waitpid(Some(pid), WaitOptions::NOHANG)?
        .ok_or_else(|| io::Error::other("a process that has ended goes on"))?;
    Ok((status, reaped_time().saturating_sub(before)))
}

/// Processor time of all processes that were waited for, and of those that they
/// waited for (getrusage(2)).
fn reaped_time() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(time.num_microseconds() as u64)
    })
}
