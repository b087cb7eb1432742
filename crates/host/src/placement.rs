//! Choice of the processors of a channel's two ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::pairing::{is_slow, near_zero, rank, shortfall};
use super::topology::Topology;

/// Where the two ends run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On two cores that share the last cache.
    #[default]
    Different,
    /// Both on one processor.
    Same,
    /// Wherever the scheduler puts them.
    Free,
}

pipespeed_base::named!(Placement {
    Different = "different": "on two cores that share the last cache",
    Same = "same": "both on one processor",
    Free = "free": "wherever the scheduler puts them",
});

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
    #[error("{given:?} is not two processor numbers W,R, as in --cpus 2,3")]
    NotAPair {
        /// The text.
        given: String,
    },
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
    pair().ok_or_else(|| PlacementError::NotAPair {
        given: text.to_owned(),
    })
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
