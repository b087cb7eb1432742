//! What the children of a process did during some time, and what that says.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sample::Children;
use crate::sample::counts::{Awake, StateCounts, least_ran, uncertainty};
use crate::sample::limits::ProcessorLimits;

/// A name is left out if those with it did less than those with the first one by this factor: a
/// child has its parent's name until it becomes another program.
const MIN_NAMED: f64 = 3.0;
/// Where all processors were busy for this share of the time, children that were ready and did not run waited.
const MIN_CONTENDED: f64 = 0.9;
/// As many children at once are several.
const MIN_SEVERAL: f64 = 1.5;

/// What they did during some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ChildSlice {
    pub(super) counts: StateCounts,
    /// Those that were seen last.
    pub(super) awaited: Vec<i32>,
    /// Samples in which no child was there that had been there in the one before.
    pub(super) replaced: u32,
    pub(super) names: BTreeMap<String, NamedChildren>,
    /// Samples in which a child was awake, and how many were, added up.
    pub(super) awake: (u32, u32),
    /// Their processor time.
    pub(super) ran: Duration,
}

/// What children with one name did, as far as they were seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NamedChildren {
    /// How often one decided what they did together.
    pub(super) decided: u32,
    /// How often one was seen below a child that waited for it.
    pub(super) below: u32,
    /// What each did by itself.
    pub(super) each: StateCounts,
    pub(super) ran: Duration,
    pub(super) delayed: Duration,
}

impl ChildSlice {
    /// Their processor time.
    pub(crate) fn ran(&self) -> Duration {
        self.ran
    }

    /// Whether one of them ran, or waited for a disk.
    pub(crate) fn has_run(&self) -> bool {
        self.counts.awake > 0 || self.counts.disk > 0 || !self.ran.is_zero()
    }

    /// Adds those of an earlier time.
    pub(crate) fn add(&mut self, other: &ChildSlice) {
        self.counts.merge(&other.counts);
        self.awaited.clone_from(&other.awaited);
        self.replaced += other.replaced;
        for (name, theirs) in &other.names {
            let named = self.names.entry(name.clone()).or_default();
            named.decided += theirs.decided;
            named.below += theirs.below;
            named.each.merge(&theirs.each);
            named.ran += theirs.ran;
            named.delayed += theirs.delayed;
        }
        self.awake.0 += other.awake.0;
        self.awake.1 += other.awake.1;
        self.ran += other.ran;
    }

    /// What they did while their parent waited for them, of which there are this many samples from
    /// this time. `None` if no child was seen.
    pub(crate) fn observed(
        &self,
        samples: u32,
        counted: Duration,
        limits: &ProcessorLimits,
    ) -> Option<Children> {
        if self.counts.samples == 0 || samples == 0 || counted.is_zero() {
            return None;
        }
        let ran = self.ran.as_secs_f64() / counted.as_secs_f64();
        // How many of them were awake at once.
        let (times, awake) = self.awake;
        let together = f64::from(awake.max(1)) / f64::from(times.max(1));
        let mut queued = self.queued(ran, samples);
        if limits.is_throttled() || limits.contention >= MIN_CONTENDED {
            // Of most that are stopped, and end soon after, the wait was not seen to end.
            let seen = f64::from(self.counts.awake) / f64::from(samples);
            queued = queued.max(seen - uncertainty(seen, samples) - ran);
        }
        let queued = queued.clamp(0.0, limits.contention * together);
        let awake = Awake {
            ended: 0.0,
            ran,
            queued,
            longest: ((ran + queued) / together).min(1.0),
            longest_ran: ran,
            // Of more than there are processors, each runs for less.
            least_ran: least_ran(ran, limits.processors).min(ran / together),
            any_ran: 0.0,
            stopped: None,
        };
        // Several that mostly sleep, each by itself, are not what the one does that is awake.
        let each = sum_of_each(self.names.values());
        let alive = |each: &StateCounts| f64::from(each.samples) / f64::from(self.counts.samples);
        let is_each = alive(&each) >= MIN_SEVERAL && 2 * each.awake < each.samples;
        let main_wait = each.main_wait().filter(|_| is_each);
        let (names, counts, samples, awake) = if let Some(wait) = main_wait {
            let names = self.main_names(|named| f64::from(named.each.count_of(wait)));
            let main = || names.iter().filter_map(|name| self.names.get(name));
            let counts = sum_of_each(main());
            let alive = alive(&counts);
            let part = self.part_of(main());
            let (ran, queued) = (ran * part / alive, queued * part / alive);
            let of_each = Awake {
                ended: 0.0,
                ran,
                queued,
                longest: (ran + queued).min(1.0),
                longest_ran: ran,
                least_ran: 0.0,
                any_ran: 0.0,
                stopped: None,
            };
            let samples = (f64::from(samples) * alive).round() as u32;
            (names, counts, samples, of_each)
        } else {
            (Vec::new(), self.counts.clone(), samples, awake)
        };
        let division = counts.divide(samples, awake);
        let shares = division.shares(&counts);
        let is_awake = shares.runs + shares.queued >= shares.sum() / 2.0;
        let names = match main_wait {
            Some(_) => names,
            None if is_awake => self.main_names(|named| named.busy().as_secs_f64()),
            None => self.main_names(|named| f64::from(named.decided)),
        };
        let are_below = |name: &String| self.names.get(name).is_some_and(|named| named.below > 0);
        Some(Children {
            are_descendants: names.iter().any(are_below),
            names,
            awaited: self.awaited.clone(),
            shares,
            outside: division.outside(&counts),
            on: division.on(&counts),
            // What a child did before it was waited for counts when it ends.
            processors: match limits.processors {
                0 => ran,
                all => ran.min(all as f64),
            },
            are_short: 2 * self.replaced >= self.counts.samples,
        })
    }

    /// How long they were ready to run without running, as a share of the time, if they ran for the
    /// share `ran`. It is known of those that were seen.
    fn queued(&self, ran: f64, samples: u32) -> f64 {
        let (mut seen, mut delayed) = (Duration::ZERO, Duration::ZERO);
        for named in self.names.values() {
            seen += named.ran;
            delayed += named.delayed;
        }
        if seen.is_zero() {
            // They seem to be awake more often than they are.
            f64::from(self.counts.awake) / f64::from(samples) - ran
        } else {
            ran * delayed.as_secs_f64() / seen.as_secs_f64()
        }
    }

    /// The share of what was seen of all that these were ready to run, or ran. 1 if nothing was.
    fn part_of<'a>(&self, some: impl Iterator<Item = &'a NamedChildren>) -> f64 {
        let all: Duration = self.names.values().map(NamedChildren::busy).sum();
        let some: Duration = some.map(NamedChildren::busy).sum();
        if all.is_zero() {
            1.0
        } else {
            some.as_secs_f64() / all.as_secs_f64()
        }
    }

    /// The names of those that did most of it.
    fn main_names(&self, weight: impl Fn(&NamedChildren) -> f64) -> Vec<String> {
        let mut names: Vec<(&String, f64)> = self
            .names
            .iter()
            .map(|(name, named)| (name, weight(named)))
            .collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let most = names.first().map_or(0.0, |(_, weight)| *weight);
        names.retain(|(_, weight)| *weight > 0.0 && weight * MIN_NAMED >= most);
        names.into_iter().map(|(name, _)| name.clone()).collect()
    }
}

impl NamedChildren {
    /// The time for which they ran or were ready to.
    fn busy(&self) -> Duration {
        self.ran + self.delayed
    }
}

/// What all of these did, each by itself.
fn sum_of_each<'a>(all: impl Iterator<Item = &'a NamedChildren>) -> StateCounts {
    let mut sum = StateCounts::default();
    for named in all {
        sum.merge(&named.each);
    }
    sum
}
