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
mod tests {
    use super::*;
    use crate::fixtures::{on_input, on_room};

    /// Running time on two processors, in milliseconds.
    fn ran_on(milliseconds: [u64; 2]) -> BTreeMap<usize, Duration> {
        let each = milliseconds.map(Duration::from_millis);
        each.into_iter().enumerate().collect()
    }

    #[test]
    fn any_working_thread_counts_and_room_comes_before_input() {
        let lock = || ThreadState::Waiting(BlockedOn::Thread);
        let outside = |outside| ThreadState::Waiting(BlockedOn::Outside(outside));
        let socket = || outside(Outside::Socket);
        for (threads, expected) in [
            (
                vec![on_input(1), ThreadState::Working],
                SampledActivity::Awake,
            ),
            (vec![on_room(1), ThreadState::Disk], SampledActivity::Disk),
            (vec![on_input(1), on_room(2)], SampledActivity::Blocked),
            (vec![lock(), on_input(1)], SampledActivity::Starved),
            (
                vec![lock(), socket()],
                SampledActivity::Elsewhere(Outside::Socket),
            ),
            // A server's thread that pauses ran later than the one that accepts.
            (
                vec![outside(Outside::Timer), socket()],
                SampledActivity::Elsewhere(Outside::Timer),
            ),
            // Node's main thread, and one that keeps its timers.
            (
                vec![outside(Outside::Event), outside(Outside::EventOrTimer)],
                SampledActivity::Elsewhere(Outside::EventOrTimer),
            ),
            // A virtual machine's thread that looks around by the clock.
            (
                vec![outside(Outside::LockOrTimer), socket()],
                SampledActivity::Elsewhere(Outside::Socket),
            ),
            (vec![ThreadState::Stopped], SampledActivity::Stopped),
        ] {
            let threads: Vec<&ThreadState> = threads.iter().collect();
            assert_eq!(activity(&threads), expected, "{threads:?}");
        }
    }

    #[test]
    fn threads_of_which_one_runs_at_a_time_run_as_long_as_all_of_them() {
        let mut counts = StateCounts {
            samples: 40,
            awake: 38,
            awake_threads: 40,
            starved: 2,
            ..StateCounts::default()
        };
        // Four threads of a pool, by turns.
        let awake = Awake {
            ran: 0.9,
            queued: 0.25,
            longest: 0.3,
            least_ran: 0.45,
            any_ran: 0.64,
            ..Awake::default()
        };
        let runs = |counts: &StateCounts| counts.divide(counts.samples, awake).shares(counts).runs;
        assert!(runs(&counts) > 0.84, "{}", runs(&counts));
        counts.awake_threads = 0;
        assert!(runs(&counts) < 0.8);
    }

    #[test]
    fn threads_that_hand_over_beside_other_load_run_as_long_as_all_of_them() {
        // Two threads with semaphores, on two processors with a busy loop: never both at work.
        let counts = StateCounts {
            samples: 40,
            awake: 39,
            awake_threads: 58,
            ran_on: ran_on([500, 500]),
            starved: 1,
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 0.95,
            queued: 0.52,
            longest: 0.75,
            least_ran: 0.47,
            any_ran: 0.72,
            ..Awake::default()
        };
        let shares = |awake| counts.divide(counts.samples, awake).shares(&counts);
        let handed_over = shares(awake);
        assert!(handed_over.runs > 0.9, "{handed_over:?}");
        // Two of a pool, beside two loops: one runs for 75 to 100 %.
        let pool = shares(Awake {
            ran: 1.0,
            queued: 1.0,
            longest: 1.0,
            least_ran: 0.5,
            any_ran: 0.75,
            ..Awake::default()
        });
        assert!((0.74..0.92).contains(&pool.runs), "{pool:?}");
    }

    /// Go with four workers, beside two loops: by traces of the scheduler one of them ran for 78 % of the time.
    #[test]
    fn threads_that_are_awake_together_do_not_take_turns() {
        let counts = StateCounts {
            samples: 40,
            awake: 40,
            awake_threads: 92,
            ran_on: ran_on([600, 450]),
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 1.05,
            queued: 1.2,
            longest: 0.6,
            least_ran: 0.52,
            any_ran: 0.74,
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!((0.68..0.88).contains(&shares.runs), "{shares:?}");
    }

    /// xz -T2 beside one loop: by traces of the scheduler one of both ran for 99 % of the time.
    #[test]
    fn threads_on_one_processor_run_by_turns() {
        let runs = |milliseconds| {
            let counts = StateCounts {
                samples: 40,
                awake: 40,
                awake_threads: 80,
                ran_on: ran_on(milliseconds),
                ..StateCounts::default()
            };
            let awake = Awake {
                ran: 0.985,
                queued: 1.0,
                longest: 1.0,
                least_ran: 0.49,
                any_ran: 0.75,
                ..Awake::default()
            };
            counts.divide(counts.samples, awake).shares(&counts).runs
        };
        let (one, both) = (runs([12, 970]), runs([490, 490]));
        assert!(one > 0.95, "{one}");
        assert!(both < 0.9, "{both}");
    }

    /// By traces of the scheduler; the machine had other load.
    #[test]
    fn threads_on_several_processors_run_apart() {
        for (milliseconds, (ran, queued), traced) in [
            // pigz -p4, beside a build, a loop, two loops.
            ([1401, 1046], (1.238, 2.692), 0.835),
            ([123, 1499], (0.83, 3.076), 0.767),
            ([1060, 612], (1.011, 2.529), 0.737),
            // zstd -T4 likewise.
            ([868, 890], (0.911, 3.297), 0.703),
            ([116, 1833], (0.983, 3.301), 0.923),
            ([412, 908], (0.637, 3.425), 0.542),
        ] {
            let counts = StateCounts {
                samples: 40,
                awake: 40,
                awake_threads: 150,
                ran_on: ran_on(milliseconds),
                ..StateCounts::default()
            };
            let awake = Awake {
                ran,
                queued,
                longest: 0.95,
                least_ran: ran / 2.0,
                any_ran: 0.4,
                ..Awake::default()
            };
            let runs = counts.divide(counts.samples, awake).shares(&counts).runs;
            assert!((runs - traced).abs() < 0.06, "{traced} {runs}");
        }
    }

    /// samtools sort -@2 starts two threads whenever its memory is full: by traces of the scheduler.
    #[test]
    fn threads_that_come_and_go_run_side_by_side() {
        for (ran, queued, (awake, awake_threads), traced) in [
            (0.844, 0.557, (26, 43), 0.565),
            (0.892, 0.398, (31, 42), 0.618),
            (0.924, 0.433, (22, 38), 0.629),
            (0.869, 0.443, (30, 46), 0.571),
        ] {
            let counts = StateCounts {
                samples: 31,
                awake,
                awake_threads,
                ..StateCounts::default()
            };
            let awake = Awake {
                ran,
                queued,
                longest: 0.43,
                least_ran: ran / 2.0,
                any_ran: 0.6,
                ended: 0.6,
                ..Awake::default()
            };
            let runs = counts.any_ran(awake);
            assert!((runs - traced).abs() < 0.15, "{traced} {runs}");
        }
    }

    /// pigz -p2 at a quota of 0.6 processors: by traces of the scheduler one of both ran for 31.5 % of the time.
    #[test]
    fn threads_that_a_quota_stops_run_at_once_until_then() {
        let ran = Duration::from_millis(600);
        let counts = StateCounts {
            samples: 40,
            awake: 40,
            awake_threads: 80,
            ran_on: [(0, ran), (1, ran)].into(),
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 0.6,
            queued: 1.4,
            longest: 1.0,
            least_ran: 0.3,
            any_ran: 0.51,
            stopped: Some(1.4),
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!((shares.runs - 0.3).abs() < 0.05, "{shares:?}");
        assert!((shares.sum() - 1.0).abs() < 0.01, "{shares:?}");
    }

    /// Four threads at a quota of 0.8 processors, beside a loop that keeps the second one for most of the time.
    #[test]
    fn threads_that_a_quota_stops_run_by_turns_beside_other_load() {
        let milliseconds = Duration::from_millis;
        for (first, second, stopped, expected) in [
            (1500, 100, 0.3, 0.75..0.81),
            (1100, 500, 0.8, 0.55..0.65),
            // Other processes use both.
            (800, 800, 0.2, 0.6..0.68),
        ] {
            let counts = StateCounts {
                samples: 40,
                awake: 40,
                awake_threads: 150,
                ran_on: [(0, milliseconds(first)), (1, milliseconds(second))].into(),
                ..StateCounts::default()
            };
            let awake = Awake {
                ran: 0.8,
                queued: 2.9,
                longest: 1.0,
                least_ran: 0.4,
                any_ran: 0.59,
                stopped: Some(stopped),
                ..Awake::default()
            };
            let shares = counts.divide(counts.samples, awake).shares(&counts);
            assert!(expected.contains(&shares.runs), "{shares:?}");
        }
    }

    #[test]
    fn samples_that_see_too_little_do_not_reduce_what_the_scheduler_counts() {
        // The observer takes the processor of who feeds the process.
        let counts = StateCounts {
            samples: 28,
            awake: 3,
            blocked: 25,
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 0.54,
            queued: 0.44,
            longest: 0.98,
            least_ran: 0.27,
            any_ran: 0.54,
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!((shares.queued - 0.44).abs() < 0.01, "{shares:?}");
    }

    #[test]
    fn what_the_scheduler_counts_as_running_is_not_less_for_samples() {
        // The samples saw it asleep for most of the time.
        let counts = StateCounts {
            samples: 40,
            awake: 8,
            starved: 32,
            ..StateCounts::default()
        };
        for (ran, queued) in [(0.96, 0.0), (0.72, 0.2)] {
            let awake = Awake {
                ran,
                queued,
                longest: ran + queued,
                least_ran: ran / 2.0,
                any_ran: ran,
                ..Awake::default()
            };
            let shares = counts.divide(counts.samples, awake).shares(&counts);
            assert!((shares.runs - ran).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn threads_that_wait_for_a_processor_hide_none_that_runs() {
        let counts = StateCounts {
            samples: 100,
            awake: 100,
            ..StateCounts::default()
        };
        // One thread runs for half of the time, and three wait beside it.
        let awake = Awake {
            ran: 0.55,
            queued: 1.25,
            longest: 0.9,
            least_ran: 0.275,
            any_ran: 0.52,
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!((shares.runs - 0.52).abs() < 0.01, "{shares:?}");
        assert!((shares.sum() - 1.0).abs() < 0.01, "{shares:?}");
    }
}
