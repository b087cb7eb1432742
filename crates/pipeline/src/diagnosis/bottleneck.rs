//! The bottleneck.

mod alone;
mod beside;
mod busiest;
mod candidate;
mod delay;
mod fill;
pub(super) mod idle;
mod limiter;
mod replaced;
mod room;
mod unnamed;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::alone::{are_side_by_side, asked_alone, each_alone, serves_busy_children};
use self::beside::{competing, is_bystander, only_inherited_errors, take_what_keeps_open};
use self::busiest::{busiest, ended_before, may_poll_in_vain, never_waits, outruns, tries_in_vain};
use self::candidate::Candidate;
pub(super) use self::delay::per_s;
pub use self::delay::{Delay, LargestUser};
use self::delay::{cause_of_delay, is_at_quota};
use self::fill::FillLevel;
pub use self::limiter::PausingStage;
use self::limiter::{limiter, pausing};
use self::replaced::without_replaced;
pub use self::room::Room;
use self::room::room;
pub use self::unnamed::ActiveStage;
use self::unnamed::{known_share, shares_its_wait, unnamed};
use super::{Finding, Observed, Who};
use crate::graph::{Adjacency, Edge, LinkSide, Process, reach};
use crate::observe::{Observation, ObservedLink};
use crate::proc::LinkId;
use crate::sample::{Children, OnLink, Shares};
use crate::wait::{Outside, ThreadState};

/// With less evidence no stage is named.
pub(super) const MIN_LIKELY: f64 = 0.6;
/// With as much evidence from the waiting alone, it is clear.
const MIN_CLEAR: f64 = 0.8;
/// Minimum distance in evidence to the next stage.
const MIN_MARGIN: f64 = 0.1;
/// Stages that wait for each other for less than this share lose nothing worth mentioning.
const MIN_TURNS: f64 = 0.1;
/// A stage that waits for a processor for less than this share is not held up by that.
const MIN_QUEUED: f64 = 0.1;
/// A stage that runs or is ready to for this share of the time, and runs for most of it, is busy.
const MIN_AWAKE: f64 = 0.8;
/// A busy stage is the bottleneck if every other stage spends a share of the time off its pipes that is
/// smaller by at least this.
const MIN_LEAD: f64 = 0.15;
/// A stage that waits on pipes for a smaller share never does.
const MIN_EVER: f64 = 0.05;
/// A stage that runs for a smaller share hardly needs a processor.
pub(super) const MIN_NEEDED: f64 = 0.1;
/// A stage that waits for its children for this share does what they do.
pub(super) const MIN_THROUGH_CHILDREN: f64 = 0.5;
/// A stage that waits on pipes of the pipeline for all but this share is not the bottleneck.
const MIN_OWN: f64 = 0.5;
/// A stage that waits on other pipes for all but this share waits for those of another pipeline.
const MIN_OWN_PIPELINE: f64 = 0.3;
/// Where a stage is ready to run for this share without running, processors are lacking.
pub(super) const MIN_LACKING: f64 = 0.3;
/// A stage of which less is known, as of one that has just started, is not named.
const MIN_KNOWN: f64 = 0.5;

/// A pipe that is filled to this share at most is empty for who waits for input, and full if no more is free.
const MAX_EMPTY: f64 = 0.1;

/// How certain it is that a stage is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It hardly waits for pipes, and the others wait for it.
    Clear,
    /// Most of the evidence is for it.
    Likely,
}

/// The bottleneck of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The stage.
    pub stage: Who,
    /// How certain that is.
    pub certainty: Certainty,
    /// Its shares of time.
    pub shares: Shares,
    /// The shares of its waits outside of pipes.
    pub outside: BTreeMap<Outside, f64>,
    /// What its children did, if it mainly waited for them.
    pub children: Option<Children>,
    /// What they did, if it waited for them for a smaller part of the time.
    pub also_awaited: Option<Children>,
    /// The time for which its threads were ready to run, and did not, added up, as a share of the
    /// time: some may wait while another one runs.
    pub threads_queued: f64,
    /// Whether it has several threads: for how long one of them ran is estimated.
    #[serde(skip)]
    pub has_threads: bool,
    /// Whether that may be far off.
    #[serde(skip)]
    pub is_estimated: bool,
    /// The share of the time in which it waited on sockets at whose other end a process is that is not part of the
    /// pipeline.
    #[serde(skip)]
    pub socket_waits: f64,
    /// That process, if there is one for which it waited for most of that time, and it is known.
    pub peer: Option<Who>,
    /// What kept it, or these children, from running, if they often waited for a processor.
    pub delay: Option<Delay>,
    /// Whether it was stopped at the end.
    pub is_stopped: bool,
    /// Whether the pipes next to it are smaller than usual.
    pub room: Room,
    /// The share of the time in which it waited on pipes of the pipeline: about what it would gain at
    /// most if it never had to.
    pub waits: f64,
    /// The share of the time in which its processors were idle while something waited for a disk.
    pub iowait: f64,
    /// Whether it, or these children, waited for a disk, and its control group limits the bytes that it reads or
    /// writes a second.
    pub has_io_limit: bool,
    /// The stage that may be the cause, since it waits outside while others wait for it: another one, or
    /// this one, if it also waits for the others.
    pub limiter: Option<PausingStage>,
    /// Busy processes with the same output, or that of another stage, that wrote nothing, and for which nobody
    /// waits: they don't count.
    pub bystanders: Vec<Who>,
    /// The stages before it, and their shares of waiting for room.
    pub before: Vec<(Who, f64)>,
    /// The stages that get their data only through it, and their shares of waiting for input.
    pub after: Vec<(Who, f64)>,
}

impl Bottleneck {
    /// Whether no other stage is known to wait for it, as for a process outside of pipelines.
    pub fn is_alone(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// How certain it is, between the name of the stage and "the bottleneck".
    pub fn verb(&self) -> &'static str {
        match (&self.limiter, self.certainty) {
            (Some(_), _) => "may be",
            (None, Certainty::Clear) => "is",
            (None, Certainty::Likely) => "is probably",
        }
    }

    /// Whether it mainly waits for a process that may be found at the other end of a socket.
    pub(super) fn lacks_peer(&self) -> bool {
        self.peer.is_none() && self.socket_waits >= MIN_OWN && self.children.is_none()
    }

    /// What it mainly waits for outside of the pipeline, itself or the children for which it waits.
    pub fn awaited(&self) -> Option<Outside> {
        let (shares, outside) = match &self.children {
            Some(children) => (&children.shares, &children.outside),
            None => (&self.shares, &self.outside),
        };
        let others = [shares.runs, shares.queued, shares.disk, shares.stopped];
        let is_main = others.iter().all(|share| shares.elsewhere > *share);
        Outside::longest(outside).filter(|_| is_main)
    }
}

/// The bottleneck of each pipeline with a process that was asked for, and what holds up such processes outside of
/// pipelines. Those with a process in `tied` are left out.
pub(super) fn bottlenecks(observation: &Observation, tied: &BTreeSet<i32>) -> Vec<Finding> {
    let observation = &*idle::with_idle_workers(observation);
    let mut edges = observation.edges();
    // Many stages may have the same pipe.
    let mut unused: BTreeMap<LinkId, bool> = BTreeMap::new();
    edges.retain(|(_, _, pipe)| {
        let is_unused = || is_unused(observation, *pipe);
        !*unused.entry(*pipe).or_insert_with(is_unused)
    });
    // No stage is named, or one that waits for something outside.
    let may_be_each = |found: Option<&Finding>| match found {
        Some(Finding::Bottleneck(found)) => found.awaited().is_some(),
        Some(_) => false,
        None => !observation.is_survey,
    };
    let mut findings = Vec::new();
    let mut pipelines = observation.in_order(&edges);
    let in_pipelines: BTreeSet<i32> = pipelines
        .iter()
        .flatten()
        .map(|stage| stage.process.id.pid)
        .collect();
    let mut alone = asked_alone(observation, &in_pipelines);
    let serving = observation.processes.iter().filter(|process| {
        !in_pipelines.contains(&process.process.id.pid)
            && serves_busy_children(observation, process)
    });
    pipelines.extend(serving.map(|process| vec![process]));
    for stages in pipelines {
        let is_asked = stages.iter().any(|stage| stage.is_asked);
        if is_asked
            && !observation.is_idle(&stages)
            && !stages
                .iter()
                .any(|stage| tied.contains(&stage.process.id.pid))
        {
            match bottleneck(observation, &stages, &edges) {
                found if are_side_by_side(&stages) && may_be_each(found.as_ref()) => {
                    findings.extend(each_alone(observation, &stages));
                }
                found => findings.extend(found),
            }
        }
    }
    let judged: BTreeSet<i32> = findings
        .iter()
        .flat_map(Finding::named)
        .map(|who| who.pid)
        .chain(tied.iter().copied())
        .collect();
    alone.retain(|process| !judged.contains(&process.process.id.pid));
    findings.extend(each_alone(observation, &alone));
    findings
}

/// Whether nobody used a pipe, as one from which a stage does not read: its writer did not hold up
/// that stage.
fn is_unused(observation: &Observation, pipe: LinkId) -> bool {
    let waits = |process: &Observed, side: LinkSide| {
        let mut on = process.on.iter().chain(process.children_on());
        on.any(|on| (on.pipe, on.side) == (pipe, side) && on.share > 0.0)
    };
    // Mostly one direction of a connection is used at a time.
    let is_sign = observation.is_sign_of_life(pipe);
    if is_sign || pipe.is_direction() {
        let link = observation.link(pipe);
        let has_data = link.is_some_and(|link| link.unread.is_some_and(|bytes| bytes > 0));
        // A worker that waits for its client looks at a sign of life beside it.
        let waits = |process: &Observed, side: LinkSide| {
            let is_beside = is_sign && process.polled.contains(&(pipe, side));
            !is_beside && waits(process, side)
        };
        let mut all = observation.processes.iter();
        let is_waited_on =
            all.any(|process| waits(process, LinkSide::Input) || waits(process, LinkSide::Room));
        return !has_data && !is_waited_on;
    }
    let reads_nothing = |reader: &&Observed| {
        let is_unseen = reader.splices || reader.has_reaped || reader.process.others.has_uring;
        let is_counted = !is_unseen && reader.children.is_none();
        let has_read = reader.io.is_none_or(|io| io.reads > 0);
        is_counted && !has_read && !reader.is_frozen && !waits(reader, LinkSide::Input)
    };
    let mut writers = observation.holders(pipe, LinkSide::Room);
    let mut readers = observation.users(pipe, LinkSide::Input).into_iter();
    !writers.any(|writer| waits(writer, LinkSide::Room))
        && readers.all(|reader| reads_nothing(&reader))
}

/// Whether a stage is busy without getting on, or was.
fn is_busy_in_vain(
    observation: &Observation,
    candidate: &Candidate<'_>,
    stages: &[&Observed],
) -> bool {
    polls_busy_children(candidate.stage)
        || tries_in_vain(observation, candidate, stages)
        || may_poll_in_vain(observation, candidate)
        || ended_before(candidate.stage, stages)
}

/// Whether a stage may wait for others for most of the time, as far as its threads' times tell, and these don't wait
/// for it: threads that start and end their work together.
fn may_take_turns(candidate: &Candidate<'_>, levels: &BTreeMap<LinkId, FillLevel>) -> bool {
    candidate.stage.runs_between.is_some()
        && candidate.least_own() < MIN_OWN
        && candidate.weakest_evidence(levels) < MIN_LIKELY
}

/// The stage for which there is most evidence: it works or waits for something outside, the
/// pipes before it are full and those after it are empty. Where a pipeline begins or ends
/// with a file, there is always data or room.
fn bottleneck(observation: &Observation, stages: &[&Observed], edges: &[Edge]) -> Option<Finding> {
    let mut current = without_replaced(observation, stages);
    let by_waits = FillLevel::by_waits(&current);
    let levels = FillLevel::with_fills(by_waits.clone(), observation);
    let flow = Adjacency::new(edges);
    let candidates = candidates(observation, &current, &flow, &levels);
    let (mut bystanders, mut candidates): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| is_bystander(observation, candidate));
    bystanders.extend(take_what_keeps_open(observation, &mut candidates));
    let is_bystander =
        |stage: &Observed| bystanders.iter().any(|one| std::ptr::eq(one.stage, stage));
    current.retain(|stage| !is_bystander(stage));
    let stages = &current[..];
    let candidates = without_outrun(without_faster(observation, candidates));
    let clearest = clearest(&candidates, &levels, stages);
    let busiest = || busiest(&candidates);
    let named = at_quota(&candidates).or(clearest).or_else(busiest);
    let best = named.or_else(|| pausing(&candidates));
    let best = best.filter(|best| {
        !may_take_turns(best, &by_waits) && !is_busy_in_vain(observation, best, stages)
    });
    let Some(best) = best else {
        return unnamed(observation, stages, &candidates);
    };
    let stage = best.stage;
    if waits_for_another_pipeline(observation, best, stages) {
        return None;
    }
    // In `tee >(gzip | wc) | cat`, `cat` follows gzip, since wc has the same output; but it gets
    // data from tee, too.
    let mut around = flow.after;
    around.remove(&best.stage.process.id.pid);
    let before = best.before.iter();
    let others: BTreeSet<i32> = before.flat_map(|pid| reach(*pid, &around).0).collect();
    let after = best.after.difference(&others).copied().collect();
    let waiting = |pids: &BTreeSet<i32>, share: fn(&Shares) -> f64| {
        let them = stages
            .iter()
            .filter(|stage| pids.contains(&stage.process.id.pid));
        them.map(|stage| (stage.who(), share(&stage.shares)))
            .collect()
    };
    let competing = competing(&bystanders, best);
    let is_clear = clearest.is_some_and(|clearest| std::ptr::eq(clearest, best))
        && best.least_evidence(&by_waits) >= MIN_CLEAR
        && competing.is_empty();
    let children = best.awaited_children();
    Some(Finding::Bottleneck(Box::new(Bottleneck {
        stage: best.stage.who(),
        certainty: if is_clear {
            Certainty::Clear
        } else {
            Certainty::Likely
        },
        shares: best.shares(),
        outside: best.outside(),
        children: children.cloned(),
        also_awaited: best.also_awaited().cloned(),
        threads_queued: per_s(stage, stage.delayed_s),
        has_threads: stage.threads.len() > 1 || per_s(stage, stage.ran_s) > 1.0,
        is_estimated: stage.runs_between.is_some(),
        socket_waits: best.socket_waits,
        peer: best.peer(observation),
        delay: cause_of_delay(observation, stages, stage, children),
        is_stopped: stage.threads.contains(&ThreadState::Stopped),
        room: room(observation, best),
        waits: best.waits,
        iowait: observation.load.mean_iowait(stage.allowed.as_ref()),
        has_io_limit: stage.has_io_limit,
        limiter: match named {
            Some(_) => limiter(best, stages),
            None => PausingStage::new(stage),
        },
        bystanders: competing,
        before: waiting(&best.before, |shares| shares.blocked),
        after: waiting(&after, |shares| shares.starved),
    })))
}

/// Whether a stage waits for those of another pipeline.
fn waits_for_another_pipeline(
    observation: &Observation,
    best: &Candidate<'_>,
    stages: &[&Observed],
) -> bool {
    let on_pipes = best.stage.on.iter().all(|on| on.pipe.is_pipe());
    let is_still = on_pipes && stages.iter().all(|stage| stage.is_frozen);
    best.private_waits > 1.0 - MIN_OWN_PIPELINE
        && stages.len() > 1
        && !best.stage.has_busy_children()
        && (is_still || has_known_writers(observation, best))
}

/// The stages whose time is known, without a shell that waits for this very pipeline, which is as fast as that, or for
/// this observer.
fn candidates<'a>(
    observation: &Observation,
    stages: &[&'a Observed],
    flow: &Adjacency,
    levels: &BTreeMap<LinkId, FillLevel>,
) -> Vec<Candidate<'a>> {
    let waits_for_it = |stage: &Observed| {
        let mut others = stages.iter();
        stage.waits_or_polls_for_children() >= MIN_THROUGH_CHILDREN
            && (others.any(|other| stage.may_wait_for(other))
                || observation.is_above_observer(stage))
    };
    let candidates = stages.iter().filter(|stage| {
        !waits_for_it(stage)
            && known_share(stage) >= MIN_KNOWN
            && !only_inherited_errors(stage, stages)
    });
    candidates
        .map(|stage| Candidate::new(observation, stage, flow, levels))
        .collect()
}

/// The stages without those after which data piles up, or is always there and not waited for: a later one is slower.
fn without_faster<'a>(
    observation: &Observation,
    mut candidates: Vec<Candidate<'a>>,
) -> Vec<Candidate<'a>> {
    let is_behind = |link: &&ObservedLink| {
        if !link.piles_up(0.0) && !link.has_reserve(0.0) {
            return false;
        }
        let readers = observation.users(link.id, LinkSide::Input);
        let most = |reader: &&Observed| {
            let on = reader.on.iter().chain(reader.children_on());
            let is_input = |on: &&OnLink| (on.pipe, on.side) == (link.id, LinkSide::Input);
            on.filter(is_input).map(|on| on.share).fold(0.0, f64::max)
        };
        let most = readers.iter().map(most).fold(0.0, f64::max);
        let is_awaited = readers.is_empty() || most >= MIN_EVER;
        let read = readers.iter();
        let read = read.map(|reader| Some(per_s(reader, reader.io?.read_bytes as f64)));
        // What comes by recv(2) is not counted.
        let is_counted = !link.id.is_direction();
        let rate = link
            .bytes_per_s
            .or_else(|| read.sum::<Option<f64>>().filter(|_| is_counted));
        // Who waits for data did not leave any: some came in a burst, or as all ended.
        let is_left = |rate: f64| link.piles_up(rate) && most < MIN_OWN;
        rate.is_some_and(|rate| is_left(rate) || !is_awaited && link.has_reserve(rate))
    };
    let links = observation.pipes.iter().filter(is_behind);
    let after: BTreeSet<LinkId> = links.map(|link| link.id).collect();
    candidates.retain(|candidate| {
        // Of a server and its client each comes before the other one.
        let is_reader = |link: LinkId| candidate.stage.process.holds(link, LinkSide::Input);
        let mut behind = candidate.outputs.intersection(&after);
        behind.all(|link| is_reader(*link))
    });
    candidates
}

/// The stages without those that hardly need a processor and wait for one all the same, if another one
/// runs and never waits for them: nobody is held up by such a wait.
fn without_outrun(candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let runs_on =
        |candidate: &Candidate<'_>| candidate.waits < MIN_TURNS && is_busy(candidate.stage);
    if !candidates.iter().any(runs_on) {
        return candidates;
    }
    let is_outrun = |candidate: &Candidate<'_>| {
        let shares = shares_of(candidate.stage);
        shares.runs < MIN_NEEDED && shares.queued >= MIN_LACKING
    };
    candidates
        .into_iter()
        .filter(|candidate| !is_outrun(candidate))
        .collect()
}

/// The only stage that uses up the CPU quota of its control group by itself: it could take no more.
fn at_quota<'c, 'a>(candidates: &'c [Candidate<'a>]) -> Option<&'c Candidate<'a>> {
    let mut limited = candidates
        .iter()
        .filter(|candidate| is_at_quota(candidate.stage));
    limited.next().filter(|_| limited.next().is_none())
}

/// The stage with the most evidence, if that is enough, and if it does not only take turns.
fn clearest<'c, 'a>(
    candidates: &'c [Candidate<'a>],
    levels: &BTreeMap<LinkId, FillLevel>,
    stages: &[&Observed],
) -> Option<&'c Candidate<'a>> {
    let evidence = candidates
        .iter()
        .map(|candidate| (candidate.evidence(levels), candidate));
    let mut evidence: Vec<(f64, &Candidate<'_>)> = evidence.collect();
    evidence.sort_by(|a, b| b.0.total_cmp(&a.0));
    let next = evidence.get(1).map_or(0.0, |next| next.0);
    let (evidence, best) = *evidence.first()?;
    let margin = evidence - next;
    let is_unclear = evidence < MIN_LIKELY || margin < MIN_MARGIN || best.waits > 1.0 - MIN_OWN;
    // Who never waits on a pipe loses nothing by what the others wait for.
    let takes_turns = best.waits >= MIN_TURNS && shares_its_wait(best.stage, stages);
    let mut others = candidates.iter();
    let lacks_only_time =
        |one: &Candidate<'_>| one.waits < MIN_TURNS && shares_of(one.stage).queued >= MIN_LACKING;
    // Another one always has input and room, while this one often does nothing.
    let is_outworked = awake_of(best.stage) <= 1.0 - MIN_EVER
        && others.clone().any(|other| {
            let is_other = !std::ptr::eq(other, best);
            is_other && never_waits(other) && !never_waits(best)
        });
    let is_outrun = others.clone().any(|other| outruns(other, best));
    // Each of both would be faster with the processor of the other one.
    let has_equal = lacks_only_time(best)
        && others.any(|other| !std::ptr::eq(other, best) && lacks_only_time(other));
    let is_excelled = is_outworked || is_outrun || has_rival(best, candidates);
    (!is_unclear && !takes_turns && !has_equal && !is_excelled).then_some(best)
}

/// Whether a stage with threads often waits for a processor, while those of another one, which use more, do so, too: it
/// is not known which of both holds up the other one.
fn has_rival(best: &Candidate<'_>, candidates: &[Candidate<'_>]) -> bool {
    let lacks = |one: &Candidate<'_>| {
        let delayed = per_s(one.stage, one.stage.delayed_s);
        one.stage.runs_between.is_some() && delayed >= MIN_LACKING
    };
    let mut others = candidates.iter();
    lacks(best)
        && best.stage.shares.queued >= MIN_LACKING
        && others.any(|other| {
            let uses_more =
                per_s(other.stage, other.stage.ran_s) > per_s(best.stage, best.stage.ran_s);
            lacks(other) && uses_more
        })
}

/// The shares of a stage, or those of the children for which it mainly waits.
fn shares_of(stage: &Observed) -> &Shares {
    match &stage.children {
        Some(children) if stage.waits_or_polls_for_children() >= MIN_THROUGH_CHILDREN => {
            &children.shares
        }
        _ => &stage.shares,
    }
}

/// The share of the time in which a stage, or the children for which it waits, ran or was ready to.
fn awake_of(stage: &Observed) -> f64 {
    let shares = shares_of(stage);
    shares.runs + shares.queued
}

/// Whether a stage runs for most of the time, or is ready to.
fn is_busy(stage: &Observed) -> bool {
    shares_of(stage).runs >= MIN_OWN && awake_of(stage) >= MIN_AWAKE
}

/// Whether a stage polls for the end of children that work, and that were not sampled, or may do so.
fn polls_busy_children(stage: &Observed) -> bool {
    stage.may_poll_for_children()
        || stage.has_reaped
            && stage.children.is_none()
            && stage.shares.elsewhere >= MIN_THROUGH_CHILDREN
            && per_s(stage, stage.children_ran_s) >= MIN_LACKING
}

/// Whether what a stage waits for, outside of its pipeline, comes from processes that were asked for.
fn has_known_writers(observation: &Observation, candidate: &Candidate<'_>) -> bool {
    let own = candidate.stage.process.id;
    let mut waits = candidate.stage.on.iter().filter(|on| {
        on.side == LinkSide::Input && !candidate.inputs.contains(&on.pipe) && on.share > 0.0
    });
    waits.any(|on| {
        let mut writers = observation.users(on.pipe, LinkSide::Room).into_iter();
        writers.any(|writer| writer.is_asked && writer.process.id != own)
    })
}

#[cfg(test)]
mod tests;
