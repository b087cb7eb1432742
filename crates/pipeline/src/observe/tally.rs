//! What the samples of one process add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Observed, OnPipe, Shares};
use crate::files::{Allowance, Files, Kept, Schedule, ThreadFiles};
use crate::find::{Process, Unseen};
use crate::proc::{End, Io, PipeId, Proc};
use crate::wait::{Outside, PipeWait, Side, State, ThreadSample, Wait, examine_files};

/// Of a process with more threads that many are examined in a sample, by turns.
pub(super) const MAX_THREADS: usize = 32;

/// What a process did at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Working,
    Disk,
    Blocked,
    Starved,
    Elsewhere(Outside),
    Stopped,
}

/// What a process does if its threads are in these states.
fn activity(threads: &[&State]) -> Activity {
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
        Activity::Working
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
    pub(super) working: u32,
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
    fn add(&mut self, threads: &[&State]) {
        self.samples += 1;
        match activity(threads) {
            Activity::Working => self.working += 1,
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
    }

    fn share(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.samples.max(1))
    }

    /// The shares of the samples.
    pub(super) fn shares(&self) -> Shares {
        Shares {
            working: self.share(self.working),
            disk: self.share(self.disk),
            blocked: self.share(self.blocked),
            starved: self.share(self.starved),
            elsewhere: self.share(self.outside.values().sum()),
            stopped: self.share(self.stopped),
        }
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
    pub(super) io: Option<Io>,
}

impl Slice {
    /// Adds another one of the same process.
    pub(super) fn add(&mut self, other: &Slice) {
        let (sum, counts) = (&mut self.counts, &other.counts);
        sum.samples += counts.samples;
        sum.working += counts.working;
        sum.disk += counts.disk;
        sum.blocked += counts.blocked;
        sum.starved += counts.starved;
        sum.stopped += counts.stopped;
        for (outside, count) in &counts.outside {
            *sum.outside.entry(*outside).or_default() += count;
        }
        for (on, count) in &counts.on {
            *sum.on.entry(*on).or_default() += count;
        }
        sum.splices |= counts.splices;
        self.counted += other.counted;
        self.ran += other.ran;
        self.delayed += other.delayed;
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
        self.counts.working > 0 || self.counts.disk > 0 || !self.ran.is_zero()
    }

    /// What it says about a process; the rest is as of one that was not asked for.
    pub(super) fn observed(&self, process: Process) -> Observed {
        let counts = &self.counts;
        let outside = counts.outside.iter();
        let on = |((pipe, side), count): (&(PipeId, Side), &u32)| OnPipe {
            pipe: *pipe,
            side: *side,
            share: counts.share(*count),
        };
        Observed {
            process,
            is_asked: false,
            has_ended: false,
            samples: counts.samples,
            shares: counts.shares(),
            outside: outside.map(|(key, n)| (*key, counts.share(*n))).collect(),
            on: counts.on.iter().map(on).collect(),
            is_frozen: !self.has_run(),
            threads: Vec::new(),
            counted_s: self.counted.as_secs_f64(),
            ran_s: self.ran.as_secs_f64(),
            delayed_s: self.delayed.as_secs_f64(),
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
    io: Option<Io>,
    /// How often each thread got a processor.
    turns: BTreeMap<i32, u64>,
}

impl Io {
    /// What was counted since then.
    fn since(self, then: Io) -> Io {
        Io {
            read_bytes: self.read_bytes.saturating_sub(then.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(then.written_bytes),
            reads: self.reads.saturating_sub(then.reads),
            writes: self.writes.saturating_sub(then.writes),
        }
    }
}

/// A thread that is sampled.
#[derive(Debug)]
struct Watch {
    files: ThreadFiles,
    /// How often it had got a processor when its state was read.
    turns: Option<u64>,
    seen: Option<ThreadSample>,
}

impl Watch {
    fn new(tid: i32) -> Self {
        Watch {
            files: ThreadFiles::new(tid),
            turns: None,
            seen: None,
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
        let turns = self.files.schedule(at.files, Some(at.allowance))?.turns;
        let has_slept = turns > 0 && self.turns == Some(turns);
        let is_awake = |seen: &ThreadSample| matches!(seen.state, State::Working | State::Disk);
        if has_slept && self.seen.as_ref().is_some_and(|seen| !is_awake(seen)) {
            return Some(false);
        }
        // Most processes are asleep all the time, and their files are read once.
        let allowance = self.seen.is_some().then_some(at.allowance);
        let seen = examine_files(at.files, &mut self.files, ends, allowance)?;
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
        let mut tally = Tally {
            directory: directory.and_then(|directory| allowance.keep(directory)),
            watches: Vec::new(),
            first: (Instant::now(), Counters::default()),
            last: (Instant::now(), Counters::default()),
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
            watch.turns = first.turns.get(&watch.files.tid).copied();
        }
        tally.watches = watches;
        tally.last = (tally.first.0, first.clone());
        tally.first.1 = first;
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
            self.counts.add(&states);
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

    /// Reads the counters of a process that still runs.
    pub(super) fn update(&mut self, proc: &Proc, allowance: &Allowance) {
        self.last.0 = Instant::now();
        // Otherwise they are the same.
        if std::mem::take(&mut self.has_run) {
            let mut watches = std::mem::take(&mut self.watches);
            let at = self.at(proc, allowance);
            let counters = counters(&at, self.process.id.pid, &mut watches);
            (self.last.1, self.watches) = (counters, watches);
        }
    }

    /// What it did since the counters were read first.
    fn slice(&self) -> Slice {
        let ((began_at, first), (ended_at, last)) = (&self.first, &self.last);
        Slice {
            counts: self.counts.clone(),
            counted: ended_at.duration_since(*began_at),
            ran: last.ran.saturating_sub(first.ran),
            delayed: last.delayed.saturating_sub(first.delayed),
            io: first.io.zip(last.io).map(|(before, now)| now.since(before)),
        }
    }

    /// What it did since this was called last; everything is counted anew.
    pub(super) fn take(&mut self, proc: &Proc, allowance: &Allowance) -> Slice {
        if !self.has_ended {
            self.update(proc, allowance);
        }
        let slice = self.slice();
        self.counts = Counts::default();
        self.first = self.last.clone();
        slice
    }

    /// What it did. `now` is the process that has its number, `ancestors` are those of it.
    pub(super) fn observed(
        &mut self,
        proc: &Proc,
        allowance: &Allowance,
        now: Option<Process>,
        ancestors: Vec<i32>,
        is_asked: bool,
    ) -> Observed {
        let id = self.process.id;
        let same = now.filter(|process| process.id == id);
        if same.is_some() {
            self.update(proc, allowance);
        }
        Observed {
            is_asked,
            has_ended: same.is_none(),
            is_frozen: same.is_some()
                && self.is_from_start
                && self.counts.samples > 0
                && self.counts.working == 0
                && self.first.1.turns == self.last.1.turns,
            handled_signals: proc.handled_signals(id.pid).unwrap_or(0),
            threads: self.threads(),
            ancestors,
            ..self
                .slice()
                .observed(same.unwrap_or_else(|| self.process.clone()))
        }
    }
}

fn counters(at: &At<'_>, pid: i32, watches: &mut [Watch]) -> Counters {
    let mut counters = Counters {
        io: at.proc.io(pid),
        ..Counters::default()
    };
    for watch in watches {
        if let Some(schedule) = watch.files.schedule(at.files, Some(at.allowance)) {
            counters.ran += schedule.ran;
            counters.delayed += schedule.delayed;
            // 0 twice would look like a thread that never ran.
            let unknown = counters.turns.len() as u64 + 1;
            let turns = watch.turns(at.proc, pid, schedule).unwrap_or(unknown);
            counters.turns.insert(watch.files.tid, turns);
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
            (vec![on_input(1), State::Working], Activity::Working),
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
