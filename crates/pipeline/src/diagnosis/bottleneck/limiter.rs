//! Stages that may limit the rate while another one looks like the bottleneck.

use serde::Serialize;

use super::{Candidate, MIN_TURNS, shares_of};
use crate::diagnosis::Who;
use crate::graph::LinkSide;
use crate::sample::Observed;
use crate::wait::Outside;

/// A stage that waits outside for this share of the time pauses.
const MIN_PAUSE: f64 = 0.05;

/// A stage that waits outside of the pipeline while the bottleneck waits for it. It may pause after
/// each piece, so that a faster bottleneck helps, or keep to a schedule: the shares are the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PausingStage {
    /// The stage.
    pub stage: Who,
    /// What it waits for, most of the time.
    pub outside: Outside,
    /// The share of the time in which it does.
    pub share: f64,
}

/// The stage that waits longest outside, of those for which the bottleneck waits.
pub(super) fn limiter(bottleneck: &Candidate<'_>, stages: &[&Observed]) -> Option<PausingStage> {
    let own = shares_of(bottleneck.stage);
    // It is a limiter itself.
    if own.elsewhere >= own.runs + own.queued + own.disk {
        return None;
    }
    let is_starved = bottleneck.waits_on(LinkSide::Input) >= MIN_TURNS;
    let is_blocked = bottleneck.waits_on(LinkSide::Room) >= MIN_TURNS;
    let is_awaited = |stage: &&&Observed| {
        let pid = stage.process.id.pid;
        is_starved && bottleneck.before.contains(&pid)
            || is_blocked && bottleneck.after.contains(&pid)
    };
    let others = stages.iter().filter(is_awaited);
    let limiters = others.filter_map(|stage| {
        let (outside, share) = wait_outside(stage)?;
        (share >= MIN_PAUSE).then(|| PausingStage {
            stage: stage.who(),
            outside,
            share,
        })
    });
    limiters.max_by(|a, b| a.share.total_cmp(&b.share))
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
    Some((*most.0, shares.elsewhere - for_children))
}
