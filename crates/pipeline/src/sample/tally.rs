//! The samples of one process.

mod look;
mod mover;
mod remembered;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pipespeed_host::{CpuList, limits_bytes};
use rustix::time::{ClockId, clock_gettime};

use self::look::Looked;
pub(crate) use self::look::MAX_THREADS;
use self::remembered::MAX_START;
use super::children::ChildTally;
use super::counters::{At, Counters, OwnIo, WatchedThread, counters};
use super::counts::StateCounts;
use super::limits::ProcessorLimits;
use super::slice::Slice;
use super::{Observed, Start};
use crate::graph::{LinkSide, Process};
use crate::proc::files::{CachedFile, FdBudget, ProcessFiles};
use crate::proc::ticks;
use crate::proc::{Io, LinkId, Proc, ProcessId};
use crate::wait::ThreadState;

/// Ends of processes are rounded to ticks: an older process was there before.
const MAX_BIRTH_ERROR: Duration = Duration::from_millis(20);

/// What waits for a disk for a smaller share of the time is not held up by a limit.
const MIN_DISK: f64 = 0.1;

/// The samples of a process.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) process: Process,
    /// Its ancestors when it was last seen, the nearest first.
    pub(crate) ancestors: Vec<i32>,
    /// Refers to this process, even if its number is reused. `None` if there are too few
    /// descriptors.
    directory: Option<CachedFile>,
    watches: Vec<WatchedThread>,
    is_from_start: bool,
    pub(crate) has_ended: bool,
    /// Whether it may have run since its descriptors were read.
    pub(crate) may_have_changed: bool,
    has_run: bool,
    /// Whether it had only just started, and was not seen to wait on a pipe yet.
    is_starting: bool,
    /// What it read until it was first seen to do so.
    start: Start,
    /// The page faults of the children that it had waited for when it was first seen, or became this program.
    faults_before: u64,
    /// The number of its descriptors when it was last seen to have run.
    descriptors: Option<u64>,
    looked: Option<Looked>,
    due: Due,
    pub(crate) counts: StateCounts,
    pub(crate) children: ChildTally,
    /// Whether children of it have ended while it was observed.
    has_children: bool,
    /// The control groups that it was in, each as the text of proc_pid_cgroup(5). It is in the last ones.
    pub(crate) groups: Vec<String>,
    /// The processors that it may use, as last seen, if that was looked up.
    allowed: Option<CpuList>,
    /// Its ends that were seen to be non-blocking, of those on which it moves little a call.
    tried: BTreeSet<(LinkId, LinkSide)>,
    pub(crate) created: Instant,
    /// A thread of it, if the main thread has ended.
    thread: Option<i32>,
    /// The thread to begin with in the next sample.
    next: usize,
    /// How long each thread that has ended since the counters were read first had waited for a processor.
    delayed_before_end: BTreeMap<i32, Duration>,
    /// Whether its system calls may not be read.
    pub(crate) hides_calls: bool,
    first: (Instant, Counters),
    last: (Instant, Counters),
}

/// What is to be done after a sample.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    children: bool,
    counters: bool,
}

/// What threads do. What the thread waits for that ran last says more than what an idle one does.
fn states(watches: &[WatchedThread]) -> Vec<&ThreadState> {
    let mut latest: Vec<&WatchedThread> = watches.iter().collect();
    latest.sort_by_key(|watch| Reverse(watch.ran_at));
    let seen = latest.into_iter().filter_map(|watch| watch.seen.as_ref());
    let mut states: Vec<&ThreadState> = seen.map(|seen| &seen.state).collect();
    // Most of many threads wait alike.
    states.dedup();
    states
}

impl Tally {
    pub(crate) fn new(
        proc: &Proc,
        process: Process,
        is_from_start: bool,
        fd_budget: &FdBudget,
    ) -> Self {
        let directory = ProcessFiles::new(proc, process.id.pid).directory().ok();
        // It may have been opened after the number was reused.
        let directory = directory.filter(|_| process.id.is_running(proc));
        let is_starting = age(process.id).is_some_and(|age| age <= MAX_START);
        let now = Instant::now();
        let mut tally = Tally {
            directory: directory.and_then(|directory| fd_budget.keep(directory)),
            watches: Vec::new(),
            first: (now, Counters::default()),
            last: (now, Counters::default()),
            children: ChildTally::default(),
            has_children: false,
            groups: Vec::from_iter(proc.control_groups(process.id.pid)),
            allowed: None,
            tried: BTreeSet::new(),
            created: now,
            process,
            ancestors: Vec::new(),
            is_from_start,
            has_ended: false,
            may_have_changed: false,
            has_run: false,
            is_starting,
            start: Start::default(),
            faults_before: 0,
            descriptors: None,
            looked: None,
            due: Due::default(),
            counts: StateCounts::default(),
            thread: None,
            next: 0,
            delayed_before_end: BTreeMap::new(),
            hides_calls: false,
        };
        let files = tally.at(proc, fd_budget).files;
        let has_leader = files.stat().is_ok_and(|(stat, _)| stat.state != 'Z');
        let living = (!has_leader).then(|| files.without_leader()?.thread());
        tally.thread = living.flatten();
        let at = tally.at(proc, fd_budget);
        let mut watches: Vec<WatchedThread> = at
            .files
            .threads()
            .into_iter()
            .map(WatchedThread::new)
            .collect();
        let first = counters(&at, tally.process.id.pid, &mut watches);
        for watch in &mut watches {
            let schedule = first.threads.get(&watch.files.tid);
            watch.turns = schedule.map(|schedule| schedule.turns);
            watch.restart(schedule.copied(), tally.first.0);
        }
        tally.watches = watches;
        tally.last = (tally.first.0, first.clone());
        tally.faults_before = first.children_faults;
        tally.first.1 = first;
        tally
    }

    /// As [`new`](Self::new), for a process that may have started after `since`: what such a
    /// process has done counts from its beginning.
    pub(crate) fn new_since(
        proc: &Proc,
        process: Process,
        since: Instant,
        fd_budget: &FdBudget,
    ) -> Self {
        let age = age(process.id);
        let mut tally = Tally::new(proc, process, false, fd_budget);
        if let Some(born) = age.and_then(|age| tally.created.checked_sub(age))
            && born + MAX_BIRTH_ERROR > since
        {
            let nothing = Counters {
                io: tally.first.1.io.map(|_| OwnIo::NONE),
                ..Counters::default()
            };
            tally.first = (born.max(since), nothing);
            for watch in &mut tally.watches {
                watch.restart(None, since);
            }
            tally.has_run = true;
        }
        tally
    }

    fn files<'a>(&'a self, proc: &'a Proc) -> ProcessFiles<'a> {
        let files = ProcessFiles::new(proc, self.process.id.pid).through(self.thread);
        match &self.directory {
            Some(directory) => files.below(directory.as_fd()),
            None => files,
        }
    }

    fn at<'a>(&'a self, proc: &'a Proc, fd_budget: &'a FdBudget) -> At<'a> {
        At {
            proc,
            files: self.files(proc),
            fd_budget,
        }
    }

    /// Samples the children for which it waits, where that is due after [`look`](Self::look). As soon after it as
    /// possible, for the same reason.
    pub(crate) fn sample_children(&mut self, proc: &Proc) {
        if std::mem::take(&mut self.due.children) && !self.has_ended {
            let seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
            let states: Vec<&ThreadState> = seen.map(|seen| &seen.state).collect();
            let threads: Vec<i32> = self.watches.iter().map(|watch| watch.files.tid).collect();
            self.children.sample(proc, &self.process, &threads, &states);
        }
    }

    /// Samples its children and reads its counters, where that is due after a sample.
    pub(crate) fn complete(&mut self, proc: &Proc, fd_budget: &FdBudget) {
        self.sample_children(proc);
        if std::mem::take(&mut self.due.counters) && !self.has_ended {
            self.update(proc, fd_budget);
        }
        if self.allowed.is_none() {
            self.read_allowed(proc);
        }
    }

    /// Examines its sleeping threads again in the next sample, since they may wait on an end that was not
    /// known, as that of a new connection.
    pub(crate) fn reexamine(&mut self) {
        for watch in &mut self.watches {
            watch.is_outdated = true;
        }
    }

    /// Whether its threads are sampled by turns.
    pub(crate) fn has_many_threads(&self) -> bool {
        self.watches.len() > MAX_THREADS
    }

    /// The states of its threads as last seen.
    pub(crate) fn threads(&self) -> Vec<ThreadState> {
        let seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
        seen.map(|seen| seen.state.clone()).collect()
    }

    /// Reads the counters of a process that may have run since they were read last. Those of one
    /// that has slept in all samples since then are as they were at the last of these.
    pub(crate) fn update(&mut self, proc: &Proc, fd_budget: &FdBudget) {
        let mut seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
        let is_awake =
            seen.any(|seen| matches!(seen.state, ThreadState::Working | ThreadState::Disk));
        if !std::mem::take(&mut self.has_run) && !is_awake {
            return;
        }
        let now = Instant::now();
        // The counters that are read next include the time of these.
        let ended = self.children.ended(proc, self.process.id.pid);
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, fd_budget);
        let counters = counters(&at, self.process.id.pid, &mut watches);
        self.watches = watches;
        // One that has ended has none: what was read before counts, up to that time.
        if !counters.threads.is_empty() {
            // A child that lives longer and has a pipe is a stage of its own.
            self.has_children |= counters.children_faults != self.first.1.children_faults;
            let is_other_program = counters.is_other_program(&self.last.1);
            self.last = (now, counters);
            if is_other_program {
                self.forget_wrapper();
            }
            self.children.forget(&ended);
        }
        self.note_start();
    }

    /// What it has moved itself since the counters were read first. Not known of one that ended before they
    /// were read for longer than its beginning is certain.
    fn own_io(&self) -> Option<Io> {
        let counted = self.last.0.duration_since(self.first.0);
        if self.has_ended && counted < MAX_BIRTH_ERROR {
            return None;
        }
        let io = self.first.1.io.zip(self.last.1.io);
        io.and_then(|(before, now)| now.since(before))
    }

    /// Time for which it ran or was ready to since the counters were read first, as a share.
    pub(crate) fn awake_share(&self) -> f64 {
        let counted = self.last.0.duration_since(self.first.0);
        let (first, last) = (&self.first.1, &self.last.1);
        let awake = (last.ran + last.delayed).saturating_sub(first.ran + first.delayed);
        awake.as_secs_f64() / counted.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// What it did since the counters were read first.
    fn slice(&self, limits: ProcessorLimits) -> Slice {
        let ((began_at, first), (ended_at, last)) = (&self.first, &self.last);
        let counted = ended_at.duration_since(*began_at);
        let threads = last.threads.iter().map(|(tid, last)| {
            let first = first.threads.get(tid).copied().unwrap_or_default();
            let delayed = last.delayed.saturating_sub(first.delayed);
            let queued = delayed.min(counted.mul_f64(limits.contention));
            (last.ran.saturating_sub(first.ran), queued)
        });
        let mut threads: Vec<(Duration, Duration)> = threads.collect();
        let ran = last.ran.saturating_sub(first.ran);
        // Of threads that have ended only the sums are known. They are divided by the number of threads that were
        // awake at once: a program may start its threads one after another, or several together.
        let at_once = self.counts.awake_at_once();
        let living: Duration = threads.iter().map(|(ran, _)| *ran).sum();
        let all_ended = ran.saturating_sub(living);
        let ended = all_ended.div_f64(at_once).min(counted);
        // What was read last may have some of them still: it stays if the process has ended.
        let others = self.delayed_before_end.iter();
        let others = others.filter(|(tid, _)| !last.threads.contains_key(tid));
        let ended_delayed: Duration = others.map(|(_, delayed)| *delayed).sum();
        let ended_queued = ended_delayed
            .div_f64(at_once)
            .min(counted.mul_f64(limits.contention));
        threads.extend(std::iter::repeat_n(
            (ended, ended_queued),
            at_once.round() as usize,
        ));
        let longest_ran = threads.iter().map(|(ran, _)| *ran).max();
        let longest = threads.iter().map(|(ran, queued)| *ran + *queued).max();
        let io = self.own_io();
        Slice {
            counts: self.counts.clone(),
            counted,
            ran,
            delayed: last.delayed.saturating_sub(first.delayed) + ended_delayed,
            in_kernel: last.in_kernel.saturating_sub(first.in_kernel),
            queued: threads.iter().map(|(_, queued)| *queued).sum(),
            longest: longest.unwrap_or_default(),
            longest_ran: longest_ran.unwrap_or_default(),
            ended: all_ended,
            any_ran: any_ran(threads.iter().map(|(ran, _)| *ran), counted),
            has_reaped: last.children_faults != first.children_faults,
            has_reaped_late: last.children_faults > first.children_faults.max(self.faults_before),
            io,
            io_counted: io.map_or(Duration::ZERO, |_| counted),
            start: self.start,
            children: self
                .children
                .slice(last.children_ran.saturating_sub(first.children_ran)),
            limits,
        }
    }

    /// What it did since this was called last; everything is counted anew.
    pub(crate) fn take(&mut self, limits: ProcessorLimits) -> Slice {
        let slice = self.slice(limits);
        self.counts = StateCounts::default();
        // The next time begins now.
        self.is_from_start = true;
        self.start = Start::default();
        self.delayed_before_end.clear();
        self.groups.drain(..self.groups.len().saturating_sub(1));
        self.children.restart();
        self.first = self.last.clone();
        let (began_at, first) = &mut self.first;
        for watch in &mut self.watches {
            let schedule = first.threads.get_mut(&watch.files.tid);
            let carried = watch.restart(schedule.as_deref().copied(), *began_at);
            first.delayed += carried;
            if let Some(schedule) = schedule {
                schedule.delayed += carried;
            }
        }
        slice
    }

    /// What it did. `now` is the process that has its number, `ancestors` are those of it.
    pub(crate) fn observed(
        &self,
        proc: &Proc,
        limits: ProcessorLimits,
        now: Option<Process>,
        ancestors: Vec<i32>,
        is_asked: bool,
    ) -> Observed {
        let id = self.process.id;
        let same = now.filter(|process| process.id == id);
        let observed = self
            .slice(limits)
            .observed(same.clone().unwrap_or_else(|| self.process.clone()));
        let of_children = observed.children.as_ref();
        let of_children = of_children.map_or(0.0, |children| children.shares.disk);
        let groups = self.groups.last();
        let has_io_limit = observed.shares.disk.max(of_children) >= MIN_DISK
            && groups.is_some_and(|groups| limits_bytes(proc.root(), groups));
        Observed {
            tried: self.tried(observed.io),
            mover: self.idle_mover(proc),
            has_io_limit,
            is_asked,
            has_ended: same.is_none(),
            is_frozen: same.is_some()
                && self.is_from_start
                && self.counts.samples > 0
                && self.counts.awake == 0
                && self.first.1.turns().eq(self.last.1.turns()),
            handled_signals: proc.handled_signals(id.pid).unwrap_or(0),
            age_s: age(id).unwrap_or_default().as_secs_f64(),
            threads: self.threads(),
            ancestors,
            ..observed
        }
    }
}

/// For how long at least one of several threads ran that ran for these times within `counted`,
/// if these have nothing to do with each other.
fn any_ran(times: impl Iterator<Item = Duration>, counted: Duration) -> Duration {
    if counted.is_zero() {
        return Duration::ZERO;
    }
    let shares = times.map(|ran| (ran.as_secs_f64() / counted.as_secs_f64()).min(1.0));
    let none_ran: f64 = shares.map(|share| 1.0 - share).product();
    counted.mul_f64(1.0 - none_ran)
}

/// How long ago a process started, exact to a tick.
pub(crate) fn age(id: ProcessId) -> Option<Duration> {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    now.checked_sub(ticks(id.start))
}

#[cfg(test)]
mod tests;
