//! Stages that have ended and were replaced.

use super::Observed;
use crate::observe::Observation;

/// The stages without those that have ended and were replaced by a process of the same name at the
/// same pipe, as in a loop: both are one stage, and never ran at the same time. Of several that have all
/// ended, the one with the most samples stays.
pub(super) fn without_replaced<'a>(
    observation: &Observation,
    stages: &[&'a Observed],
) -> Vec<&'a Observed> {
    let weight = |stage: &Observed| (!stage.has_ended, stage.samples, stage.process.id);
    let is_replaced = |stage: &Observed| {
        let mut others = stages.iter().copied();
        let pipes = stage.process.pipes();
        stage.has_ended
            && others.any(|other| {
                let is_same = other.process.name == stage.process.name;
                let took_turns = !other.has_ended || !overlap(observation, stage, other);
                weight(other) > weight(stage)
                    && is_same
                    && took_turns
                    && !other.process.pipes().is_disjoint(&pipes)
            })
    };
    let current = stages.iter().copied().filter(|stage| !is_replaced(stage));
    current.collect()
}

/// An end is noticed at the next sample.
const MAX_END_ERROR: f64 = 0.1;

/// Whether two processes that have ended ran at the same time.
fn overlap(observation: &Observation, one: &Observed, other: &Observed) -> bool {
    // How long ago, in seconds.
    let ended = |stage: &Observed| stage.age_s.min(observation.seconds) - stage.counted_s;
    let began_after = |one: &Observed, other: &Observed| one.age_s <= ended(other) + MAX_END_ERROR;
    !began_after(one, other) && !began_after(other, one)
}
