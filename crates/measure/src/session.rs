//! Runs the processes of one trial: starts them together, watches them, finds which one
//! caused a failure, and reaps them. Used by throughput trials and round trips.

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
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::endpoint::control::{Control, GO, ProcessReport};
use crate::endpoint::counters::process_time;
use crate::endpoint::serve::SHARED_WORDS;
use crate::failure::TrialError;
use crate::spec::ProcessRole;
use crate::sys::SharedWords;
use pipespeed_base::failure::{Interrupted, out_of_descriptors, start_error};
use pipespeed_base::interrupt::{INTERRUPTING, Interrupt};
use pipespeed_base::signal_name;
use pipespeed_host::{NoiseDelta, NoiseProbe};

/// The hidden subcommand under which the processes of a trial run.
pub const SUBCOMMAND: &str = "__endpoint";

/// The timeout for a process to report its failure, after its peer has reported it
/// gone.
const PEER_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// A report and who sent it.
type Reported<S, O> = (ProcessRole, ProcessReport<S, O>);

/// Watches the processes of a trial until they report their outcomes.
pub(crate) trait TrialWatch {
    /// The time between two checks.
    fn interval(&self) -> Duration;

    /// Checks both processes. Returns whether data has moved since the last check,
    /// which extends the deadline.
    ///
    /// # Errors
    /// The reason to end the trial.
    fn check(&mut self, words: &[AtomicU64], now: Instant) -> Result<bool, TrialError>;
}

/// The processes of one trial, killed and reaped when it is dropped. Each reports
/// a setup `S` when it is ready, and an outcome `O`.
#[derive(Debug)]
pub(crate) struct Session<'a, S, O> {
    program: &'a Path,
    interrupt: &'a Interrupt,
    words: SharedWords,
    ends: Vec<EndProcess>,
    timeout: Duration,
    deadline: Instant,
    /// Error of the first process that found the other one gone.
    first_error: Option<TrialError>,
    reports: PhantomData<fn() -> ProcessReport<S, O>>,
}

impl<'a, S: DeserializeOwned, O: DeserializeOwned> Session<'a, S, O> {
    /// Creates a session without processes, which are to run the hidden subcommand of
    /// `program`. The trial fails if nothing is reported for `timeout`.
    ///
    /// # Errors
    /// [`TrialError`].
    pub(crate) fn new(
        program: &'a Path,
        interrupt: &'a Interrupt,
        timeout: Duration,
    ) -> Result<Self, TrialError> {
        Ok(Session {
            program,
            interrupt,
            words: SharedWords::create(SHARED_WORDS).map_err(failed("shared memory"))?,
            ends: Vec::with_capacity(2),
            timeout,
            deadline: Instant::now() + timeout,
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
        role: ProcessRole,
        cpu: Option<usize>,
        channel: Option<OwnedFd>,
        spec: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), TrialError> {
        let (ours, theirs) = UnixStream::pair().map_err(failed("a control socket"))?;
        let control = Stdio::from(OwnedFd::from(theirs));
        let channel = channel.map_or_else(Stdio::null, Stdio::from);
        let (stdin, stdout) = match role {
            ProcessRole::Reader => (channel, control),
            _ => (control, channel),
        };
        let child = Command::new(self.program)
            .args([SUBCOMMAND, role.name()])
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .map_err(|error| start_error(role.name(), self.program, error))?;
        let mut end = EndProcess {
            role,
            child,
            control: Control::new(ours),
            has_reported: false,
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
    pub(crate) fn wait_ready(&mut self) -> Result<Vec<(ProcessRole, S)>, TrialError> {
        let mut setups = Vec::new();
        while setups.len() < self.ends.len() {
            match self.next_report(&mut None)? {
                (role, ProcessReport::Ready(setup)) => setups.push((role, setup)),
                (role, _) => return Err(unexpected_report(role)),
            }
        }
        Ok(setups)
    }

    /// The process IDs.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.ends.iter().map(|end| end.child.id()).collect()
    }

    /// Calls `attach` with the role and ID of each process.
    ///
    /// # Errors
    /// Those of `attach`; a process may have been interrupted meanwhile.
    pub(crate) fn attach(
        &mut self,
        attach: &mut dyn FnMut(ProcessRole, u32) -> anyhow::Result<()>,
    ) -> Result<(), TrialError> {
        for end in &mut self.ends {
            if let Err(error) = attach(end.role, end.child.id()) {
                let signal = end.kill().ok().and_then(interrupting_signal);
                return Err(signal.map_or(error.into(), |signal| Interrupted(signal).into()));
            }
        }
        Ok(())
    }

    /// Starts the trial in all processes.
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
        mut watch: Option<&mut dyn TrialWatch>,
    ) -> Result<Vec<(ProcessRole, O)>, TrialError> {
        let wanted = self.ends.iter().filter(|end| end.role.has_outcome());
        let wanted = wanted.count();
        let mut outcomes = Vec::new();
        while outcomes.len() < wanted {
            match self.next_report(&mut watch)? {
                (role, ProcessReport::Done(outcome)) => outcomes.push((role, *outcome)),
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
        }
        Ok(())
    }

    /// The next report that a process is ready or done.
    ///
    /// A process that reports its peer gone did not cause the failure: the error is the
    /// peer's own report or exit status. If there is neither, it is the first process's
    /// report.
    fn next_report(
        &mut self,
        watch: &mut Option<&mut dyn TrialWatch>,
    ) -> Result<Reported<S, O>, TrialError> {
        loop {
            let Some((role, report)) = self.report_in_time(watch)? else {
                return Err(self.first_error.take().unwrap_or_else(|| self.hang_error()));
            };
            let failure = |reason| TrialError::Failed(anyhow!("the {}: {reason}", role.name()));
            match report {
                ProcessReport::Ready(_) | ProcessReport::Done(_) => return Ok((role, report)),
                ProcessReport::NotRun(not_run) => return Err(not_run.into()),
                ProcessReport::Failed(reason) => return Err(failure(reason)),
                ProcessReport::PeerGone(reason) => {
                    self.first_error.get_or_insert_with(|| failure(reason));
                    self.deadline = self.deadline.min(Instant::now() + PEER_REPORT_TIMEOUT);
                    *watch = None;
                }
            }
        }
    }

    /// The next report of any process; `None` at the deadline or if all have reported.
    fn report_in_time(
        &mut self,
        watch: &mut Option<&mut dyn TrialWatch>,
    ) -> Result<Option<Reported<S, O>>, TrialError> {
        let mut next_check = Instant::now() + watch.as_ref().map_or(self.timeout, |w| w.interval());
        loop {
            self.interrupt.check()?;
            let now = Instant::now();
            if let Some(watch) = watch
                && now >= next_check.min(self.deadline)
            {
                next_check = now + watch.interval();
                if watch.check(self.words.words(), now)? {
                    self.deadline = now + self.timeout;
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
                Some(_) => next_check.min(self.deadline),
                None => self.deadline,
            };
            let ready = readable(&fds, until - now).map_err(failed("poll"))?;
            let Some(at) = ready.and_then(|at| open.get(at)) else {
                continue;
            };
            let end = &mut self.ends[*at];
            return match end.control.receive::<ProcessReport<S, O>>() {
                Ok(report) => {
                    end.has_reported = !matches!(report, ProcessReport::Ready(_));
                    Ok(Some((end.role, report)))
                }
                Err(error) => {
                    // Ctrl-C in a terminal signals all these processes.
                    self.interrupt.check()?;
                    Err(end.gone(&error))
                }
            };
        }
    }

    fn hang_error(&self) -> TrialError {
        let silent = self.ends.iter().filter(|end| !end.has_reported);
        let silent: Vec<&str> = silent.map(|end| end.role.name()).collect();
        TrialError::Failed(anyhow!(
            "no answer from the {} in {} s: the trial hangs, or its sizes are too large",
            silent.join(" and the "),
            self.timeout.as_secs_f64()
        ))
    }
}

/// A process of a trial, killed and reaped when it is dropped.
#[derive(Debug)]
struct EndProcess {
    role: ProcessRole,
    child: Child,
    control: Control,
    /// Whether it has sent its last report.
    has_reported: bool,
}

impl EndProcess {
    /// The error of a trial in which this process no longer responds.
    fn gone(&mut self, error: &io::Error) -> TrialError {
        let how = match self.kill() {
            Ok(status) => match interrupting_signal(status) {
                Some(signal) => return Interrupted(signal).into(),
                None => describe(status),
            },
            Err(error) => error.to_string(),
        };
        TrialError::Failed(anyhow!("the {} {how} ({error})", self.role.name()))
    }

    /// Kills the process if it is still running, and reaps it.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for EndProcess {
    fn drop(&mut self) {
        // Neither does anything if it was reaped.
        let _ = self.kill();
    }
}

/// The signal that ended a process, if it interrupts a run: Ctrl-C in a terminal
/// signals all processes, and this one may not have received it yet.
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

fn unexpected_report(role: ProcessRole) -> TrialError {
    TrialError::Failed(anyhow!("the {} sent an unexpected report", role.name()))
}

/// The index of the first readable descriptor; `None` after `limit` or a signal.
fn readable(fds: &[BorrowedFd<'_>], limit: Duration) -> io::Result<Option<usize>> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Timespec::try_from(limit).ok().as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
        Ok(_) => Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        Err(errno) => Err(errno.into()),
    }
}

/// Runs one trial. Returns its result and the disturbances meanwhile, in particular
/// those of the processors `cpus`.
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
    process_time() + reaped_processor_time()
}

/// Processor time of all children that this process has reaped, with those that they have
/// reaped.
pub fn reaped_processor_time() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(time.num_microseconds() as u64)
    })
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
