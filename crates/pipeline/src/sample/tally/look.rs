//! The threads of a process as seen at one moment, and their counting.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Tally, states};
use crate::graph::{HeldEnds, STDERR};
use crate::proc::Proc;
use crate::proc::files::FdBudget;
use crate::sample::counters::{At, WatchedThread};
use crate::sample::counts::{SampledActivity, activity};
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Of a process with more threads that many are examined in a sample, by turns.
pub(crate) const MAX_THREADS: usize = 32;
/// The counters of a process that runs are read again once its age has grown by this share, so
/// that little is missing of one that ends.
const COUNTER_AGE: u32 = 8;
/// Minimum time between two readings of the counters.
const MIN_COUNTER_INTERVAL: Duration = Duration::from_millis(10);

/// What was seen of the threads, and is not counted yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    /// How many threads there were before.
    pub(super) threads: usize,
    /// Whether one may have run.
    pub(super) has_run: bool,
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
        let mut ended = Vec::new();
        watches.retain_mut(|watch| {
            let is_due = (nth + before - first % before) % before < MAX_THREADS;
            nth += 1;
            if !is_due && watch.seen.is_some() {
                return true;
            }
            examined += 1;
            let seen = watch.sample(&at, ends);
            has_run |= seen.unwrap_or(true);
            if seen.is_none() {
                ended.push((watch.files.tid, watch.delayed()));
            }
            seen.is_some()
        });
        self.delayed_before_end.extend(ended);
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
    pub(super) fn waits_for_children(&mut self, states: &[&ThreadState]) -> bool {
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
                Outside::Timer | Outside::Event | Outside::EventOrTimer | Outside::SocketOrTimer,
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
            self.note_movers(proc, has_run);
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

    fn count_descriptors(&mut self, now: u64) {
        let before = self.descriptors.replace(now);
        self.counts.opens_files |= before.is_some_and(|before| before != now);
    }

    /// Counts the threads that are awake, and what they ran on each processor.
    fn count_awake(&mut self, proc: &Proc, fd_budget: &FdBudget) {
        let mut watches = std::mem::take(&mut self.watches);
        let at = self.at(proc, fd_budget);
        let awake = watches.iter_mut().filter(|watch| {
            let state = watch.seen.as_ref().map(|seen| &seen.state);
            state == Some(&ThreadState::Working)
        });
        let mut awake: Vec<&mut WatchedThread> = awake.collect();
        let threads = awake.len();
        let mut ran_on = Vec::new();
        if threads > 1 {
            for watch in &mut awake {
                if let Some(processor) = watch.files.processor(at.files, Some(at.fd_budget)) {
                    ran_on.push((processor, watch.take_ran()));
                }
            }
        }
        self.watches = watches;
        for (processor, ran) in ran_on {
            *self.counts.ran_on.entry(processor).or_default() += ran;
        }
        self.counts.awake_threads += threads as u32;
    }
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
