//! How many processors the stages use, and what is below them.

use std::collections::{BTreeMap, BTreeSet};

use pipespeed_host::CpuList;

use super::{MIN_FOREIGN, above, has_link, load_of, may_run_on, per_s};
use crate::observe::Observation;
use crate::proc::{LinkFd, LinkId};
use crate::sample::Observed;

/// When processes were there, in seconds before the end of the observation.
#[derive(Clone, Copy)]
struct Presence {
    began: f64,
    ended: f64,
}

impl Presence {
    fn new(process: &Observed, window: f64) -> Self {
        let began = process.age_s.min(window);
        let ended = if process.has_ended {
            (began - process.counted_s).max(0.0)
        } else {
            0.0
        };
        Presence { began, ended }
    }

    fn seconds(self) -> f64 {
        self.began - self.ended
    }

    /// For how long both were there, in seconds.
    fn overlap(self, other: Presence) -> f64 {
        (self.began.min(other.began) - self.ended.max(other.ended)).max(0.0)
    }
}

/// For how long processes were observed, in seconds: those that were there from the beginning to the end, if any were.
fn window(observation: &Observation) -> f64 {
    let all = || observation.processes.iter();
    let lasting =
        all().filter(|process| !process.has_ended && process.age_s >= observation.seconds);
    let longest = lasting.map(|process| process.counted_s).reduce(f64::max);
    longest.unwrap_or_else(|| {
        let counted = all().map(|process| process.counted_s);
        counted.fold(observation.seconds.max(f64::MIN_POSITIVE), f64::max)
    })
}

/// How many processors a stage uses.
#[derive(Clone, Copy)]
pub(super) struct StageLoad<'a> {
    pub(super) stage: &'a Observed,
    /// By itself.
    own: f64,
    /// By its children that are no stages, nor below one.
    pub(super) children: f64,
}

impl<'a> StageLoad<'a> {
    pub(super) fn none(stage: &'a Observed) -> Self {
        StageLoad {
            stage,
            own: 0.0,
            children: 0.0,
        }
    }

    pub(super) fn total(self) -> f64 {
        self.own + self.children
    }
}

/// The sum of what these stages do at once, on average over the time in which `stage` was there. The pipelines of a
/// loop follow each other.
pub(super) fn beside<'a>(
    observation: &Observation,
    stage: &Observed,
    stages: impl IntoIterator<Item = (&'a Observed, f64)>,
) -> f64 {
    let window = window(observation);
    let own = Presence::new(stage, window);
    let stages = stages.into_iter();
    let shares = stages.map(|(other, what)| what * own.overlap(Presence::new(other, window)));
    shares.sum::<f64>() / own.seconds().max(f64::MIN_POSITIVE)
}

/// How many processors each of these stages uses.
pub(super) fn loads<'a>(stages: &[&'a Observed]) -> Vec<StageLoad<'a>> {
    let pids: BTreeSet<i32> = stages.iter().map(|stage| stage.process.id.pid).collect();
    let mut counted: BTreeMap<i32, f64> = BTreeMap::new();
    for stage in stages {
        if let Some(nearest) = above(stage).find(|pid| pids.contains(pid)) {
            *counted.entry(nearest).or_default() += load_of(stage);
        }
    }
    let load = |stage: &&'a Observed| {
        let below = counted.get(&stage.process.id.pid).copied();
        StageLoad {
            stage,
            own: per_s(stage, stage.ran_s),
            children: (per_s(stage, stage.children_ran_s) - below.unwrap_or_default()).max(0.0),
        }
    };
    stages.iter().map(load).collect()
}

/// The processes that were started by each one, as far as they were observed.
type Family<'a> = BTreeMap<i32, Vec<&'a Observed>>;

/// Processor time of the stages and of all below them that may run on these processors, in processors.
/// Siblings of a stage, as those that xargs(1) starts, belong to it if their parent has the pipe between
/// two stages that it uses.
pub(super) fn own_load(
    observation: &Observation,
    stages: &[&Observed],
    place: Option<&CpuList>,
) -> f64 {
    let all = || observation.processes.iter();
    let window = window(observation);
    let known: BTreeMap<i32, &Observed> = all()
        .map(|process| (process.process.id.pid, process))
        .collect();
    let mut family = Family::new();
    for process in all() {
        let nearest = above(process).find(|pid| known.contains_key(pid));
        family
            .entry(nearest.unwrap_or_default())
            .or_default()
            .push(process);
    }
    let links = |is_end: fn(&LinkFd) -> bool| -> BTreeSet<LinkId> {
        let ends = stages.iter().flat_map(|stage| stage.process.ends.iter());
        ends.filter(|end| is_end(end)).map(|end| end.pipe).collect()
    };
    let (read, written) = (links(|end| end.reads), links(|end| end.writes));
    let between: BTreeSet<LinkId> = read.intersection(&written).copied().collect();
    let shares_link = |process: &Observed, other: &Observed| {
        let mut ends = process.process.ends.iter();
        ends.any(|end| between.contains(&end.pipe) && has_link(other, end.pipe))
    };
    let mut tops: BTreeMap<i32, &Observed> = BTreeMap::new();
    for stage in stages {
        let mut top = *stage;
        for parent in above(stage).filter_map(|pid| known.get(&pid)) {
            if !shares_link(parent, top) {
                break;
            }
            top = parent;
        }
        tops.insert(top.process.id.pid, top);
    }
    let is_below = |process: &Observed| above(process).any(|pid| tops.contains_key(&pid));
    let highest = tops.values().filter(|process| !is_below(process));
    highest
        .map(|process| load_below(&family, process, window, place))
        .sum()
}

/// Processor time of a process and of all below it that may run on these processors, in processors. Its
/// children count by what was seen of each, or by what was seen of them with their parent, if that is
/// more: some are too short-lived to be observed, and others run on while their parent does not wait for
/// them. Those that were not observed may use the processors of their parent.
fn load_below(
    family: &Family<'_>,
    process: &Observed,
    window: f64,
    place: Option<&CpuList>,
) -> f64 {
    // One that was there for a part of the time used the processors for no longer.
    let present = Presence::new(process, window).seconds() / window;
    let load = |seconds: f64| present * per_s(process, seconds);
    let each = load_of_children(family, process, window, place);
    if may_run_on(process, place) {
        load(process.ran_s) + each.max(load(process.children_ran_s))
    } else {
        each
    }
}

/// Processor time of those below a process that were observed, in processors.
fn load_of_children(
    family: &Family<'_>,
    process: &Observed,
    window: f64,
    place: Option<&CpuList>,
) -> f64 {
    let own = process.process.id;
    let children = family.get(&own.pid).into_iter().flatten();
    children
        // Numbers are used again.
        .filter(|child| child.process.id.start >= own.start && child.process.id != own)
        .map(|child| load_below(family, child, window, place))
        .sum()
}

/// Those that used most, over the time in which `stage` was there. Of those that followed each other, each used little.
pub(super) fn busiest<'a>(
    observation: &Observation,
    stage: &Observed,
    loads: &[StageLoad<'a>],
) -> Vec<StageLoad<'a>> {
    let used = loads.iter().map(|load| {
        let used = beside(observation, stage, [(load.stage, load.total())]);
        (used, *load)
    });
    let mut used: Vec<(f64, StageLoad<'_>)> = used
        .filter(|(used, load)| *used >= MIN_FOREIGN && (stage.has_ended || !load.stage.has_ended))
        .collect();
    used.sort_by(|a, b| b.0.total_cmp(&a.0));
    used.into_iter().map(|(_, load)| load).collect()
}
