//! The thread that moves the data of a process, where another one runs.

use std::time::Duration;

use super::Tally;
use super::look::MAX_THREADS;
use crate::proc::{Io, Proc};
use crate::sample::IdleMover;
use crate::sample::counters::WatchedThread;
use crate::wait::{BlockedOn, Outside, ThreadState};

/// A thread that runs or is ready to for this share of the time is busy.
const MIN_BUSY: f64 = 0.5;
/// One that waits outside for this share is idle.
const MIN_IDLE: f64 = 0.5;
/// A thread that moves a smaller share of the bytes than this moves hardly any.
const MIN_MOVED: f64 = 0.1;

/// What a thread waits for that is neither another thread nor on a link.
fn waits_outside(watch: &WatchedThread) -> Option<Outside> {
    match watch.seen.as_ref()?.state {
        ThreadState::Waiting(BlockedOn::Outside(outside)) => Some(outside),
        _ => None,
    }
    .filter(|outside| !matches!(outside, Outside::Lock | Outside::LockOrTimer))
}

impl Tally {
    /// Notes what each of several threads waits for in this sample, and, once, what it has moved before, if one of them
    /// runs.
    pub(super) fn note_movers(&mut self, proc: &Proc, has_run: bool) {
        if !(2..=MAX_THREADS).contains(&self.watches.len()) {
            return;
        }
        for nth in 0..self.watches.len() {
            let watch = &self.watches[nth];
            let is_due = has_run && watch.first_io.is_none();
            let first_io = is_due.then(|| watch.files.io(self.files(proc))).flatten();
            let outside = waits_outside(watch);
            let watch = &mut self.watches[nth];
            watch.first_io = watch.first_io.or(first_io);
            if let Some(outside) = outside {
                *watch.outside.entry(outside).or_default() += 1;
            }
        }
    }

    /// What the thread waits for that moves the data, if that is not the one that runs.
    pub(super) fn idle_mover(&self, proc: &Proc) -> Option<IdleMover> {
        let counted = self.last.0.duration_since(self.first.0);
        let share = |time: Duration| time.as_secs_f64() / counted.as_secs_f64();
        let is_idle = |watch: &WatchedThread| share(watch.ran() + watch.delayed()) < MIN_BUSY;
        // Bytes that go by a splice are not counted.
        if counted.is_zero()
            || self.watches.len() < 2
            || self.counts.splices
            || self.watches.iter().all(is_idle)
        {
            return None;
        }
        let moved = |watch: &WatchedThread| {
            let now = watch.files.io(self.files(proc))?;
            let since =
                |count: fn(&Io) -> u64| Some(count(&now).saturating_sub(count(&watch.first_io?)));
            Some((since(|io| io.read_bytes)? + since(|io| io.written_bytes)?) as f64)
        };
        let all = self
            .watches
            .iter()
            .map(|watch| Some((watch, moved(watch)?)));
        let all: Vec<(&WatchedThread, f64)> = all.collect::<Option<_>>()?;
        let sum: f64 = all.iter().map(|(_, bytes)| bytes).sum();
        let by_busy: f64 = all
            .iter()
            .filter(|(watch, _)| !is_idle(watch))
            .map(|(_, bytes)| bytes)
            .sum();
        let (mover, _) = all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (outside, longest) = mover.outside.iter().max_by_key(|(_, count)| **count)?;
        let waits: u32 = mover.outside.values().sum();
        let of_samples =
            |count: u32| (f64::from(count) / f64::from(self.counts.samples.max(1))).min(1.0);
        let is_found = sum > 0.0
            && by_busy <= MIN_MOVED * sum
            && is_idle(mover)
            && of_samples(waits) >= MIN_IDLE;
        is_found.then_some(IdleMover {
            outside: *outside,
            share: of_samples(*longest),
        })
    }
}
