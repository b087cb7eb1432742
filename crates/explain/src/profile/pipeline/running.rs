//! A running pipeline: its start, observation and end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use super::Pipeline;
use super::account::Account;
use super::process::{Ended, Process, reap};
use super::watch::Watch;
use crate::profile::gathered::Chains;
use crate::profile::perf::{Probe, Sampling};
use crate::profile::record::Losses;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_pipeline::act::signal_descendants;
use pipespeed_pipeline::proc::Proc;

/// Interval at which the stages are examined and their samples read. Common intervals of
/// other programs are no multiples of it.
const INTERVAL: Duration = Duration::from_millis(19);
/// Number of intervals in a phase. Phases with sampling alternate with phases without. Times
/// are taken from the latter, since sampling slows down frequent switches.
const PHASE_INTERVALS: u32 = 2;
/// The duration of a phase in milliseconds.
pub const PHASE_MS: u128 = INTERVAL.as_millis() * PHASE_INTERVALS as u128;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(1000);
/// Timeout for the end of killed processes: one that hangs in the kernel may never end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of polling for the end of processes.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Started stages. They are killed when this is dropped.
pub struct Running {
    stages: Vec<RunningStage>,
    probe: Probe,
}

struct RunningStage {
    process: Process,
    replaces_shell: bool,
    seen: Seen,
}

/// Observations of a stage.
#[derive(Debug, Default)]
pub struct Seen {
    /// Its samples.
    pub chains: Chains<u64>,
    /// Its processes, threads and waits.
    pub watch: Watch,
    /// How it ended; `None` while it runs.
    pub ended: Option<Ended>,
    /// Whether its first process ended before it became the command, without a child.
    pub unchanged: bool,
    /// Processor time of orphans that it left.
    pub orphans: Duration,
    /// Its usage in phases without sampling.
    pub unsampled: Account,
    /// Its usage in phases with sampling.
    pub sampled: Account,
    /// Its usage at the start of the phase.
    before: Account,
}

impl Seen {
    /// Its usage in all phases.
    pub fn account(&self) -> Account {
        self.sampled.and(&self.unsampled)
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Ran {
    /// From the start to the end of the stage that ended last.
    pub wall: Duration,
    /// Whether it was ended because it exceeded the time limit.
    pub out_of_time: bool,
    /// The signal that interrupted it.
    pub interrupted: Option<i32>,
    /// Missing samples.
    pub losses: Losses,
    /// Number of processes that were left at its end and had to be ended.
    pub left: usize,
    /// Its stages.
    pub stages: Vec<Seen>,
}

impl Running {
    /// Starts all stages with sampling. Each stops before it executes its command.
    ///
    /// # Errors
    /// Those of starting; a refusal to sample.
    pub fn start(pipeline: &Pipeline, sampling: &Sampling, cpus: &[usize]) -> anyhow::Result<Self> {
        // Orphans of a stage become children of this process.
        set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
        let mut running = Running {
            stages: Vec::new(),
            probe: Probe::new(sampling, &vec![cpus; pipeline.stages.len()]),
        };
        let mut input: Option<OwnedFd> = None;
        for (at, stage) in pipeline.stages.iter().enumerate() {
            let last = at + 1 == pipeline.stages.len();
            let (next, output) = if last {
                (None, Stdio::null())
            } else {
                let (read_end, write_end) = fastpipe::pipe::create().context("a pipe")?;
                (Some(read_end), write_end.into())
            };
            let stdin = input.take().map_or_else(Stdio::inherit, Stdio::from);
            input = next;
            let process = Process::start(&stage.words, stdin, output)
                .with_context(|| format!("can't start {}", stage.text))?;
            running.stages.push(RunningStage {
                process,
                replaces_shell: stage.replaces_shell,
                seen: Seen::default(),
            });
        }
        // Not before all were forked: a recorded fork by this process, which is not sampled,
        // would make its child a stranger.
        for (at, stage) in running.stages.iter().enumerate() {
            let pid = stage.process.pid.as_raw_pid() as u32;
            running.probe.add(at, pid, cpus)?;
        }
        Ok(running)
    }

    /// Runs the commands to their end, or until `limit` or a signal.
    ///
    /// # Errors
    /// Those of system calls that should not fail.
    pub fn run(&mut self, limit: Duration, interrupt: &Interrupt) -> io::Result<Ran> {
        let started = Instant::now();
        for stage in &mut self.stages {
            stage.seen.watch = Watch::default();
            stage.seen.watch.look(stage.process.pid);
            stage.seen.watch.waits.clear();
            stage.seen.before = stage.seen.watch.account(Duration::ZERO);
            stage.process.go()?;
        }
        let (mut intervals, mut sampled) = (0, true);
        let (mut interrupted, mut out_of_time) = (None, false);
        while interrupted.is_none() && !out_of_time && self.is_any_running() {
            let until = (started + limit).min(Instant::now() + INTERVAL);
            self.wait(until, Some(interrupt))?;
            self.reap_all(sampled)?;
            intervals += 1;
            for stage in &mut self.stages {
                stage.look();
            }
            self.probe.read();
            if intervals % PHASE_INTERVALS == 0 {
                self.end_phase(sampled)?;
            }
            sampled ^= intervals % PHASE_INTERVALS == 0;
            // A terminal sends Ctrl-C to all processes, and the stages may end first.
            interrupted = interrupt.signal();
            let over = self.is_any_running() && started.elapsed() >= limit;
            out_of_time = interrupted.is_none() && over;
        }
        let mut wall = started.elapsed();
        let mut left = 0;
        if self.reap_all(sampled)? {
            let count = Proc::default().children(getpid().as_raw_pid()).len().max(1);
            self.end_all(Signal::TERM, sampled)?;
            if interrupted.is_some() || out_of_time {
                wall = started.elapsed();
            } else {
                left = count;
            }
        }
        if self.is_any_running() {
            return Err(io::Error::other("a process can't be killed"));
        }
        self.stop_sampling()?;
        let stages = std::mem::take(&mut self.stages).into_iter();
        let stages = stages.map(|stage| stage.seen);
        Ok(Ran {
            wall,
            out_of_time,
            interrupted,
            left,
            losses: self.probe.losses(),
            stages: stages.collect(),
        })
    }

    /// Ends a phase and starts one of the other kind.
    fn end_phase(&mut self, sampled: bool) -> io::Result<()> {
        for stage in &mut self.stages {
            if stage.seen.ended.is_none() {
                stage.account(sampled);
            }
        }
        if sampled {
            return self.stop_sampling();
        }
        let proc = Proc::default();
        // No forks and exits are recorded while the events are disabled.
        self.probe
            .owners()
            .retain(|pid| proc.is_descendant(pid as i32));
        self.probe.resume()?;
        // Each stage's first process and its orphans are children of this process.
        for child in proc.children(getpid().as_raw_pid()) {
            let Some(at) = self.probe.owners().owner(child as u32) else {
                continue;
            };
            for pid in proc.tree(child) {
                let threads = proc.threads(pid).into_iter().map(|tid| tid as u32);
                self.probe.owners().adopt(at, pid as u32, threads);
                self.stages[at].seen.watch.processes.insert(pid);
            }
        }
        Ok(())
    }

    /// Stops sampling, and takes the samples since the last call.
    fn stop_sampling(&mut self) -> io::Result<()> {
        let chains = self.stages.iter_mut().map(|stage| &mut stage.seen.chains);
        let mut targets: Vec<_> = chains.map(|chains| (0..u64::MAX, chains)).collect();
        self.probe.stop(&mut targets)
    }

    fn is_any_running(&self) -> bool {
        self.stages.iter().any(|stage| stage.seen.ended.is_none())
    }

    /// Waits for the end of a stage or a signal, at most until `until`.
    fn wait(&self, until: Instant, interrupt: Option<&Interrupt>) -> io::Result<()> {
        let living = self
            .stages
            .iter()
            .filter(|stage| stage.seen.ended.is_none());
        let endings = living.map(|stage| stage.process.ending.as_fd());
        let all: Vec<BorrowedFd<'_>> = endings.chain(interrupt.map(AsFd::as_fd)).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let left = until.saturating_duration_since(Instant::now());
        // It always fits: it is at most two intervals.
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reaps all processes that have ended. Returns whether any are left.
    fn reap_all(&mut self, sampled: bool) -> io::Result<bool> {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let pid = match waitid(Id::All, peek) {
                Ok(status) => status.pid(),
                Err(nix::errno::Errno::ECHILD) => return Ok(false),
                Err(nix::errno::Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.as_raw())) else {
                return Ok(true);
            };
            if let Some(stage) = self
                .stages
                .iter_mut()
                .find(|stage| stage.process.pid == pid)
            {
                // /proc still has the usage of a zombie.
                stage.look();
                stage.account(sampled);
                stage.seen.unchanged = stage.seen.watch.processes.len() <= 1
                    && stage.process.is_unchanged(stage.replaces_shell);
                stage.seen.ended = Some(stage.process.reap()?);
                continue;
            }
            // An orphan counts for the stage that it was seen in.
            let (_, cpu) = reap(pid)?;
            let number = pid.as_raw_pid();
            let stages = &mut self.stages.iter_mut();
            if let Some(stage) = stages.find(|stage| stage.seen.watch.processes.contains(&number)) {
                stage.seen.orphans += cpu;
            }
        }
    }

    /// Ends all processes by a signal, and by SIGKILL if they still run after
    /// [`GRACE`].
    fn end_all(&mut self, signal: Signal, sampled: bool) -> io::Result<()> {
        let started = Instant::now();
        let mut next = (started, signal);
        while self.reap_all(sampled)? && started.elapsed() < KILL_TIMEOUT {
            if Instant::now() >= next.0 {
                signal_descendants(&Proc::default(), next.1);
                let pause = if next.1 == Signal::KILL {
                    GRACE / 10
                } else {
                    GRACE
                };
                next = (Instant::now() + pause, Signal::KILL);
            }
            self.wait(Instant::now() + POLL_INTERVAL, None)?;
            for stage in &mut self.stages {
                stage.look();
            }
        }
        Ok(())
    }
}

impl RunningStage {
    fn look(&mut self) {
        if self.seen.ended.is_none() {
            self.seen.watch.look(self.process.pid);
        }
    }

    /// Adds the usage since the start of the phase to its kind of phase.
    fn account(&mut self, sampled: bool) {
        let now = self.seen.watch.account(self.process.wall());
        let used = now.since(&self.seen.before);
        let sum = if sampled {
            &mut self.seen.sampled
        } else {
            &mut self.seen.unsampled
        };
        *sum = sum.and(&used);
        self.seen.before = now;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_any_running() {
            return;
        }
        // This needs no descriptor: none may be available.
        for stage in &self.stages {
            if stage.seen.ended.is_none() {
                let _ = kill_process(stage.process.pid, Signal::KILL);
            }
        }
        let _ = self.end_all(Signal::KILL, false);
    }
}
