//! What a process did, by how its samples are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{OnLink, Shares};
use crate::graph::LinkSide;
use crate::proc::LinkId;
use crate::wait::{BlockedOn, LinkWait, Outside, ThreadState};
/// A thread that runs or is ready to for this share never sleeps.
const MIN_ALWAYS_READY: f64 = 0.9;
/// Of threads that hand over to each other, fewer are awake at once.
const MIN_TOGETHER: f64 = 2.0;
/// The same of threads that come and go, between which others work alone.
const MIN_TOGETHER_FOR_A_TIME: f64 = 1.5;
/// Of a process that never slept in a sample, this share of the time counts as what it did for the
/// rest.
const MAX_UNEXPLAINED: f64 = 0.1;
/// Where the times of its threads leave more than this open, the share for which a process ran is an estimate.
const MAX_KNOWN: f64 = 0.15;

/// What a process did at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SampledActivity {
    /// A thread ran or was ready to.
    Awake,
    Disk,
    Blocked,
    Starved,
    Elsewhere(Outside),
    Stopped,
}

/// What a process does if its threads are in these states, that of the one that ran last first.
pub(crate) fn activity(threads: &[&ThreadState]) -> SampledActivity {
    let any = |wanted: &ThreadState| threads.contains(&wanted);
    let waits = || {
        threads.iter().filter_map(|state| match state {
            ThreadState::Waiting(wait) => Some(wait),
            _ => None,
        })
    };
    let on_side = |wanted: LinkSide| {
        waits().any(|wait| match wait {
            BlockedOn::Pipes { any_of, .. } => any_of.iter().any(|on| on.side == wanted),
            _ => false,
        })
    };
    if any(&ThreadState::Working) {
        SampledActivity::Awake
    } else if any(&ThreadState::Disk) {
        SampledActivity::Disk
    } else if any(&ThreadState::Stopped) {
        SampledActivity::Stopped
    } else if on_side(LinkSide::Room) {
        SampledActivity::Blocked
    } else if on_side(LinkSide::Input) {
        SampledActivity::Starved
    } else {
        let outside = waits().map(|wait| match wait {
            BlockedOn::Outside(outside) => *outside,
            BlockedOn::Child(_) => Outside::Child,
            BlockedOn::Thread => Outside::Lock,
            BlockedOn::FifoPeer { .. } => Outside::FifoPeer,
            _ => Outside::Other,
        });
        // A thread that waits for another one says least. Runtimes have threads that do so for a time.
        let first = outside.min_by_key(|outside| match outside {
            Outside::Lock => 3,
            Outside::LockOrTimer => 2,
            // Mostly another thread wakes it.
            Outside::Event => 1,
            _ => 0,
        });
        SampledActivity::Elsewhere(first.unwrap_or(Outside::Other))
    }
}

/// Numbers of samples, by what the process did.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StateCounts {
    pub(crate) samples: u32,
    pub(crate) awake: u32,
    /// How many of its threads were awake in these samples, added up; 0 if not known.
    pub(crate) awake_threads: u32,
    /// Running time of threads that were awake with others, by the processor on which they were seen.
    pub(crate) ran_on: BTreeMap<usize, Duration>,
    pub(crate) disk: u32,
    pub(crate) blocked: u32,
    pub(crate) starved: u32,
    pub(crate) stopped: u32,
    pub(crate) outside: BTreeMap<Outside, u32>,
    pub(crate) on: BTreeMap<(LinkId, LinkSide), u32>,
    /// Whether it was seen to move data by calls that don't count as bytes.
    pub(crate) splices: bool,
    /// Whether the number of its descriptors has changed: it opens files for a moment, through which bytes
    /// may go.
    pub(crate) opens_files: bool,
    /// The ends for which a thread waited among several events.
    pub(crate) polled: BTreeSet<(LinkId, LinkSide)>,
    /// What else would have ended waits for input from a link, as last seen.
    pub(crate) polled_beside: BTreeMap<LinkId, Outside>,
}

impl StateCounts {
    /// Adds a sample of threads in these states. Returns what they did together.
    pub(crate) fn add(&mut self, threads: &[&ThreadState]) -> SampledActivity {
        self.samples += 1;
        let activity = activity(threads);
        match activity {
            SampledActivity::Awake => self.awake += 1,
            SampledActivity::Disk => self.disk += 1,
            SampledActivity::Blocked => self.blocked += 1,
            SampledActivity::Starved => self.starved += 1,
            SampledActivity::Stopped => self.stopped += 1,
            SampledActivity::Elsewhere(outside) => *self.outside.entry(outside).or_default() += 1,
        }
        let mut on: BTreeSet<(LinkId, LinkSide)> = BTreeSet::new();
        for state in threads {
            if let ThreadState::Waiting(BlockedOn::Pipes { any_of, or }) = state {
                let are_known = any_of.iter().all(|on| on.fd.is_some());
                let ends = any_of.iter().map(|wait: &LinkWait| (wait.pipe, wait.side));
                if or.is_some() || any_of.len() > 1 && are_known {
                    self.polled.extend(ends.clone());
                }
                if let Some(or) = or {
                    let inputs = ends.clone().filter(|(_, side)| *side == LinkSide::Input);
                    self.polled_beside
                        .extend(inputs.map(|(link, _)| (link, *or)));
                }
                on.extend(ends);
            }
        }
        for one in on {
            *self.on.entry(one).or_default() += 1;
        }
        activity
    }

    /// The number of samples in which it did this.
    pub(crate) fn count_of(&self, activity: SampledActivity) -> u32 {
        match activity {
            SampledActivity::Awake => self.awake,
            SampledActivity::Disk => self.disk,
            SampledActivity::Blocked => self.blocked,
            SampledActivity::Starved => self.starved,
            SampledActivity::Stopped => self.stopped,
            SampledActivity::Elsewhere(outside) => self.outside.get(&outside).copied().unwrap_or(0),
        }
    }

    /// What it did most of the time in which it did not run.
    pub(crate) fn main_wait(&self) -> Option<SampledActivity> {
        let known = [
            (SampledActivity::Disk, self.disk),
            (SampledActivity::Blocked, self.blocked),
            (SampledActivity::Starved, self.starved),
            (SampledActivity::Stopped, self.stopped),
        ];
        let outside = self.outside.iter();
        let outside =
            outside.map(|(outside, count)| (SampledActivity::Elsewhere(*outside), *count));
        let all = known.into_iter().chain(outside);
        let most = all
            .filter(|(_, count)| *count > 0)
            .max_by_key(|(_, count)| *count);
        most.map(|(activity, _)| activity)
    }

    /// Adds those of another time.
    pub(crate) fn merge(&mut self, other: &StateCounts) {
        self.samples += other.samples;
        self.awake += other.awake;
        self.awake_threads += other.awake_threads;
        for (processor, ran) in &other.ran_on {
            *self.ran_on.entry(*processor).or_default() += *ran;
        }
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
        self.opens_files |= other.opens_files;
        self.polled.extend(&other.polled);
        self.polled_beside.extend(&other.polled_beside);
    }

    /// How many threads were awake at once, of the samples in which one was; at least 1.
    pub(crate) fn awake_at_once(&self) -> f64 {
        (f64::from(self.awake_threads) / f64::from(self.awake.max(1))).max(1.0)
    }

    /// For how long at least one thread ran. Of threads that wait for a processor while others run, the
    /// times alone don't tell whether they ran at once.
    fn any_ran(&self, awake: Awake) -> f64 {
        let awake_at_once = f64::from(self.awake_threads) / f64::from(self.awake.max(1));
        if let Some(stopped) = awake.stopped
            && awake_at_once >= 1.0
        {
            let least = (awake.ran / awake_at_once).max(awake.least_ran);
            return least.max(self.any_ran_until(stopped, awake.ran)).min(1.0);
        }
        if awake_at_once < 1.0 {
            return awake.any_ran.min(1.0);
        }
        let running = awake.ran / (awake.ran + awake.queued).max(f64::MIN_POSITIVE);
        let in_turn = awake.ran / (awake_at_once * running).max(1.0);
        // Two threads never run at once on one processor, and whether one runs there does not depend on the other
        // processors. On which processor threads ran that have ended is not known.
        let come_and_go = awake.ended > awake.ran / 2.0;
        let apart = if come_and_go {
            let processors = (awake.ran / awake.least_ran.max(f64::MIN_POSITIVE)).clamp(1.0, 1e3);
            1.0 - (1.0 - awake.least_ran).powf(processors)
        } else {
            self.any_ran_until(0.0, awake.ran)
        };
        // Threads that hand over to each other run by turns: where they sleep, few are awake at once.
        let together = if come_and_go {
            MIN_TOGETHER_FOR_A_TIME
        } else {
            MIN_TOGETHER
        };
        let hand_over = if awake.longest < MIN_ALWAYS_READY {
            (2.0 * (together - awake_at_once)).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let estimate = apart + (in_turn - apart) * hand_over;
        awake.any_ran.max(estimate).min(1.0)
    }

    /// For how long at least one thread ran that all ran for `ran`, where a quota stops them. Until then
    /// those that are ready run, unless another process keeps their processor.
    fn any_ran_until(&self, stopped: f64, ran: f64) -> f64 {
        let sum: f64 = self.ran_on.values().map(Duration::as_secs_f64).sum();
        let each = self.ran_on.values();
        let shares = each.map(|on| ran * on.as_secs_f64() / sum.max(f64::MIN_POSITIVE));
        let most = shares.clone().fold(0.0, f64::max);
        let until = 1.0 - stopped / self.ran_on.len().max(1) as f64;
        let until = until.max(most).max(f64::MIN_POSITIVE);
        let none_ran: f64 = shares.map(|share| 1.0 - share / until).product();
        until * (1.0 - none_ran)
    }

    /// Divides the time of `samples` among the states. What a thread did while it was awake is
    /// known from the scheduler, which counts all the time; the samples divide the rest. They can't
    /// do more: a thread that is just going to sleep or to wake up looks awake, which makes up to a
    /// quarter of the samples of one that sleeps 10,000 times a second.
    pub(crate) fn divide(&self, samples: u32, awake: Awake) -> Division {
        let share = |count: u32| f64::from(count) / f64::from(samples.max(1));
        let sampled = share(self.awake);
        let asleep = share(self.samples - self.awake);
        let seen = sampled + uncertainty(sampled, samples);
        let any_ran = self.any_ran(awake);
        // Children may be gone in a sample, and have run since the last one.
        let least = awake.longest.max(awake.least_ran).max(any_ran.min(seen));
        let all = (sampled + asleep).max(least);
        let sum = awake.ran + awake.queued;
        // Threads may be awake at once, or one after the other.
        let any = sampled.clamp(least, sum.max(least).min(all));
        let (mut runs, mut queued) = if sum == 0.0 {
            (sampled, 0.0)
        } else {
            let least = awake.least_ran.max(any_ran.min(any));
            let runs = (any * awake.ran / sum).max(least);
            (runs, any - runs)
        };
        let rest = all - runs - queued;
        let scale = if asleep > 0.0 { rest / asleep } else { 0.0 };
        // More than that is not known, as with too few samples: it may have slept between them.
        if asleep == 0.0 && rest <= MAX_UNEXPLAINED && runs + queued > 0.0 {
            let factor = all / (runs + queued);
            (runs, queued) = (runs * factor, queued * factor);
        }
        let few = awake.longest_ran.max(awake.least_ran).min(runs);
        let many = awake.ran.min(1.0).max(runs);
        Division {
            runs,
            queued,
            runs_between: (many - few > MAX_KNOWN).then_some([few, many]),
            scale: scale / f64::from(samples.max(1)),
        }
    }
}

/// The error of a share of time that is estimated from samples: two standard errors, and one sample.
pub(super) fn uncertainty(share: f64, samples: u32) -> f64 {
    let count = f64::from(samples.max(1));
    2.0 * (share * (1.0 - share).max(0.0) / count).sqrt() + 1.0 / count
}

/// How long a process was awake, as shares of the time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Awake {
    /// Running time, summed over the threads.
    pub(crate) ran: f64,
    /// Time of being ready to run while others used the processors, summed over the threads.
    pub(crate) queued: f64,
    /// The time for which the thread was awake that was so for longest: at least this share of the
    /// time one was.
    pub(crate) longest: f64,
    /// The same without the time in which it was only ready to.
    pub(crate) longest_ran: f64,
    /// The time for which one ran at least: no more run at once than there are processors.
    pub(crate) least_ran: f64,
    /// The time for which one ran, if their times have nothing to do with each other. Of a process with
    /// threads that wait for a processor while another one runs, the sums say less.
    pub(crate) any_ran: f64,
    /// The running time of the threads that have ended.
    pub(crate) ended: f64,
    /// The time for which a quota stopped its processors, summed over these; `None` if it rarely did.
    pub(crate) stopped: Option<f64>,
}

/// For how long one thread ran at least, if all together ran for `ran` on this number of processors,
/// which is 0 if not known.
pub(crate) fn least_ran(ran: f64, processors: usize) -> f64 {
    match processors {
        0 => 0.0,
        count => (ran / count as f64).min(1.0),
    }
}

/// How the time of a process divides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    runs: f64,
    queued: f64,
    /// For how long it ran at least and at most, if that is not known well.
    pub(crate) runs_between: Option<[f64; 2]>,
    /// The share of the time for which each sample counts in which it slept.
    scale: f64,
}

impl Division {
    /// The share of the time for this number of samples in which it slept.
    pub(crate) fn share(&self, count: u32) -> f64 {
        f64::from(count) * self.scale
    }

    /// The shares of all states.
    pub(crate) fn shares(&self, counts: &StateCounts) -> Shares {
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
    pub(crate) fn outside(&self, counts: &StateCounts) -> BTreeMap<Outside, f64> {
        let outside = counts.outside.iter();
        outside.map(|(key, n)| (*key, self.share(*n))).collect()
    }

    /// The shares of waits on pipes.
    pub(crate) fn on(&self, counts: &StateCounts) -> Vec<OnLink> {
        let on = counts.on.iter();
        on.map(|((pipe, side), count)| OnLink {
            pipe: *pipe,
            side: *side,
            share: self.share(*count),
            thread_share: f64::from(*count) / f64::from(counts.samples.max(1)),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
