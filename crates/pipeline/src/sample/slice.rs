//! What a process did during some time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::children::ChildSlice;
use super::counts::{Awake, Division, StateCounts, least_ran};
use super::limits::ProcessorLimits;
use super::{Observed, Start};
use crate::graph::{Process, Unseen};
use crate::proc::{Io, Language};
use crate::processors::Quota;

/// What a process did during some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Slice {
    pub(crate) counts: StateCounts,
    /// The time over which the following was counted.
    pub(crate) counted: Duration,
    pub(crate) ran: Duration,
    pub(crate) delayed: Duration,
    /// The part of its running time in which the kernel worked for it.
    pub(crate) in_kernel: Duration,
    /// Of that, while others used the processors.
    pub(crate) queued: Duration,
    /// Running and queued time of the thread that had most of it.
    pub(crate) longest: Duration,
    /// Running time of the thread that ran for longest.
    pub(crate) longest_ran: Duration,
    /// Running time of the threads that have ended.
    pub(crate) ended: Duration,
    /// The time for which a thread ran, if their times have nothing to do with each other.
    pub(crate) any_ran: Duration,
    pub(crate) io: Option<Io>,
    /// The time over which that was counted.
    pub(crate) io_counted: Duration,
    /// What of that it read while it started.
    pub(crate) start: Start,
    /// Whether it has waited for children that have ended.
    pub(crate) has_reaped: bool,
    /// Whether it has done so since it was first seen.
    pub(crate) has_reaped_late: bool,
    /// The children that it waited for.
    pub(crate) children: ChildSlice,
    /// What might keep it from running.
    pub(crate) limits: ProcessorLimits,
}

impl Slice {
    /// Adds an earlier one of the same process.
    pub(crate) fn add(&mut self, other: &Slice) {
        self.counts.merge(&other.counts);
        self.counted += other.counted;
        self.ran += other.ran;
        self.delayed += other.delayed;
        self.in_kernel += other.in_kernel;
        self.queued += other.queued;
        self.longest += other.longest;
        self.longest_ran += other.longest_ran;
        self.any_ran += other.any_ran;
        self.ended += other.ended;
        self.has_reaped |= other.has_reaped;
        self.has_reaped_late |= other.has_reaped_late;
        self.children.add(&other.children);
        self.limits.processors = self.limits.processors.max(other.limits.processors);
        if self.limits.allowed.is_none() {
            self.limits.allowed.clone_from(&other.limits.allowed);
        }
        let throttled = |quota: &Quota| quota.throttled;
        if self.limits.quota.as_ref().map(throttled) < other.limits.quota.as_ref().map(throttled) {
            self.limits.quota = other.limits.quota;
        }
        self.start.time += other.start.time;
        self.start.read_bytes += other.start.read_bytes;
        // They can't be read any more in the second in which the process ended.
        if let Some(io) = other.io {
            self.io_counted += other.io_counted;
            let sum = self.io.get_or_insert_default();
            sum.read_bytes += io.read_bytes;
            sum.written_bytes += io.written_bytes;
            sum.reads += io.reads;
            sum.writes += io.writes;
        }
    }

    /// Whether the process ran.
    pub(crate) fn has_run(&self) -> bool {
        self.counts.awake > 0 || self.counts.disk > 0 || !self.ran.is_zero()
    }

    /// How its time divides.
    pub(crate) fn divide(&self) -> Division {
        let share = |time: Duration| {
            let seconds = self.counted.as_secs_f64();
            let share = time.as_secs_f64() / seconds;
            if seconds > 0.0 { share } else { 0.0 }
        };
        let quota = self.limits.quota.filter(|_| self.limits.is_throttled());
        let awake = Awake {
            ran: share(self.ran),
            queued: share(self.queued),
            longest: share(self.longest).min(1.0),
            longest_ran: share(self.longest_ran).min(1.0),
            least_ran: least_ran(share(self.ran), self.limits.processors),
            any_ran: share(self.any_ran),
            ended: share(self.ended),
            stopped: quota.map(|quota| share(Duration::from_secs_f64(quota.stopped_s))),
        };
        self.counts.divide(self.counts.samples, awake)
    }

    /// What it says about a process; the rest is as of one that was not asked for.
    pub(crate) fn observed(&self, mut process: Process) -> Observed {
        let counts = &self.counts;
        process.others.reads |= counts.opens_files;
        process.others.writes |= counts.opens_files;
        let division = self.divide();
        Observed {
            process,
            arguments: None,
            is_asked: false,
            watches_others: false,
            mover: None,
            has_timers: false,
            starters: Vec::new(),
            has_ended: false,
            samples: counts.samples,
            shares: division.shares(counts),
            runs_between: division.runs_between,
            outside: division.outside(counts),
            on: division.on(counts),
            children: self
                .children
                .observed(counts.samples, self.counted, &self.limits),
            is_frozen: !self.has_run(),
            idle_s: None,
            language: Language::default(),
            is_in_background: false,
            is_orphan: false,
            threads: Vec::new(),
            age_s: self.counted.as_secs_f64(),
            counted_s: self.counted.as_secs_f64(),
            ran_s: self.ran.as_secs_f64(),
            in_kernel_s: self.in_kernel.as_secs_f64(),
            delayed_s: self.delayed.as_secs_f64(),
            allowed: self.limits.allowed.clone(),
            quota: self.limits.quota,
            has_reaped: self.has_reaped,
            has_reaped_late: self.has_reaped_late,
            children_ran_s: self.children.ran().as_secs_f64(),
            io: self.io,
            start: self.start,
            has_io_limit: false,
            splices: counts.splices,
            polled: counts.polled.clone(),
            polled_beside: counts.polled_beside.clone(),
            tried: BTreeSet::new(),
            handled_signals: 0,
            ancestors: Vec::new(),
            unseen: Unseen::None,
        }
    }
}
