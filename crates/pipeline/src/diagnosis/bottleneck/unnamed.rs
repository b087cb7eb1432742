//! Pipelines of which no stage is named.

use std::collections::BTreeSet;

use serde::Serialize;

use super::delay::{Delay, above, delay};
use super::{
    Candidate, MIN_KNOWN, MIN_LACKING, MIN_QUEUED, MIN_TURNS, awake_of, is_busy, shares_of,
};
use crate::diagnosis::{Finding, Who};
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::{Observed, OnLink};

/// Stages don't wait only for each other if one waits outside for this share.
pub(super) const MAX_OUTSIDE: f64 = 0.2;
/// A stage that runs or is ready to for this share of the time may hold up the others.
const MIN_BUSY: f64 = 0.6;
/// Processors are full if they are busy for this share of the time.
const MIN_FULL: f64 = 0.95;
/// On full processors, a stage that waits for one for this share of the time is slowed down.
const MIN_SLOWED: f64 = 0.2;
/// Stages that wait for input for this share of the time get too little.
const MIN_STARVED: f64 = 0.5;

/// A stage that waits for input for this share of the time works as fast as it gets some.
const MIN_UNFED: f64 = 0.8;
/// Two stages that wait for each other's messages for this share of the time hardly do anything else.
const MIN_STALLED: f64 = 0.9;
/// A stage that waits for room or for input for this share of the time is held up by another one.
const MIN_HELD_UP: f64 = 0.3;

/// A stage of a pipeline of which none stands out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActiveStage {
    /// The stage.
    pub who: Who,
    /// The share of the time in which it ran.
    pub runs: f64,
    /// The share in which it was ready to run, and did not.
    pub queued: f64,
    /// Whether these are the shares of the children for which it mainly waits.
    pub are_children: bool,
}

impl ActiveStage {
    fn new(stage: &Observed) -> Self {
        let shares = shares_of(stage);
        ActiveStage {
            who: stage.who(),
            runs: shares.runs,
            queued: queued_of(stage),
            are_children: !std::ptr::eq(shares, &stage.shares),
        }
    }
}

/// What is said of stages of which none is the bottleneck.
pub(super) fn unnamed(
    observation: &Observation,
    stages: &[&Observed],
    candidates: &[Candidate<'_>],
) -> Option<Finding> {
    turns(observation, stages).or_else(|| unclear(observation, stages, candidates))
}

/// That one of the stages may hold up the others, unless all are mostly idle.
fn unclear(
    observation: &Observation,
    stages: &[&Observed],
    candidates: &[Candidate<'_>],
) -> Option<Finding> {
    let awake = |stage: &Observed| shares_of(stage).runs + queued_of(stage);
    let mut own = candidates.iter().map(|candidate| candidate.stage);
    let is_busy = own.any(|stage| awake(stage) >= MIN_BUSY || stage.may_poll_for_children());
    let is_slowed = observation.load.mean_busy() >= MIN_FULL
        && stages.iter().any(|stage| queued_of(stage) >= MIN_SLOWED);
    let event_loops = event_loops(observation, candidates);
    let is_busy = is_busy || are_busy_by_turns(candidates);
    let is_known = event_loops.is_empty()
        && !is_source_unknown(stages, candidates)
        && !wait_for_each_other(observation, candidates)
        && (observation.is_survey || observation.stalled_pair(stages).is_none())
        && !are_held_up(observation, stages);
    if !is_busy && !is_slowed && is_known {
        return None;
    }
    let mut stages = without_parents(stages);
    stages.sort_by(|a, b| awake(b).total_cmp(&awake(a)));
    let active = stages.into_iter().map(ActiveStage::new).collect();
    Some(Finding::Unclear {
        active,
        event_loops,
    })
}

/// The stages without those that do what their children do, of which one is a stage itself.
fn without_parents<'a>(stages: &[&'a Observed]) -> Vec<&'a Observed> {
    let is_told = |stage: &Observed| {
        let mut others = stages.iter();
        !std::ptr::eq(shares_of(stage), &stage.shares)
            && others.any(|other| stage.may_wait_for(other))
    };
    let others = stages.iter().copied().filter(|stage| !is_told(stage));
    others.collect()
}

/// Whether stages are busy together, none of them for long enough, while another one waits for input: as workers
/// that take turns by a lock.
fn are_busy_by_turns(candidates: &[Candidate<'_>]) -> bool {
    let all = || candidates.iter().map(|candidate| candidate.stage);
    let pids: BTreeSet<i32> = all().map(|stage| stage.process.id.pid).collect();
    // What a child does counts for its parent already.
    let highest = all().filter(|stage| above(stage).all(|pid| !pids.contains(&pid)));
    let together: f64 = highest.map(awake_of).sum();
    together >= MIN_BUSY && all().any(|stage| stage.shares.starved >= MIN_UNFED)
}

/// Who waits for input in a call that something else may end, where all stages mostly wait for input: one
/// of them does so in vain, as a server that lets its clients wait for a timer. Idle ones are left out.
fn event_loops(observation: &Observation, candidates: &[Candidate<'_>]) -> Vec<Who> {
    let mut all = candidates.iter().map(|candidate| candidate.stage);
    let are_starved = candidates.len() > 1 && all.all(|stage| stage.shares.starved >= MIN_STARVED);
    if observation.is_survey || !are_starved {
        return Vec::new();
    }
    let loops = candidates.iter().filter(|candidate| {
        let mut on = candidate.stage.on.iter();
        let polls = on.any(|on| {
            on.side == LinkSide::Input
                && on.share >= MIN_STARVED
                && candidate.stage.polled.contains(&(on.pipe, on.side))
        });
        polls && !candidate.stage.is_frozen
    });
    loops.map(|candidate| candidate.stage.who()).collect()
}

/// Whether each stage waits for what another one of them would send: a client that waits for the end of a connection
/// on which its server waits for more, for example. Some may hear from others, too. Not those that talk.
fn wait_for_each_other(observation: &Observation, candidates: &[Candidate<'_>]) -> bool {
    let all = || candidates.iter().map(|candidate| candidate.stage);
    let is_other = |stage: &Observed, writer: &Observed| {
        let id = writer.process.id;
        id != stage.process.id && all().any(|other| other.process.id == id)
    };
    let waits = |stage: &Observed| {
        let mut inputs = stage.on.iter().filter(|on| on.side == LinkSide::Input);
        stage.shares.starved >= MIN_STARVED
            && inputs.any(|on| {
                let mut writers = observation.holders(on.pipe, LinkSide::Room);
                on.share >= MIN_STARVED && writers.any(|writer| is_other(stage, writer))
            })
    };
    // One may wake up now and then for something else, as a server that looks for clients.
    let frozen = all().filter(|stage| stage.is_frozen).count();
    !observation.is_survey && frozen > 0 && frozen + 1 >= candidates.len() && all().all(waits)
}

/// Whether a stage often waits for room and another one for input, so that something between them holds both up.
fn are_held_up(observation: &Observation, stages: &[&Observed]) -> bool {
    let waits =
        |share: fn(&Observed) -> f64| stages.iter().any(|stage| share(stage) >= MIN_HELD_UP);
    !observation.is_idle(stages)
        && waits(|stage| stage.shares.blocked)
        && waits(|stage| stage.shares.starved)
}

/// Whether it is not known what a stage did for whose data all that are known wait.
fn is_source_unknown(stages: &[&Observed], candidates: &[Candidate<'_>]) -> bool {
    let Some((first, rest)) = stages.split_first() else {
        return false;
    };
    let mut known = candidates.iter();
    let are_starved = known.all(|candidate| {
        candidate.stage.process.id == first.process.id
            || candidate.stage.shares.starved >= MIN_STARVED
    });
    known_share(first) < MIN_KNOWN && !rest.is_empty() && are_starved
}

/// The share of the time in which it is known what a stage did: not that of a wait in io_uring_enter(2), which may
/// be for its pipes.
pub(super) fn known_share(stage: &Observed) -> f64 {
    let uring = stage.process.others.has_uring;
    let unknown = if uring { stage.shares.elsewhere } else { 0.0 };
    stage.shares.sum() - unknown
}

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

/// The share of the time in which a stage, or its children, waited for a processor.
fn queued_of(stage: &Observed) -> f64 {
    shares_of(stage).queued.max(stage.shares.queued)
}

/// Whether who waits for room in a connection and who waits for input from it do so at the same time, so that
/// neither holds up the other one. A pipe has either data or room.
fn wait_at_once(room: &OnLink, input: &OnLink) -> bool {
    /// What the waits may add up to if they are by turns.
    const MAX_BY_TURNS: f64 = 1.2;
    room.pipe.is_socket() && room.pipe == input.pipe && room.share + input.share > MAX_BY_TURNS
}

impl Observation {
    /// Two of these stages that exchange messages by a connection, and wait for each other's nearly all the time: what
    /// is between them takes it.
    pub fn stalled_pair(&self, stages: &[&Observed]) -> Option<(Who, Who)> {
        let waits_for = |one: &Observed, other: &Observed| {
            let mut inputs = one.on.iter().filter(|on| on.side == LinkSide::Input);
            inputs.any(|on| {
                on.pipe.is_socket()
                    && on.share >= MIN_STALLED
                    && !one.polled.contains(&(on.pipe, on.side))
                    && other.process.holds(on.pipe, LinkSide::Room)
            })
        };
        stages.iter().enumerate().find_map(|(nth, one)| {
            let mut others = stages[nth + 1..].iter();
            let other = others.find(|other| waits_for(one, other) && waits_for(other, one))?;
            let are_still = one.is_frozen && other.is_frozen;
            (!are_still).then(|| (one.who(), other.who()))
        })
    }

    /// The writer and the reader, of these stages, of a connection that holds up both: by its network, or by its
    /// buffers.
    pub fn slow_connection(&self, stages: &[&Observed]) -> Option<(Who, Who)> {
        let waits = |side| {
            let all = stages.iter();
            let on = all.flat_map(|stage| stage.on.iter().map(move |on| (stage, on)));
            on.filter(move |(_, on)| on.side == side)
        };
        waits(LinkSide::Room).find_map(|(writer, room)| {
            let mut inputs = waits(LinkSide::Input);
            let (reader, _) = inputs.find(|(_, input)| wait_at_once(room, input))?;
            Some((writer.who(), reader.who()))
        })
    }
}

/// Two stages of which one waits for what the other one answers while that works on it, and the other way round.
fn answering_pair<'a>(stages: &[&'a Observed]) -> Option<[&'a Observed; 2]> {
    let takes_turns = |one: &Observed, other: &Observed| {
        let inputs = one.on.iter().filter(|on| on.side == LinkSide::Input);
        let from_other = inputs.filter(|on| other.process.holds(on.pipe, LinkSide::Room));
        let waits = from_other.map(|on| on.share).fold(0.0, f64::max);
        // The rest is what its processor and its wake-ups take.
        one.shares.runs >= MIN_HELD_UP && waits >= MIN_HELD_UP
    };
    stages.iter().enumerate().find_map(|(nth, one)| {
        let mut others = stages[nth + 1..].iter();
        let other = others.find(|other| takes_turns(one, other) && takes_turns(other, one))?;
        Some([*one, *other])
    })
}

/// Two or more stages that wait for each other by turns: one waits for room and one for input, both
/// for a while, or each for the other's answer. Or processors are lacking, so that all take turns with them.
fn turns(observation: &Observation, stages: &[&Observed]) -> Option<Finding> {
    let waits = |side| {
        let on = stages.iter().flat_map(|stage| &stage.on);
        on.filter(move |on| on.side == side && on.share >= MIN_TURNS)
    };
    // A writer whose reader has another input first takes no turns with it.
    let turns_at = waits(LinkSide::Room).filter(|room| {
        let mut inputs = waits(LinkSide::Input).filter(|input| input.pipe == room.pipe);
        inputs.any(|input| !wait_at_once(room, input))
    });
    let turns_at: BTreeSet<LinkId> = turns_at.map(|room| room.pipe).collect();
    let pair = answering_pair(stages);
    let take_turns = !turns_at.is_empty() || pair.is_some();
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
    // One that runs all the time waits for nobody.
    let by_turns = take_turns && !stages.iter().any(|stage| is_busy(stage));
    let is_found = !is_still && !waits_outside && (delay.is_some() || by_turns);
    let stages = without_parents(stages);
    let queued = stages.iter().filter(|stage| queued_of(stage) >= MIN_QUEUED);
    let mut queued: Vec<&&Observed> = queued.collect();
    // On other processors others may be.
    if matches!(delay, Some(Delay::Others { .. })) {
        queued.retain(|stage| stage.allowed == most.allowed);
    }
    // What waits on pipes for much longer is held up by others.
    let mostly_queued = queued.iter().filter(|stage| {
        let shares = shares_of(stage);
        queued_of(stage) >= (shares.blocked + shares.starved) / 2.0
    });
    let mostly_queued: Vec<&&Observed> = mostly_queued.copied().collect();
    let named: Vec<&&Observed> = match (&delay, mostly_queued.len()) {
        (None, _) if !turns_at.is_empty() => {
            let is_at = |on: &OnLink| on.share >= MIN_TURNS && turns_at.contains(&on.pipe);
            let all = stages.iter();
            all.filter(|stage| stage.on.iter().any(is_at)).collect()
        }
        (None, _) => pair.iter().flatten().collect(),
        // Others are not in its control group.
        (Some(Delay::Quota(quota)), _) => queued
            .into_iter()
            .filter(|stage| {
                let own = stage.quota.map(|own| own.processors);
                own == Some(quota.processors)
            })
            .collect(),
        (Some(_), 0) => queued,
        (Some(_), _) => mostly_queued,
    };
    // Where only a stage left out above was queued, for its children, none is known to lack a processor.
    (is_found && !named.is_empty()).then(|| Finding::PingPong {
        stages: named
            .into_iter()
            .map(|stage| ActiveStage::new(stage))
            .collect(),
        delay,
    })
}
