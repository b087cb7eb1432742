//! Stages that may limit the rate while another one looks like the bottleneck.

use serde::Serialize;

use super::unnamed::MAX_OUTSIDE;
use super::{Candidate, MIN_TURNS, shares_of};
use crate::diagnosis::Who;
use crate::graph::LinkSide;
use crate::sample::Observed;
use crate::wait::Outside;

/// A stage that waits outside for this share of the time pauses, and another one for which it waits on a
/// pipe for this share may do so for that reason.
const MIN_PAUSE: f64 = 0.05;

/// A stage that waits outside of the pipeline while others wait for it. It may pause after each piece, so
/// that faster others help, or keep to a schedule: the shares are the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PausingStage {
    /// The stage.
    pub stage: Who,
    /// What it waits for, most of the time.
    pub outside: Outside,
    /// The share of the time in which it does.
    pub share: f64,
}

impl PausingStage {
    pub(super) fn new(stage: &Observed) -> Option<Self> {
        let (outside, share) = wait_outside(stage)?;
        Some(PausingStage {
            stage: stage.who(),
            outside,
            share,
        })
    }
}

/// The stage that waits longest outside, of those for which the bottleneck waits; or the bottleneck, if its thread that
/// moves the data does.
pub(super) fn limiter(bottleneck: &Candidate<'_>, stages: &[&Observed]) -> Option<PausingStage> {
    if let Some(mover) = bottleneck.stage.mover
        && bottleneck.awaited_children().is_none()
    {
        return Some(PausingStage {
            stage: bottleneck.stage.who(),
            outside: mover.outside,
            share: mover.share,
        });
    }
    // It is a limiter itself.
    if mainly_pauses(bottleneck.stage) {
        return None;
    }
    let is_starved = bottleneck.waits_on(LinkSide::Input) >= MIN_PAUSE;
    let is_blocked = bottleneck.waits_on(LinkSide::Room) >= MIN_PAUSE;
    let is_awaited = |stage: &&&Observed| {
        let pid = stage.process.id.pid;
        is_starved && bottleneck.before.contains(&pid)
            || is_blocked && bottleneck.after.contains(&pid)
    };
    let others = stages.iter().filter(is_awaited);
    let limiters = others.filter_map(|stage| PausingStage::new(stage));
    let limiters = limiters.filter(|limiter| limiter.share >= MIN_PAUSE);
    limiters.max_by(|a, b| a.share.total_cmp(&b.share))
}

/// The stage that mainly pauses, if all others wait for it for a while: those before it for room, those
/// after it for input. That holds if the pipes are full by turns, too, since it writes or reads much at
/// once. Of several that pause side by side, as at the outputs of tee, the one that does for longest.
pub(super) fn pausing<'c, 'a>(candidates: &'c [Candidate<'a>]) -> Option<&'c Candidate<'a>> {
    let pauses = |candidate: &Candidate<'_>| {
        let outside = wait_outside(candidate.stage);
        mainly_pauses(candidate.stage) && outside.is_some_and(|(_, share)| share >= MAX_OUTSIDE)
    };
    let share =
        |candidate: &Candidate<'_>| wait_outside(candidate.stage).map_or(0.0, |wait| wait.1);
    let pausing = candidates.iter().filter(|candidate| pauses(candidate));
    let longest = pausing.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let waits_for_it = |other: &Candidate<'_>| {
        let pid = other.stage.process.id.pid;
        let waits = |side| other.waits_on(side) >= MIN_TURNS;
        let (is_before, is_after) = (longest.before.contains(&pid), longest.after.contains(&pid));
        // Side by side, or workers that get their work from whom they send their results to.
        if pauses(other) {
            return is_before == is_after;
        }
        is_before && waits(LinkSide::Room) || is_after && waits(LinkSide::Input)
    };
    let others = || {
        let all = candidates.iter();
        all.filter(|other| !std::ptr::eq(*other, longest))
    };
    let is_awaited = others().any(|other| !pauses(other));
    (is_awaited && others().all(waits_for_it)).then_some(longest)
}

/// Whether a stage waits outside for longer than it does anything but wait on pipes.
fn mainly_pauses(stage: &Observed) -> bool {
    let shares = shares_of(stage);
    shares.elsewhere >= shares.runs + shares.queued + shares.disk
}

/// What a stage, or the children for which it mainly waits, waits for outside, and for how long.
fn wait_outside(stage: &Observed) -> Option<(Outside, f64)> {
    let shares = shares_of(stage);
    let (outside, for_children) = match &stage.children {
        Some(children) if !std::ptr::eq(shares, &stage.shares) => (&children.outside, 0.0),
        _ => (&stage.outside, stage.waits_or_polls_for_children()),
    };
    let others = outside
        .iter()
        .filter(|(outside, _)| !matches!(outside, Outside::Child | Outside::Signal));
    let most = others.max_by(|a, b| a.1.total_cmp(b.1))?;
    // It may wait for several things by turns.
    Some((*most.0, most.1.min(shares.elsewhere - for_children)))
}
