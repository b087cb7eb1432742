//! The record of a run of round trips.

use serde::{Deserialize, Serialize};

use super::curve::{self, Curve};
use super::histogram::{Counts, Latencies};
use super::spec::{ExchangeMode, Length, Naive};
use super::trial::Measured;
use crate::record::{Flag, NotRun, Record, TrialDeadlock};
use crate::rounds::{RUN_DELAY, TrialPlace, from_outside};
use crate::spec::{Channel, Waiting};
use pipespeed_base::size;
use pipespeed_stats::Estimate;

/// The usual delay between a wake-up and running, in seconds; a longer one is caused by
/// other processes.
const WAKE_UP_S: f64 = 5e-6;

/// A run.
pub type LatencyRecord = Record<LatencySettings, LatencyResults>;

/// What a run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyResults {
    /// The cases in the order of the options.
    pub cases: Vec<CaseRecord>,
}

impl LatencyRecord {
    /// Whether anything was measured; a deadlock is a result, too.
    pub fn has_results(&self) -> bool {
        let has_result = |case: &CaseRecord| !case.samples.is_empty() || case.deadlock.is_some();
        self.cases.iter().any(has_result)
    }

    /// The rate of the open loop per second, if it is one.
    pub fn rate(&self) -> Option<f64> {
        self.cases.iter().find_map(|case| match case.mode {
            ExchangeMode::Open(rate) => Some(rate),
            ExchangeMode::Closed | ExchangeMode::Naive(_) => None,
        })
    }
}

/// How it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySettings {
    /// The length of each sample.
    pub length: Length,
    /// How both processes wait.
    pub wait: Waiting,
    /// The sender's processor, and the echo's.
    pub cpus: [Option<usize>; 2],
    /// The relation of the two processors, in words.
    pub relation: String,
    /// The requested capacity of pipes.
    pub pipe_bytes: Option<usize>,
    /// The requested number of launches of each case.
    pub rounds: usize,
    /// The seed of the order of the cases.
    pub seed: u64,
}

/// A channel, a size and an exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// The channel.
    #[serde(with = "name")]
    pub channel: Channel,
    /// Bytes of a message.
    pub size: usize,
    /// The kind of exchange.
    pub mode: ExchangeMode,
    /// Why it was not measured: something is not allowed here, or the message is too
    /// long.
    pub not_run: Option<NotRun>,
    /// Its deadlock, if there was one.
    pub deadlock: Option<TrialDeadlock>,
    /// Launches that failed, the pilot's too.
    pub failed: usize,
    /// The trials, in the order of their rounds.
    pub samples: Vec<LatencySample>,
    /// The summary of all launches; null without any.
    pub summary: Option<LatencySummary>,
    /// The curve of the chart: percentages, each with the time in microseconds within
    /// which this percentage of round trips came back. It is the median over launches.
    pub curve: Curve,
    /// The histogram of all launches together: a launch with more round trips has more
    /// weight.
    pub histogram: Counts,
}

/// A channel is saved by its name.
mod name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::spec::Channel;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(channel: &Channel, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(channel.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Channel, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// One trial: a new pair of processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySample {
    /// The round, from 0.
    pub round: usize,
    /// The position within the round, from 0.
    pub position: usize,
    /// The number of round trips.
    pub count: u64,
    /// The median of the round trips, in microseconds.
    pub p50_us: f64,
    /// The 90th percentile, in microseconds.
    pub p90_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile, in microseconds.
    pub p999_us: f64,
    /// The longest round trip, in microseconds.
    pub max_us: f64,
    /// Round trips times the size, in MiB/s: each message counted once,
    /// though it travels twice.
    pub mib_per_s: f64,
    /// Round trips per second.
    pub per_s: f64,
    /// Messages that had not come back when an open loop gave up.
    pub unanswered: u64,
    /// Reads that returned only a part of a message; such round trips don't count in
    /// `per_s` and `mib_per_s`.
    pub short_reads: u64,
    /// The longer of the times that the two processes waited for a processor, as a
    /// share of the duration; null if the kernel does not show it.
    pub waited_share: Option<f64>,
    /// Its disturbances.
    pub flags: Vec<Flag>,
    /// Its times for the case's curve.
    #[serde(skip)]
    times_us: Vec<f64>,
}

impl LatencySample {
    /// Makes the sample of a trial's results. `apart`: whether each process had a
    /// processor of its own.
    pub fn new(place: TrialPlace, size: usize, measured: &Measured, apart: bool) -> LatencySample {
        let outcome = &measured.outcome;
        let latencies = Latencies::from_counts(&outcome.counts);
        let incomplete = outcome.unanswered + outcome.short_reads;
        let answered = latencies.len().saturating_sub(incomplete);
        let per_s = answered as f64 / outcome.seconds.max(1e-9);
        let longest = measured.waited_s.into_iter().flatten().reduce(f64::max);
        let woken_s = WAKE_UP_S * latencies.len() as f64;
        let waited = longest.is_some_and(|s| s - woken_s > RUN_DELAY * outcome.seconds);
        LatencySample {
            round: place.round,
            position: place.position,
            count: latencies.len(),
            p50_us: latencies.percentile_us(50.0),
            p90_us: latencies.percentile_us(90.0),
            p99_us: latencies.percentile_us(99.0),
            p999_us: latencies.percentile_us(99.9),
            max_us: latencies.max_us(),
            mib_per_s: per_s * size as f64 / f64::from(1 << 20),
            per_s,
            unanswered: outcome.unanswered,
            short_reads: outcome.short_reads,
            waited_share: longest.map(|s| s / outcome.seconds.max(1e-9)),
            flags: from_outside(&measured.noise, apart && waited),
            times_us: curve::times_us(&latencies),
        }
    }
}

/// The summary of a case: medians over its launches with their 95 % intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// See [`LatencySample`].
    pub p50_us: Estimate,
    /// See [`LatencySample`].
    pub p90_us: Estimate,
    /// See [`LatencySample`].
    pub p99_us: Estimate,
    /// See [`LatencySample`].
    pub p999_us: Estimate,
    /// The longest of all launches.
    pub max_us: f64,
    /// See [`LatencySample`].
    pub mib_per_s: Estimate,
    /// See [`LatencySample`].
    pub per_s: Estimate,
    /// The smallest number of round trips of a sample.
    pub min_count: u64,
    /// Messages of all launches that had not come back.
    pub unanswered: u64,
    /// Reads of all launches that returned only a part of a message.
    pub short_reads: u64,
}

impl CaseRecord {
    /// A case without launches.
    pub fn new(channel: Channel, size: usize, mode: ExchangeMode) -> Self {
        CaseRecord {
            channel,
            size,
            mode,
            not_run: None,
            deadlock: None,
            failed: 0,
            samples: Vec::new(),
            summary: None,
            curve: Curve::new(),
            histogram: Counts::new(),
        }
    }

    /// The channel, the size and the naive exchange, in words.
    pub fn name(&self) -> String {
        let size = size::exact(self.size as u64);
        let name = format!("{} of {size}", self.channel.name());
        match self.naive() {
            Some(naive) => format!("{name}, {naive}"),
            None => name,
        }
    }

    /// The naive exchange, if it is one.
    pub fn naive(&self) -> Option<Naive> {
        match self.mode {
            ExchangeMode::Closed | ExchangeMode::Open(_) => None,
            ExchangeMode::Naive(naive) => Some(naive),
        }
    }

    /// The description of its deadlock, if there was one.
    pub fn explain_deadlock(&self) -> Option<String> {
        let deadlock = self.deadlock.as_ref()?;
        Some(deadlock.explain(self.naive()?, self.size))
    }

    /// Adds a sample.
    pub fn add(&mut self, place: TrialPlace, measured: &Measured, apart: bool) {
        let outcome = &measured.outcome;
        self.samples
            .push(LatencySample::new(place, self.size, measured, apart));
        let mut all = Latencies::from_counts(&self.histogram);
        all.add(&outcome.counts);
        self.histogram = all.counts();
        self.summary = summary(&self.samples);
        let times: Vec<&[f64]> = self.samples.iter().map(|one| &*one.times_us).collect();
        let min_count = self.summary.map_or(0, |summary| summary.min_count);
        self.curve = curve::curve(&times, min_count);
    }
}

fn summary(samples: &[LatencySample]) -> Option<LatencySummary> {
    let estimate = |value: fn(&LatencySample) -> f64| {
        let values: Vec<f64> = samples.iter().map(value).collect();
        Estimate::new(&values, 0.95)
    };
    Some(LatencySummary {
        p50_us: estimate(|sample| sample.p50_us)?,
        p90_us: estimate(|sample| sample.p90_us)?,
        p99_us: estimate(|sample| sample.p99_us)?,
        p999_us: estimate(|sample| sample.p999_us)?,
        max_us: samples
            .iter()
            .map(|sample| sample.max_us)
            .fold(0.0, f64::max),
        mib_per_s: estimate(|sample| sample.mib_per_s)?,
        per_s: estimate(|sample| sample.per_s)?,
        min_count: samples.iter().map(|sample| sample.count).min()?,
        unanswered: samples.iter().map(|sample| sample.unanswered).sum(),
        short_reads: samples.iter().map(|sample| sample.short_reads).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::latency::spec::RoundTripOutcome;
    use pipespeed_host::NoiseDelta;

    fn place(round: usize) -> TrialPlace {
        TrialPlace { round, position: 0 }
    }

    fn measured(ns: &[u64], seconds: f64) -> Measured {
        Measured {
            outcome: RoundTripOutcome {
                counts: ns.iter().map(|ns| (*ns, 1)).collect(),
                seconds,
                ..RoundTripOutcome::default()
            },
            ..Measured::default()
        }
    }

    #[test]
    fn throughput_counts_each_complete_round_trip_once() {
        let mut measured = measured(&[1000; 10], 2.0);
        for (short_reads, per_s) in [(0, 5.0), (8, 1.0), (10, 0.0)] {
            measured.outcome.short_reads = short_reads;
            let sample = LatencySample::new(TrialPlace::default(), 1 << 20, &measured, true);
            let found = (sample.count, sample.per_s, sample.mib_per_s);
            assert_eq!(found, (10, per_s, per_s));
            assert_eq!((sample.waited_share, &*sample.flags), (None, &[][..]));
        }
    }

    #[test]
    fn a_case_has_medians_of_its_launches_and_the_longest_of_all() {
        let mut case = CaseRecord::new(Channel::PIPE, 8, ExchangeMode::Closed);
        for (round, us) in [10, 30, 20, 10, 30, 20, 500].into_iter().enumerate() {
            case.add(place(round), &measured(&[us * 1000, us * 1000], 1.0), true);
        }
        let summary = case.summary.unwrap();
        assert!((summary.p50_us.median - 20.0).abs() < 0.1, "{summary:?}");
        assert!(summary.p50_us.interval.is_some() && summary.max_us > 499.0);
        assert_eq!(case.histogram.iter().map(|(_, n)| n).sum::<u64>(), 14);
    }

    #[test]
    fn a_launch_that_made_more_trips_counts_as_much_as_the_others() {
        let mut case = CaseRecord::new(Channel::Ring, 8, ExchangeMode::Closed);
        case.add(place(0), &measured(&[210; 50_000], 1.0), true);
        for round in 1..3 {
            case.add(place(round), &measured(&[30_000; 1000], 1.0), true);
        }
        let estimate = case.summary.unwrap().p50_us.median;
        assert!((estimate - 30.0).abs() < 0.1, "{estimate}");
        assert_eq!(case.curve[0], (50.0, estimate));
        assert!(case.curve.iter().all(|(_, us)| (us - 30.0).abs() < 0.1));
        assert!(case.curve.last().unwrap().0 > 99.0);
    }

    #[test]
    fn a_launch_is_flagged_by_what_disturbed_either_process() {
        let mut disturbed = measured(&[1000], 2.0);
        disturbed.waited_s = [Some(0.01), Some(0.05)];
        disturbed.noise = NoiseDelta {
            steal_share: Some(0.02),
            ..NoiseDelta::default()
        };
        let sample = LatencySample::new(TrialPlace::default(), 8, &disturbed, true);
        assert_eq!(sample.waited_share, Some(0.025));
        assert_eq!(sample.flags, [Flag::Steal, Flag::RunDelay]);
        // On one processor each waits for the other.
        let together = LatencySample::new(TrialPlace::default(), 8, &disturbed, false);
        assert_eq!(together.flags, [Flag::Steal]);
    }
}
