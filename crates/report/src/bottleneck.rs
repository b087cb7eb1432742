//! What the bottleneck of a pipeline does, and what would help.

use pipespeed_base::size;
use pipespeed_host::CpuList;
use pipespeed_pipeline::diagnosis::{Bottleneck, Delay, PausingStage, Room};
use pipespeed_pipeline::sample::{Children, Shares};
use pipespeed_pipeline::wait::Outside;

use super::format::{list, significant};

/// A stage that waits for something else for this share of the time would gain nothing elsewhere.
const MIN_ALL: f64 = 0.97;
/// A smaller share is not worth mentioning.
const MIN_MENTIONED: f64 = 0.1;
/// Of the stages that share processors, one that uses this share of them is named.
const MIN_LARGEST: f64 = 0.6;
/// A stage that runs for a smaller share has something else to wait for, too.
const MIN_ONLY: f64 = 0.5;
/// So has one that is ready to run for this share, whatever keeps it from that.
const MAX_ONLY_QUEUED: f64 = 0.3;

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
    fn main(shares: &Shares, outside: Option<Outside>) -> Self {
        let outside = outside.unwrap_or(Outside::Other);
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
        MainActivity::main(shares, bottleneck.outside)
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
            Some(name) => format!("its child {name}"),
            None => "its children".to_owned(),
        });
    }
    match own_activity(bottleneck) {
        MainActivity::WaitsForProcessor => Some("a processor".to_owned()),
        MainActivity::WaitsForDisk => Some("a disk".to_owned()),
        MainActivity::WaitsFor(outside) => Some(outside.name().to_owned()),
        MainActivity::Runs | MainActivity::WaitsForPipe | MainActivity::IsStopped => None,
    }
}

/// What the children waited for most, outside of pipes.
fn main_wait(children: &Children) -> Option<Outside> {
    let outside = children.outside.iter();
    let most = outside.max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(*most.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn does(bottleneck: &Bottleneck, activity: MainActivity, shares: &Shares) -> String {
    match &bottleneck.children {
        Some(children) => describe_children(children),
        None => state(activity, shares, private_waits(bottleneck), true),
    }
}

/// `waits for its child sleep, which waits for a timer 94 % of the time`.
pub(super) fn describe_children(children: &Children) -> String {
    let names = &children.names[..];
    let (who, is_one) = match names {
        [] => ("its children".to_owned(), false),
        [only] => (format!("its child {only}"), true),
        [_, _] | [_, _, _] => (
            format!("its children {}", list(names.iter().cloned())),
            false,
        ),
        [first, second, ..] => (
            format!("its children ({first}, {second} and others)"),
            false,
        ),
    };
    let activity = children_activity(children);
    let state = if children.are_short {
        rough_state(activity, children, is_one)
    } else {
        let shares = &children.shares;
        state(activity, shares, shares.blocked + shares.starved, is_one)
    };
    let processors = if children.processors >= 1.0 + MIN_MENTIONED {
        format!(" ({} processors)", significant(children.processors))
    } else {
        String::new()
    };
    format!("waits for {who}, which {state}{processors}")
}

/// What children mainly do: they may wait on a pipe of their own.
fn children_activity(children: &Children) -> MainActivity {
    let shares = &children.shares;
    let largest = [shares.runs, shares.queued, shares.disk, shares.elsewhere];
    let largest = largest.into_iter().fold(shares.stopped, f64::max);
    if shares.blocked + shares.starved > largest {
        MainActivity::WaitsForPipe
    } else {
        MainActivity::main(shares, main_wait(children))
    }
}

/// `mostly waits for a timer`, or `runs and waits for a disk` if both are much: the shares of
/// short-lived children are uncertain.
fn rough_state(activity: MainActivity, children: &Children, is_one: bool) -> String {
    let shares = &children.shares;
    let outside = match activity {
        MainActivity::WaitsFor(outside) => outside,
        _ => main_wait(children).unwrap_or(Outside::Other),
    };
    let mut waits = [
        (shares.queued, "a processor"),
        (shares.disk, "a disk"),
        (shares.elsewhere, outside.name()),
        (shares.blocked + shares.starved, "a pipe of its own"),
    ];
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let least = waits[0].0.max(shares.runs).max(shares.stopped) / 2.0;
    let much = waits.iter().filter(|(share, _)| *share >= least);
    let waits: Vec<String> = much.map(|(_, what)| (*what).to_owned()).collect();
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

/// `runs 55 % of the time and waits for a processor 40 %`. `on_pipes` is how long it waits on pipes of
/// its own.
fn state(activity: MainActivity, shares: &Shares, on_pipes: f64, is_one: bool) -> String {
    let s = if is_one { "s" } else { "" };
    let waits = |what: &str, share: f64| format!("wait{s} for {what} {}", percent(share));
    let runs = (shares.runs, format!("run{s} {}", percent(shares.runs)));
    let queued = (shares.queued, waits("a processor", shares.queued));
    let disk = (shares.disk, waits("a disk", shares.disk));
    let pipe = (on_pipes, waits("a pipe of its own", on_pipes));
    let (first, others) = match activity {
        MainActivity::Runs => (runs, [queued, disk, pipe]),
        MainActivity::WaitsForProcessor => (queued, [runs, disk, pipe]),
        MainActivity::WaitsForDisk => (disk, [runs, queued, pipe]),
        MainActivity::WaitsForPipe => (pipe, [runs, queued, disk]),
        MainActivity::WaitsFor(outside) => {
            return format!("{} of the time", waits(outside.name(), shares.elsewhere));
        }
        MainActivity::IsStopped => {
            let verb = if is_one { "is" } else { "are" };
            return format!("{verb} stopped {} of the time", percent(shares.stopped));
        }
    };
    let others = others
        .into_iter()
        .filter(|(share, _)| *share >= MIN_MENTIONED);
    let others: Vec<String> = others.map(|(_, text)| text).collect();
    let all = std::iter::once(format!("{} of the time", first.1)).chain(others);
    list(all)
}

fn remedy(
    bottleneck: &Bottleneck,
    activity: MainActivity,
    shares: &Shares,
    name: &str,
    has_small_calls: bool,
) -> String {
    if let Some(text) = limited_text(bottleneck, activity, name, has_small_calls) {
        return text;
    }
    let waits_for_pipes = bottleneck.waits >= MIN_MENTIONED;
    let is_emptied = matches!(bottleneck.room, Room::Emptied { .. });
    // Stages that wait for processors take them from each other less often with larger pipes.
    let is_queued = shares.queued >= MIN_MENTIONED
        || bottleneck.threads_queued >= MAX_ONLY_QUEUED
        || bottleneck.delay.is_some();
    let pipes = match bottleneck.room {
        Room::Usual | Room::NeverFull if !waits_for_pipes && !is_queued => "; larger pipes don't",
        _ => "",
    };
    let delay = bottleneck.delay.as_ref().map(describe_delay);
    let text = match activity {
        MainActivity::Runs if has_small_calls && bottleneck.children.is_none() => {
            format!(
                "Fewer calls would help (see below){pipes}.{}",
                more_time_text(bottleneck)
            )
        }
        MainActivity::Runs if is_filled_by_children(bottleneck) => {
            let delay = delay.unwrap_or_else(|| UNKNOWN_DELAY.to_owned());
            format!("More processor time helps: {delay}.")
        }
        MainActivity::Runs => faster_text(bottleneck, shares, name, pipes),
        MainActivity::WaitsForProcessor if bottleneck.children.is_some() && delay.is_none() => {
            format!("A faster {name} helps{pipes}.")
        }
        MainActivity::WaitsForProcessor => {
            let delay = delay.unwrap_or_else(|| UNKNOWN_DELAY.to_owned());
            format!("More processor time helps{pipes}: {delay}.")
        }
        MainActivity::WaitsForDisk => {
            let is_only = delay.is_none() && !is_emptied;
            let delay = delay.map_or(String::new(), |delay| {
                format!(" More processor time helps, too: {delay}.")
            });
            if shares.runs >= MIN_MENTIONED {
                format!("A faster disk, less data or a faster {name} helps{pipes}.{delay}")
            } else if is_only {
                format!("Only a faster disk or less data helps{pipes}.")
            } else {
                format!("A faster disk or less data helps.{delay}")
            }
        }
        MainActivity::IsStopped => stopped_text(bottleneck, shares),
        MainActivity::WaitsFor(Outside::FifoPeer) => {
            "Start the program that opens the other end.".to_owned()
        }
        MainActivity::WaitsForPipe => "See what is at the other end of that pipe.".to_owned(),
        MainActivity::WaitsFor(_)
            if matches!(bottleneck.room, Room::Usual | Room::NeverFull)
                && shares.elsewhere >= MIN_ALL =>
        {
            "The pipes are not the cause.".to_owned()
        }
        MainActivity::WaitsFor(_) => String::new(),
    };
    let is_helped = match activity {
        MainActivity::IsStopped | MainActivity::WaitsFor(Outside::FifoPeer) => false,
        // What it waits for on pipes comes later for the same reason.
        // A limiter waits for its timer whatever the pipes hold.
        MainActivity::WaitsForProcessor | MainActivity::WaitsFor(Outside::Timer) => {
            matches!(bottleneck.room, Room::Small { .. } | Room::Emptied { .. })
        }
        // Who answers it may be busy all the time.
        MainActivity::WaitsFor(_) => matches!(bottleneck.room, Room::Small { .. }),
        _ => true,
    };
    let stopped = if bottleneck.is_stopped && activity != MainActivity::IsStopped {
        format!(" It is stopped now: 'kill -CONT {}'.", bottleneck.stage.pid)
    } else {
        String::new()
    };
    let room = if is_helped {
        room_text(bottleneck)
    } else {
        String::new()
    };
    (text + &room + &stopped).trim().to_owned()
}

/// What may help, if a stage limits the rate by pauses.
fn limited_text(
    bottleneck: &Bottleneck,
    activity: MainActivity,
    name: &str,
    has_small_calls: bool,
) -> Option<String> {
    let limiter = bottleneck.limiter.as_ref()?;
    if limiter.stage == bottleneck.stage {
        let text = "If what it waits for comes at a fixed rate, that limits the pipeline; if it pauses \
                    after each piece, a faster stage next to it helps, too.";
        return Some(text.to_owned());
    }
    helpful(activity, name, has_small_calls).map(|what| unless_limited(what, limiter))
}

/// What would help most, if the stage itself is the cause.
fn helpful(activity: MainActivity, name: &str, has_small_calls: bool) -> Option<String> {
    match activity {
        MainActivity::Runs if has_small_calls => Some("Fewer calls (see below)".to_owned()),
        MainActivity::Runs => Some(format!("A faster {name}")),
        MainActivity::WaitsForProcessor => Some("More processor time".to_owned()),
        MainActivity::WaitsForDisk => Some("A faster disk".to_owned()),
        MainActivity::WaitsForPipe | MainActivity::WaitsFor(_) | MainActivity::IsStopped => None,
    }
}

/// The only remedy that may be right where another stage may limit the rate.
fn unless_limited(what: String, limiter: &PausingStage) -> String {
    format!(
        "{what} would help unless {} limits the rate: it waits for {} {} of the time.",
        limiter.stage.name,
        limiter.outside.name(),
        percent(limiter.share)
    )
}

/// How a stopped stage goes on.
fn stopped_text(bottleneck: &Bottleneck, shares: &Shares) -> String {
    let by_turns = "stopped and continued by turns, as cpulimit(1) does";
    let pid = bottleneck.stage.pid;
    if !bottleneck.is_stopped {
        format!("It is {by_turns}.")
    } else if shares.stopped < MIN_ALL {
        format!("It is stopped now: 'kill -CONT {pid}', unless it is {by_turns}.")
    } else {
        format!("Continue it by 'kill -CONT {pid}'.")
    }
}

/// That a faster program helps, and what else does, if it mainly runs.
fn faster_text(bottleneck: &Bottleneck, shares: &Shares, name: &str, pipes: &str) -> String {
    let also_disk = shares.disk >= MIN_MENTIONED;
    let iowait = disk_text(bottleneck).filter(|_| !also_disk);
    let is_emptied = matches!(bottleneck.room, Room::Emptied { .. });
    let queued = shares.queued.max(bottleneck.threads_queued);
    let waits = bottleneck.waits >= MIN_MENTIONED || queued >= MAX_ONLY_QUEUED;
    let pauses = bottleneck.children.is_none() && shares.elsewhere >= MIN_MENTIONED;
    let is_helped = also_disk || iowait.is_some() || waits || is_emptied || pauses;
    let is_only = bottleneck.delay.is_none() && !is_helped;
    let only = if is_only && shares.runs >= MIN_ONLY {
        "Only a"
    } else {
        "A"
    };
    let disk = if also_disk { " or a faster disk" } else { "" };
    let delay = more_time_text(bottleneck);
    let outside = bottleneck.outside.unwrap_or(Outside::Other);
    let pause = format!(
        " So does less waiting: it waits for {} {} of the time.",
        outside.name(),
        percent(shares.elsewhere)
    );
    let pause = if pauses { &*pause } else { "" };
    let iowait = iowait.unwrap_or_default();
    format!("{only} faster {name}{disk} helps{pipes}.{pause}{delay}{iowait}")
}

/// That more processor time helps, too, if the stage often waits for it.
fn more_time_text(bottleneck: &Bottleneck) -> String {
    bottleneck.delay.as_ref().map_or(String::new(), |delay| {
        format!(
            " More processor time helps, too: {}.",
            describe_delay(delay)
        )
    })
}

/// Whether the stages share all processors, and several children of the stage use most of them.
fn is_filled_by_children(bottleneck: &Bottleneck) -> bool {
    let is_largest = |delay: &Delay| match delay {
        Delay::OwnStages {
            largest,
            are_children,
            ..
        } => *are_children && *largest == bottleneck.stage,
        _ => false,
    };
    bottleneck.children.is_some() && bottleneck.delay.as_ref().is_some_and(is_largest)
}

/// That a faster disk may help, where children work while processors wait for disks: which of them
/// waited is not known of short-lived ones.
fn disk_text(bottleneck: &Bottleneck) -> Option<String> {
    let waits = bottleneck.children.is_some() && bottleneck.iowait >= MIN_MENTIONED;
    waits.then(|| {
        format!(
            " A faster disk may help, too: the processors waited for disks {} of the time.",
            percent(bottleneck.iowait)
        )
    })
}

/// Whether a larger pipe may help, too.
fn room_text(bottleneck: &Bottleneck) -> String {
    match bottleneck.room {
        Room::Small { capacity, .. } => format!(
            " A larger pipe may help, too: the one next to it holds only {}.",
            size::format(capacity)
        ),
        Room::Emptied { capacity } => format!(
            " A larger pipe helps, too, if it reads more than {} at a time: each of its reads takes all \
             that the pipe holds.",
            size::format(capacity)
        ),
        // Its data comes or is taken in bursts.
        Room::Usual if bottleneck.waits >= MIN_MENTIONED => format!(
            " A larger pipe may help, too: it waits on pipes {} of the time.",
            percent(bottleneck.waits)
        ),
        Room::Usual | Room::NeverFull | Room::Unknown => String::new(),
    }
}

const UNKNOWN_DELAY: &str = "what keeps it from running can't be seen here";

/// The sentences about stages of which none stands out since processors are lacking.
pub(super) fn describe_lack(names: Vec<String>, is_one: bool, delay: &Delay) -> String {
    let waits = if is_one {
        "waits for a processor"
    } else {
        "wait for processors"
    };
    format!(
        "No stage stands out as the bottleneck: {} {waits}. More processor time helps: {}.",
        list(names),
        describe_delay(delay)
    )
}

/// `other processes use 0.88 of processor 1 (end or move them)`.
fn describe_delay(delay: &Delay) -> String {
    let place = |allowed: &Option<CpuList>| match allowed {
        Some(only) if only.len() == 1 => format!("processor {only}"),
        Some(several) => format!("its {} processors", several.len()),
        None => "the processors".to_owned(),
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
        } => format!(
            "other processes use {} of {} (end them, move them or lower their priority)",
            significant(*processors),
            place(allowed)
        ),
        Delay::Hypervisor { steal } => format!(
            "the hypervisor takes {} of its processors' time (steal)",
            percent(*steal)
        ),
        Delay::OwnStages {
            stages,
            largest,
            used,
            are_children,
            allowed,
            processors,
        } => {
            let place = match (allowed, processors) {
                (Some(only), 1) => format!("processor {only}"),
                (_, 1) => "one processor".to_owned(),
                (_, several) => format!("{several} processors"),
            };
            let is_most = *used >= MIN_LARGEST * *processors as f64;
            if *stages == 1 {
                let (who, what) = if *are_children {
                    ("the children of", "any of them")
                } else {
                    ("the threads of", "it")
                };
                let name = &largest.name;
                return format!("{who} {name} share {place}, so less work in {what} helps");
            }
            let less = if is_most && *are_children {
                format!(
                    "of which the children of {} use {}, so less work in any of them helps",
                    largest.name,
                    significant(*used)
                )
            } else if is_most {
                format!(
                    "of which {} uses {}, so less work in it helps most",
                    largest.name,
                    significant(*used)
                )
            } else {
                "so less work in any of them helps".to_owned()
            };
            format!("the {stages} stages of the pipeline share {place}, {less}")
        }
        Delay::Unknown => UNKNOWN_DELAY.to_owned(),
    }
}

#[cfg(test)]
mod tests;
