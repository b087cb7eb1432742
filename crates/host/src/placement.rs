//! Which two processors the ends of a channel run on.

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::pairing::{is_slow, lack, near_zero, rank};
use super::topology::Topology;

/// What [`Chosen::relation`] says where nothing is pinned.
pub const LEFT_TO_THE_SCHEDULER: &str = "left to the scheduler";

/// Where the two ends are to run.
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
    /// The writer's; `None` where the scheduler chooses.
    pub writer: Option<usize>,
    /// The reader's; `None` where the scheduler chooses.
    pub reader: Option<usize>,
    /// How they lie to each other, in words.
    pub relation: String,
    /// What is not as it was asked for, in one sentence.
    pub warning: Option<String>,
}

/// Why the ends can't run where they were to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The text isn't two numbers.
    #[error("{given:?} is not two processor numbers W,R, as in --cpus 2,3")]
    NotAPair {
        /// What was given.
        given: String,
    },
    /// There is no such processor, or it is offline.
    #[error(
        "--cpus: processor {cpu} does not exist or is offline (this process may use {allowed})"
    )]
    NotOnline {
        /// The number at fault.
        cpu: usize,
        /// The processors this process may use.
        allowed: CpuList,
    },
    /// Affinity or cpuset keep this process off it.
    #[error(
        "--cpus: processor {cpu} is not allowed to this process, by affinity (taskset) or cpuset \
         (it may use {allowed})"
    )]
    NotAllowed {
        /// The number at fault.
        cpu: usize,
        /// The processors this process may use.
        allowed: CpuList,
    },
    /// Nothing is known of the processors.
    #[error("--placement {}: this system does not say which processors there are; use --placement free", .placement.name())]
    NoProcessors {
        /// What was asked for.
        placement: Placement,
    },
}

/// Reads the value of `--cpus`: the writer's and the reader's processor, as in
/// `2,3`. Fit for clap's `value_parser`.
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

/// The processors named by `--cpus W,R`, if this process may use them.
///
/// # Errors
///
/// [`PlacementError::NotOnline`] or [`PlacementError::NotAllowed`]. Where the
/// list of processors is unknown any number passes, and pinning will tell.
pub fn explicit(
    writer: usize,
    reader: usize,
    topology: &Topology,
) -> Result<Chosen, PlacementError> {
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

/// The processors for a placement. `Different` takes the best pair there is and
/// says in the warning what it lacks; ties go to the lowest numbers.
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
            relation: LEFT_TO_THE_SCHEDULER.to_owned(),
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
                    "there is only one processor for this process (number {}), so both ends share it and the \
                     figures show switching between them as much as moving data",
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
                Ok(pinned(a.number, b.number, topology, lack(a, b, topology)))
            }
        },
    }
}

/// Why a pair of ends that spin while they wait can't run here; `None` where
/// they can.
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
