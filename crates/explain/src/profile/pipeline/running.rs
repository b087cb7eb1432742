//! A running command: its start, observation and end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use pipespeed_base::thread::own_time;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, getpid};

use super::members::Members;
use crate::profile::attribution::StackSample;
use crate::profile::perf::{PerfSampler, Sampling, SamplingError};
use crate::profile::record::{Losses, Status};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::limits::check_descriptors;
use pipespeed_base::process::is_any_ready;
use pipespeed_host::refusals::RefusableCall;
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::proc::pipe_probe::PipeProbe;
use pipespeed_pipeline::terminate::{Survivor, end_descendants, reap_others};

/// Duration of a phase, and two looks at the stages in each. Common intervals of other programs
/// are no multiples of it. Phases with sampling alternate with phases without: sampling
/// slows down frequent switches, and the difference shows how much.
const PHASE: Duration = Duration::from_millis(38);
/// The duration of a phase in milliseconds.
pub const PHASE_MS: u128 = PHASE.as_millis();
/// Maximum time between two looks, unless they are expensive.
const MAX_PAUSE: Duration = Duration::from_millis(19);
/// Time before the first look; later pauses are longer, since most processes start in the
/// beginning.
const MIN_PAUSE: Duration = Duration::from_micros(500);
/// Looks may take at most this share of one processor, 1 to this many.
const SHARE_OF_LOOKS: u32 = 10;
/// Descriptors for reading /proc, beside those for sampling: directories, and one for each of
/// the first stages.
const SPARE_DESCRIPTORS: usize = 8;

/// A command that was started.
#[derive(Debug)]
pub struct StartedCommand {
    /// Its first process.
    pub child: Child,
    /// Readable once the child has ended.
    pub ending: OwnedFd,
    /// What this process had before.
    pub others: OtherProcesses,
}

/// A running command. All its processes are ended when this is dropped before its end.
pub struct Running {
    child: Child,
    /// Readable once the child has ended.
    ending: OwnedFd,
    /// Not the command's: they are left alone, and not reaped as long as the time of what is reaped counts.
    others: OtherProcesses,
    /// `None` if sampling is refused.
    probe: Option<PerfSampler>,
    members: Members,
    started: Instant,
    /// Whether its processes were ended, as far as they can be.
    is_over: bool,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// From the start to the end of the command.
    pub wall: Duration,
    /// Whether it was ended because it exceeded the time limit.
    pub out_of_time: bool,
    /// The signal that interrupted it.
    pub interrupted: Option<i32>,
    /// How it ended, unless it was ended.
    pub status: Option<Status>,
    /// Missing samples.
    pub losses: Losses,
    /// Running time of all its processes that have ended and were reaped.
    pub used: Option<Duration>,
    /// Number of processes that it has left running at its end.
    pub left: usize,
    /// The processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// Its processes.
    pub members: Members,
}

/// Starts to sample, if that is possible, and then the command by `start`.
///
/// # Errors
/// Those of starting; a refusal to sample.
pub fn start(
    sampling: Option<&Sampling>,
    cpus: &[usize],
    pipe_probe: PipeProbe,
    start: impl FnOnce() -> anyhow::Result<StartedCommand>,
) -> anyhow::Result<Running> {
    // It inherits no sampling.
    pipe_probe.prepare(&Proc::default());
    let mut probe = sampling.map(|sampling| PerfSampler::new(sampling, &[cpus]));
    if let Some(probe) = &mut probe {
        // The command is a child of this process, whose own samples are not used.
        probe.add(0, getpid().as_raw_pid() as u32, cpus)?;
    }
    check_descriptors(SPARE_DESCRIPTORS)
        .map_err(|error| SamplingError::new(RefusableCall::from("open(2)"), error))?;
    let started = Instant::now();
    let StartedCommand {
        child,
        ending,
        others,
    } = start()?;
    let members = Members::new(pipe_probe, others.clone());
    Ok(Running {
        child,
        ending,
        others,
        probe,
        members,
        started,
        is_over: false,
    })
}

impl Running {
    /// Runs the command to its end, or until `limit` or a signal.
    ///
    /// # Errors
    /// Those of system calls that should not fail.
    pub fn run(mut self, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<RunOutcome> {
        let end = self.started + limit;
        let mut phase_end = self.started + PHASE;
        let mut pause = MIN_PAUSE;
        let mut is_sampled = self.probe.is_some();
        let used_before = children_time();
        let mut has_ended = false;
        let mut interrupted = None;
        while !has_ended && interrupted.is_none() && Instant::now() < end {
            let until = (Instant::now() + pause).min(phase_end).min(end);
            has_ended = self.wait(until, interrupt)?;
            let is_phase_over = Instant::now() >= phase_end;
            let samples = self.stop_sampling(is_phase_over && is_sampled)?;
            let began = own_time();
            self.others.update(&Proc::default());
            self.members.look();
            let cost = own_time().saturating_sub(began);
            pause = (pause * 5 / 4).min(MAX_PAUSE).max(cost * SHARE_OF_LOOKS);
            if is_phase_over {
                self.end_phase(is_sampled, samples);
                is_sampled = !is_sampled && self.resume_sampling()?;
                phase_end = Instant::now() + PHASE;
            } else if let Some(probe) = &mut self.probe {
                probe.read();
            }
            self.reap();
            // A terminal sends Ctrl-C to all processes, and the command may end first.
            interrupted = interrupt.signal();
        }
        let wall = self.started.elapsed();
        let samples = self.stop_sampling(is_sampled)?;
        self.members.look();
        self.end_phase(is_sampled, samples);
        let mut status = None;
        let mut left = 0;
        let mut helpers = self.members.helpers();
        // Only one that replaces another one is a child.
        helpers.retain(|pid| Proc::default().is_descendant(*pid));
        self.others.add(helpers);
        if has_ended {
            status = Some(Status::new(self.child.wait()?));
            self.reap();
        }
        self.is_over = true;
        let mut survivors = Vec::new();
        if has_ended && interrupted.is_none() {
            // What it has left in the background, or as a daemon, is to go on.
            left = self.others.command_children(&Proc::default()).len();
        } else {
            survivors = end_descendants(&Proc::default(), &self.others, Duration::ZERO);
        }
        // Now all have a status.
        self.members.look_after_end();
        let used = children_time().zip(used_before);
        Ok(RunOutcome {
            used: used.map(|(now, before)| now.saturating_sub(before)),
            wall,
            out_of_time: !has_ended && interrupted.is_none(),
            interrupted,
            status: status.filter(|_| interrupted.is_none()),
            losses: self
                .probe
                .as_ref()
                .map(|probe| probe.losses)
                .unwrap_or_default(),
            left,
            survivors,
            members: std::mem::take(&mut self.members),
        })
    }

    /// Reaps what the command has left behind.
    fn reap(&self) {
        reap_others(&Proc::default(), Pid::from_child(&self.child), &self.others);
    }

    /// Ends a phase with the samples that were taken in it.
    fn end_phase(&mut self, is_sampled: bool, samples: Vec<(u64, usize, StackSample)>) {
        self.members.end_phase(is_sampled);
        match &self.probe {
            Some(probe) => self.members.add_samples(samples, &probe.owners),
            None => self.members.forget_ended(),
        }
    }

    /// Starts to sample again, where that is possible. Returns whether it is.
    fn resume_sampling(&mut self) -> io::Result<bool> {
        let Some(probe) = &mut self.probe else {
            return Ok(false);
        };
        probe.resume()?;
        // No forks and exits are recorded while the events are disabled.
        let own = getpid().as_raw_pid() as u32;
        probe.owners.retain(|pid| pid == own);
        self.members.look();
        for (pid, threads) in self.members.processes() {
            let threads = threads.into_iter().map(|tid| tid as u32);
            probe.owners.adopt(0, pid as u32, threads);
        }
        Ok(true)
    }

    /// Stops sampling, if `is_over`, and returns the samples since it was resumed. The look that follows finds
    /// all that were sampled and still live: a look that began before may have taken long.
    fn stop_sampling(&mut self, is_over: bool) -> io::Result<Vec<(u64, usize, StackSample)>> {
        let probe = self.probe.as_mut().filter(|_| is_over);
        probe.map_or(Ok(Vec::new()), PerfSampler::stop)
    }

    /// Waits for the end of the command or a signal, at most until `until`. Returns whether
    /// the command has ended.
    fn wait(&self, until: Instant, interrupt: &Interrupt) -> io::Result<bool> {
        let mut polled = [self.ending.as_fd(), interrupt.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let left = until.saturating_duration_since(Instant::now());
        is_any_ready(&mut polled, Timespec::try_from(left).ok().as_ref())?;
        Ok(!polled[0].revents().is_empty())
    }
}

/// Running time of all reaped descendants of this process (getrusage(2)).
fn children_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let micros = |time: TimeVal| u64::try_from(time.num_microseconds()).ok();
    let sum = micros(usage.user_time())? + micros(usage.system_time())?;
    Some(Duration::from_micros(sum))
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = end_descendants(&Proc::default(), &self.others, Duration::ZERO);
        }
    }
}
