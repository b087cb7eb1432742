//! The samples of one process.

mod remembered;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pipespeed_host::CpuList;
use rustix::time::{ClockId, clock_gettime};

use self::remembered::MAX_START;
use super::children::ChildTally;
use super::counters::{At, Counters, OwnIo, WatchedThread, counters};
use super::counts::{SampledActivity, StateCounts, activity};
use super::slice::{ProcessorLimits, Slice};
use super::{Observed, Start, ticks};
use crate::graph::{HeldEnds, LinkSide, Process, STDERR};
use crate::proc::files::{CachedFile, FdBudget, ProcessFiles};
use crate::proc::{Io, LinkId, Proc, ProcessId};
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Of a process with more threads that many are examined in a sample, by turns.
pub(crate) const MAX_THREADS: usize = 32;
/// The counters of a process that runs are read again once its age has grown by this share, so
/// that little is missing of one that ends.
const COUNTER_AGE: u32 = 8;
/// Minimum time between two readings of the counters.
const MIN_COUNTER_INTERVAL: Duration = Duration::from_millis(10);
/// Ends of processes are rounded to ticks: an older process was there before.
const MAX_BIRTH_ERROR: Duration = Duration::from_millis(20);

/// The samples of a process.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) process: Process,
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
    /// Whether its system calls may not be read.
    pub(crate) hides_calls: bool,
    first: (Instant, Counters),
    last: (Instant, Counters),
}

/// What was seen of the threads, and is not counted yet.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// How many threads there were before.
    threads: usize,
    /// Whether one may have run.
    has_run: bool,
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

/// Whether a thread waits only for pipes that its process has opened itself: it was started with the standard ones.
fn is_on_own_pipes(state: &ThreadState) -> bool {
    match state {
        ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
            any_of.iter().all(|on| on.fd.is_some_and(|fd| fd > STDERR))
        }
        _ => false,
    }
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
            is_from_start,
            has_ended: false,
            may_have_changed: false,
            has_run: false,
            is_starting,
            start: Start::default(),
            descriptors: None,
            looked: None,
            due: Due::default(),
            counts: StateCounts::default(),
            thread: None,
            next: 0,
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

    fn at<'a>(&'a self, proc: &'a Proc, fd_budget: &'a FdBudget) -> At<'a> {
        let files = ProcessFiles::new(proc, self.process.id.pid).through(self.thread);
        At {
            proc,
            files: match &self.directory {
                Some(directory) => files.below(directory.as_fd()),
                None => files,
            },
            fd_budget,
        }
    }

    fn count_descriptors(&mut self, now: u64) {
        let before = self.descriptors.replace(now);
        self.counts.opens_files |= before.is_some_and(|before| before != now);
    }

    /// Takes one sample: see [`look`](Self::look) and [`count`](Self::count). Returns how many threads it
    /// examined.
    pub(crate) fn sample(&mut self, proc: &Proc, fd_budget: &FdBudget) -> usize {
        let examined = self.look(proc, fd_budget);
        self.count(proc, fd_budget);
        examined
    }

    /// Examines its threads, of many only some, and does nothing else. Returns how many. To be followed by
    /// [`count`](Self::count), once all processes were examined: a stage that loses its processor to the
    /// observer lets a pipe run full or empty, and the next stage would be seen waiting. After 0.3 ms a
    /// writer that waits for room for 4 % of its waits was seen to do so for 17 %.
    pub(crate) fn look(&mut self, proc: &Proc, fd_budget: &FdBudget) -> usize {
        if self.has_ended {
            return 0;
        }
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, fd_budget);
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
        self.due.children = !watches.is_empty()
            // Only a process that runs gets its first child. Looking for children takes longer than a sample.
            && (has_run || !self.children.has_none())
            && self.waits_for_children(&states(&watches));
        self.watches = watches;
        self.next = first.wrapping_add(MAX_THREADS);
        self.looked = Some(Looked {
            threads: before,
            has_run,
        });
        examined
    }

    /// Whether a process of which the threads do this may wait for its children.
    fn waits_for_children(&mut self, states: &[&ThreadState]) -> bool {
        match activity(states) {
            SampledActivity::Elsewhere(Outside::Child | Outside::Signal) => true,
            // For those at the other end of a pipe of its own, as of popen(3), or at its terminal.
            SampledActivity::Blocked | SampledActivity::Starved => {
                let mut terminals = self.process.terminals.iter();
                self.has_children
                    || terminals.any(|terminal| terminal.is_master)
                    || states.iter().any(|state| is_on_own_pipes(state))
                        && self.children.may_exist()
            }
            // It may poll for their end.
            SampledActivity::Elsewhere(
                Outside::Timer | Outside::EventOrTimer | Outside::SocketOrTimer,
            ) => self.has_children || self.children.may_exist(),
            _ => false,
        }
    }

    /// Counts what [`look`](Self::look) has seen. [`complete`](Self::complete) does the rest.
    pub(crate) fn count(&mut self, proc: &Proc, fd_budget: &FdBudget) {
        let Some(Looked {
            threads: before,
            has_run,
        }) = self.looked.take()
        else {
            return;
        };
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, fd_budget);
        // Only a thread that runs starts another one.
        if has_run && (watches.len() < before || at.files.thread_count() != Some(before)) {
            add_threads(&at, &self.process.ends, &mut watches);
        }
        let stamp = has_run.then(|| at.files.fd_table_stamp()).flatten();
        self.watches = watches;
        if let Some(now) = stamp {
            self.count_descriptors(now.count);
        }
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
            self.counts.add(&states(&self.watches));
            let mut seen = self.watches.iter().filter_map(|watch| watch.seen.as_ref());
            self.counts.splices |= seen.clone().any(|seen| seen.is_uncounted);
            self.hides_calls = seen.any(|seen| seen.is_hidden);
            self.count_awake(proc, fd_budget);
            let age = self.created.elapsed();
            let interval = MIN_COUNTER_INTERVAL.max(age / COUNTER_AGE);
            self.due.counters = self.has_started() || has_run && self.last.0.elapsed() >= interval;
        } else {
            self.has_ended = true;
        }
        if self.has_ended {
            self.directory = None;
            self.watches.clear();
        }
    }

    /// Counts the threads that are awake, and their processors.
    fn count_awake(&mut self, proc: &Proc, fd_budget: &FdBudget) {
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, fd_budget);
        let awake = watches.iter_mut().filter(|watch| {
            let state = watch.seen.as_ref().map(|seen| &seen.state);
            state == Some(&ThreadState::Working)
        });
        let mut awake: Vec<&mut WatchedThread> = awake.collect();
        let threads = awake.len();
        let mut processors = BTreeSet::new();
        let mut ran_on = Vec::new();
        if threads > 1 {
            for watch in &mut awake {
                if let Some(processor) = watch.files.processor(at.files, Some(at.fd_budget)) {
                    processors.insert(processor);
                    ran_on.push((processor, watch.take_ran()));
                }
            }
        }
        let processors = processors.len().max(threads.min(1));
        self.watches = watches;
        for (processor, ran) in ran_on {
            *self.counts.ran_on.entry(processor).or_default() += ran;
        }
        self.counts.awake_threads += threads as u32;
        self.counts.awake_processors += processors as u32;
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
            self.last = (now, counters);
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
        let threads: Vec<(Duration, Duration)> = threads.collect();
        let longest = threads.iter().map(|(ran, queued)| *ran + *queued).max();
        let io = self.own_io();
        Slice {
            counts: self.counts.clone(),
            counted,
            ran: last.ran.saturating_sub(first.ran),
            delayed: last.delayed.saturating_sub(first.delayed),
            in_kernel: last.in_kernel.saturating_sub(first.in_kernel),
            queued: threads.iter().map(|(_, queued)| *queued).sum(),
            longest: longest.unwrap_or_default(),
            any_ran: any_ran(threads.iter().map(|(ran, _)| *ran), counted),
            has_reaped: last.children_faults != first.children_faults,
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
        Observed {
            tried: self.tried(observed.io),
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
fn age(id: ProcessId) -> Option<Duration> {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    now.checked_sub(ticks(id.start))
}

/// Adds the threads that are not watched yet.
fn add_threads(at: &At<'_>, ends: &HeldEnds, watches: &mut Vec<WatchedThread>) {
    let known: BTreeSet<i32> = watches.iter().map(|watch| watch.files.tid).collect();
    for tid in at.files.threads() {
        let mut watch = WatchedThread::new(tid);
        if !known.contains(&tid) && watch.sample(at, ends).is_some() {
            watches.push(watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use pipespeed_testing::procs::eventually;
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};

    use super::*;
    use crate::graph::Scanner;

    #[test]
    fn a_process_that_opens_files_for_a_moment_may_move_bytes_there() {
        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        if !proc.counts_descriptors() {
            return pipespeed_testing::skip("/proc/PID/fd has no size");
        }
        for (body, opens) in [("echo > /dev/null", true), (":", false)] {
            let script = format!("while :; do {body}; done");
            let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
            let pid = shell.id() as i32;
            let found = eventually(|| {
                let mut scanner = Scanner::default();
                scanner.read_all(&proc, &[]);
                let process = scanner.graph.processes.get(&pid)?.clone();
                let mut tally = Tally::new(&proc, process, true, &fd_budget);
                for _ in 0..50 {
                    std::thread::sleep(Duration::from_millis(1));
                    tally.sample(&proc, &fd_budget);
                }
                let limits = ProcessorLimits::default();
                let observed = tally.observed(&proc, limits, None, Vec::new(), true);
                let others = observed.process.others;
                (tally.counts.opens_files == opens && (others.writes || !opens)).then_some(())
            });
            shell.kill().unwrap();
            shell.wait().unwrap();
            assert!(found.is_some(), "{body}");
        }
    }

    #[test]
    fn time_in_the_kernel_is_a_part_of_the_running_time() {
        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        let mut dd = Command::new("dd");
        let dd = dd.args(["if=/dev/zero", "of=/dev/null", "bs=1"]);
        let mut dd = dd.stderr(Stdio::null()).spawn().unwrap();
        let mut scanner = Scanner::default();
        scanner.read_all(&proc, &[]);
        let process = scanner.graph.processes[&(dd.id() as i32)].clone();
        let mut tally = Tally::new(&proc, process, true, &fd_budget);
        let found = eventually(|| {
            tally.sample(&proc, &fd_budget);
            tally.update(&proc, &fd_budget);
            let observed = tally.slice(ProcessorLimits::default());
            let mut twice = observed.clone();
            twice.add(&observed);
            let observed = twice.observed(tally.process.clone());
            (observed.in_kernel_s >= 0.1).then_some((observed.in_kernel_s, observed.ran_s))
        });
        dd.kill().unwrap();
        dd.wait().unwrap();
        let (in_kernel, ran) = found.unwrap();
        // It is counted in ticks.
        assert!(in_kernel <= ran + 0.05, "{in_kernel} {ran}");
    }

    #[test]
    fn what_a_program_reads_while_it_starts_is_told_apart() {
        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        let input = vec![b'\n'; 100_000];
        let sorted = || {
            let began = Instant::now();
            let mut sort = Command::new("sort");
            let sort = sort.stdin(Stdio::piped()).stdout(Stdio::null());
            let mut sort = sort.spawn().unwrap();
            let mut scanner = Scanner::default();
            scanner.read_all(&proc, &[]);
            let process = scanner.graph.processes[&(sort.id() as i32)].clone();
            let mut tally = Tally::new_since(&proc, process, began, &fd_budget);
            let mut read_bytes = |wanted: u64| {
                eventually(|| {
                    tally.sample(&proc, &fd_budget);
                    tally.update(&proc, &fd_budget);
                    let slice = tally.slice(ProcessorLimits::default());
                    let bytes = slice.io?.read_bytes - slice.start.read_bytes;
                    (!tally.is_starting && bytes == wanted).then_some(slice.start.read_bytes)
                })
            };
            let before = read_bytes(0);
            sort.stdin.as_mut().unwrap().write_all(&input).unwrap();
            let after = read_bytes(input.len() as u64);
            sort.kill().unwrap();
            sort.wait().unwrap();
            // On a busy machine it may have taken too long to start.
            (before? > 0).then_some((before, after))
        };
        let (before, after) = eventually(sorted).unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn a_childless_process_is_asked_for_children_again_only_once_it_ran() {
        use std::os::unix::process::CommandExt;

        let script = "$SIG{USR1} = sub { exec 'sleep', 1000 if !fork }; sleep while 1";
        let mut perl = Command::new("perl");
        let perl = perl.args(["-e", script]).stdin(Stdio::null());
        let Ok(mut perl) = perl.process_group(0).spawn() else {
            return pipespeed_testing::skip("no perl");
        };
        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        let pid = Pid::from_child(&perl);
        let mut scanner = Scanner::default();
        scanner.read_all(&proc, &[]);
        let process = scanner.graph.processes[&pid.as_raw_pid()].clone();
        let mut tally = Tally::new(&proc, process, true, &fd_budget);
        let mut sample = |is_done: fn(&Tally, bool) -> bool| {
            let sampled = eventually(|| {
                tally.sample(&proc, &fd_budget);
                let is_due = tally.due.children;
                tally.complete(&proc, &fd_budget);
                is_done(&tally, is_due).then_some(())
            });
            sampled.is_some()
        };
        let rests = sample(|tally, is_due| tally.children.has_none() && !is_due);
        kill_process(pid, Signal::USR1).unwrap();
        let finds = sample(|tally, _| !tally.children.is_empty());
        let goes_on = sample(|_, is_due| is_due);
        kill_process_group(pid, Signal::KILL).unwrap();
        perl.wait().unwrap();
        assert!(rests && finds && goes_on, "{tally:?}");
    }

    /// Of an inherited pipe it may wait for anybody.
    #[test]
    fn who_waits_for_a_timer_or_a_pipe_of_its_own_may_wait_for_a_living_child() {
        use crate::fixtures::{on_input, on_outside};
        use crate::wait::LinkWait;

        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        let process = crate::fixtures::process(std::process::id() as i32, "a", Vec::new());
        let mut tally = Tally::new(&proc, process, true, &fd_budget);
        let on_fd = |fd| {
            let any_of = vec![LinkWait {
                pipe: LinkId::pipe(7),
                fd: Some(fd),
                side: LinkSide::Input,
            }];
            ThreadState::Waiting(BlockedOn::Pipes { any_of, or: None })
        };
        for (state, expected) in [
            (on_outside(Outside::Timer), true),
            (on_fd(5), true),
            (on_fd(0), false),
            (on_input(7), false),
            (on_outside(Outside::Socket), false),
        ] {
            assert_eq!(tally.waits_for_children(&[&state]), expected, "{state:?}");
        }
    }
}
