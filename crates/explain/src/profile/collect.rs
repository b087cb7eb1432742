//! Profiling a case: sampled trials, and as many between them that are not.
//!
//! The interrupts that take samples slow the ends down, and more so on a guest.
//! So wall time, running time and waiting are those of the trials that nobody
//! sampled; the others only say how running time is shared out.

use super::account::Usage;
use super::gathered::{Chains, end_profile};
use super::groups::Table;
use super::perf::{Event, Probe, Sample, Take, ring_bytes};
use super::record::{CaseProfile, EndProfile};
use super::refusal::Facts;
use super::symbols::Symbols;
use pipespeed_host::{NoiseDelta, Warning, warnings};
use pipespeed_measure::case::Case;
use pipespeed_measure::record::GIB;
use pipespeed_measure::runner::{Runner, Trial, TrialError};
use pipespeed_measure::session::Role;
use pipespeed_measure::trial::ProcessRunner;

/// What sampling needs beside a runner.
#[derive(Debug)]
pub struct Sampling {
    /// What samples are taken by.
    pub event: Event,
    /// Names for the kernel's functions.
    pub symbols: Symbols,
    /// What bears on the permission to sample.
    pub facts: Facts,
}

/// Profiles a case in `trials` sampled trials; `cpus` are the processors that
/// the writer and the reader may run on.
///
/// # Errors
/// Those of a trial. A refusal to sample is a
/// [`Refusal`](super::refusal::Refusal) in `TrialError::Failed`.
pub fn profile(
    runner: &mut ProcessRunner,
    case: &Case,
    sampling: &Sampling,
    cpus: &[Vec<usize>; 2],
    trials: usize,
) -> Result<CaseProfile, TrialError> {
    let mut tallies = [Tally::default(), Tally::default()];
    let (mut sampled, mut unsampled) = (Vec::new(), Vec::new());
    let mut noise = Vec::new();
    for _ in 0..trials {
        let mut probes: Vec<(Role, Probe)> = Vec::new();
        let trial = runner.run_watched(case, &mut |role, pid| {
            let cpus = &cpus[role.index()];
            let bytes = ring_bytes(cpus.len());
            let probe = Probe::attach(sampling.event, pid, cpus, bytes, &sampling.facts)?;
            probes.push((role, probe));
            Ok(())
        })?;
        sampled.extend(rate(&trial));
        for (role, mut probe) in probes {
            let outcome = match role {
                Role::Writer => &trial.writer,
                _ => &trial.reader,
            };
            if let Some(outcome) = outcome {
                let tally = &mut tallies[role.index()];
                tally.usage_sampled.add(&outcome.counters);
                let mut window = Window {
                    ns: outcome.window_ns,
                    within: &mut tally.chains,
                };
                probe.drain(&mut window);
            }
        }
        let trial = runner.run(case)?;
        unsampled.extend(rate(&trial));
        noise.push(trial.noise);
        for (tally, outcome) in tallies.iter_mut().zip([&trial.writer, &trial.reader]) {
            if let Some(outcome) = outcome {
                tally.usage.add(&outcome.counters);
            }
        }
    }
    let ends = [Role::Writer, Role::Reader].into_iter().zip(tallies);
    Ok(CaseProfile {
        name: case.name.clone(),
        description: case.description.clone(),
        compared_with: case.compared_with.clone(),
        not_run: None,
        trials,
        gib_per_s: pipespeed_stats::median(&sampled).unwrap_or(0.0),
        gib_per_s_unsampled: pipespeed_stats::median(&unsampled).unwrap_or(0.0),
        disturbances: disturbances(case, &noise),
        ends: ends
            .filter(|(_, tally)| tally.usage.bytes > 0)
            .map(|(role, tally)| tally.finish(role.name(), &sampling.symbols, Table::built_in()))
            .collect(),
    })
}

/// The end that keeps the time decides.
pub(super) fn rate(trial: &Trial) -> Option<f64> {
    let counters = &trial.reader.as_ref().or(trial.writer.as_ref())?.counters;
    Some(counters.bytes as f64 / GIB / counters.seconds)
}

/// What disturbed a case's trials.
pub(super) fn disturbances(case: &Case, noise: &[NoiseDelta]) -> Vec<Warning> {
    let found = warnings::of_noise(noise).into_iter();
    found
        .map(|warning| Warning::of_case(warning.kind, &case.name, warning.message))
        .collect()
}

/// Passes on only the samples of the timed part.
struct Window<'a> {
    ns: (u64, u64),
    within: &'a mut Chains<u64>,
}

impl Take for Window<'_> {
    fn sample(&mut self, sample: Sample) {
        if (self.ns.0..self.ns.1).contains(&sample.time_ns) {
            self.within.sample(sample);
        }
    }

    fn lost(&mut self, count: u64) {
        self.within.lost(count);
    }

    fn throttled(&mut self) {
        self.within.throttled();
    }
}

/// What was seen of one end so far.
#[derive(Debug, Default)]
struct Tally {
    /// In the trials that were not sampled.
    usage: Usage,
    usage_sampled: Usage,
    chains: Chains<u64>,
}

impl Tally {
    fn finish(self, role: &str, symbols: &Symbols, table: &Table) -> EndProfile {
        let chains = self.chains.named(symbols);
        end_profile(role, self.usage, self.usage_sampled, chains, table)
    }
}
