//! A pipeline under way: started, watched, ended, and nothing of it left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use super::account::{Account, signal_descendants};
use super::process::{Ended, Process, reap};
use super::watch::Watch;
use super::{Pipeline, Stage};
use crate::profile::gathered::Chains;
use crate::profile::perf::{Probe, Sampling, shared_ring_bytes};
use pipespeed_base::interrupt::Interrupt;

/// How often the stages are looked at and their samples taken in: no divisor of
/// what others do every so many milliseconds.
const LOOK: Duration = Duration::from_millis(19);
/// Looks of a phase with sampling, and of the next one without: sampling slows
/// down whatever switches often, so only the latter tell how long things take.
const PHASE: u32 = 2;
/// The same in milliseconds.
pub const PHASE_MS: u128 = LOOK.as_millis() * PHASE as u128;
/// What a process that was asked to end gets for ending.
const GRACE: Duration = Duration::from_millis(1000);
/// How long the end of a process that was killed is waited for: one that hangs
/// in the kernel may take for ever.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often, where an end can't be waited for by a descriptor.
const GLANCE: Duration = Duration::from_millis(5);

/// Stages that have been started. Dropped, they are killed.
pub struct Running {
    stages: Vec<RunningStage>,
}

struct RunningStage {
    process: Process,
    words: Vec<String>,
    probe: Probe,
    seen: Seen,
}

/// What was seen of a stage.
#[derive(Debug, Default)]
pub struct Seen {
    /// Its samples.
    pub chains: Chains<u64>,
    /// The looks at it.
    pub watch: Watch,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Whether it ended as what was there before its command, alone.
    pub unchanged: bool,
    /// Processor time of what it left to others to wait for.
    pub orphans: Duration,
    /// What it used while it was not sampled, and while it was.
    pub unsampled: Account,
    /// See `unsampled`.
    pub sampled: Account,
    /// What it had used when the phase began.
    before: Account,
}

/// What a pipeline has done.
#[derive(Debug)]
pub struct Ran {
    /// From the start to the end of the last stage that ended.
    pub wall: Duration,
    /// Whether it was ended for taking longer than allowed.
    pub out_of_time: bool,
    /// The signal that ended it early.
    pub interrupted: Option<i32>,
    /// Processes that it left and that had to be ended.
    pub left: usize,
    /// Its stages.
    pub stages: Vec<Seen>,
}

impl Running {
    /// Starts all stages, each stopped before its command, and samples them.
    ///
    /// # Errors
    /// Those of starting; a refusal to sample.
    pub fn start(pipeline: &Pipeline, sampling: &Sampling, cpus: &[usize]) -> anyhow::Result<Self> {
        // What a stage leaves behind comes to us.
        set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
        let mut started = Running { stages: Vec::new() };
        let bytes = shared_ring_bytes(pipeline.stages.len());
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
            started
                .stages
                .push(start(stage, stdin, output, sampling, cpus, bytes)?);
        }
        Ok(started)
    }

    /// Lets it run to its end, or for so long.
    ///
    /// # Errors
    /// Those of system calls that should not fail.
    pub fn run(&mut self, limit: Duration, interrupt: &Interrupt) -> io::Result<Ran> {
        let began = Instant::now();
        for stage in &mut self.stages {
            stage.seen.watch = Watch::default();
            stage.seen.watch.look(stage.process.pid);
            stage.seen.watch.waits.clear();
            stage.seen.before = stage.seen.watch.account(Duration::ZERO);
            stage.process.go()?;
        }
        let (mut looks, mut sampled) = (0, true);
        let mut end = End::Own;
        let (mut due, mut signal) = (began + limit, Signal::TERM);
        let mut hopeless = None;
        while self.stages.iter().any(|stage| stage.seen.ended.is_none()) {
            if end == End::Own
                && let Some(number) = interrupt.signal()
            {
                end = End::Interrupted(number);
                due = Instant::now();
            }
            if Instant::now() >= due {
                if end == End::Own {
                    end = End::OutOfTime;
                }
                signal_descendants(signal);
                (due, signal) = (Instant::now() + GRACE, Signal::KILL);
                let given_up = *hopeless.get_or_insert(Instant::now() + PATIENCE);
                if Instant::now() >= given_up {
                    return Err(io::Error::other("a process can't be ended"));
                }
            }
            // A signal that has come once keeps its descriptor readable.
            let interrupt = (end == End::Own).then_some(interrupt);
            self.wait(due.min(Instant::now() + LOOK), interrupt)?;
            self.reap_all(sampled)?;
            looks += 1;
            for stage in &mut self.stages {
                stage.look();
                if looks % PHASE == 0 {
                    stage.end_phase(sampled)?;
                }
            }
            sampled ^= looks % PHASE == 0;
        }
        // A terminal sends Ctrl-C to all of us, and they may be gone before we look.
        if end == End::Own
            && let Some(number) = interrupt.signal()
        {
            end = End::Interrupted(number);
        }
        let wall = began.elapsed();
        let left = self.sweep(sampled)?;
        let stages = self.stages.iter_mut().map(|stage| {
            stage.probe.drain(&mut stage.seen.chains);
            std::mem::take(&mut stage.seen)
        });
        Ok(Ran {
            wall,
            out_of_time: end == End::OutOfTime,
            interrupted: match end {
                End::Interrupted(number) => Some(number),
                End::Own | End::OutOfTime => None,
            },
            left,
            stages: stages.collect(),
        })
    }

    /// Waits for a stage's end or a signal, but no longer than that.
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
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for everything that has ended, in a phase with sampling or without;
    /// whether anything goes on.
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
                // A dead process keeps its accounts until it is waited for.
                stage.look();
                stage.account(sampled);
                stage.seen.unchanged = stage.seen.watch.processes.len() <= 1
                    && stage.process.is_unchanged(&stage.words);
                stage.seen.ended = Some(stage.process.reap()?);
                continue;
            }
            // An orphan: its stage is the one that it was seen in.
            let (_, cpu) = reap(pid)?;
            let number = pid.as_raw_pid();
            let stages = &mut self.stages.iter_mut();
            if let Some(stage) = stages.find(|stage| stage.seen.watch.processes.contains(&number)) {
                stage.seen.orphans += cpu;
            }
        }
    }

    /// Ends what the stages have left running; how many processes that were.
    fn sweep(&mut self, sampled: bool) -> io::Result<usize> {
        if !self.reap_all(sampled)? {
            return Ok(0);
        }
        let left = super::account::children(getpid().as_raw_pid()).len().max(1);
        signal_descendants(Signal::TERM);
        let mut kill_at = Instant::now() + GRACE;
        let hopeless = Instant::now() + PATIENCE;
        while self.reap_all(sampled)? && Instant::now() < hopeless {
            if Instant::now() >= kill_at {
                signal_descendants(Signal::KILL);
                kill_at = Instant::now() + GRACE / 10;
            }
            self.wait(Instant::now() + GLANCE, None)?;
        }
        Ok(left)
    }
}

/// Why a pipeline ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Own,
    OutOfTime,
    Interrupted(i32),
}

fn start(
    stage: &Stage,
    stdin: Stdio,
    stdout: Stdio,
    sampling: &Sampling,
    cpus: &[usize],
    ring_bytes: usize,
) -> anyhow::Result<RunningStage> {
    let process = Process::start(&stage.words, stdin, stdout)
        .with_context(|| format!("can't start {}", stage.text))?;
    let pid = process.pid.as_raw_pid() as u32;
    let probe = Probe::attach(sampling.event, pid, cpus, ring_bytes);
    match probe {
        Ok(probe) => Ok(RunningStage {
            process,
            words: stage.words.clone(),
            probe,
            seen: Seen {
                unsampled: Account::nothing(),
                sampled: Account::nothing(),
                ..Seen::default()
            },
        }),
        Err(refusal) => {
            process.kill();
            Err(refusal.into())
        }
    }
}

impl RunningStage {
    fn look(&mut self) {
        if self.seen.ended.is_none() {
            self.seen.watch.look(self.process.pid);
        }
        self.probe.drain(&mut self.seen.chains);
    }

    /// Puts what was used since the phase began where it belongs.
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

    /// Ends a phase and begins one of the other kind.
    fn end_phase(&mut self, sampled: bool) -> io::Result<()> {
        if self.seen.ended.is_none() {
            self.account(sampled);
            self.probe.turn(!sampled)?;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stages.iter().all(|stage| stage.seen.ended.is_some()) {
            return;
        }
        // Those that are known need no descriptors, of which there may be none left.
        for stage in &self.stages {
            if stage.seen.ended.is_none() {
                let _ = kill_process(stage.process.pid, Signal::KILL);
            }
        }
        let hopeless = Instant::now() + PATIENCE;
        while Instant::now() < hopeless {
            signal_descendants(Signal::KILL);
            if !matches!(self.reap_all(false), Ok(true))
                || self.wait(Instant::now() + GLANCE, None).is_err()
            {
                return;
            }
        }
    }
}
