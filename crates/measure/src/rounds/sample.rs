//! Makes samples of trials, and summaries of samples.

use super::TrialPlace;
use crate::record::{EndCounters, Estimate, Flag, GIB, Sample, Summary};
use crate::trial::Trial;
use pipespeed_host::NoiseDelta;
use pipespeed_stats as stats;

/// Steal time above this share of a trial flags it.
const STEAL: f64 = 0.01;
/// Waiting for a processor above this share of a trial flags it.
pub(crate) const RUN_DELAY: f64 = 0.02;
/// A change of rate within a trial above this share flags it.
const DRIFT: f64 = 0.20;

/// The disturbances of a trial from outside. `waited`: whether an end waited for a
/// processor of its own.
pub(crate) fn from_outside(noise: &NoiseDelta, waited: bool) -> Vec<Flag> {
    let stolen = noise.steal_share.is_some_and(|share| share > STEAL);
    let throttled = noise.throttled_s.is_some_and(|seconds| seconds > 0.0);
    let found = [
        (Flag::Steal, stolen),
        (Flag::RunDelay, waited),
        (Flag::Throttled, throttled),
    ];
    let found = found.into_iter().filter(|(_, seen)| *seen);
    found.map(|(flag, _)| flag).collect()
}

/// The sample of a trial; `None` without a process.
pub(crate) fn sample_of(trial: &Trial, place: TrialPlace, own_processors: bool) -> Option<Sample> {
    // The reader keeps the time or, if there is none, the writer.
    let timed = trial.reader.as_ref().or(trial.writer.as_ref())?;
    let seconds = timed.counters.seconds;
    let bytes = timed.counters.bytes;
    let ends = || [&trial.writer, &trial.reader].into_iter().flatten();

    let waited = |end: &EndCounters| end.run_delay_s.is_some_and(|s| s > RUN_DELAY * end.seconds);
    let waited = own_processors && ends().any(|end| waited(&end.counters));
    let mut flags = from_outside(&trial.noise, waited);
    if stats::relative_drift(&timed.parts_gib_per_s).is_some_and(|drift| drift.abs() > DRIFT) {
        flags.push(Flag::Drift);
    }
    Some(Sample {
        round: place.round,
        position: place.position,
        bytes,
        seconds,
        gib_per_s: bytes as f64 / GIB / seconds,
        flags,
        parts_gib_per_s: timed.parts_gib_per_s.clone(),
        writer: trial.writer.as_ref().map(|end| end.counters.clone()),
        reader: trial.reader.as_ref().map(|end| end.counters.clone()),
    })
}

/// The summary of the samples of a case; `None` without samples.
pub(super) fn summary(
    samples: &[Sample],
    confidence: f64,
    message_bytes: Option<usize>,
) -> Option<Summary> {
    let rates: Vec<f64> = samples.iter().map(|sample| sample.gib_per_s).collect();
    let unflagged: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.flags.is_empty())
        .map(|sample| sample.gib_per_s)
        .collect();
    let interval = stats::summary_interval(&rates, confidence);
    // Each per-GiB figure is the median over the trials of the sum of both ends.
    let per_gib = |get: fn(&EndCounters) -> f64| {
        let each: Vec<f64> = samples
            .iter()
            .map(|sample| {
                [&sample.writer, &sample.reader]
                    .into_iter()
                    .flatten()
                    .map(|end| get(end) / (end.bytes as f64 / GIB))
                    .sum()
            })
            .collect();
        stats::median(&each)
    };
    let kib_per_call: Vec<f64> = samples
        .iter()
        .filter_map(|sample| {
            [&sample.writer, &sample.reader]
                .into_iter()
                .flatten()
                .filter(|end| end.moving_calls > 0)
                .map(|end| end.bytes as f64 / end.moving_calls as f64 / 1024.0)
                .reduce(f64::min)
        })
        .collect();
    let cpu_s_per_gib = per_gib(|end| end.cpu_s);
    Some(Summary {
        gib_per_s: Estimate {
            median: stats::median(&rates)?,
            interval,
        },
        flagged: rates.len() - unflagged.len(),
        median_unflagged: stats::median(&unflagged),
        cpu_s_per_gib,
        cpu_us_per_message: cpu_s_per_gib
            .zip(message_bytes)
            .map(|(seconds, bytes)| seconds * 1e6 * bytes as f64 / GIB),
        switches_per_gib: per_gib(|end| (end.voluntary_switches + end.involuntary_switches) as f64),
        syscalls_per_gib: per_gib(|end| end.syscalls as f64),
        would_blocks_per_gib: per_gib(|end| end.would_blocks as f64),
        kib_per_call: stats::median(&kib_per_call),
    })
}
