//! The processes of one trial: spawned, started together, watched, blamed and
//! reaped. Throughput trials and round trips both run here.

mod child;
mod control;
#[cfg(test)]
mod tests;

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use fastpipe::shared::SharedWords;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::endpoint::counters::process_time;
use crate::record::NotRun;
use pipespeed_base::failure::{out_of_descriptors, start_error};
use pipespeed_base::interrupt::{INTERRUPTING, Interrupt};
use pipespeed_base::signal_name;
use pipespeed_host::{NoiseDelta, NoiseProbe};

pub(crate) use self::child::{Instructions, PeerGone, not_allowed, refusal_or_failure, serve};
pub(crate) use self::control::Control;
use self::control::{GO, Report};

/// The hidden subcommand under which the processes of a trial run.
pub const SUBCOMMAND: &str = "__endpoint";

/// Number of words of memory that the processes of a trial share.
const SHARED_WORDS: usize = 4;

/// How long the other process has to say what ended it, once one has found it
/// gone.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a process of a trial does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes to a channel, which is its standard output.
    Writer,
    /// Reads from a channel, which is its standard input.
    Reader,
    /// Sends messages, receives them back and measures the time.
    Sender,
    /// Sends back what it receives.
    Echo,
}

pipespeed_base::named!(Role {
    Writer = "writer": "writes to a channel",
    Reader = "reader": "reads from a channel",
    Sender = "sender": "sends messages and receives them back",
    Echo = "echo": "sends back what it receives",
});

impl Role {
    /// Index of the role in its pair: 0 for the one that sends first.
    pub fn index(self) -> usize {
        match self {
            Role::Writer | Role::Sender => 0,
            Role::Reader | Role::Echo => 1,
        }
    }

    /// Whether a trial is over only when this process has reported its outcome.
    /// An echo runs until the sender has left.
    fn has_outcome(self) -> bool {
        self != Role::Echo
    }
}

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The case can't be run here.
    #[error(transparent)]
    NotRun(#[from] NotRun),
    /// Both processes wait for each other.
    #[error("{0}")]
    Deadlock(String),
    /// The run was interrupted by a signal.
    #[error("interrupted by {}", signal_name(*.0))]
    Interrupted(i32),
    /// Something went wrong.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl TrialError {
    /// The error behind a failure, and any other reason as an error.
    pub fn into_failure(self) -> anyhow::Error {
        match self {
            TrialError::Failed(error) => error,
            other => other.into(),
        }
    }
}

/// A report and who sent it.
type Reported<S, O> = (Role, Report<S, O>);

/// Looks at the processes of a trial while their outcomes are awaited.
pub(crate) trait Watch {
    /// Time between two looks.
    fn interval(&self) -> Duration;

    /// Looks at both. Returns whether anything has moved since the last look,
    /// which puts the deadline off.
    ///
    /// # Errors
    /// What ends the trial.
    fn look(&mut self, words: &[AtomicU64], now: Instant) -> Result<bool, TrialError>;
}

/// The processes of one trial, killed and reaped when it is dropped. Each reports
/// a setup `S` when it is ready, and an outcome `O`.
#[derive(Debug)]
pub(crate) struct Session<'a, S, O> {
    program: &'a Path,
    interrupt: &'a Interrupt,
    words: SharedWords,
    ends: Vec<End>,
    patience: Duration,
    deadline: Instant,
    /// Error of the first process that found the other one gone.
    first_error: Option<TrialError>,
    reports: PhantomData<fn() -> Report<S, O>>,
}

impl<'a, S: DeserializeOwned, O: DeserializeOwned> Session<'a, S, O> {
    /// A session without processes, for `program`'s hidden subcommand. Fails if
    /// nothing is reported for `patience`.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn new(
        program: &'a Path,
        interrupt: &'a Interrupt,
        patience: Duration,
    ) -> Result<Self, TrialError> {
        Ok(Session {
            program,
            interrupt,
            words: SharedWords::create(SHARED_WORDS).map_err(failed("shared memory"))?,
            ends: Vec::with_capacity(2),
            patience,
            deadline: Instant::now() + patience,
            first_error: None,
            reports: PhantomData,
        })
    }

    /// Starts a process with `channel` as the standard descriptor of its role,
    /// pinned to `cpu`. It receives `spec` and, with it, `fds`.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn spawn(
        &mut self,
        role: Role,
        cpu: Option<usize>,
        channel: Option<OwnedFd>,
        spec: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), TrialError> {
        let (ours, theirs) = UnixStream::pair().map_err(failed("a control socket"))?;
        let control = Stdio::from(OwnedFd::from(theirs));
        let channel = channel.map_or_else(Stdio::null, Stdio::from);
        let (stdin, stdout) = match role {
            Role::Reader => (channel, control),
            _ => (control, channel),
        };
        let child = Command::new(self.program)
            .args([SUBCOMMAND, role.name()])
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .map_err(|error| start_error(role.name(), self.program, error))?;
        let mut end = End {
            role,
            child,
            control: Control::new(ours),
            has_reported: false,
            is_reaped: false,
        };
        let fds = [&[self.words.as_fd()], fds].concat();
        if let Err(error) = end.control.send_with(&(cpu, spec), &fds) {
            return Err(end.gone(&error));
        }
        self.ends.push(end);
        Ok(())
    }

    /// Waits until all processes are set up. Returns their setups.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn wait_ready(&mut self) -> Result<Vec<(Role, S)>, TrialError> {
        let mut setups = Vec::new();
        while setups.len() < self.ends.len() {
            match self.next_report(&mut None)? {
                (role, Report::Ready(setup)) => setups.push((role, setup)),
                (role, _) => return Err(unexpected_report(role)),
            }
        }
        Ok(setups)
    }

    /// The number of each process.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.ends.iter().map(|end| end.child.id()).collect()
    }

    /// Calls `attach` with the role and number of each process.
    ///
    /// # Errors
    /// Those of `attach`; a process may have been interrupted meanwhile.
    pub(crate) fn attach(
        &mut self,
        attach: &mut dyn FnMut(Role, u32) -> anyhow::Result<()>,
    ) -> Result<(), TrialError> {
        for end in &mut self.ends {
            if let Err(error) = attach(end.role, end.child.id()) {
                let signal = end.kill().ok().and_then(interrupting_signal);
                return Err(signal.map_or(TrialError::Failed(error), TrialError::Interrupted));
            }
        }
        Ok(())
    }

    /// Lets all processes start.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn start(&mut self) -> Result<(), TrialError> {
        for end in &mut self.ends {
            if let Err(error) = end.control.send(&GO) {
                return Err(end.gone(&error));
            }
        }
        Ok(())
    }

    /// Waits for the outcomes of all processes that have one.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn collect(
        &mut self,
        mut watch: Option<&mut dyn Watch>,
    ) -> Result<Vec<(Role, O)>, TrialError> {
        let wanted = self.ends.iter().filter(|end| end.role.has_outcome());
        let wanted = wanted.count();
        let mut outcomes = Vec::new();
        while outcomes.len() < wanted {
            match self.next_report(&mut watch)? {
                (role, Report::Done(outcome)) => outcomes.push((role, *outcome)),
                (role, _) => return Err(unexpected_report(role)),
            }
        }
        Ok(outcomes)
    }

    /// Waits until all processes have exited.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn reap(&mut self) -> Result<(), TrialError> {
        for end in &mut self.ends {
            if let Err(error) = end.child.wait() {
                return Err(end.gone(&error));
            }
            end.is_reaped = true;
        }
        Ok(())
    }

    /// The next report that a process is ready or done.
    ///
    /// A process that only found the other one gone is not to blame: what the
    /// other one reports, or how it ended, is the error. If that says nothing, the
    /// first complaint is.
    fn next_report(
        &mut self,
        watch: &mut Option<&mut dyn Watch>,
    ) -> Result<Reported<S, O>, TrialError> {
        loop {
            let Some((role, report)) = self.report_in_time(watch)? else {
                return Err(self.first_error.take().unwrap_or_else(|| self.hangs()));
            };
            let complaint = |reason| TrialError::Failed(anyhow!("the {}: {reason}", role.name()));
            match report {
                Report::Ready(_) | Report::Done(_) => return Ok((role, report)),
                Report::NotRun(not_run) => return Err(not_run.into()),
                Report::Failed(reason) => return Err(complaint(reason)),
                Report::PeerGone(reason) => {
                    self.first_error.get_or_insert_with(|| complaint(reason));
                    self.deadline = self.deadline.min(Instant::now() + LAST_WORDS);
                    *watch = None;
                }
            }
        }
    }

    /// The next report of any process; none if there is none before the deadline
    /// or all have reported.
    fn report_in_time(
        &mut self,
        watch: &mut Option<&mut dyn Watch>,
    ) -> Result<Option<Reported<S, O>>, TrialError> {
        let mut next_look = Instant::now() + watch.as_ref().map_or(self.patience, |w| w.interval());
        loop {
            if let Some(signal) = self.interrupt.signal() {
                return Err(TrialError::Interrupted(signal));
            }
            let now = Instant::now();
            if let Some(watch) = watch
                && now >= next_look.min(self.deadline)
            {
                next_look = now + watch.interval();
                if watch.look(self.words.words(), now)? {
                    self.deadline = now + self.patience;
                }
            }
            let open: Vec<usize> = (0..self.ends.len())
                .filter(|at| !self.ends[*at].has_reported)
                .collect();
            if now >= self.deadline || open.is_empty() {
                return Ok(None);
            }
            let mut fds: Vec<BorrowedFd<'_>> = open
                .iter()
                .map(|at| self.ends[*at].control.as_fd())
                .collect();
            fds.push(self.interrupt.as_fd());
            let until = match watch {
                Some(_) => next_look.min(self.deadline),
                None => self.deadline,
            };
            let ready = readable(&fds, until - now).map_err(failed("poll"))?;
            let Some(at) = ready.and_then(|at| open.get(at)) else {
                continue;
            };
            let end = &mut self.ends[*at];
            return match end.control.receive::<Report<S, O>>() {
                Ok(report) => {
                    end.has_reported = !matches!(report, Report::Ready(_));
                    Ok(Some((end.role, report)))
                }
                Err(error) => Err(match self.interrupt.signal() {
                    // A terminal sends Ctrl-C to all of us.
                    Some(signal) => TrialError::Interrupted(signal),
                    None => end.gone(&error),
                }),
            };
        }
    }

    fn hangs(&self) -> TrialError {
        let silent = self.ends.iter().filter(|end| !end.has_reported);
        let silent: Vec<&str> = silent.map(|end| end.role.name()).collect();
        TrialError::Failed(anyhow!(
            "the trial hangs: no answer from the {}",
            silent.join(" and the ")
        ))
    }
}

/// A process of a trial, killed and reaped when it is dropped.
#[derive(Debug)]
struct End {
    role: Role,
    child: Child,
    control: Control,
    /// Whether it has sent its last report.
    has_reported: bool,
    is_reaped: bool,
}

impl End {
    /// The error of a trial in which this process does not answer any more.
    fn gone(&mut self, error: &io::Error) -> TrialError {
        let how = match self.kill() {
            Ok(status) => match interrupting_signal(status) {
                Some(signal) => return TrialError::Interrupted(signal),
                None => describe(status),
            },
            Err(error) => error.to_string(),
        };
        TrialError::Failed(anyhow!("the {} {how} ({error})", self.role.name()))
    }

    /// Ends the process, if it has not ended yet. It can't be waiting for us, but
    /// it might still hang elsewhere.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        let _ = self.child.kill();
        self.is_reaped = true;
        self.child.wait()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.kill();
        }
    }
}

/// The signal that ended a process, if it is one that interrupts a run: a
/// terminal sends Ctrl-C to all of us, and perhaps to this process first.
fn interrupting_signal(status: ExitStatus) -> Option<i32> {
    let signal = status.signal();
    signal.filter(|signal| INTERRUPTING.contains(signal))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}

fn unexpected_report(role: Role) -> TrialError {
    TrialError::Failed(anyhow!("the {} sent an unexpected report", role.name()))
}

/// The index of the first descriptor with something to read; none when the time
/// is over or a signal came.
fn readable(fds: &[BorrowedFd<'_>], time: Duration) -> io::Result<Option<usize>> {
    let timeout = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
        Ok(_) => Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        Err(errno) => Err(errno.into()),
    }
}

/// Runs one trial, and returns with its result what else went on meanwhile, above
/// all on the processors `cpus`.
pub(crate) fn with_noise<T>(
    probe: &NoiseProbe,
    cpus: [Option<usize>; 2],
    trial: impl FnOnce() -> Result<T, TrialError>,
) -> Result<(T, NoiseDelta), TrialError> {
    let (before, used_before) = (probe.take(), own_processor_time());
    let result = trial()?;
    let (after, used_after) = (probe.take(), own_processor_time());
    let own_cpu_s = used_after.saturating_sub(used_before).as_secs_f64();
    let cpus: Vec<usize> = cpus.into_iter().flatten().collect();
    Ok((result, after.since(&before, &cpus, own_cpu_s)))
}

/// Processor time of this process and of all children it has reaped.
pub fn own_processor_time() -> Duration {
    let children = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(time.num_microseconds() as u64)
    });
    process_time() + children
}

fn failed<E: Into<anyhow::Error>>(what: &'static str) -> impl Fn(E) -> TrialError {
    move |error| {
        let error = error.into();
        let cause = error.downcast_ref::<io::Error>();
        TrialError::Failed(match cause.and_then(out_of_descriptors) {
            Some(hint) => anyhow!("{what}: {hint}"),
            None => error.context(what),
        })
    }
}
