//! Processes that hold the output of a pipeline, and are none of its stages as far as was seen.

use super::delay::above;
use super::idle::locked_share;
use super::{Candidate, MIN_OWN_PIPELINE, MIN_THROUGH_CHILDREN, MIN_TURNS, awake_of};
use crate::diagnosis::Who;
use crate::graph::{LinkSide, Node, STDERR, STDOUT};
use crate::observe::Observation;
use crate::proc::{LinkFd, LinkId};
use crate::sample::{Observed, OnLink};

/// Who waits on a pipe for a smaller share of the time is not held up by what writes to it.
const MAX_KEPT_OPEN: f64 = 0.2;

/// Whether a stage has nothing of the pipeline but a standard error to which it writes nothing, while others
/// write their output there: it is none, as what a script runs in the background under `2>&1`.
pub(super) fn only_inherited_errors(stage: &Observed, stages: &[&Observed]) -> bool {
    let is_silent = stage.io.is_some_and(|io| io.writes == 0) && !stage.splices;
    let mut ends = stage.process.ends.iter().peekable();
    is_silent
        && ends.peek().is_some()
        && ends.all(|end| {
            let is_output = |other: &&Observed| {
                let mut theirs = other.process.ends.of_link(end.pipe);
                other.process.id != stage.process.id
                    && theirs.any(|end| end.writes && end.fd != STDERR)
            };
            end.fd == STDERR && end.writes && stages.iter().any(is_output)
        })
}

/// Whether a stage without input from the pipeline wrote nothing to its output while another process did, and
/// nobody waits for it: it may write later, as `(sort big & cat small) | wc` does, or never, as a server that
/// a script has left in the background.
pub(super) fn is_bystander(observation: &Observation, candidate: &Candidate<'_>) -> bool {
    let stage = candidate.stage;
    let own = stage.process.id;
    let has_other_writer = |link: LinkId| {
        let got_data = || {
            let mut readers = observation.users(link, LinkSide::Input).into_iter();
            readers.any(|reader| reader.io.is_some_and(|io| io.read_bytes > 0))
        };
        let mut writers = observation.holders(link, LinkSide::Room);
        writers.any(|other| {
            let writes = other.io.is_some_and(|io| io.writes > 0);
            other.process.id != own
                && other.has_as(link, STDOUT)
                && (writes || other.waits_for_other_children(stage) && got_data())
        })
    };
    // Who asks a fork server for the ends of its children polls that link beside others.
    let serves = stage.is_frozen
        && candidate.private_waits > 1.0 - MIN_OWN_PIPELINE
        && candidate.socket_waits == 0.0;
    // A worker has a link of its own for its results, for which another stage waits.
    let is_awaited = |link: LinkId| {
        let mut readers = observation.holders(link, LinkSide::Input);
        readers.any(|reader| {
            let is_after = candidate.after.contains(&reader.process.id.pid);
            let polls = reader.polled.contains(&(link, LinkSide::Input));
            // It may have a new connection for each request.
            let is_socket = |on: &OnLink| on.side == LinkSide::Input && on.pipe.is_socket();
            let mut on = reader.on.iter();
            let waits = reader.waited_on(link, LinkSide::Input)
                || link.is_socket() && on.any(|on| is_socket(on) && on.share >= MIN_TURNS);
            is_after && waits && !(serves && polls)
        })
    };
    let ends = stage.process.ends.iter();
    let mut outputs = ends.filter(|end| end.writes && end.fd != STDERR);
    let is_shared = |link: LinkId| !is_awaited(link) || has_other_writer(link);
    candidate.before.is_empty()
        && is_silent(candidate)
        && outputs.clone().any(|end| has_other_writer(end.pipe))
        && outputs.all(|end| is_shared(end.pipe))
        && !is_awaited_child(observation, stage)
        && !may_be_awaited_by_lock(observation, stage)
}

/// Takes those that only keep an input open out of these, and leaves its links out of account.
pub(super) fn take_what_keeps_open<'a>(
    observation: &Observation,
    candidates: &mut Vec<Candidate<'a>>,
) -> Vec<Candidate<'a>> {
    let (taken, mut rest): (Vec<_>, Vec<_>) = std::mem::take(candidates)
        .into_iter()
        .partition(|candidate| only_keeps_open(observation, candidate));
    let ends = taken.iter().flat_map(|one| one.stage.process.ends.iter());
    let unused: Vec<LinkId> = ends.filter(|end| end.writes).map(|end| end.pipe).collect();
    for candidate in &mut rest {
        candidate.inputs.retain(|link| !unused.contains(link));
    }
    *candidates = rest;
    taken
}

/// Whether an idle stage without input writes nothing, and those that read from it send on what they get elsewhere, without
/// waiting for it, or while they look at both: it only keeps an input open, as in `(echo GET; sleep 9) | openssl s_client`.
fn only_keeps_open(observation: &Observation, candidate: &Candidate<'_>) -> bool {
    let stage = candidate.stage;
    let gets_it_elsewhere = |reader: &Observed, link: LinkId| {
        let sends = reader.splices || reader.io.is_some_and(|io| io.writes > 0);
        let looks_at_both = reader.polled.contains(&(link, LinkSide::Input));
        sends && (looks_at_both || reader.share_on(link, LinkSide::Input) < MAX_KEPT_OPEN)
    };
    let is_kept_open = |link: LinkId| {
        // What goes by send(2) is not counted.
        if link.is_direction() {
            return false;
        }
        let readers = observation.users(link, LinkSide::Input);
        let mut readers = readers.into_iter().peekable();
        readers.peek().is_some() && readers.all(|reader| gets_it_elsewhere(reader, link))
    };
    let is_output = |end: &&LinkFd| end.writes && candidate.outputs.contains(&end.pipe);
    let mut outputs = stage.process.ends.iter().filter(is_output).peekable();
    candidate.before.is_empty()
        && is_silent(candidate)
        && outputs.peek().is_some()
        && outputs.all(|end| is_kept_open(end.pipe))
        && awake_of(stage) < MIN_TURNS
        && !may_be_awaited_by_lock(observation, stage)
}

/// Whether a stage writes nothing, and doesn't wait for room.
fn is_silent(candidate: &Candidate<'_>) -> bool {
    let stage = candidate.stage;
    stage.io.is_some_and(|io| io.writes == 0)
        && !stage.splices
        && !stage.has_reaped
        && candidate.waits_on(LinkSide::Room) == 0.0
}

/// The busy ones of these that might be the bottleneck instead of this one. Who holds up the readers of a
/// bystander does so without it, and what it starts one after the other, as find(1) does, is named with it.
pub(super) fn competing(bystanders: &[Candidate<'_>], best: &Candidate<'_>) -> Vec<Who> {
    let stages = bystanders.iter().map(|candidate| candidate.stage);
    let is_one_of_awaited = |stage: &Observed| {
        let children = best.awaited_children();
        let mut names = children.iter().flat_map(|children| &children.names);
        stage.process.parent == best.stage.process.id.pid
            && names.any(|name| *name == stage.process.name)
    };
    let busy = stages.filter(|stage| {
        awake_of(stage) >= MIN_THROUGH_CHILDREN
            && !best.before.contains(&stage.process.id.pid)
            && !is_one_of_awaited(stage)
    });
    busy.map(Observed::who).collect()
}

/// Whether the nearest known process above this one waits for a lock, which this one may hold: a semaphore, as
/// between Python and a worker with which it shares memory.
fn may_be_awaited_by_lock(observation: &Observation, stage: &Observed) -> bool {
    let parent = above(stage).find_map(|pid| observation.find(pid));
    parent.is_some_and(|parent| locked_share(parent) >= MIN_TURNS)
}

/// Whether the nearest known process above this one waits for its end, or for that of one between them.
fn is_awaited_child(observation: &Observation, stage: &Observed) -> bool {
    let parent = above(stage).find_map(|pid| observation.find(pid));
    parent.is_some_and(|parent| {
        parent.waits_or_polls_for_children() >= MIN_TURNS && parent.may_wait_for(stage)
    })
}
