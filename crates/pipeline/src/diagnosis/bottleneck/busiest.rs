//! The stage that runs while all others wait for it.

use std::collections::BTreeSet;

use super::{
    Candidate, LinkSide, MAX_EMPTY, MIN_AWAKE, MIN_EVER, MIN_LACKING, MIN_LEAD, MIN_OWN, MIN_TURNS,
    Process, awake_of, is_busy, shares_of,
};
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::Observed;

/// The stage that runs for most of the time while all others wait for it: those before it for room, those
/// after it for input. That holds however full the pipes are when looked at. Who always
/// has input and room is not held up by others, even if these mostly wait for a processor. Of the equal
/// workers of a pool, which all run, the first counts.
pub(super) fn busiest<'c, 'a>(candidates: &'c [Candidate<'a>]) -> Option<&'c Candidate<'a>> {
    let mut all = candidates.iter();
    all.find(|busy| {
        let mut others = candidates
            .iter()
            .filter(|other| other.stage.process.id != busy.stage.process.id);
        is_busy(busy.stage)
            && busy.waits <= 1.0 - MIN_OWN
            && others.all(|other| are_equal_workers(busy, other) || waits_for(other, busy))
    })
}

/// Whether a stage waits on pipes more often than a busy one, or only runs less if that one never waits.
fn waits_for(other: &Candidate<'_>, busy: &Candidate<'_>) -> bool {
    let (room, input) = (
        other.waits_on(LinkSide::Room),
        other.waits_on(LinkSide::Input),
    );
    let pid = other.stage.process.id.pid;
    // One on both sides gives work to a worker, and takes the results.
    let (more, less) = match (busy.before.contains(&pid), busy.after.contains(&pid)) {
        (true, false) => (room, input),
        (false, true) => (input, room),
        (true, true) | (false, false) => (1.0, 0.0),
    };
    let waits_more = 1.0 - other.waits <= awake_of(busy.stage) - MIN_LEAD;
    let is_outrun = awake_of(other.stage) <= 1.0 - MIN_EVER && runs_longer(busy, other);
    more > less && waits_more
        || more >= less && never_waits(busy) && is_outrun
        || more + MIN_EVER >= less && outruns(busy, other)
}

/// Whether a stage runs for longer than another one.
fn runs_longer(one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
    shares_of(other.stage).runs <= shares_of(one.stage).runs - MIN_LEAD
}

/// Whether a stage runs nearly all the time, and longer than another one, which often waits for a
/// processor instead: whatever that one did faster, this one would gain hardly anything.
pub(super) fn outruns(one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
    one.waits < MIN_TURNS
        && shares_of(one.stage).runs >= 1.0 - MIN_LEAD
        && one.stage.tried.is_empty()
        && shares_of(other.stage).queued >= MIN_LACKING
        && runs_longer(one, other)
}

/// Whether a stage always has input and room, and works on it. One that asks again and again for what is not
/// there seems to do so, too.
pub(super) fn never_waits(candidate: &Candidate<'_>) -> bool {
    // A thread may wait while another one runs.
    let on_links = candidate.waits_on(LinkSide::Input) + candidate.waits_on(LinkSide::Room);
    candidate.waits.max(on_links) < MIN_EVER
        && awake_of(candidate.stage) >= 1.0 - MIN_EVER
        && is_busy(candidate.stage)
        && candidate.stage.tried.is_empty()
}

/// Whether a stage may ask again and again for what is not there, since its neighbour at that link works, and does not
/// wait for it. Then its running time shows nothing: that neighbour may hold it up.
pub(super) fn tries_in_vain(
    observation: &Observation,
    candidate: &Candidate<'_>,
    stages: &[&Observed],
) -> bool {
    let works = |link: LinkId, side: LinkSide| {
        let mut others = observation.holders(link, side);
        others.any(|other| {
            let id = other.process.id;
            let is_stage = stages.iter().any(|stage| stage.process.id == id);
            is_stage && id != candidate.stage.process.id && awake_of(other) >= MIN_OWN
        })
    };
    let mut tried = candidate.stage.tried.iter();
    tried.any(|(link, side)| works(*link, side.other()))
}

/// Whether a stage may ask again and again whether there is input, by polls that don't wait: it runs all the time,
/// partly in the kernel, and moves hardly anything, while nothing piles up before it. It may as well work on what
/// it has read: its own running time shows nothing.
pub(super) fn may_poll_in_vain(observation: &Observation, candidate: &Candidate<'_>) -> bool {
    /// Who computes makes no system calls. Loops of polls spent 12 to 75 % of their running time in the kernel.
    const MIN_IN_KERNEL: f64 = 0.05;
    /// Who makes more counted calls in a second of its running time does something.
    const MAX_CALLS: f64 = 1000.0;
    let stage = candidate.stage;
    let calls = stage.io.map(|io| (io.reads + io.writes) as f64);
    let moves_little = !stage.splices && calls.is_none_or(|calls| calls <= MAX_CALLS * stage.ran_s);
    let is_awake = stage.shares.runs + stage.shares.queued >= MIN_AWAKE;
    let is_in_kernel = stage.in_kernel_s >= MIN_IN_KERNEL * stage.ran_s;
    let is_empty = |link: LinkId| {
        let link = observation.link(link);
        link.is_none_or(|link| {
            let is_read = link.unread.is_none_or(|bytes| bytes == 0);
            is_read && link.pressure().is_none_or(|fill| fill <= MAX_EMPTY)
        })
    };
    let mut inputs = candidate.inputs.iter();
    let may_get_data = inputs.any(|input| {
        let mut writers = observation.holders(*input, LinkSide::Room);
        stage.process.holds(*input, LinkSide::Input)
            && is_empty(*input)
            && writers.any(|writer| !writer.has_ended && writer.process.id != stage.process.id)
    });
    is_awake && is_in_kernel && moves_little && may_get_data
}

/// Whether a stage ended while another one went on that held up the pipeline for as long: its shares are those of its
/// own life.
pub(super) fn ended_before(stage: &Observed, stages: &[&Observed]) -> bool {
    /// Of the time for which one held up the pipeline, what is as much.
    const MIN_AS_MUCH: f64 = 0.8;
    let own = |stage: &Observed| {
        let waits = stage.shares.blocked + stage.shares.starved;
        (1.0 - waits).max(0.0) * f64::from(stage.samples)
    };
    let mut others = stages.iter().filter(|other| !other.has_ended);
    stage.has_ended && others.any(|other| own(other) >= MIN_AS_MUCH * own(stage))
}

/// Whether both are workers of one process that get their work from one pipe, as those of a pool.
fn are_equal_workers(one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
    let (a, b) = (&one.stage.process, &other.stage.process);
    let is_alike = (a.parent, &a.name) == (b.parent, &b.name);
    let inputs = |process: &Process| -> BTreeSet<LinkId> {
        let pipes = process.pipes().into_iter();
        pipes
            .filter(|pipe| process.holds(*pipe, LinkSide::Input))
            .collect()
    };
    is_alike && is_busy(one.stage) && is_busy(other.stage) && !inputs(a).is_disjoint(&inputs(b))
}
