//! What the steps of moving data cost on this machine, in nanoseconds; without
//! any privilege.
//!
//! All of it is driven from one thread, so that nothing waits for anything: a
//! probe repeats a step, times it, and puts the pipe back to where it was.
//! All probes run once a round, in turns, so that what drifts from second to
//! second touches all alike; a cost is the median over the rounds, with its
//! exact interval. Only a wake-up takes a second process.

mod calls;
pub mod echo;
mod memory;
mod pages;
pub mod pinning;
mod pipes;
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
    /// Waking up.
    WakeUps,
}

impl Group {
    /// All of them, as they are shown.
    pub const ALL: [Group; 6] = [
        Group::Calls,
        Group::Copying,
        Group::Referring,
        Group::Pages,
        Group::Memory,
        Group::WakeUps,
    ];

    /// As it is shown.
    pub fn title(self) -> &'static str {
        match self {
            Group::Calls => "system calls",
            Group::Copying => "copying through a pipe",
            Group::Referring => "handing pages over",
            Group::Pages => "new pages",
            Group::Memory => "memory",
            Group::WakeUps => "waking the other end",
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
    /// The median in nanoseconds; none where it was refused.
    pub median_ns: Option<f64>,
    /// Its interval of 95 %; none with fewer than six rounds.
    pub low_ns: Option<f64>,
    /// The interval's upper end.
    pub high_ns: Option<f64>,
    /// Why there is none.
    pub refused: Option<String>,
    /// Each round's, in nanoseconds.
    pub samples_ns: Vec<f64>,
}

/// A step that can be repeated and timed.
trait Probe {
    /// What it measures: one or several costs.
    fn kinds(&self) -> &[Kind];

    /// Measures them once, in nanoseconds and in the same order.
    fn run(&mut self) -> io::Result<Vec<f64>>;
}

/// A probe that could be prepared, or why not.
type Prepared = Result<Box<dyn Probe>, (Vec<Kind>, String)>;

fn prepared<P: Probe + 'static>(kinds: Vec<Kind>, probe: io::Result<P>) -> Prepared {
    match probe {
        Ok(probe) => Ok(Box::new(probe)),
        Err(error) => Err((kinds, error.to_string())),
    }
}

/// Measures all costs, `rounds` times each.
///
/// `progress` is called before each round with how many are done.
///
/// # Errors
/// When a step fails that could be prepared, naming it.
pub fn measure(
    rounds: usize,
    machine: &Machine,
    topology: &Topology,
    mut progress: impl FnMut(usize),
) -> anyhow::Result<Vec<Cost>> {
    let mut all: Vec<(Prepared, Vec<Vec<f64>>)> = Vec::new();
    let probes = calls::probes()
        .into_iter()
        .chain(pipes::probes())
        .chain(pages::probes())
        .chain(memory::probes(&machine.processors.caches))
        .chain(wakeups::probes(topology));
    for probe in probes {
        all.push((probe, Vec::new()));
    }
    // The first round warms everything up and does not count.
    for round in 0..=rounds {
        progress(round.saturating_sub(1));
        for (prepared, samples) in &mut all {
            let Ok(probe) = prepared else {
                continue;
            };
            match probe.run() {
                Ok(values) if round > 0 => samples.push(values),
                Ok(_) => {}
                // As a filter of system calls would have it.
                Err(error) if round == 0 => {
                    *prepared = Err((probe.kinds().to_vec(), error.to_string()));
                }
                Err(error) => {
                    let what = &probe.kinds()[0].what;
                    return Err(anyhow::Error::new(error).context(what.clone()));
                }
            }
        }
    }
    Ok(all.into_iter().flat_map(costs).collect())
}

fn costs((prepared, samples): (Prepared, Vec<Vec<f64>>)) -> Vec<Cost> {
    let (kinds, refused) = match prepared {
        Ok(probe) => (probe.kinds().to_vec(), None),
        Err((kinds, why)) => (kinds, Some(why)),
    };
    let cost = |(at, kind)| {
        let samples_ns: Vec<f64> = samples.iter().map(|values| values[at]).collect();
        let interval = stats::median_interval(&samples_ns, 0.95);
        Cost {
            kind,
            median_ns: stats::median(&samples_ns),
            low_ns: interval.as_ref().map(|interval| interval.low),
            high_ns: interval.as_ref().map(|interval| interval.high),
            refused: refused.clone(),
            samples_ns,
        }
    };
    kinds.into_iter().enumerate().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(Vec<Kind>, f64);

    impl Probe for Counting {
        fn kinds(&self) -> &[Kind] {
            &self.0
        }

        fn run(&mut self) -> io::Result<Vec<f64>> {
            self.1 += 1.0;
            Ok(vec![self.1, 2.0 * self.1])
        }
    }

    fn two() -> Vec<Kind> {
        ["one", "two"]
            .map(|name| Kind::new(Group::Calls, Per::Call, name, name))
            .to_vec()
    }

    #[test]
    fn a_cost_is_the_median_of_its_own_samples() {
        let probe = prepared(two(), Ok(Counting(two(), 0.0)));
        let samples = (1..=7).map(|n| vec![f64::from(n), 2.0 * f64::from(n)]);
        let costs = costs((probe, samples.collect()));
        let medians: Vec<_> = costs.iter().map(|cost| cost.median_ns).collect();
        assert_eq!(medians, [Some(4.0), Some(8.0)]);
        assert!(costs[1].low_ns < costs[1].median_ns && costs[1].median_ns < costs[1].high_ns);
    }

    #[test]
    fn what_was_refused_has_no_figure_and_a_reason() {
        let probe = prepared::<Counting>(two(), Err(io::ErrorKind::Unsupported.into()));
        let costs = costs((probe, Vec::new()));
        assert_eq!(costs.len(), 2);
        assert!(costs.iter().all(|cost| cost.median_ns.is_none()));
        assert!(costs.iter().all(|cost| cost.refused.is_some()));
    }
}
