//! Why a stage waits for a processor.

use std::collections::BTreeSet;

use pipespeed_host::CpuList;
use serde::Serialize;

use super::{MIN_LACKING, MIN_QUEUED, MIN_THROUGH_CHILDREN, shares_of};
use crate::diagnosis::Who;
use crate::graph::Node;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::processors::{ProcessorUsage, ProcessorUser, Quota};
use crate::sample::{Children, Observed};
use loads::{StageLoad, beside, busiest, loads, own_load};

mod loads;

/// Others hold a stage up if they take this share of what its processors did. What the kernel does for
/// the pipeline's terminals and sockets looks like others, too.
const MIN_OTHERS: f64 = 0.3;
/// They hold up threads, too, or are seen as a single process, if they explain this part of what all stages wait for
/// processors, added up: the wait for one is as long as somebody else uses it.
const MIN_EXPLAINED: f64 = 0.5;
/// Fewer processors than this, for each that the stage may use, may be those of the kernel.
const MIN_FOREIGN: f64 = 0.1;
/// A stage that runs for a smaller share of the time has little that the hypervisor could take.
const MIN_STOLEN: f64 = 0.5;
/// The stages share too few processors if these are busy for this share of the time.
const MIN_BUSY: f64 = 0.8;
/// A quota holds a stage up if it was used up in this share of its periods.
const MIN_THROTTLED: f64 = 0.1;
/// A quota that is used up in this share of its periods allows no more, however short it stops its
/// processes: other load delays them before.
const MIN_USED_UP: f64 = 0.8;
/// A stage that uses this part of a quota, which is used up in this share of its periods, uses it up by
/// itself.
const MIN_QUOTA_USE: f64 = 0.8;
const MIN_AT_QUOTA: f64 = 0.5;
/// A stage that runs or is ready to for a smaller share takes no processor from others.
const MIN_ACTIVE: f64 = 0.05;
/// Threads or children share too few processors if they use this part of them.
const MIN_OWN_LOAD: f64 = 0.6;
/// Processors that are idle for this share of the time are to be had.
const MIN_IDLE: f64 = 0.25;
/// How many processes are named besides the largest.
const MAX_NEXT: usize = 2;
/// Threads that wait for processors in bursts, of which others use no more than this part, wait for each other.
const MAX_FEW_OTHERS: f64 = 0.1;
/// Children or threads that use more processors than this run at once.
const MIN_AT_ONCE: f64 = 1.1;

/// What keeps a stage from running, as far as it shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Delay {
    /// The CPU quota of a control group.
    Quota(Quota),
    /// Other processes use its processors.
    Others {
        /// The processors that it may use.
        allowed: CpuList,
        /// How much of them others used, in processors.
        processors: f64,
        /// The one that used most of them, if it is known.
        largest: Option<LargestUser>,
        /// What the same command has started besides the pipeline and uses most of them, too, the busiest first.
        own: Vec<Who>,
        /// Whether the largest, or one of them if that is not known, may have been started by the same program as the
        /// stage.
        #[serde(skip)]
        may_be_siblings: bool,
    },
    /// The hypervisor runs something else.
    Hypervisor {
        /// The share of the time of its processors.
        steal: f64,
    },
    /// The stages of the process group's pipelines, and what the same command has started, share too few processors, or
    /// the threads or children of one do.
    OwnStages {
        /// The number of these that use no others.
        stages: usize,
        /// The one that uses most of them.
        largest: Who,
        /// How much of them it uses, in processors.
        used: f64,
        /// Those that use most of the rest, the busiest first.
        next: Vec<Who>,
        /// Whether that are several children of it at once.
        are_children: bool,
        /// The processors that it may use.
        allowed: CpuList,
        /// Their number.
        processors: usize,
    },
    /// It does not show.
    Unknown,
}

/// Of several processes, the one that used most of the processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LargestUser {
    /// The process.
    #[serde(flatten)]
    pub who: Who,
    /// How many processors it used.
    #[serde(skip)]
    pub used: f64,
    /// Whether it is a thread of the kernel.
    #[serde(skip)]
    pub is_kernel: bool,
}

/// Processor time of a process as a number of processors.
pub(in crate::diagnosis) fn per_s(process: &Observed, seconds: f64) -> f64 {
    if process.counted_s > 0.0 {
        seconds / process.counted_s
    } else {
        0.0
    }
}

/// Whether a stage uses up the CPU quota of its control group, and does most of that itself, or by the children for
/// which it mainly waits: not by those with which it has pipes.
pub(super) fn is_at_quota(stage: &Observed) -> bool {
    let waits = stage.waits_or_polls_for_children() >= MIN_THROUGH_CHILDREN;
    let load = if waits {
        load_of(stage)
    } else {
        per_s(stage, stage.ran_s)
    };
    stage.quota.is_some_and(|quota| {
        quota.throttled >= MIN_AT_QUOTA && load >= MIN_QUOTA_USE * quota.processors
    })
}

/// How many processors a process and the children that it waits for use.
fn load_of(process: &Observed) -> f64 {
    per_s(process, process.ran_s + process.children_ran_s)
}

/// Whether the hypervisor took much of what the processors did. Where /proc/stat shows nothing, it took nothing.
fn is_much(steal: f64, busy: f64) -> bool {
    steal > 0.0 && steal >= MIN_OTHERS * busy
}

/// Whether a process has an end of a link.
fn has_link(process: &Observed, link: LinkId) -> bool {
    process.process.ends.of_link(link).next().is_some()
}

/// The stages, those of other pipelines in the stage's process group, and what was started below a process that is
/// observed, too: what xargs(1), make(1) or a script runs at the same time. GNU parallel and timeout(1) make a process
/// group of each. Not what only waits for its children, since these may include other things.
fn with_neighbours<'a>(
    observation: &'a Observation,
    stages: &[&'a Observed],
    stage: &Observed,
) -> Vec<&'a Observed> {
    let is_new = |other: &&Observed| stages.iter().all(|stage| !std::ptr::eq(*stage, *other));
    let in_pipelines = observation.pipelines().into_iter().flatten();
    let in_pipelines: BTreeSet<i32> = in_pipelines.map(|other| other.process.id.pid).collect();
    // What is below a stage that waits for its children counts with it.
    let is_below = |other: &Observed| {
        let mut stages = stages.iter();
        stages.any(|stage| stage.children.is_some() && other.is_below(stage.process.id.pid))
    };
    let is_neighbour = |other: &&Observed| {
        let is_in_group = other.process.group == stage.process.group;
        let is_stage = in_pipelines.contains(&other.process.id.pid);
        let is_own = other.is_asked && have_starter(observation, stage, other);
        is_stage && (is_in_group || is_own) || is_own && !is_below(other)
    };
    let all = observation.processes.iter();
    let has_started_all = |other: &Observed| {
        let mut stages = stages.iter();
        stages.all(|stage| stage.is_below(other.process.id.pid))
    };
    let others = all.filter(|other| !other.only_waits_for_children() && !has_started_all(other));
    let others = others.filter(is_neighbour).filter(is_new);
    stages.iter().copied().chain(others).collect()
}

/// Whether both were started by what was asked for: the nearest process that both are below, or that one of them is, is
/// part of it. Not by a script that has run other things before, and is of the same process group.
fn have_starter(observation: &Observation, one: &Observed, other: &Observed) -> bool {
    let line = |process: &Observed| -> Vec<i32> {
        let own = std::iter::once(process.process.id.pid);
        own.chain(above(process)).collect()
    };
    let of_other = line(other);
    let nearest = line(one).into_iter().find(|pid| of_other.contains(pid));
    let nearest = nearest.and_then(|pid| observation.find(pid));
    nearest.is_some_and(|nearest| {
        let asked = observation.asked;
        asked.is_none_or(|asked| nearest.process.id.pid == asked || nearest.is_below(asked))
    })
}

/// The ancestors of a process, the nearest first.
pub(super) fn above(process: &Observed) -> impl Iterator<Item = i32> {
    let all = std::iter::once(process.process.parent).chain(process.ancestors.iter().copied());
    all.filter(|pid| *pid != process.process.id.pid)
}

/// Whether children that run at once use this share of these processors.
fn use_share(children: &Children, share: f64, processors: &[&ProcessorUsage]) -> bool {
    let all = processors.len() as f64;
    children.processors >= (share * all).max(MIN_AT_ONCE) && all > 0.0
}

/// What keeps a stage, or the children for which it mainly waits, from running more often, if they
/// are often ready to run or already use the processors that there are.
pub(super) fn cause_of_delay(
    observation: &Observation,
    stages: &[&Observed],
    stage: &Observed,
    children: Option<&Children>,
) -> Option<Delay> {
    let of_children = children.map_or(0.0, |children| children.shares.queued);
    let queued = of_children.max(stage.shares.queued);
    let processors: Vec<_> = observation.load.among(stage.allowed.as_ref()).collect();
    // As many as there are processors take none from each other.
    let are_filled = children.is_some_and(|children| {
        let lack = children.are_short || children.shares.queued >= MIN_QUEUED;
        lack && use_share(children, MIN_BUSY, &processors)
    });
    // Threads of which one runs at a time gain nothing by running at once.
    let run_at_once = per_s(stage, stage.ran_s + stage.delayed_s) >= MIN_AT_ONCE;
    let of_threads = if run_at_once {
        per_s(stage, stage.delayed_s)
    } else {
        0.0
    };
    // A processor that the hypervisor takes away leaves a process running as far as the kernel can tell.
    let busy: f64 = processors.iter().map(|usage| usage.busy).sum();
    let steal: f64 = processors.iter().map(|usage| usage.steal).sum();
    let is_stolen = is_much(steal, busy) && stage.shares.runs >= MIN_STOLEN;
    if queued < MIN_QUEUED && of_threads < MIN_LACKING && !are_filled && !is_stolen {
        return None;
    }
    let delay = delay(observation, stages, stage, queued);
    if delay != Delay::Unknown {
        return Some(delay);
    }
    // Starting a program takes some time on an idle machine, too.
    let all = processors.len() as f64;
    let are_idle = all > 0.0 && busy <= (1.0 - MIN_IDLE) * all;
    let runs = children.map_or(stage.shares.runs, |children| children.shares.runs);
    let mostly_runs = children.is_some_and(|children| children.are_short) || runs >= queued;
    let is_lacking = queued >= MIN_LACKING && !(are_idle && mostly_runs);
    is_lacking.then_some(delay)
}

/// Whether a process may use no processors but these.
fn is_confined(allowed: Option<&CpuList>, place: Option<&CpuList>) -> bool {
    let both = allowed.zip(place);
    both.is_some_and(|(allowed, place)| {
        let mut cpus = allowed.as_slice().iter();
        cpus.all(|cpu| place.contains(*cpu))
    })
}

/// Whether a process may use one of these processors.
fn may_run_on(process: &Observed, place: Option<&CpuList>) -> bool {
    let both = process.allowed.as_ref().zip(place);
    both.is_none_or(|(allowed, place)| {
        let mut cpus = allowed.as_slice().iter();
        cpus.any(|cpu| place.contains(*cpu))
    })
}

/// The process that used most of these processors, except for the stages, what is below or above one, and what was
/// started by the process asked for. One that may use others, too, may have run there.
fn largest_other<'a>(
    observation: &'a Observation,
    stages: &[&Observed],
    place: &CpuList,
) -> Option<&'a ProcessorUser> {
    foreign_users(observation, stages, place).into_iter().next()
}

/// These processes, the busiest first.
fn foreign_users<'a>(
    observation: &'a Observation,
    stages: &[&Observed],
    place: &CpuList,
) -> Vec<&'a ProcessorUser> {
    let is_whole = observation.load.are_all(place);
    let is_own = |pid: i32| {
        let is_stage = stages.iter().any(|stage| stage.process.id.pid == pid);
        is_stage || observation.asked == Some(pid)
    };
    // As the server of tmux(1), which reads what they write to their terminal.
    let is_above = |pid: i32| stages.iter().any(|stage| stage.is_below(pid));
    let is_foreign = |user: &&ProcessorUser| {
        let is_here = is_whole || is_confined(user.allowed.as_ref(), Some(place));
        let is_own_or_above = is_own(user.id.pid) || is_above(user.id.pid);
        is_here && !is_own_or_above && !user.ancestors.iter().any(|pid| is_own(*pid))
    };
    observation.users.iter().filter(is_foreign).collect()
}

/// The number of stages that use these processors and no others at the same time.
fn count_sharing(
    observation: &Observation,
    stages: &[&Observed],
    stage: &Observed,
    place: &CpuList,
) -> usize {
    let is_whole = observation.load.are_all(place);
    let sharing = stages.iter().copied().filter(|other| {
        let shares = shares_of(other);
        let is_there = is_whole || is_confined(other.allowed.as_ref(), Some(place));
        is_there && shares.runs + shares.queued >= MIN_ACTIVE
    });
    let count = beside(observation, stage, sharing.map(|other| (other, 1.0)));
    // Of some it is not known to the millisecond when they were there.
    (count - 0.1).ceil() as usize
}

/// Whether a single process explains most of what others use: it is not what the kernel does for the stages.
fn is_one_process(
    observation: &Observation,
    stages: &[&Observed],
    place: &CpuList,
    others: f64,
) -> bool {
    let largest = largest_other(observation, stages, place);
    largest.is_some_and(|user| !user.is_kernel && user.processors >= MIN_EXPLAINED * others)
}

/// The delay by other processes, which use this many of the stage's processors.
fn by_others(
    observation: &Observation,
    stages: &[&Observed],
    stage: &Observed,
    allowed: &CpuList,
    processors: f64,
    own: Vec<Who>,
) -> Delay {
    let users = foreign_users(observation, stages, allowed);
    let user = users.first().copied();
    // What the stages use, which the rest is estimated from, includes what their children did before.
    let is_stranger = |user: &&&ProcessorUser| observation.find(user.id.pid).is_none();
    let strangers = users.iter().filter(is_stranger);
    let all: f64 = strangers.map(|user| user.processors).sum();
    let processors = processors.max(all.min(allowed.len() as f64));
    Delay::Others {
        allowed: allowed.clone(),
        processors,
        largest: user.map(|user| LargestUser {
            who: Who {
                pid: user.id.pid,
                name: user.name.clone(),
            },
            used: user.processors.min(processors),
            is_kernel: user.is_kernel,
        }),
        own,
        may_be_siblings: match user {
            Some(user) => stage
                .starters
                .iter()
                .any(|pid| user.ancestors.contains(pid)),
            None => !stage.starters.is_empty(),
        },
    }
}

/// The number of processors that other processes must use at least to explain why threads of a stage wait.
fn least_others(
    observation: &Observation,
    stages: &[&Observed],
    stage: &Observed,
    processors: usize,
) -> f64 {
    let waits = stages
        .iter()
        .map(|other| (*other, per_s(other, other.delayed_s)));
    let waited = beside(observation, stage, waits).max(stage.shares.queued);
    (MIN_EXPLAINED * waited).max(MIN_FOREIGN * processors as f64)
}

/// The delay by these stages, `count` of which use these processors and no others.
fn own_stages(
    observation: &Observation,
    stage: &Observed,
    loads: &[StageLoad<'_>],
    allowed: &CpuList,
    count: usize,
    processors: usize,
) -> Delay {
    let mut busiest = busiest(observation, stage, loads).into_iter();
    let largest = busiest.next().unwrap_or(StageLoad::none(stage));
    let next = busiest.take(MAX_NEXT);
    let are_children = largest.children >= MIN_AT_ONCE;
    let used = if are_children {
        largest.children
    } else {
        largest.total()
    };
    Delay::OwnStages {
        stages: count.max(1),
        largest: largest.stage.who(),
        used: used.min(processors as f64),
        next: next.map(|load| load.stage.who()).collect(),
        are_children,
        allowed: allowed.clone(),
        processors,
    }
}

/// Whether stages, threads of one of which run at once, would use more than this many processors.
fn compete(stages: &[&Observed], processors: usize) -> bool {
    let wanted = stages
        .iter()
        .map(|stage| per_s(stage, stage.ran_s + stage.delayed_s));
    let run_at_once = wanted.clone().any(|wanted| wanted >= MIN_AT_ONCE);
    run_at_once && wanted.sum::<f64>() > processors as f64
}

/// Why a stage, or its children, waits for a processor for this share of the time. A quota may be
/// used up often, and stop its processes for a small part of the time that they wait.
pub(super) fn delay(
    observation: &Observation,
    stages: &[&Observed],
    stage: &Observed,
    queued: f64,
) -> Delay {
    let quota = stage.quota.filter(|quota| quota.throttled >= MIN_THROTTLED);
    if let Some(quota) = quota {
        // Summed over the processors, of which the group uses about as many as it may.
        let stopped_s = quota.stopped_s / quota.processors.max(1.0);
        let is_most = stopped_s >= queued / 2.0 * stage.counted_s;
        if is_most || quota.throttled >= MIN_USED_UP || is_at_quota(stage) {
            return Delay::Quota(quota);
        }
    }
    // What holds it up is on its processors, not on any.
    let Some(allowed) = &stage.allowed else {
        return quota.map_or(Delay::Unknown, Delay::Quota);
    };
    let place = Some(allowed);
    let usages: Vec<_> = observation.load.among(place).collect();
    let pipeline = stages;
    let stages = &with_neighbours(observation, stages, stage)[..];
    let mut loads = loads(stages);
    loads.retain(|load| may_run_on(load.stage, place));
    let children = stage.children.as_ref();
    let share_them = children.is_some_and(|children| use_share(children, MIN_OWN_LOAD, &usages));
    let busy: f64 = usages.iter().map(|usage| usage.busy).sum();
    let steal: f64 = usages.iter().map(|usage| usage.steal).sum();
    // While the stages of this time ran, others had no more than what these left.
    let totals = loads.iter().map(|load| (load.stage, load.total()));
    let used = beside(observation, stage, totals);
    let left = usages.len() as f64 - used;
    let others = (busy - steal - own_load(observation, stages, place))
        .min(left)
        .max(0.0);
    let count = count_sharing(observation, stages, stage, allowed);
    let fills_them =
        stage.threads.len() > 1 && load_of(stage) >= MIN_OWN_LOAD * usages.len() as f64;
    if usages.is_empty() {
        quota.map_or(Delay::Unknown, Delay::Quota)
    } else if is_much(steal, busy) && steal >= others {
        Delay::Hypervisor {
            steal: steal / usages.len() as f64,
        }
    } else if others >= MIN_OTHERS * busy
        || (fills_them || is_one_process(observation, stages, allowed, others))
            && !share_them
            && others >= least_others(observation, stages, stage, usages.len())
    {
        let busiest = busiest(observation, stage, &loads).into_iter();
        let is_beside = |load: &StageLoad<'_>| {
            let mut pipeline = pipeline.iter();
            !pipeline.any(|stage| std::ptr::eq(*stage, load.stage))
        };
        let own = busiest.filter(is_beside).take(MAX_NEXT);
        let own = own.map(|load| load.stage.who()).collect();
        by_others(observation, stages, stage, allowed, others, own)
    } else if let Some(quota) = quota {
        Delay::Quota(quota)
    } else if (count > usages.len() || share_them || fills_them)
        && busy >= MIN_BUSY * usages.len() as f64
        || compete(pipeline, usages.len()) && others <= MAX_FEW_OTHERS * busy
    {
        own_stages(observation, stage, &loads, allowed, count, usages.len())
    } else {
        Delay::Unknown
    }
}
