//! What the samples of one process add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pipespeed_host::CpuList;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use super::children::{ChildSlice, ChildTally};
use super::{Observed, OnPipe, Shares};
use crate::files::{Allowance, Files, Kept, Schedule, ThreadFiles};
use crate::find::{Process, ProcessId, Unseen};
use crate::proc::{End, Io, PipeId, Proc};
use crate::processors::Quota;
use crate::wait::{Outside, PipeWait, Side, State, ThreadSample, Wait, examine_files};

/// Of a process with more threads that many are examined in a sample, by turns.
pub(super) const MAX_THREADS: usize = 32;
/// The counters of a process that runs are read again once its age has grown by this share, so
/// that little is missing of one that ends.
const COUNTER_AGE: u32 = 8;
/// Minimum time between two readings of the counters.
const MIN_COUNTER_INTERVAL: Duration = Duration::from_millis(10);
/// Ends of processes are rounded to ticks: an older process was there before.
const MAX_BIRTH_ERROR: Duration = Duration::from_millis(20);
/// The running time of a thread is counted at each tick of a processor, up to 10 ms apart. If it
/// has not changed for this long, the thread does not run.
const MIN_PENDING: Duration = Duration::from_millis(20);
/// Of a process that never slept in a sample, this share of the time counts as what it did for the
/// rest.
const MAX_UNEXPLAINED: f64 = 0.1;

/// What a process did at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// A thread ran or was ready to.
    Awake,
    Disk,
    Blocked,
    Starved,
    Elsewhere(Outside),
    Stopped,
}

/// What a process does if its threads are in these states.
pub(super) fn activity(threads: &[&State]) -> Activity {
    let any = |wanted: &State| threads.contains(&wanted);
    let waits = || {
        threads.iter().filter_map(|state| match state {
            State::Waiting(wait) => Some(wait),
            _ => None,
        })
    };
    let on_side = |wanted: Side| {
        waits().any(|wait| match wait {
            Wait::Pipes { any_of, .. } => any_of.iter().any(|on| on.side == wanted),
            _ => false,
        })
    };
    if any(&State::Working) {
        Activity::Awake
    } else if any(&State::Disk) {
        Activity::Disk
    } else if any(&State::Stopped) {
        Activity::Stopped
    } else if on_side(Side::Room) {
        Activity::Blocked
    } else if on_side(Side::Input) {
        Activity::Starved
    } else {
        let outside = waits().map(|wait| match wait {
            Wait::Outside(outside) => *outside,
            Wait::Child(_) => Outside::Child,
            Wait::Thread => Outside::Lock,
            Wait::FifoPeer { .. } => Outside::FifoPeer,
            _ => Outside::Other,
        });
        // A thread that waits for another one says least.
        let first = outside.min_by_key(|outside| *outside == Outside::Lock);
        Activity::Elsewhere(first.unwrap_or(Outside::Other))
    }
}

/// Numbers of samples, by what the process did.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) samples: u32,
    pub(super) awake: u32,
    pub(super) disk: u32,
    pub(super) blocked: u32,
    pub(super) starved: u32,
    pub(super) stopped: u32,
    pub(super) outside: BTreeMap<Outside, u32>,
    pub(super) on: BTreeMap<(PipeId, Side), u32>,
    /// Whether it was seen to move data by calls that don't count as bytes.
    pub(super) splices: bool,
}

impl Counts {
    /// Adds a sample of threads in these states. Returns what they did together.
    pub(super) fn add(&mut self, threads: &[&State]) -> Activity {
        self.samples += 1;
        let activity = activity(threads);
        match activity {
            Activity::Awake => self.awake += 1,
            Activity::Disk => self.disk += 1,
            Activity::Blocked => self.blocked += 1,
            Activity::Starved => self.starved += 1,
            Activity::Stopped => self.stopped += 1,
            Activity::Elsewhere(outside) => *self.outside.entry(outside).or_default() += 1,
        }
        let mut on: BTreeSet<(PipeId, Side)> = BTreeSet::new();
        for state in threads {
            if let State::Waiting(Wait::Pipes { any_of, .. }) = state {
                on.extend(any_of.iter().map(|wait: &PipeWait| (wait.pipe, wait.side)));
            }
        }
        for one in on {
            *self.on.entry(one).or_default() += 1;
        }
        activity
    }

    /// Adds those of another time.
    pub(super) fn merge(&mut self, other: &Counts) {
        self.samples += other.samples;
        self.awake += other.awake;
        self.disk += other.disk;
        self.blocked += other.blocked;
        self.starved += other.starved;
        self.stopped += other.stopped;
        for (outside, count) in &other.outside {
            *self.outside.entry(*outside).or_default() += count;
        }
        for (on, count) in &other.on {
            *self.on.entry(*on).or_default() += count;
        }
        self.splices |= other.splices;
    }

    /// Divides the time of `samples` among the states. What a thread did while it was awake is
    /// known from the scheduler, which counts all the time; the samples divide the rest. They can't
    /// do more: a thread that is just going to sleep or to wake up looks awake, which makes up to a
    /// quarter of the samples of one that sleeps 10,000 times a second.
    pub(super) fn divide(&self, samples: u32, awake: Awake) -> Division {
        let share = |count: u32| f64::from(count) / f64::from(samples.max(1));
        let sampled = share(self.awake);
        let asleep = share(self.samples - self.awake);
        // Children may be gone in a sample, and have run since the last one.
        let all = (sampled + asleep).max(awake.longest);
        let sum = awake.ran + awake.queued;
        // Threads may be awake at once, or one after the other.
        let any = sampled.clamp(awake.longest, sum.max(awake.longest).min(all));
        let (mut runs, mut queued) = if sum == 0.0 {
            (sampled, 0.0)
        } else {
            (any * awake.ran / sum, any * awake.queued / sum)
        };
        let rest = all - runs - queued;
        let scale = if asleep > 0.0 { rest / asleep } else { 0.0 };
        // More than that is not known, as with too few samples: it may have slept between them.
        if asleep == 0.0 && rest <= MAX_UNEXPLAINED && runs + queued > 0.0 {
            let factor = all / (runs + queued);
            (runs, queued) = (runs * factor, queued * factor);
        }
        Division {
            runs,
            queued,
            scale: scale / f64::from(samples.max(1)),
        }
    }
}

/// How long a process was awake, as shares of the time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Awake {
    /// Running time, summed over the threads.
    pub(super) ran: f64,
    /// Time of being ready to run while others used the processors, summed over the threads.
    pub(super) queued: f64,
    /// The time for which the thread was awake that was so for longest: at least this share of the
    /// time one was.
    pub(super) longest: f64,
}

/// How the time of a process divides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    runs: f64,
    queued: f64,
    /// The share of the time for which each sample counts in which it slept.
    scale: f64,
}

impl Division {
    /// The share of the time for this number of samples in which it slept.
    pub(super) fn share(&self, count: u32) -> f64 {
        f64::from(count) * self.scale
    }

    /// The shares of all states.
    pub(super) fn shares(&self, counts: &Counts) -> Shares {
        Shares {
            runs: self.runs,
            queued: self.queued,
            disk: self.share(counts.disk),
            blocked: self.share(counts.blocked),
            starved: self.share(counts.starved),
            elsewhere: self.share(counts.outside.values().sum()),
            stopped: self.share(counts.stopped),
        }
    }

    /// The shares of waits outside of pipes.
    pub(super) fn outside(&self, counts: &Counts) -> BTreeMap<Outside, f64> {
        let outside = counts.outside.iter();
        outside.map(|(key, n)| (*key, self.share(*n))).collect()
    }

    /// The shares of waits on pipes.
    pub(super) fn on(&self, counts: &Counts) -> Vec<OnPipe> {
        let on = counts.on.iter();
        on.map(|((pipe, side), count)| OnPipe {
            pipe: *pipe,
            side: *side,
            share: self.share(*count),
        })
        .collect()
    }
}

/// What a process did during some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Slice {
    pub(super) counts: Counts,
    /// The time over which the following was counted.
    pub(super) counted: Duration,
    pub(super) ran: Duration,
    pub(super) delayed: Duration,
    /// Of that, while others used the processors.
    pub(super) queued: Duration,
    /// Running and queued time of the thread that had most of it.
    pub(super) longest: Duration,
    pub(super) io: Option<Io>,
    /// Whether it has waited for children that have ended.
    pub(super) has_reaped: bool,
    /// The children that it waited for.
    pub(super) children: ChildSlice,
    /// What might keep it from running.
    pub(super) limits: Limits,
}

/// What may keep a process from running.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Limits {
    /// At most this share of the time all its processors were used by others.
    pub(super) contention: f64,
    /// The processors that it may use, if that was looked up.
    pub(super) allowed: Option<CpuList>,
    /// A quota that stopped it.
    pub(super) quota: Option<Quota>,
}

impl Slice {
    /// Adds an earlier one of the same process.
    pub(super) fn add(&mut self, other: &Slice) {
        self.counts.merge(&other.counts);
        self.counted += other.counted;
        self.ran += other.ran;
        self.delayed += other.delayed;
        self.queued += other.queued;
        self.longest += other.longest;
        self.has_reaped |= other.has_reaped;
        self.children.add(&other.children);
        if self.limits.allowed.is_none() {
            self.limits.allowed.clone_from(&other.limits.allowed);
        }
        let throttled = |quota: &Quota| quota.throttled;
        if self.limits.quota.as_ref().map(throttled) < other.limits.quota.as_ref().map(throttled) {
            self.limits.quota = other.limits.quota;
        }
        // They can't be read any more in the second in which the process ended.
        if let Some(io) = other.io {
            let sum = self.io.get_or_insert_default();
            sum.read_bytes += io.read_bytes;
            sum.written_bytes += io.written_bytes;
            sum.reads += io.reads;
            sum.writes += io.writes;
        }
    }

    /// Whether the process ran.
    pub(super) fn has_run(&self) -> bool {
        self.counts.awake > 0 || self.counts.disk > 0 || !self.ran.is_zero()
    }

    /// How its time divides.
    pub(super) fn divide(&self) -> Division {
        let share = |time: Duration| {
            let seconds = self.counted.as_secs_f64();
            let share = time.as_secs_f64() / seconds;
            if seconds > 0.0 { share } else { 0.0 }
        };
        let awake = Awake {
            ran: share(self.ran),
            queued: share(self.queued),
            longest: share(self.longest).min(1.0),
        };
        self.counts.divide(self.counts.samples, awake)
    }

    /// What it says about a process; the rest is as of one that was not asked for.
    pub(super) fn observed(&self, process: Process) -> Observed {
        let counts = &self.counts;
        let division = self.divide();
        Observed {
            process,
            arguments: None,
            is_asked: false,
            has_ended: false,
            samples: counts.samples,
            shares: division.shares(counts),
            outside: division.outside(counts),
            on: division.on(counts),
            children: self.children.observed(self),
            is_frozen: !self.has_run(),
            threads: Vec::new(),
            counted_s: self.counted.as_secs_f64(),
            ran_s: self.ran.as_secs_f64(),
            delayed_s: self.delayed.as_secs_f64(),
            allowed: self.limits.allowed.clone(),
            quota: self.limits.quota,
            has_reaped: self.has_reaped,
            children_ran_s: self.children.ran().as_secs_f64(),
            io: self.io,
            splices: counts.splices,
            handled_signals: 0,
            ancestors: Vec::new(),
            unseen: Unseen::None,
        }
    }
}

/// Counters of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counters {
    ran: Duration,
    delayed: Duration,
    io: Option<OwnIo>,
    /// Processor time of the children that it has waited for.
    children_ran: Duration,
    /// Their page faults.
    children_faults: u64,
    /// What each thread has done.
    threads: BTreeMap<i32, Schedule>,
}

impl Counters {
    /// How often each thread got a processor.
    fn turns(&self) -> impl Iterator<Item = (i32, u64)> {
        let threads = self.threads.iter();
        threads.map(|(tid, schedule)| (*tid, schedule.turns))
    }
}

/// What a process has read and written itself. The kernel adds what its children have moved once
/// it has waited for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnIo {
    io: Io,
    /// The page faults of the children that are included; `None` if none are.
    children_faults: Option<u64>,
}

impl OwnIo {
    /// Those of a new process.
    const NONE: OwnIo = OwnIo {
        io: Io {
            read_bytes: 0,
            written_bytes: 0,
            reads: 0,
            writes: 0,
        },
        children_faults: None,
    };

    /// What it has moved itself since then. `None` if that can't be told from what its children
    /// have.
    fn since(self, then: OwnIo) -> Option<Io> {
        if self.children_faults != then.children_faults {
            return None;
        }
        Some(Io {
            read_bytes: self.io.read_bytes.checked_sub(then.io.read_bytes)?,
            written_bytes: self.io.written_bytes.checked_sub(then.io.written_bytes)?,
            reads: self.io.reads.checked_sub(then.io.reads)?,
            writes: self.io.writes.checked_sub(then.io.writes)?,
        })
    }
}

/// A thread that is sampled.
#[derive(Debug)]
struct Watch {
    files: ThreadFiles,
    /// How often it had got a processor when its state was read.
    turns: Option<u64>,
    seen: Option<ThreadSample>,
    /// When it was first seen awake with these counts, which have not changed since.
    awake: Option<(Schedule, Instant)>,
}

impl Watch {
    fn new(tid: i32) -> Self {
        Watch {
            files: ThreadFiles::new(tid),
            turns: None,
            seen: None,
            awake: None,
        }
    }

    /// For how long it has been waiting for a processor, which the kernel counts only once it
    /// gets one. `schedule` is its state now.
    fn pending(&self, schedule: Schedule) -> Duration {
        let waits = self.awake.filter(|(before, _)| *before == schedule);
        let time = waits.map_or(Duration::ZERO, |(_, since)| since.elapsed());
        if time < MIN_PENDING {
            Duration::ZERO
        } else {
            time
        }
    }

    /// How often it got a processor; from its switches if the kernel doesn't count that.
    fn turns(&self, proc: &Proc, pid: i32, schedule: Schedule) -> Option<u64> {
        match schedule.turns {
            0 => proc.switches(pid, self.files.tid),
            turns => Some(turns),
        }
    }

    /// Reads its state, unless it has been asleep since that was read. Returns whether it may
    /// have run; `None` if it has ended.
    fn sample(&mut self, at: &At<'_>, ends: &[End]) -> Option<bool> {
        let schedule = self.files.schedule(at.files, Some(at.allowance))?;
        let turns = schedule.turns;
        let has_slept = turns > 0 && self.turns == Some(turns);
        let is_awake = |seen: &ThreadSample| matches!(seen.state, State::Working | State::Disk);
        if has_slept && self.seen.as_ref().is_some_and(|seen| !is_awake(seen)) {
            return Some(false);
        }
        // Most processes are asleep all the time, and their files are read once.
        let allowance = self.seen.is_some().then_some(at.allowance);
        let seen = examine_files(at.files, &mut self.files, ends, allowance)?;
        let waits_on = self.awake.filter(|(before, _)| *before == schedule);
        let is_ready = seen.state == State::Working;
        self.awake = is_ready.then(|| waits_on.unwrap_or_else(|| (schedule, Instant::now())));
        let is_awake = is_awake(&seen);
        self.seen = Some(seen);
        self.turns = Some(turns);
        Some(is_awake || !has_slept)
    }
}

/// Where the files of a process are.
struct At<'a> {
    proc: &'a Proc,
    files: Files<'a>,
    allowance: &'a Allowance,
}

/// The samples of a process.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) process: Process,
    /// Refers to this process, even if its number is reused. `None` if there are too few
    /// descriptors.
    directory: Option<Kept>,
    watches: Vec<Watch>,
    is_from_start: bool,
    pub(super) has_ended: bool,
    /// Whether it may have run since its descriptors were read.
    pub(super) may_have_changed: bool,
    has_run: bool,
    pub(super) counts: Counts,
    pub(super) children: ChildTally,
    /// Whether children of it have ended while it was observed.
    has_children: bool,
    /// Its control groups, as the text of proc_pid_cgroup(5).
    pub(super) groups: Option<String>,
    created: Instant,
    /// A thread of it, if the main thread has ended.
    thread: Option<i32>,
    /// The thread to begin with in the next sample.
    next: usize,
    /// Whether its system calls may not be read.
    pub(super) hides_calls: bool,
    first: (Instant, Counters),
    last: (Instant, Counters),
}

impl Tally {
    pub(super) fn new(
        proc: &Proc,
        process: Process,
        is_from_start: bool,
        allowance: &Allowance,
    ) -> Self {
        let directory = Files::of(proc, process.id.pid).directory().ok();
        // It may have been opened after the number was reused.
        let directory = directory.filter(|_| process.id.is_running(proc));
        let now = Instant::now();
        let mut tally = Tally {
            directory: directory.and_then(|directory| allowance.keep(directory)),
            watches: Vec::new(),
            first: (now, Counters::default()),
            last: (now, Counters::default()),
            children: ChildTally::default(),
            has_children: false,
            groups: proc.control_groups(process.id.pid),
            created: now,
            process,
            is_from_start,
            has_ended: false,
            may_have_changed: false,
            has_run: false,
            counts: Counts::default(),
            thread: None,
            next: 0,
            hides_calls: false,
        };
        let files = tally.at(proc, allowance).files;
        let has_leader = files.stat().is_ok_and(|(stat, _)| stat.state != 'Z');
        let living = (!has_leader).then(|| files.without_leader()?.thread());
        tally.thread = living.flatten();
        let at = tally.at(proc, allowance);
        let mut watches: Vec<Watch> = at.files.threads().into_iter().map(Watch::new).collect();
        let first = counters(&at, tally.process.id.pid, &mut watches);
        for watch in &mut watches {
            let schedule = first.threads.get(&watch.files.tid);
            watch.turns = schedule.map(|schedule| schedule.turns);
        }
        tally.watches = watches;
        tally.last = (tally.first.0, first.clone());
        tally.first.1 = first;
        tally
    }

    /// As [`new`](Self::new), for a process that may have started after `since`: what such a
    /// process has done counts from its beginning.
    pub(super) fn new_since(
        proc: &Proc,
        process: Process,
        since: Instant,
        allowance: &Allowance,
    ) -> Self {
        let age = age(process.id);
        let mut tally = Tally::new(proc, process, false, allowance);
        if let Some(born) = age.and_then(|age| tally.created.checked_sub(age))
            && born + MAX_BIRTH_ERROR > since
        {
            let nothing = Counters {
                io: tally.first.1.io.map(|_| OwnIo::NONE),
                ..Counters::default()
            };
            tally.first = (born.max(since), nothing);
            tally.has_run = true;
        }
        tally
    }

    fn at<'a>(&'a self, proc: &'a Proc, allowance: &'a Allowance) -> At<'a> {
        let files = Files::of(proc, self.process.id.pid).through(self.thread);
        At {
            proc,
            files: match &self.directory {
                Some(directory) => files.below(directory.as_fd()),
                None => files,
            },
            allowance,
        }
    }

    /// Examines its threads, of many only some. Returns how many.
    pub(super) fn sample(&mut self, proc: &Proc, allowance: &Allowance) -> usize {
        if self.has_ended {
            return 0;
        }
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, allowance);
        let ends = &self.process.ends;
        let before = watches.len();
        let first = self.next;
        let (mut nth, mut examined) = (0, 0);
        let mut has_run = false;
        watches.retain_mut(|watch| {
            let is_due = (nth + before - first % before) % before < MAX_THREADS;
            nth += 1;
            if !is_due && watch.seen.is_some() {
                return true;
            }
            examined += 1;
            let seen = watch.sample(&at, ends);
            has_run |= seen.unwrap_or(true);
            seen.is_some()
        });
        // Only a thread that runs starts another one.
        if has_run && (watches.len() < before || at.files.thread_count() != Some(before)) {
            let known: BTreeSet<i32> = watches.iter().map(|watch| watch.files.tid).collect();
            for tid in at.files.threads() {
                let mut watch = Watch::new(tid);
                if !known.contains(&tid) && watch.sample(&at, ends).is_some() {
                    watches.push(watch);
                }
            }
        }
        self.watches = watches;
        self.next = first.wrapping_add(MAX_THREADS);
        let id = self.process.id;
        if self.watches.is_empty() {
            let now = proc.stat(id.pid).filter(|now| now.start == id.start);
            self.has_ended = now.is_none_or(|now| matches!(now.state, 'Z' | 'X'));
        } else if self.directory.is_some() || id.is_running(proc) {
            // Others may have run.
            self.has_run |= has_run || before > MAX_THREADS;
            if !self.has_run {
                self.last.0 = Instant::now();
            }
            self.may_have_changed |= has_run;
            let mut states: Vec<&State> = Vec::new();
            self.hides_calls = false;
            for seen in self.watches.iter().filter_map(|watch| watch.seen.as_ref()) {
                self.counts.splices |= seen.is_uncounted;
                self.hides_calls |= seen.is_hidden;
                // Most of many threads wait alike.
                if states.last() != Some(&&seen.state) {
                    states.push(&seen.state);
                }
            }
            let activity = self.counts.add(&states);
            let waits_for_children = match activity {
                Activity::Elsewhere(Outside::Child | Outside::Signal) => true,
                // For those at the other end of a pipe of its own, as of popen(3).
                Activity::Blocked | Activity::Starved => self.has_children,
                _ => false,
            };
            if waits_for_children {
                self.children.sample(proc, &self.process, &states);
            }
            let age = self.created.elapsed();
            let interval = MIN_COUNTER_INTERVAL.max(age / COUNTER_AGE);
            if has_run && self.last.0.elapsed() >= interval {
                self.update(proc, allowance);
            }
        } else {
            self.has_ended = true;
        }
        if self.has_ended {
            self.directory = None;
            self.watches.clear();
        }
        examined
    }

    /// Whether its threads are sampled by turns.
    pub(super) fn has_many_threads(&self) -> bool {
        self.watches.len() > MAX_THREADS
    }

    /// The states of its threads as last seen.
    pub(super) fn threads(&self) -> Vec<State> {
        let seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
        seen.map(|seen| seen.state.clone()).collect()
    }

    /// Reads the counters of a process that may have run since they were read last. Those of one
    /// that has slept in all samples since then are as they were at the last of these.
    pub(super) fn update(&mut self, proc: &Proc, allowance: &Allowance) {
        let mut seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
        let is_awake = seen.any(|seen| matches!(seen.state, State::Working | State::Disk));
        if !std::mem::take(&mut self.has_run) && !is_awake {
            return;
        }
        let now = Instant::now();
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, allowance);
        let counters = counters(&at, self.process.id.pid, &mut watches);
        self.watches = watches;
        // One that has ended has none: what was read before counts, up to that time.
        if !counters.threads.is_empty() {
            // A child that lives longer and has a pipe is a stage of its own.
            self.has_children |= counters.children_faults != self.first.1.children_faults;
            self.last = (now, counters);
        }
    }

    /// Time for which it was ready to run since the counters were read first, as a share.
    pub(super) fn delay_share(&self) -> f64 {
        let counted = self.last.0.duration_since(self.first.0);
        let delayed = self.last.1.delayed.saturating_sub(self.first.1.delayed);
        delayed.as_secs_f64() / counted.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// What it did since the counters were read first.
    fn slice(&self, limits: Limits) -> Slice {
        let ((began_at, first), (ended_at, last)) = (&self.first, &self.last);
        let counted = ended_at.duration_since(*began_at);
        let threads = last.threads.iter().map(|(tid, last)| {
            let first = first.threads.get(tid).copied().unwrap_or_default();
            let delayed = last.delayed.saturating_sub(first.delayed);
            let queued = delayed.min(counted.mul_f64(limits.contention));
            (last.ran.saturating_sub(first.ran), queued)
        });
        let threads: Vec<(Duration, Duration)> = threads.collect();
        let longest = threads.iter().map(|(ran, queued)| *ran + *queued).max();
        Slice {
            counts: self.counts.clone(),
            counted,
            ran: last.ran.saturating_sub(first.ran),
            delayed: last.delayed.saturating_sub(first.delayed),
            queued: threads.iter().map(|(_, queued)| *queued).sum(),
            longest: longest.unwrap_or_default(),
            has_reaped: last.children_faults != first.children_faults,
            io: first
                .io
                .zip(last.io)
                .and_then(|(before, now)| now.since(before)),
            children: self
                .children
                .slice(last.children_ran.saturating_sub(first.children_ran)),
            limits,
        }
    }

    /// What it did since this was called last; everything is counted anew.
    pub(super) fn take(&mut self, limits: Limits) -> Slice {
        let slice = self.slice(limits);
        self.counts = Counts::default();
        // The next time begins now.
        self.is_from_start = true;
        self.children.restart();
        self.first = self.last.clone();
        slice
    }

    /// What it did. `now` is the process that has its number, `ancestors` are those of it.
    pub(super) fn observed(
        &self,
        proc: &Proc,
        limits: Limits,
        now: Option<Process>,
        ancestors: Vec<i32>,
        is_asked: bool,
    ) -> Observed {
        let id = self.process.id;
        let same = now.filter(|process| process.id == id);
        Observed {
            is_asked,
            has_ended: same.is_none(),
            is_frozen: same.is_some()
                && self.is_from_start
                && self.counts.samples > 0
                && self.counts.awake == 0
                && self.first.1.turns().eq(self.last.1.turns()),
            handled_signals: proc.handled_signals(id.pid).unwrap_or(0),
            threads: self.threads(),
            ancestors,
            ..self
                .slice(limits)
                .observed(same.unwrap_or_else(|| self.process.clone()))
        }
    }
}

/// How long ago a process started, exact to a tick.
fn age(id: ProcessId) -> Option<Duration> {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    now.checked_sub(ticks(id.start))
}

/// A time in clock ticks.
pub(super) fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / clock_ticks_per_second() as f64)
}

/// What a process has read and written itself, as far as that is known.
fn own_io(at: &At<'_>, pid: i32, children_faults: u64, watches: &[Watch]) -> Option<OwnIo> {
    let io = match watches {
        // It never waited for a child.
        _ if children_faults == 0 => at.proc.io(pid),
        [only] => only.files.io(at.files),
        _ => {
            return Some(OwnIo {
                io: at.proc.io(pid)?,
                children_faults: Some(children_faults),
            });
        }
    };
    Some(OwnIo {
        io: io?,
        children_faults: None,
    })
}

fn counters(at: &At<'_>, pid: i32, watches: &mut [Watch]) -> Counters {
    let stat = at.files.stat().map(|(stat, _)| stat).unwrap_or_default();
    let mut counters = Counters {
        io: own_io(at, pid, stat.children_faults, watches),
        children_ran: ticks(stat.children_ticks),
        children_faults: stat.children_faults,
        ..Counters::default()
    };
    for watch in watches {
        if let Some(schedule) = watch.files.schedule(at.files, Some(at.allowance)) {
            let schedule = Schedule {
                delayed: schedule.delayed + watch.pending(schedule),
                ..schedule
            };
            counters.ran += schedule.ran;
            counters.delayed += schedule.delayed;
            // 0 twice would look like a thread that never ran.
            let unknown = counters.threads.len() as u64 + 1;
            let turns = watch.turns(at.proc, pid, schedule).unwrap_or(unknown);
            let schedule = Schedule { turns, ..schedule };
            counters.threads.insert(watch.files.tid, schedule);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{on_input, on_room};

    #[test]
    fn a_stage_works_if_any_thread_does_and_room_comes_before_input() {
        let lock = || State::Waiting(Wait::Thread);
        let socket = || State::Waiting(Wait::Outside(Outside::Socket));
        for (threads, expected) in [
            (vec![on_input(1), State::Working], Activity::Awake),
            (vec![on_room(1), State::Disk], Activity::Disk),
            (vec![on_input(1), on_room(2)], Activity::Blocked),
            (vec![lock(), on_input(1)], Activity::Starved),
            (vec![lock(), socket()], Activity::Elsewhere(Outside::Socket)),
            (vec![State::Stopped], Activity::Stopped),
        ] {
            let threads: Vec<&State> = threads.iter().collect();
            assert_eq!(activity(&threads), expected, "{threads:?}");
        }
    }
}
