//! What the bottleneck of a pipeline does, and what would help.

use std::collections::BTreeMap;

use pipespeed_host::CpuList;
use pipespeed_pipeline::diagnosis::{Bottleneck, Delay, LargestUser, Who};
use pipespeed_pipeline::sample::{Children, Shares};
use pipespeed_pipeline::wait::Outside;

use super::format::{full, list, significant};
use remedy::remedy;

mod remedy;

/// A smaller share is not worth mentioning.
const MIN_MENTIONED: f64 = 0.1;
/// Of the stages that share processors, one that uses this share of them is named.
const MIN_LARGEST: f64 = 0.6;

const UNKNOWN_DELAY: &str = "what keeps it from running is not known";
const UNKNOWN_DELAYS: &str = "what keeps them from running is not known";

/// What a stage mainly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MainActivity {
    Runs,
    WaitsForProcessor,
    WaitsForDisk,
    WaitsForPipe,
    WaitsFor(Outside),
    IsStopped,
}

impl MainActivity {
    fn main(shares: &Shares, outside: &BTreeMap<Outside, f64>) -> Self {
        let outside = Outside::longest(outside).unwrap_or(Outside::Other);
        let all = [
            (shares.runs, MainActivity::Runs),
            (shares.queued, MainActivity::WaitsForProcessor),
            (shares.disk, MainActivity::WaitsForDisk),
            (shares.elsewhere, MainActivity::WaitsFor(outside)),
            (shares.stopped, MainActivity::IsStopped),
        ];
        let most = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        // A bottleneck that does nothing else waits on a pipe of its own.
        let waits = shares.blocked + shares.starved;
        let most = most.filter(|(share, _)| *share >= MIN_MENTIONED || waits < MIN_MENTIONED);
        most.map_or(MainActivity::WaitsForPipe, |(_, activity)| activity)
    }
}

/// What the stage itself mainly does: it may wait on a pipe of its own, as to a child.
fn own_activity(bottleneck: &Bottleneck) -> MainActivity {
    let shares = &bottleneck.shares;
    let largest = [shares.runs, shares.queued, shares.disk, shares.elsewhere];
    let largest = largest.into_iter().fold(shares.stopped, f64::max);
    if private_waits(bottleneck) > largest {
        MainActivity::WaitsForPipe
    } else {
        MainActivity::main(shares, &bottleneck.outside)
    }
}

/// The share of the time in which the stage waits on pipes that are not those of the pipeline.
fn private_waits(bottleneck: &Bottleneck) -> f64 {
    let all = bottleneck.shares.blocked + bottleneck.shares.starved;
    (all - bottleneck.waits).max(0.0)
}

/// The sentences about a stage that is the bottleneck.
pub struct BottleneckText {
    /// `runs 98 % of the time`, after the name of the stage.
    pub does: String,
    /// What would help.
    pub remedy: String,
}

/// What a stage does and what would help. `has_small_calls` says that it moves few bytes a call,
/// which is explained elsewhere.
pub fn describe_bottleneck(bottleneck: &Bottleneck, has_small_calls: bool) -> BottleneckText {
    let (shares, activity) = match &bottleneck.children {
        Some(children) => (&children.shares, children_activity(children)),
        None => (&bottleneck.shares, own_activity(bottleneck)),
    };
    let name = match &bottleneck.children {
        Some(children) => children.names.first().unwrap_or(&bottleneck.stage.name),
        None => &bottleneck.stage.name,
    };
    BottleneckText {
        does: does(bottleneck, activity, shares),
        remedy: remedy(bottleneck, activity, shares, name, has_small_calls),
    }
}

/// What the stage waits for, if it does not mainly run itself.
pub(super) fn waits_for(bottleneck: &Bottleneck) -> Option<String> {
    if let Some(children) = &bottleneck.children {
        return Some(match children.names.first() {
            Some(name) => format!("its {} {name}", kinship(children)),
            None => "its children".to_owned(),
        });
    }
    match own_activity(bottleneck) {
        MainActivity::WaitsForProcessor => Some("a processor".to_owned()),
        MainActivity::WaitsForDisk => Some("a disk".to_owned()),
        MainActivity::WaitsFor(longest) => Some(outside_names(bottleneck, longest)),
        MainActivity::Runs | MainActivity::WaitsForPipe | MainActivity::IsStopped => None,
    }
}

/// What the stage itself waited for longest outside of pipes, and what else for at least this share of the time, with
/// their shares.
fn own_waits(bottleneck: &Bottleneck, least: f64) -> Vec<(String, f64)> {
    let children = bottleneck.also_awaited.as_ref();
    let child = children.and_then(|children| Some((kinship(children), children.names.first()?)));
    let name = |outside| match (outside, child, &bottleneck.peer) {
        (Outside::Child, Some((kinship, child)), _) => format!("its {kinship} {child}"),
        (Outside::Socket, _, Some(peer)) => format!("a socket of {}", full(peer)),
        _ => outside.name().to_owned(),
    };
    long_waits(&bottleneck.outside, name, least)
}

/// What was waited for longest outside of pipes, and what else for at least this share of the time, with their
/// names and shares.
fn long_waits(
    outside: &BTreeMap<Outside, f64>,
    name: impl Fn(Outside) -> String,
    least: f64,
) -> Vec<(String, f64)> {
    let least = outside.values().copied().fold(0.0, f64::max).min(least);
    let mut waits: Vec<(String, f64)> = outside
        .iter()
        .filter(|(_, share)| **share >= least)
        .map(|(outside, share)| (name(*outside), *share))
        .collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    waits
}

/// The same of the children for which a stage waits.
fn children_waits(children: &Children, least: f64) -> Vec<(String, f64)> {
    let name = |outside: Outside| outside.name().to_owned();
    long_waits(&children.outside, name, least)
}

/// What a stage waits for outside of pipes, without what takes less than half as long as the longest wait.
fn outside_names(bottleneck: &Bottleneck, longest: Outside) -> String {
    let outside = &bottleneck.outside;
    let least = outside.get(&longest).copied().unwrap_or_default() / 2.0;
    let waits = own_waits(bottleneck, least);
    if waits.is_empty() {
        longest.name().to_owned()
    } else {
        list(waits.into_iter().map(|(what, _)| what))
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn does(bottleneck: &Bottleneck, activity: MainActivity, shares: &Shares) -> String {
    match &bottleneck.children {
        Some(children) => describe_children(children),
        None => {
            let waits = own_waits(bottleneck, MIN_MENTIONED);
            let on_pipes = private_waits(bottleneck);
            let is_estimated = bottleneck.is_estimated;
            state(activity, shares, waits, on_pipes, true, is_estimated)
        }
    }
}

/// `waits for its child sleep, which waits for a timer 94 % of the time`.
pub(super) fn describe_children(children: &Children) -> String {
    format!("waits for {}", name_children(children))
}

/// What one of these is to who waits for it.
fn kinship(children: &Children) -> &'static str {
    if children.are_descendants {
        "descendant"
    } else {
        "child"
    }
}

/// The same of several.
fn kinships(children: &Children) -> &'static str {
    if children.are_descendants {
        "descendants"
    } else {
        "children"
    }
}

/// `its child sleep, which waits for a timer 94 % of the time`.
pub(super) fn name_children(children: &Children) -> String {
    let names = &children.names[..];
    let (who, is_one) = match names {
        [] => ("its children".to_owned(), false),
        [only] => (format!("its {} {only}", kinship(children)), true),
        [_, _] | [_, _, _] => (
            format!("its {} {}", kinships(children), list(names.iter().cloned())),
            false,
        ),
        [first, second, ..] => (
            format!("its {} ({first}, {second} and others)", kinships(children)),
            false,
        ),
    };
    let activity = children_activity(children);
    let state = if children.are_short {
        rough_state(children, is_one)
    } else {
        let shares = &children.shares;
        let waits = children_waits(children, MIN_MENTIONED);
        let on_pipes = shares.blocked + shares.starved;
        state(activity, shares, waits, on_pipes, is_one, false)
    };
    let processors = if children.processors >= 1.0 + MIN_MENTIONED {
        format!(" ({} processors)", significant(children.processors))
    } else {
        String::new()
    };
    format!("{who}, which {state}{processors}")
}

/// What children mainly do: they may wait on a pipe of their own.
fn children_activity(children: &Children) -> MainActivity {
    let shares = &children.shares;
    let largest = [shares.runs, shares.queued, shares.disk, shares.elsewhere];
    let largest = largest.into_iter().fold(shares.stopped, f64::max);
    if shares.blocked + shares.starved > largest {
        MainActivity::WaitsForPipe
    } else {
        MainActivity::main(shares, &children.outside)
    }
}

/// `mostly waits for a timer`, or `runs and waits for a disk` if both are much: the shares of
/// short-lived children are uncertain.
fn rough_state(children: &Children, is_one: bool) -> String {
    let shares = &children.shares;
    let mut waits = children_waits(children, 0.0);
    let others = [
        ("a processor", shares.queued),
        ("a disk", shares.disk),
        ("a pipe of its own", shares.blocked + shares.starved),
    ];
    waits.extend(others.map(|(what, share)| (what.to_owned(), share)));
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let least = waits[0].1.max(shares.runs).max(shares.stopped) / 2.0;
    let much = waits.into_iter().filter(|(_, share)| *share >= least);
    let waits: Vec<String> = much.map(|(what, _)| what).collect();
    let s = if is_one { "s" } else { "" };
    let mut all = Vec::new();
    if shares.runs >= least {
        all.push(format!("run{s}"));
    }
    if shares.stopped >= least {
        all.push(if is_one { "is stopped" } else { "are stopped" }.to_owned());
    }
    let is_only = all.len() + waits.len() == 1;
    if !waits.is_empty() {
        all.push(format!("wait{s} for {}", list(waits)));
    }
    if is_only {
        format!("mostly {}", all.concat())
    } else {
        list(all)
    }
}

/// `runs 55 % of the time and waits for a processor 40 %`. `outside` is what it waits for outside of pipes,
/// `on_pipes` how long it waits on pipes of its own. What its threads do at once may be estimated.
fn state(
    activity: MainActivity,
    shares: &Shares,
    outside: Vec<(String, f64)>,
    on_pipes: f64,
    is_one: bool,
    is_estimated: bool,
) -> String {
    let s = if is_one { "s" } else { "" };
    let about = if is_estimated { "about " } else { "" };
    let waits = |what: &str, share: f64| format!("wait{s} for {what} {}", percent(share));
    let runs = format!("run{s} {about}{}", percent(shares.runs));
    let runs = (shares.runs, runs);
    let queued = format!("wait{s} for a processor {about}{}", percent(shares.queued));
    let queued = (shares.queued, queued);
    let disk = (shares.disk, waits("a disk", shares.disk));
    let pipe = (on_pipes, waits("a pipe of its own", on_pipes));
    let (first, others) = match activity {
        // What it waits for outside of pipes is said with what helps.
        MainActivity::Runs => (runs, vec![queued, disk, pipe]),
        MainActivity::WaitsForProcessor => (queued, vec![runs, disk, pipe]),
        MainActivity::WaitsForDisk => (disk, vec![runs, queued, pipe]),
        MainActivity::WaitsForPipe => (pipe, vec![runs, queued, disk]),
        MainActivity::WaitsFor(longest) => {
            let unknown = || vec![(longest.name().to_owned(), shares.elsewhere)];
            let all = if outside.is_empty() {
                unknown()
            } else {
                outside
            };
            let mut all = all.into_iter();
            let first = all.next().map(|(what, share)| waits(&what, share));
            let others = all.map(|(what, share)| format!("for {what} {}", percent(share)));
            let first = format!("{} of the time", first.unwrap_or_default());
            return list(std::iter::once(first).chain(others));
        }
        MainActivity::IsStopped => {
            let verb = if is_one { "is" } else { "are" };
            return format!("{verb} stopped {} of the time", percent(shares.stopped));
        }
    };
    let others = others
        .into_iter()
        .filter(|(share, _)| *share >= MIN_MENTIONED);
    let mut all = vec![format!("{} of the time", first.1)];
    all.extend(others.map(|(_, text)| text));
    if activity != MainActivity::Runs {
        let long = outside.iter().filter(|(_, share)| *share >= MIN_MENTIONED);
        all.extend(long.map(|(what, share)| waits(what, *share)));
    }
    list(all)
}

/// The sentences about stages of which none stands out since processors are lacking.
pub(super) fn describe_lack(names: Vec<String>, is_one: bool, delay: &Delay) -> String {
    let waits = if is_one {
        "waits for a processor"
    } else {
        "wait for processors"
    };
    // One of them may well be the bottleneck.
    format!(
        "{} {waits}. More processor time helps: {}.",
        list(names),
        describe_delay(delay, is_one)
    )
}

/// Names the largest of the other processes, and the remedy: `mostly yes (pid 7); end or move them`.
fn what_to_do_with(
    largest: Option<&LargestUser>,
    processors: f64,
    may_be_siblings: bool,
) -> String {
    let what = if may_be_siblings {
        "end or move them, unless the same program has started them"
    } else {
        "end or move them"
    };
    let Some(largest) = largest else {
        return what.to_owned();
    };
    let is_most = largest.used >= MIN_LARGEST * processors;
    let how_much = if is_most { "mostly" } else { "among them" };
    let who = full(&largest.who);
    if largest.is_kernel {
        format!("{how_much} the kernel's {who}")
    } else {
        format!("{how_much} {who}; {what}")
    }
}

/// `, and bash (pid 7) of the same command uses them, too`.
fn used_too(own: &[Who]) -> String {
    if own.is_empty() {
        return String::new();
    }
    let verb = if own.len() == 1 { "uses" } else { "use" };
    let names = own.iter().map(full);
    format!(", and {} of the same command {verb} them, too", list(names))
}

/// `other processes use 0.88 of processor 1 (mostly yes (pid 7); end or move them)`.
fn describe_delay(delay: &Delay, is_one: bool) -> String {
    let its = if is_one { "its" } else { "their" };
    let place = |allowed: &CpuList| match allowed.len() {
        1 => format!("processor {allowed}"),
        several => format!("{its} {several} processors"),
    };
    match delay {
        Delay::Quota(quota) => format!(
            "the CPU quota of the control group, {} processors, is used up in {} of the periods (docker --cpus)",
            significant(quota.processors),
            percent(quota.throttled)
        ),
        Delay::Others {
            allowed,
            processors,
            largest,
            own,
            may_be_siblings,
        } => {
            let what = what_to_do_with(largest.as_ref(), *processors, *may_be_siblings);
            let used = significant(*processors);
            let own = used_too(own);
            format!(
                "other processes use {used} of {} ({what}){own}",
                place(allowed)
            )
        }
        Delay::Hypervisor { steal } => format!(
            "the hypervisor takes {} of {its} processors' time (steal)",
            percent(*steal)
        ),
        Delay::OwnStages {
            stages,
            largest,
            used,
            next,
            are_children,
            allowed,
            processors,
        } => {
            let place = match processors {
                1 => format!("processor {allowed}"),
                several => format!("{several} processors"),
            };
            let is_most = *used >= MIN_LARGEST * *processors as f64;
            // Its children are more than one.
            let are_enough = *are_children && is_most && stages <= processors;
            if *stages == 1 || are_enough {
                let (who, what) = if *are_children {
                    ("the children of", "any of them")
                } else {
                    ("the threads of", "it")
                };
                let name = &largest.name;
                return format!("{who} {name} share {place}, so less work in {what} may help");
            }
            let less = less_work(largest, *used, next, is_most.then_some(*are_children));
            // Few enough for one each, if they had no threads.
            let threads = if !are_children && stages <= processors {
                "the threads of "
            } else {
                ""
            };
            format!("{threads}{stages} processes share {place}, {less}")
        }
        Delay::Unknown if is_one => UNKNOWN_DELAY.to_owned(),
        Delay::Unknown => UNKNOWN_DELAYS.to_owned(),
    }
}

/// What less work would help of stages that share processors. `most` is said where one uses most of them: whether that
/// are its children.
fn less_work(largest: &Who, used: f64, next: &[Who], most: Option<bool>) -> String {
    let name = &largest.name;
    let used = significant(used);
    match most {
        Some(true) => format!(
            "of which the children of {name} use {used}, so less work in any of them may help"
        ),
        Some(false) => format!("of which {name} uses {used}, so less work in it helps most"),
        None => {
            let names = [largest].into_iter().chain(next);
            let which = if next.is_empty() {
                "it"
            } else {
                "any of these"
            };
            format!(
                "among them {}, so less work in {which} may help",
                list(names.map(full))
            )
        }
    }
}

#[cfg(test)]
mod tests;
