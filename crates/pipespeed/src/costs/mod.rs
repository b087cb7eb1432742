//! What the steps of moving data cost on this machine, in nanoseconds; without
//! any privilege.
//!
//! A probe repeats a step, times it, and puts the pipe back to where it was;
//! most are driven from one thread, so that nothing waits for anything. All
//! probes run once a round, in turns, so that what drifts from second to second
//! touches all alike; a cost is the median over the rounds, with its exact
//! interval. What crosses over between processors takes a second thread, a
//! wake-up of another process that.

pub mod advice;
mod baton;
mod calls;
pub mod cells;
pub mod check;
mod clock;
pub mod echo;
mod ends;
mod gathered;
pub mod interruptions;
mod mapped;
mod memory;
pub mod model;
mod pages;
pub mod pinning;
mod pipes;
pub mod predict;
pub mod prediction;
mod processors;
pub mod sleeps;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod through;
mod wakeups;

use std::io;

use serde::Serialize;

use crate::machine::Machine;
use crate::machine::topology::Topology;
use crate::stats;

/// What costs are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A system call.
    Call,
    /// A base page's worth of bytes (4 KiB on most machines).
    Page,
    /// A process that is woken up.
    WakeUp,
    /// Nothing: it is a share in percent.
    Percent,
}

/// A group of costs that are shown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// System calls as such.
    Calls,
    /// write(2) and read(2).
    Copying,
    /// vmsplice(2), splice(2), tee(2).
    Referring,
    /// New pages.
    Pages,
    /// Memory as such.
    Memory,
    /// Pages through a pipe, both ends at work: what the model is made of.
    Through,
    /// Waking up.
    WakeUps,
    /// On another processor, of both ends, by what went before.
    Sleeps,
    /// What others take of the processors.
    Taken,
}

impl Group {
    /// All of them, as they are shown.
    pub const ALL: [Group; 9] = [
        Group::Calls,
        Group::Copying,
        Group::Referring,
        Group::Pages,
        Group::Memory,
        Group::Through,
        Group::WakeUps,
        Group::Sleeps,
        Group::Taken,
    ];

    /// As it is shown.
    pub fn title(self) -> &'static str {
        match self {
            Group::Calls => "system calls",
            Group::Copying => "copying through a pipe",
            Group::Referring => "handing pages over",
            Group::Pages => "new pages",
            Group::Memory => "memory",
            Group::Through => "through a pipe",
            Group::WakeUps => "waking the other end, both asleep in turns",
            Group::Sleeps => "waking the other end on another processor",
            Group::Taken => "taken by interrupts, other processes and the host",
        }
    }
}

/// Which cost it is, and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// For programs: `vmsplice_huge`.
    pub name: String,
    /// For people.
    pub what: String,
    /// Where it is shown.
    pub group: Group,
    /// What it is counted by.
    pub per: Per,
}

impl Kind {
    fn new(group: Group, per: Per, name: impl Into<String>, what: impl Into<String>) -> Self {
        Kind {
            name: name.into(),
            what: what.into(),
            group,
            per,
        }
    }
}

/// A cost as it was found here.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Which it is.
    #[serde(flatten)]
    pub kind: Kind,
    /// The median in nanoseconds, or in percent; none where it was refused.
    pub median: Option<f64>,
    /// Its interval of 95 %; none with fewer than six rounds.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
    /// Why there is none.
    pub refused: Option<String>,
    /// Each round's.
    pub samples: Vec<f64>,
    /// What each round's stands for, in the order in which it came; empty where
    /// it stands for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spreads: Vec<Vec<f64>>,
}

/// A step that can be repeated and timed.
trait Probe {
    /// What it measures: one or several costs.
    fn kinds(&self) -> &[Kind];

    /// Measures them once, in the same order.
    fn run(&mut self) -> io::Result<Vec<Value>>;
}

/// What one round gave for one cost, in its unit.
#[derive(Debug, Clone, PartialEq)]
struct Value {
    value: f64,
    /// See [`Cost::spreads`].
    spread: Option<Vec<f64>>,
}

impl Value {
    /// What each of many took, less what is no part of it. The mean is one
    /// without the lowest and the highest tenth: all count, but one that
    /// another process got in the way of would outweigh all others.
    fn of_many(mut samples: Vec<f64>, less: f64) -> Value {
        for sample in &mut samples {
            *sample = (*sample - less).max(0.0).round();
        }
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let off = sorted.len() / 10;
        let kept = &sorted[off..sorted.len() - off];
        Value {
            value: kept.iter().sum::<f64>() / kept.len().max(1) as f64,
            spread: Some(samples),
        }
    }
}

impl From<f64> for Value {
    fn from(ns: f64) -> Self {
        Value {
            value: ns,
            spread: None,
        }
    }
}

/// A probe that could be prepared, or why not.
type Prepared = Result<Box<dyn Probe>, (Vec<Kind>, String)>;

fn prepared<P: Probe + 'static>(kinds: Vec<Kind>, probe: io::Result<P>) -> Prepared {
    match probe {
        Ok(probe) => Ok(Box::new(probe)),
        Err(error) => Err((kinds, error.to_string())),
    }
}

/// Where and how often costs are measured.
#[derive(Debug)]
pub struct Plan<'a> {
    /// How often each is.
    pub rounds: usize,
    /// For its caches.
    pub machine: &'a Machine,
    /// For the ways in which processors lie to each other.
    pub topology: &'a Topology,
    /// The processor on which both ends of a pipe run.
    pub one: Option<usize>,
    /// Those of a writer and of a reader that don't share one.
    pub two: Option<(usize, usize)>,
    /// Sizes of pipe and piece to send pages through, in bytes.
    pub sizes: &'a [(usize, usize)],
}

impl Plan<'_> {
    /// How many of `processors` are of the ends that are measured together.
    fn ends(&self) -> usize {
        self.two.map_or(1, |_| 2)
    }

    /// All that pipes' ends are measured on, the writer's first.
    fn processors(&self) -> Vec<usize> {
        let mut all = Vec::new();
        let two = self.two.map(|(writer, reader)| [writer, reader]);
        for cpu in two.into_iter().flatten().chain(self.one) {
            if !all.contains(&cpu) {
                all.push(cpu);
            }
        }
        all
    }
}

/// Measures all costs. `go_on` is asked before each step; `each_round` is called after each round with its number,
/// from 0.
///
/// # Errors
/// When a step fails that could be prepared, naming it; those of `go_on` and
/// of `each_round`.
pub fn measure(
    plan: &Plan<'_>,
    mut go_on: impl FnMut() -> anyhow::Result<()>,
    mut each_round: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Cost>> {
    let through = plan
        .one
        .map(|one| through::probes(plan.sizes, one, plan.two));
    let mut all: Vec<(Prepared, Vec<Vec<Value>>)> = calls::probes()
        .into_iter()
        .chain(interruptions::probes(plan.processors(), plan.ends()))
        .chain(pipes::probes())
        .chain(pages::probes())
        .chain(memory::probes(&plan.machine.processors.caches))
        .chain(through.into_iter().flatten())
        .chain(wakeups::probes(plan.topology))
        .chain(sleeps::probes(plan.two))
        .map(|prepared| (prepared, Vec::new()))
        .collect();
    // The first round warms everything up and does not count.
    for round in 0..=plan.rounds {
        for (prepared, samples) in &mut all {
            let Ok(probe) = prepared else {
                continue;
            };
            go_on()?;
            match probe.run() {
                Ok(values) if round > 0 => samples.push(values),
                Ok(_) => {}
                // As a filter of system calls would have it.
                Err(error) if round == 0 => {
                    *prepared = Err((probe.kinds().to_vec(), error.to_string()));
                }
                Err(error) => {
                    let kind = &probe.kinds()[0];
                    return Err(anyhow::Error::new(error).context(kind.name.clone()));
                }
            }
        }
        if let Some(round) = round.checked_sub(1) {
            each_round(round)?;
        }
    }
    Ok(all.into_iter().flat_map(costs).collect())
}

fn costs((prepared, samples): (Prepared, Vec<Vec<Value>>)) -> Vec<Cost> {
    let (kinds, refused) = match prepared {
        Ok(probe) => (probe.kinds().to_vec(), None),
        Err((kinds, why)) => (kinds, Some(why)),
    };
    let cost = |(at, kind): (usize, Kind)| {
        let rounds = &samples;
        let samples: Vec<f64> = rounds.iter().map(|values| values[at].value).collect();
        let interval = stats::median_interval(&samples, 0.95);
        Cost {
            kind,
            median: stats::median(&samples),
            low: interval.as_ref().map(|interval| interval.low),
            high: interval.as_ref().map(|interval| interval.high),
            refused: refused.clone(),
            samples,
            spreads: rounds
                .iter()
                .filter_map(|values| values[at].spread.clone())
                .collect(),
        }
    };
    kinds.into_iter().enumerate().map(cost).collect()
}

#[cfg(test)]
mod tests;
