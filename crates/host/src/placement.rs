//! Choice of the processors of a channel's two ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::topology::{Cpu, Relation, Topology};

pipespeed_base::named! {
    /// Where the two ends run.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Placement {
        /// on two cores that share the last cache
        #[default]
        Different = "different",
        /// both on one processor
        Same = "same",
        /// wherever the scheduler puts them
        Free = "free",
    }
}

/// The processors of the two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The writer's; `None` if the scheduler chooses.
    pub writer: Option<usize>,
    /// The reader's; `None` if the scheduler chooses.
    pub reader: Option<usize>,
    /// Their relation in words, or `left to the scheduler`.
    pub relation: String,
    /// One sentence, if the choice falls short of the request.
    pub warning: Option<String>,
}

/// A placement is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The text is not two numbers.
    #[error("write the processor numbers of writer and reader, such as 2,3")]
    NotAPair,
    /// The processor does not exist or is offline.
    #[error(
        "--cpus: processor {cpu} does not exist or is offline (this process may use {allowed})"
    )]
    NotOnline {
        /// The number of the processor.
        cpu: usize,
        /// The processors this process may use.
        allowed: CpuList,
    },
    /// Affinity or cpuset exclude the processor.
    #[error(
        "--cpus: this process may not use processor {cpu}, because of its affinity (taskset) or cpuset \
         (it may use {allowed})"
    )]
    NotAllowed {
        /// The number of the processor.
        cpu: usize,
        /// The processors this process may use.
        allowed: CpuList,
    },
    /// The processors are unknown.
    #[error("--placement {}: the processors of this system are unknown; use --placement free", .placement.name())]
    NoProcessors {
        /// The requested placement.
        placement: Placement,
    },
}

/// Parses the value of `--cpus`: the writer's and the reader's processor, as in
/// `2,3`.
///
/// # Errors
///
/// [`PlacementError::NotAPair`].
pub fn parse_cpus(text: &str) -> Result<(usize, usize), PlacementError> {
    let pair = || {
        let (writer, reader) = text.split_once(',')?;
        Some((writer.trim().parse().ok()?, reader.trim().parse().ok()?))
    };
    pair().ok_or(PlacementError::NotAPair)
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = &self.relation;
        match (self.writer, self.reader) {
            (Some(writer), Some(reader)) => {
                write!(
                    f,
                    "writer on processor {writer}, reader on {reader} ({relation})"
                )
            }
            _ => f.write_str(relation),
        }
    }
}

/// Accepts the processors of `--cpus W,R` if this process may use them.
///
/// # Errors
///
/// [`PlacementError::NotOnline`] or [`PlacementError::NotAllowed`]. If the allowed
/// processors are unknown, any number is accepted, and pinning may fail later.
pub fn pin_to(writer: usize, reader: usize, topology: &Topology) -> Result<Chosen, PlacementError> {
    let allowed = &topology.allowed;
    for cpu in [writer, reader] {
        if allowed.is_empty() || allowed.contains(cpu) {
            continue;
        }
        let allowed = allowed.clone();
        let offline = topology
            .online
            .as_ref()
            .is_some_and(|online| !online.contains(cpu));
        return Err(if offline {
            PlacementError::NotOnline { cpu, allowed }
        } else {
            PlacementError::NotAllowed { cpu, allowed }
        });
    }
    Ok(pinned(writer, reader, topology, None))
}

/// Chooses the processors for a placement. `Different` takes the best pair, with
/// a warning if it falls short; ties go to the lowest numbers.
///
/// # Errors
///
/// [`PlacementError::NoProcessors`], unless the placement is `Free`.
pub fn choose(placement: Placement, topology: &Topology) -> Result<Chosen, PlacementError> {
    let unknown = PlacementError::NoProcessors { placement };
    match placement {
        Placement::Free => Ok(Chosen {
            writer: None,
            reader: None,
            relation: "left to the scheduler".to_owned(),
            warning: None,
        }),
        Placement::Same => {
            let best = topology
                .cpus
                .iter()
                .min_by_key(|cpu| (is_slow(cpu, topology), near_zero(cpu), cpu.number));
            let cpu = best.ok_or(unknown)?.number;
            Ok(pinned(cpu, cpu, topology, None))
        }
        Placement::Different => match topology.cpus.as_slice() {
            [] => Err(unknown),
            [only] => {
                let warning = format!(
                    "this process may use only one processor (number {}), so both ends share it, and rates include \
                     the switching between them",
                    only.number
                );
                Ok(pinned(only.number, only.number, topology, Some(warning)))
            }
            cpus => {
                let pairs = cpus
                    .iter()
                    .enumerate()
                    .flat_map(|(i, a)| cpus[i + 1..].iter().map(move |b| (a, b)));
                let (a, b) = pairs
                    .min_by_key(|(a, b)| rank(a, b, topology))
                    .ok_or(unknown)?;
                let warning = shortfall(a, b, topology);
                Ok(pinned(a.number, b.number, topology, warning))
            }
        },
    }
}

/// The reason why two ends that spin can't run here, if any.
pub fn spinning_refused(chosen: &Chosen, topology: &Topology) -> Option<String> {
    if let [only] = topology.allowed.as_slice() {
        return Some(format!(
            "spinning needs two processors: this process may use only processor {only}"
        ));
    }
    match (chosen.writer, chosen.reader) {
        (Some(writer), Some(reader)) if writer == reader => Some(format!(
            "spinning needs two processors: both ends are pinned to processor {writer}; use --placement different"
        )),
        _ => None,
    }
}

fn pinned(writer: usize, reader: usize, topology: &Topology, warning: Option<String>) -> Chosen {
    Chosen {
        writer: Some(writer),
        reader: Some(reader),
        relation: topology.relation(writer, reader).to_string(),
        warning,
    }
}

/// Rank of a pair for `Different`: the lowest is the best.
type Rank = (u8, u8, bool, bool, usize, usize);

fn rank(a: &Cpu, b: &Cpu, topology: &Topology) -> Rank {
    let far = match a.relation(b) {
        Relation::SharedCache(_) => 0,
        Relation::Package => 1,
        Relation::Packages | Relation::Unknown => 2,
        // Two threads of one core share its execution units, which `different` is
        // meant to avoid, however close their caches are.
        Relation::Siblings | Relation::One => 3,
    };
    let kinds = match (is_slow(a, topology), is_slow(b, topology)) {
        (false, false) => 0,
        (true, true) => 1,
        _ => 2,
    };
    let other_node = a.numa_node != b.numa_node;
    (
        far,
        kinds,
        other_node,
        near_zero(a) || near_zero(b),
        a.number,
        b.number,
    )
}

/// Whether this is a small core of a hybrid machine: under 80 % of the fastest
/// one. Equal cores may differ by a few percent in their maximum clock rate.
fn is_slow(cpu: &Cpu, topology: &Topology) -> bool {
    let fastest = topology.cpus.iter().filter_map(|cpu| cpu.capacity).max();
    match (cpu.capacity, fastest) {
        (Some(own), Some(fastest)) => u64::from(own) * 10 < u64::from(fastest) * 8,
        _ => false,
    }
}

/// Whether this is processor 0 or a sibling of it, which by default handle
/// interrupts and much of the kernel's housekeeping.
fn near_zero(cpu: &Cpu) -> bool {
    cpu.number == 0 || cpu.siblings.contains(0)
}

/// A warning if the pair does not fulfil `Different`.
fn shortfall(a: &Cpu, b: &Cpu, topology: &Topology) -> Option<String> {
    let pair = format!("processors {} and {}", a.number, b.number);
    match a.relation(b) {
        Relation::SharedCache(_) if is_slow(a, topology) != is_slow(b, topology) => Some(format!(
            "the two ends run on different kinds of cores ({pair}), one of them slower: there are no two of a kind"
        )),
        Relation::SharedCache(_) => None,
        Relation::Siblings | Relation::One => Some(format!(
            "the two ends run on siblings of one core ({pair}), since no other core is allowed: they share its \
             execution units, so rates are lower than on two cores"
        )),
        Relation::Package => Some(format!(
            "the two ends run on cores that share no known cache ({pair}): data may pass through memory, so rates \
             may be lower"
        )),
        Relation::Packages => Some(format!(
            "the two ends run in different packages ({pair}), since no two allowed cores share a cache: data cross \
             packages, so rates are lower (a hypervisor may show packages that don't exist)"
        )),
        Relation::Unknown => Some(format!(
            "the relation of the two ends' processors is unknown ({pair}): they may be threads of one core"
        )),
    }
}
