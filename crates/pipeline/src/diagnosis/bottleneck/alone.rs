//! Processes outside of pipelines.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{
    Delay, Finding, MIN_EVER, MIN_LACKING, MIN_OWN, MIN_QUEUED, MIN_THROUGH_CHILDREN, Observed,
    bottleneck,
};
use crate::observe::Observation;
use crate::sample::Shares;
use crate::wait::Outside;

/// Whether a process waits for most of the time on links to children that work, none of which lives
/// for long enough to be a stage.
pub(super) fn serves_busy_children(observation: &Observation, process: &Observed) -> bool {
    process.is_lasting(observation.min_samples())
        && !process.has_ended
        && process.shares.blocked + process.shares.starved >= MIN_THROUGH_CHILDREN
        && process.has_busy_children()
}

/// The processes that were asked for where there is no pipeline.
pub(super) fn asked_alone<'a>(
    observation: &'a Observation,
    in_pipelines: &BTreeSet<i32>,
) -> Vec<&'a Observed> {
    let has_pipelines = !in_pipelines.is_empty() || observation.short_lived_pipes() > 0;
    // Their sockets may join them to others.
    let is_partial = !observation.other_networks.is_empty();
    if observation.is_survey || has_pipelines || is_partial {
        return Vec::new();
    }
    let min = observation.min_samples();
    let asked = observation.living();
    asked
        .filter(|process| process.is_asked && process.is_lasting(min))
        .collect()
}

/// What holds up each of these, children first, without those that wait for another one of them. Children one after the
/// other count with whom they are for.
pub(super) fn each_alone(observation: &Observation, processes: &[&Observed]) -> Vec<Finding> {
    // timeout(1) waits for SIGCHLD, the signal of its child's end.
    let may_wait_for_child = |process: &Observed| {
        let signal = process.outside.get(&Outside::Signal).copied();
        process.waits_or_polls_for_children() + signal.unwrap_or_default() >= MIN_THROUGH_CHILDREN
    };
    let is_one_of_many = |process: &Observed| {
        let mut above = processes.iter();
        2 * process.samples < observation.samples
            && above.any(|above| {
                process.is_below(above.process.id.pid)
                    && above.children.is_some()
                    && may_wait_for_child(above)
            })
    };
    let mut alone = processes.to_vec();
    alone.retain(|process| !is_one_of_many(process));
    let lasting = alone.clone();
    let has_below = |process: &Observed| {
        let pid = process.process.id.pid;
        lasting.iter().any(|other| other.is_below(pid))
    };
    // An event loop, and make(1), learn of their end by some other event.
    let has_work_below = |process: &Observed| {
        let pid = process.process.id.pid;
        let is_awake = |shares: &Shares| shares.runs + shares.queued + shares.disk >= MIN_OWN;
        let mut others = observation.living();
        process.children_ran_s >= MIN_OWN * process.counted_s
            || others.any(|other| other.is_below(pid) && is_awake(&other.shares))
    };
    let waits_outside = |process: &Observed| process.shares.elsewhere >= MIN_OWN;
    alone.retain(|process| !(may_wait_for_child(process) && has_below(process)));
    alone.retain(|process| {
        may_wait_for_child(process) || !(waits_outside(process) && has_work_below(process))
    });
    alone.sort_by_key(|process| Reverse(process.ancestors.len()));
    let findings = alone
        .into_iter()
        .filter_map(|process| bottleneck(observation, &[process], &[]));
    findings.filter(is_held_up).collect()
}

/// Whether no stage of a pipeline waits for another one on links, and several wait outside, each by itself.
pub(super) fn are_side_by_side(stages: &[&Observed]) -> bool {
    let waits_outside = |stage: &&&Observed| {
        stage.shares.elsewhere >= MIN_OWN
            && stage.waits_or_polls_for_children() < MIN_THROUGH_CHILDREN
    };
    let mut all = stages.iter();
    all.all(|stage| stage.shares.blocked + stage.shares.starved < MIN_EVER)
        && stages.iter().filter(waits_outside).count() > 1
}

/// Whether a process by itself does not get on: it waits for a processor, a disk, or something outside.
fn is_held_up(finding: &Finding) -> bool {
    let Finding::Bottleneck(bottleneck) = finding else {
        return false;
    };
    let children = bottleneck.children.as_ref();
    let shares = children.map_or(&bottleneck.shares, |children| &children.shares);
    // Its own threads may share a processor for a moment.
    let is_foreign = matches!(
        bottleneck.delay,
        Some(Delay::Others { .. } | Delay::Quota(_) | Delay::Hypervisor { .. })
    );
    if is_foreign && shares.queued >= MIN_QUEUED {
        return true;
    }
    let lacks = [shares.queued, shares.disk, shares.stopped];
    lacks.iter().any(|share| *share >= MIN_LACKING) || shares.elsewhere >= MIN_OWN
}
