//! What would help the bottleneck of a pipeline.

use pipespeed_base::size;
use pipespeed_pipeline::diagnosis::{Bottleneck, Delay, PausingStage, Room, Who};
use pipespeed_pipeline::sample::Shares;
use pipespeed_pipeline::wait::Outside;

use super::{
    MIN_MENTIONED, MainActivity, UNKNOWN_DELAY, children_activity, describe_delay, own_waits,
    percent,
};
use crate::format::list;

/// What a stage may do that waits for a timer.
const SCHEDULE: &str = "waits for the next time of a schedule";

/// A stage that waits for something else for this share of the time would gain nothing elsewhere.
const MIN_ALL: f64 = 0.97;
/// A stage that runs for a smaller share has something else to wait for, too.
const MIN_ONLY: f64 = 0.5;
/// So has one that is ready to run for this share, whatever keeps it from that.
const MAX_ONLY_QUEUED: f64 = 0.1;

/// What helps a stage that waits for a disk, where that may not be the disk's fault.
const IO_LIMIT: &str = "Its control group limits the bytes read and written a second (io.max; blkio.throttle in version 1): where it reaches \
     that, only a higher limit or less data helps, else a faster disk, too.";

/// What helps a stage that waits for a disk: one that waits for each of many small requests gains by larger
/// ones. Where processors are lacking, the kernel's own threads may wait for one to complete a request.
fn disk(bottleneck: &Bottleneck) -> &'static str {
    match bottleneck.delay {
        None | Some(Delay::Quota(_)) => "A faster disk, fewer and larger requests",
        Some(_) => "Fewer and larger requests",
    }
}

/// The sentences that say what would help.
pub(super) fn remedy(
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
    let delay = bottleneck.delay.as_ref();
    let delay = delay.map(|delay| describe_delay(delay, true));
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
            let unless = if bottleneck.children.is_none() && waits_for_timer(bottleneck) {
                format!(", unless it {SCHEDULE}")
            } else {
                String::new()
            };
            format!("More processor time helps{unless}{pipes}: {delay}.")
        }
        MainActivity::WaitsForDisk => {
            let is_only = delay.is_none() && !is_emptied;
            let delay = more_time_text(bottleneck);
            let disk = disk(bottleneck);
            if bottleneck.has_io_limit {
                format!("{IO_LIMIT}{delay}")
            } else if shares.runs >= MIN_MENTIONED {
                format!("{disk}, less data or a faster {name} helps{pipes}.{delay}")
            } else if is_only {
                format!("{disk} or less data helps{pipes}.")
            } else {
                format!("{disk} or less data helps.{delay}")
            }
        }
        MainActivity::IsStopped => stopped_text(bottleneck, shares),
        MainActivity::WaitsForPipe => "See what is at the other end of that pipe.".to_owned(),
        MainActivity::WaitsFor(outside) => outside_text(bottleneck, outside, shares),
    };
    let stopped = if bottleneck.is_stopped && activity != MainActivity::IsStopped {
        format!(" It is stopped now: 'kill -CONT {}'.", bottleneck.stage.pid)
    } else {
        String::new()
    };
    let room = if is_helped_by_room(bottleneck, activity) {
        room_text(bottleneck, activity)
    } else {
        String::new()
    };
    (text + &room + &stopped).trim().to_owned()
}

/// What helps a stage that waits for something outside of pipes.
fn outside_text(bottleneck: &Bottleneck, outside: Outside, shares: &Shares) -> String {
    let has_room = matches!(bottleneck.room, Room::Usual | Room::NeverFull);
    if outside == Outside::FifoPeer {
        return "It goes on when another program opens the other end.".to_owned();
    }
    let pipes = if has_room && shares.elsewhere >= MIN_ALL {
        "The pipes are not the cause."
    } else {
        ""
    };
    let peer = bottleneck
        .peer
        .as_ref()
        .filter(|_| outside == Outside::Socket);
    let other = peer.map_or_else(
        || child_text(bottleneck),
        |Who { pid, name }| format!(" 'pipespeed doctor {pid}' shows what {name} does."),
    );
    format!("{pipes}{other}")
}

/// Whether a larger pipe may help a stage that mainly does this.
fn is_helped_by_room(bottleneck: &Bottleneck, activity: MainActivity) -> bool {
    match activity {
        MainActivity::IsStopped | MainActivity::WaitsFor(Outside::FifoPeer) => false,
        // What it waits for on pipes comes later for the same reason.
        // A limiter waits for its timer whatever the pipes hold.
        MainActivity::WaitsForProcessor | MainActivity::WaitsFor(Outside::Timer) => {
            matches!(bottleneck.room, Room::Small { .. } | Room::Emptied { .. })
        }
        // Who answers it may be busy all the time.
        MainActivity::WaitsFor(_) => matches!(bottleneck.room, Room::Small { .. }),
        _ => true,
    }
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
        if let Some(what) = helpful(activity, name, has_small_calls) {
            return Some(unless_mover_limits(what, limiter));
        }
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

/// The same of a stage of which another thread moves the data than the one that runs.
fn unless_mover_limits(what: String, mover: &PausingStage) -> String {
    format!(
        "{what} would help unless its thread that moves the data limits the rate: that one waits for {} {} of the \
         time.",
        mover.outside.name(),
        percent(mover.share)
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
    let queued = shares.queued.max(bottleneck.threads_queued);
    let waits = bottleneck.waits >= MIN_MENTIONED || queued >= MAX_ONLY_QUEUED;
    let pauses = bottleneck.children.is_none() && shares.elsewhere >= MIN_MENTIONED;
    let is_helped = also_disk || iowait.is_some() || waits || pauses || pipes.is_empty();
    // To run more children at once, or fewer, or another one of them, helps, too.
    // Several threads may wait together for longer than is seen.
    let is_alone = bottleneck.children.is_none() && !bottleneck.has_threads;
    let is_only = bottleneck.delay.is_none() && is_alone && !is_helped;
    let only = if is_only && shares.runs >= MIN_ONLY {
        "Only a"
    } else {
        "A"
    };
    let disk = match bottleneck.delay {
        _ if !also_disk => "",
        _ if bottleneck.has_io_limit => {
            " or a faster disk (unless it reaches the limit of its control group)"
        }
        None | Some(Delay::Quota(_)) => " or a faster disk",
        Some(_) => ", or fewer and larger requests",
    };
    let delay = more_time_text(bottleneck);
    let outside = own_waits(bottleneck, MIN_MENTIONED);
    let is_known = !outside.is_empty();
    let outside = outside
        .into_iter()
        .map(|(what, share)| format!("for {what} {}", percent(share)));
    let pause = format!(
        " So does less waiting: it waits {} of the time.",
        list(outside)
    );
    let pause = if pauses && is_known { &*pause } else { "" };
    let iowait = iowait.unwrap_or_default();
    let are_short = bottleneck
        .children
        .as_ref()
        .is_some_and(|children| children.are_short);
    let fewer = if are_short {
        ", or fewer starts of it"
    } else {
        ""
    };
    let is_inserted = [disk, fewer].iter().any(|other| other.starts_with(','));
    let comma = if is_inserted { "," } else { "" };
    format!("{only} faster {name}{disk}{fewer}{comma} helps{pipes}.{pause}{delay}{iowait}")
}

/// That a faster child may help, if the stage waits for something else by turns: it may keep to a schedule.
fn child_text(bottleneck: &Bottleneck) -> String {
    let children = bottleneck.also_awaited.as_ref();
    let running = children.filter(|children| children_activity(children) == MainActivity::Runs);
    let name = running.and_then(|children| children.names.first());
    name.map_or(String::new(), |name| {
        format!(" A faster {name} may help, unless it {SCHEDULE}.")
    })
}

/// Whether a stage, which wakes up late where processors are lacking, waits for a timer for a while.
fn waits_for_timer(bottleneck: &Bottleneck) -> bool {
    let waits = bottleneck.outside.iter();
    let timers = waits.filter(|(outside, _)| outside.may_be_timer());
    timers.map(|(_, share)| share).sum::<f64>() >= MIN_MENTIONED
}

/// That more processor time helps, too, if the stage often waits for it.
fn more_time_text(bottleneck: &Bottleneck) -> String {
    bottleneck.delay.as_ref().map_or(String::new(), |delay| {
        format!(
            " More processor time helps, too: {}.",
            describe_delay(delay, true)
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
fn room_text(bottleneck: &Bottleneck, activity: MainActivity) -> String {
    match bottleneck.room {
        Room::Small { capacity, .. } => format!(
            " A larger pipe may help, too: the one next to it holds only {}.",
            size::format(capacity)
        ),
        // A limit of bytes a second is none of calls.
        Room::Emptied { .. } if bottleneck.has_io_limit => String::new(),
        // It may read at a fixed rate.
        Room::Emptied { capacity } if matches!(activity, MainActivity::WaitsFor(_)) => format!(
            " A larger pipe may help, if it reads more than {} at a time: each of its reads takes all that the \
             pipe holds.",
            size::format(capacity)
        ),
        Room::Emptied { capacity } => format!(
            " A larger pipe may help, too, if it reads more than {} at a time: each of its reads takes all \
             that the pipe holds.",
            size::format(capacity)
        ),
        // Its data comes or is taken in bursts, unless whoever it waits for waits for a processor, as it does.
        Room::Usual if bottleneck.waits >= MIN_MENTIONED && bottleneck.delay.is_none() => format!(
            " A larger pipe may help, too: it waits on pipes {} of the time.",
            percent(bottleneck.waits)
        ),
        Room::Usual | Room::NeverFull | Room::Unknown => String::new(),
    }
}
