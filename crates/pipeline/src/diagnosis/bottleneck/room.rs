//! How large the pipes next to a stage are, and whether a larger one might help it.

use serde::Serialize;

use super::{Candidate, MIN_OWN};
use crate::graph::LinkSide;
use crate::observe::{Observation, ObservedLink};
use crate::proc::{Io, LinkId};
use crate::sample::{Observed, OnLink};

/// A read that takes this share of what a pipe can hold takes all there is.
const MIN_EMPTIED: f64 = 0.9;
/// A smaller share is what a reader asks for.
const MIN_PART: f64 = 0.25;
/// A pipe that is filled to a larger share on average may be full at times.
const MAX_FILL: f64 = 0.1;

/// How large the pipes next to a stage are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// As large as a new pipe, or larger.
    Usual,
    /// The smallest is smaller than a new pipe.
    Small {
        /// The pipe.
        pipe: LinkId,
        /// Its capacity in bytes.
        capacity: u64,
    },
    /// As large as a new pipe, but each read of the stage takes all that the one before it holds.
    Emptied {
        /// Its capacity in bytes.
        capacity: u64,
    },
    /// As large as a new pipe, and nobody was seen to wait for room in one of them.
    NeverFull,
    /// Not all could be opened.
    Unknown,
}

/// How large the pipes next to a stage are.
pub(super) fn room(observation: &Observation, candidate: &Candidate<'_>) -> Room {
    let own = candidate.stage.process.pipes();
    let around = candidate.inputs.union(&candidate.outputs);
    let next = around.filter(|pipe| own.contains(pipe));
    let next: Vec<_> = next.map(|id| observation.link(*id)).collect();
    let mut known = next.iter().flatten();
    let small = known.clone().filter(|pipe| pipe.is_small());
    if let Some(pipe) = small.min_by_key(|pipe| pipe.capacity) {
        return Room::Small {
            pipe: pipe.id,
            capacity: pipe.capacity.unwrap_or_default(),
        };
    }
    let is_known = |pipe: &Option<&ObservedLink>| pipe.is_some_and(|pipe| pipe.capacity.is_some());
    if next.is_empty() || !next.iter().all(is_known) {
        return Room::Unknown;
    }
    if let Some(capacity) = emptied(observation, candidate) {
        return Room::Emptied { capacity };
    }
    // How much each read takes can't be seen of a splice, nor of children.
    let inputs = next
        .iter()
        .flatten()
        .filter(|link| candidate.inputs.contains(&link.id));
    let capacities = inputs.filter_map(|link| link.capacity);
    if reads_unseen(observation, candidate)
        || pauses(candidate)
        || may_empty(candidate.stage, capacities)
    {
        Room::Unknown
    } else if known.all(|pipe| is_never_full(observation, pipe)) {
        Room::NeverFull
    } else {
        Room::Usual
    }
}

/// Whether nobody waited for room in a pipe, and it held little, so that a larger one changes nothing.
fn is_never_full(observation: &Observation, pipe: &ObservedLink) -> bool {
    let writers = observation.holders(pipe.id, LinkSide::Room);
    let mut waits = writers.flat_map(|writer| writer.on.iter().chain(writer.children_on()));
    let is_for_room =
        |on: &OnLink| on.pipe == pipe.id && on.side == LinkSide::Room && on.share > 0.0;
    pipe.fill.is_some_and(|fill| fill <= MAX_FILL) && !waits.any(is_for_room)
}

/// The capacity of the pipe from which a stage reads, if it holds no more than one of its reads takes. Each may cost it
/// time, and more than its bytes do.
fn emptied(observation: &Observation, candidate: &Candidate<'_>) -> Option<u64> {
    let stage = candidate.stage;
    let io = stage.io.filter(|io| io.reads > 0 && !stage.splices)?;
    if candidate.awaited_children().is_some() {
        return None;
    }
    let mut inputs = candidate
        .inputs
        .iter()
        .filter(|pipe| stage.process.holds(**pipe, LinkSide::Input));
    let input = inputs.next().filter(|_| inputs.next().is_none())?;
    let capacity = observation.link(*input)?.capacity?;
    (per_read(io) >= MIN_EMPTIED * capacity as f64).then_some(capacity)
}

fn per_read(io: Io) -> f64 {
    io.read_bytes as f64 / io.reads as f64
}

/// Whether the reads of a stage may take all that its pipes hold: a pipe may be full of pages that are not, and the stage
/// may read elsewhere, too. Mostly whole pages are asked for.
fn may_empty(stage: &Observed, capacities: impl Iterator<Item = u64>) -> bool {
    const PAGE: f64 = 4096.0;
    let Some(io) = stage.io.filter(|io| io.reads > 0) else {
        return false;
    };
    let least = capacities.min().unwrap_or(u64::MAX) as f64;
    let per_read = per_read(io);
    let beyond = per_read % PAGE;
    let is_whole = beyond.min(PAGE - beyond) < 0.01 * PAGE;
    per_read >= MIN_EMPTIED * least || per_read >= MIN_PART * least && !is_whole
}

/// Whether a stage moves data between two pauses, by one call or many: it may be all that the pipe holds.
fn pauses(candidate: &Candidate<'_>) -> bool {
    let stage = candidate.stage;
    let waits = stage.outside.iter();
    let pauses = waits.filter(|(outside, _)| outside.may_be_timer());
    let has_moved = |io: Io| io.read_bytes + io.written_bytes > 0;
    pauses.map(|(_, share)| share).sum::<f64>() >= MIN_OWN && stage.io.is_none_or(has_moved)
}

/// Whether it can't be known how much the reads of a stage take.
fn reads_unseen(observation: &Observation, candidate: &Candidate<'_>) -> bool {
    let stage = candidate.stage;
    let pipes = observation.pipes.iter();
    let mut inputs = pipes.filter(|pipe| candidate.inputs.contains(&pipe.id));
    let gets_data = inputs.any(|pipe| pipe.bytes_per_s != Some(0.0));
    let is_counted = stage.io.is_some_and(|io| io.reads > 0);
    let by_others = stage.splices || stage.has_reaped || stage.children.is_some();
    gets_data && (by_others || !is_counted)
}
