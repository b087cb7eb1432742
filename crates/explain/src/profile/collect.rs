//! Profiles of cases: trials with sampling alternate with trials without.
//!
//! The interrupts of sampling slow the ends down, especially in a guest. So wall
//! time, running time and waiting are those of the trials without sampling; the
//! others only show how the running time is divided.

use super::account::ResourceUsage;
use super::gathered::{Chains, end_profile};
use super::perf::{PerfSampler, Sampling, SamplingError};
use super::record::{CaseProfile, Losses};
use pipespeed_host::{NoiseDelta, Warning, warnings};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::GIB;
use pipespeed_measure::spec::{Case, ProcessRole};
use pipespeed_measure::trial::{ProcessRunner, Runner};

/// Profiles a case in `trials` sampled trials, and as many without sampling. The
/// writer and the reader may run on `cpus`.
///
/// # Errors
/// Those of a trial. A refusal to sample is a
/// [`SamplingError`] in `TrialError::Failed`.
pub fn profile(
    runner: &mut ProcessRunner,
    case: &Case,
    sampling: &Sampling,
    cpus: &[Vec<usize>; 2],
    trials: usize,
) -> Result<CaseProfile, TrialError> {
    let mut tallies = [SampleCounts::default(), SampleCounts::default()];
    let mut noise = Vec::new();
    let mut losses = Losses::default();
    for _ in 0..trials {
        let mut probe = PerfSampler::new(sampling, &cpus.each_ref().map(Vec::as_slice));
        let trial = runner.run_watched(case, &mut |role, pid| {
            Ok(probe.add(role.index(), pid, &cpus[role.index()])?)
        })?;
        let outcomes = [&trial.writer, &trial.reader];
        let mut windows = [0..0, 0..0];
        for ((tally, window), outcome) in tallies.iter_mut().zip(&mut windows).zip(outcomes) {
            if let Some(outcome) = outcome {
                tally.usage_sampled.add(&outcome.counters);
                *window = outcome.window_ns.0..outcome.window_ns.1;
            }
        }
        let samples = probe.stop();
        let samples =
            samples.map_err(|error| TrialError::Failed(SamplingError::Failed(error).into()))?;
        for (time_ns, owner, sample) in samples {
            if windows[owner].contains(&time_ns) {
                tallies[owner].chains.add(sample.chain, sample.weight);
            }
        }
        losses.lost += probe.losses.lost;
        losses.throttled += probe.losses.throttled;
        let trial = runner.run(case)?;
        noise.push(trial.noise);
        for (tally, outcome) in tallies.iter_mut().zip([&trial.writer, &trial.reader]) {
            if let Some(outcome) = outcome {
                tally.usage_unsampled.add(&outcome.counters);
            }
        }
    }
    let sampled = rate(tallies.each_ref().map(|tally| &tally.usage_sampled));
    let unsampled = rate(tallies.each_ref().map(|tally| &tally.usage_unsampled));
    let ends = [ProcessRole::Writer, ProcessRole::Reader]
        .into_iter()
        .zip(tallies);
    let ends = ends.filter(|(_, tally)| tally.usage_unsampled.bytes > 0);
    Ok(CaseProfile {
        trials,
        gib_per_s: sampled,
        gib_per_s_unsampled: unsampled,
        losses,
        disturbances: disturbances(case, &noise),
        ends: ends
            .map(|(role, tally)| {
                let chains = tally.chains.named(&sampling.symbols);
                end_profile(
                    role.name(),
                    sampling.scope,
                    tally.usage_unsampled,
                    tally.usage_sampled,
                    chains,
                )
            })
            .collect(),
        ..CaseProfile::empty(case)
    })
}

/// The rate of all trials together in GiB/s, by the end that keeps the time: the reader, if
/// there is one; 0 without bytes. Costs are sums over trials as well, so they add up to the
/// time at this rate, which they would not at the median.
fn rate([writer, reader]: [&ResourceUsage; 2]) -> f64 {
    let timed = if reader.bytes > 0 { reader } else { writer };
    match timed.bytes {
        0 => 0.0,
        bytes => bytes as f64 / GIB / timed.wall_s,
    }
}

/// Warnings about what disturbed a case's trials.
pub(super) fn disturbances(case: &Case, noise: &[NoiseDelta]) -> Vec<Warning> {
    let found = warnings::of_noise(noise).into_iter();
    found
        .map(|warning| Warning::for_case(warning.kind, &case.name, warning.message))
        .collect()
}

/// Usage and samples of one end.
#[derive(Debug, Default)]
struct SampleCounts {
    usage_unsampled: ResourceUsage,
    usage_sampled: ResourceUsage,
    chains: Chains<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_readers_total_time() {
        // Two trials of a second: 1 GiB, then 3 GiB.
        let usage = |bytes: u64, wall_s| ResourceUsage {
            bytes,
            wall_s,
            ..ResourceUsage::default()
        };
        let (writer, reader) = (usage(4 << 30, 1.9), usage(4 << 30, 2.0));
        assert_eq!(rate([&writer, &reader]), 2.0);
        let alone = [&writer, &ResourceUsage::default()];
        assert_eq!(rate(alone), 4.0 / 1.9);
        assert_eq!(rate([&ResourceUsage::default(); 2]), 0.0);
        // What the heading derives from it is what the sum is of.
        let wall = crate::profile::account::PAGE / (rate([&writer, &reader]) * GIB) * 1e9;
        assert!((wall - reader.wall_ns_per_page()).abs() < 1e-9 * wall);
    }
}
