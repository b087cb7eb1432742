//! Profiling a case: sampled trials, and as many between them that are not.
//!
//! The interrupts that take samples slow the ends down, and more so on a guest.
//! So wall time, running time and waiting are those of the trials that nobody
//! sampled; the others only say how running time is shared out.

use std::collections::{BTreeMap, HashMap};

use super::account::{Usage, split};
use super::groups::{Group, Table};
use super::perf::{Event, Probe, Samples};
use super::record::{CaseProfile, Cost, EndProfile, Function, Stack};
use super::refusal::Facts;
use super::symbols::Symbols;
use crate::case::Case;
use crate::endpoint::control::Outcome;
use crate::endpoint::process::Role;
use crate::machine::warnings;
use crate::results::GIB;
use crate::runner::{Runner, Trial, TrialError};
use crate::trial::ProcessRunner;

/// The name of the one frame of a sample in a process's own code.
pub const USER_CODE: &str = "user code";
/// The name of a function that has none.
const NAMELESS: &str = "[unknown]";

/// Functions of "other" that are listed.
const OTHERS: usize = 8;

/// What sampling needs beside a runner.
#[derive(Debug)]
pub struct Sampling {
    /// What samples are taken by.
    pub event: Event,
    /// Names for the kernel's functions.
    pub symbols: Symbols,
    /// What bears on the permission to sample.
    pub facts: Facts,
    /// The processors an end may run on: the writer's, the reader's.
    pub cpus: [Vec<usize>; 2],
}

/// Profiles a case in `trials` sampled trials.
///
/// # Errors
/// Those of a trial. A refusal to sample is a
/// [`Refusal`](super::refusal::Refusal) in `TrialError::Failed`.
pub fn profile(
    runner: &mut ProcessRunner,
    case: &Case,
    sampling: &Sampling,
    trials: usize,
) -> Result<CaseProfile, TrialError> {
    let mut tallies = [Tally::default(), Tally::default()];
    let (mut sampled, mut unsampled) = (Vec::new(), Vec::new());
    let mut noise = Vec::new();
    for _ in 0..trials {
        let mut probes: Vec<(Role, Probe)> = Vec::new();
        let trial = runner.run_watched(case, &mut |role, pid| {
            let cpus = &sampling.cpus[role as usize];
            let probe = Probe::attach(sampling.event, pid, cpus, &sampling.facts)?;
            probes.push((role, probe));
            Ok(())
        })?;
        sampled.extend(rate(&trial));
        for (role, probe) in probes {
            let outcome = match role {
                Role::Writer => &trial.writer,
                Role::Reader => &trial.reader,
            };
            if let Some(outcome) = outcome {
                tallies[role as usize].sampled(outcome, &probe.collect(), &sampling.symbols);
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
        refused: None,
        trials,
        gib_per_s: crate::stats::median(&sampled).unwrap_or(0.0),
        gib_per_s_unsampled: crate::stats::median(&unsampled).unwrap_or(0.0),
        disturbances: warnings::of_run(&noise)
            .into_iter()
            .map(|warning| warning.message)
            .collect(),
        ends: ends
            .filter(|(_, tally)| tally.usage.bytes > 0)
            .map(|(role, tally)| tally.finish(role.name(), Table::built_in()))
            .collect(),
    })
}

/// The end that keeps the time decides.
fn rate(trial: &Trial) -> Option<f64> {
    let counters = &trial.reader.as_ref().or(trial.writer.as_ref())?.counters;
    Some(counters.bytes as f64 / GIB / counters.seconds)
}

/// What was seen of one end so far.
#[derive(Debug, Default)]
struct Tally {
    /// In the trials that were not sampled.
    usage: Usage,
    usage_sampled: Usage,
    samples: u64,
    lost: u64,
    throttled: u64,
    /// Function names, the innermost first.
    chains: HashMap<Vec<String>, u64>,
}

impl Tally {
    fn sampled(&mut self, outcome: &Outcome, samples: &Samples, symbols: &Symbols) {
        self.usage_sampled.add(&outcome.counters);
        self.lost += samples.lost;
        self.throttled += samples.throttled;
        let (begin, end) = outcome.window_ns;
        for sample in &samples.samples {
            if (begin..end).contains(&sample.time_ns) {
                self.samples += 1;
                let chain = named(&sample.kernel, symbols);
                *self.chains.entry(chain).or_default() += sample.weight;
            }
        }
    }

    fn finish(self, role: &str, table: &Table) -> EndProfile {
        let mut weights: BTreeMap<Group, u64> = BTreeMap::new();
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        let mut stacks: Vec<Stack> = Vec::new();
        for (chain, weight) in self.chains {
            let names: Vec<&str> = chain.iter().map(String::as_str).collect();
            let (group, function) = table.attribute(&names);
            *weights.entry(group).or_default() += weight;
            if group == Group::Other {
                *others.entry(function.to_owned()).or_default() += weight;
            }
            let frames = match chain.is_empty() {
                true => vec![USER_CODE.to_owned()],
                false => chain.into_iter().rev().collect(),
            };
            stacks.push(Stack {
                frames,
                group,
                weight,
            });
        }
        // A hash table's order is nobody's.
        stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
        let all = weights.values().sum::<u64>().max(1) as f64;
        let mut others: Vec<Function> = others
            .into_iter()
            .map(|(name, weight)| Function {
                name,
                share: weight as f64 / all,
            })
            .collect();
        others.sort_by(|a, b| b.share.total_cmp(&a.share));
        others.truncate(OTHERS);
        let wall = self.usage.wall_ns_per_page();
        let costs = split(&self.usage, &weights)
            .into_iter()
            .map(|(group, ns_per_page)| Cost {
                group,
                ns_per_page,
                share: ns_per_page / wall,
            })
            .collect();
        EndProfile {
            role: role.to_owned(),
            usage: self.usage,
            usage_sampled: self.usage_sampled,
            samples: self.samples,
            lost: self.lost,
            throttled: self.throttled,
            costs,
            others,
            stacks,
        }
    }
}

/// The functions of a call chain of addresses, the innermost first. All but
/// that one are where a call returns to, which may lie behind the calling
/// function's end if the call never does.
fn named(chain: &[u64], symbols: &Symbols) -> Vec<String> {
    let name = |(at, address): (usize, &u64)| {
        let address = address.saturating_sub(u64::from(at > 0));
        symbols.name(address).unwrap_or(NAMELESS).to_owned()
    };
    chain.iter().enumerate().map(name).collect()
}
