//! Pipelines of which no stage is named.

use super::delay::{Delay, delay};
use super::{MIN_LACKING, MIN_QUEUED, MIN_THROUGH_CHILDREN, MIN_TURNS};
use crate::diagnosis::Finding;
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::sample::{Observed, Shares};

/// Stages don't wait only for each other if one waits outside for this share.
const MAX_OUTSIDE: f64 = 0.2;

/// Whether a stage mainly waits for a processor, and another one for at least half as long: it gets
/// one when the other one does not.
pub(super) fn shares_its_wait(stage: &Observed, stages: &[&Observed]) -> bool {
    let queued = queued_of(stage);
    let is_other = |other: &&&Observed| other.process.id != stage.process.id;
    let mut others = stages.iter().filter(is_other);
    queued >= MIN_LACKING
        && queued > stage.shares.runs
        && others.any(|other| 2.0 * queued_of(other) >= queued)
}

/// The shares of a stage, or those of the children for which it mainly waits.
pub(super) fn shares_of(stage: &Observed) -> &Shares {
    match &stage.children {
        Some(children) if stage.waits_or_polls_for_children() >= MIN_THROUGH_CHILDREN => {
            &children.shares
        }
        _ => &stage.shares,
    }
}

/// The share of the time in which a stage, or its children, waited for a processor.
fn queued_of(stage: &Observed) -> f64 {
    shares_of(stage).queued.max(stage.shares.queued)
}

/// Two or more stages that wait for each other by turns: one waits for room and one for input, both
/// for a while. Or processors are lacking, so that all take turns with them.
pub(super) fn turns(observation: &Observation, stages: &[&Observed]) -> Option<Finding> {
    let waits = |stage: &&&Observed, side| {
        let mut waits = stage.on.iter();
        waits.any(|on| on.side == side && on.share >= MIN_TURNS)
    };
    let blocked = stages.iter().any(|stage| waits(&stage, LinkSide::Room));
    let starved = stages.iter().any(|stage| waits(&stage, LinkSide::Input));
    let is_still = stages.iter().all(|stage| stage.is_frozen);
    // Shells wait for what their children do.
    let waits_outside = stages.iter().any(|stage| {
        let for_children = stage.waits_or_polls_for_children();
        let outside = stage.shares.elsewhere + stage.shares.disk;
        outside - for_children >= MAX_OUTSIDE
    });
    let most = stages
        .iter()
        .max_by(|a, b| queued_of(a).total_cmp(&queued_of(b)))?;
    let queued = queued_of(most);
    let delay = (queued >= MIN_LACKING).then(|| delay(observation, stages, most, queued));
    // Children are ready for a while when they start, on an idle machine, too.
    let delay = delay.filter(|delay| *delay != Delay::Unknown || most.shares.queued >= MIN_LACKING);
    let is_found = !is_still && !waits_outside && (delay.is_some() || blocked && starved);
    let queued = stages.iter().filter(|stage| queued_of(stage) >= MIN_QUEUED);
    let queued: Vec<&&Observed> = queued.collect();
    // What waits on pipes for much longer is held up by others.
    let mostly_queued = queued.iter().filter(|stage| {
        let shares = shares_of(stage);
        queued_of(stage) >= (shares.blocked + shares.starved) / 2.0
    });
    let mostly_queued: Vec<&&Observed> = mostly_queued.copied().collect();
    let named = match (&delay, mostly_queued.len()) {
        (None, _) => stages.iter().collect(),
        (Some(_), 0 | 1) => queued,
        (Some(_), _) => mostly_queued,
    };
    is_found.then(|| Finding::PingPong {
        stages: named.iter().map(|stage| stage.who()).collect(),
        delay,
    })
}
