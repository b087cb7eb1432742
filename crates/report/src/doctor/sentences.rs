//! A sentence for each finding.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_pipeline::diagnosis::{
    ActiveStage, Bottleneck, Finding, IdleReader, LeakedWriteEnd, MutualWait, SmallCalls,
    SmallPipeCause, Unread, WaitingSide, Who, verdict,
};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::{Language, LinkId};
use pipespeed_pipeline::raise;
use pipespeed_pipeline::wait::Outside;

use super::deadlock::{OPEN_FIFO, deadlock_text};
use super::names::{descriptor, full, full_of_active, is_one, others_alike, pipe_name};
use super::remedies;
use super::table::percent;
use super::unclear::{event_loops_text, unclear_text};
use crate::bottleneck::{describe_bottleneck, describe_children, describe_lack};
use crate::format::{list, pluralize, significant};
use crate::style::{RED, Style};

/// What was found, with its remedy. `alike` are this finding and those that differ only in the holder
/// of a write end, or in which of its outputs it is.
pub(super) fn describe(
    observation: &Observation,
    all: &[Finding],
    finding: &Finding,
    alike: &[&Finding],
    style: Style,
) -> String {
    match finding {
        Finding::Deadlock(deadlock) => {
            let first = verdict(observation, all).1;
            let is_said = first.is_some_and(|first| std::ptr::eq(first, finding));
            deadlock_text(observation, deadlock, is_said, style)
        }
        Finding::Held {
            pipe,
            holder,
            is_stuck,
        } => {
            let text = held_text(observation, *pipe, holder.as_ref());
            if *is_stuck {
                style.note(&format!("STUCK: {text}"), RED)
            } else {
                style.sentence(&text)
            }
        }
        Finding::Bottleneck(bottleneck) => {
            let has_small_calls = all.iter().any(|finding| match finding {
                Finding::SmallCalls(calls) => calls.process == bottleneck.stage,
                _ => false,
            });
            let text = bottleneck_text(bottleneck, has_small_calls);
            let others = others_alike(finding, alike);
            style.sentence(&(text + &remote_peers(observation, bottleneck) + &others))
        }
        Finding::Unread(unread) => style.sentence(&unread_text(observation, unread)),
        Finding::MutualWait(mutual) => style.sentence(&mutual_text(observation, mutual)),
        Finding::FifoPeer { process, path } => style.sentence(&format!(
            "{} waits until another process opens the other end of {}. Remedy: start that program{OPEN_FIFO}",
            full(process),
            path.as_deref().unwrap_or("a FIFO"),
        )),
        Finding::UnseenPeer {
            process,
            pipe,
            side,
        } => style.sentence(&unseen_text(observation, process, *pipe, *side)),
        Finding::PingPong {
            stages,
            delay: Some(delay),
        } => {
            let names = stages.iter().map(full_of_active).collect();
            style.sentence(&describe_lack(names, is_one(stages), delay))
        }
        Finding::PingPong {
            stages,
            delay: None,
        } => style.sentence(&turns_text(observation, stages)),
        Finding::Unclear { event_loops, .. } if !event_loops.is_empty() => {
            style.sentence(&event_loops_text(event_loops))
        }
        Finding::Unclear { active, .. } => style.sentence(&unclear_text(observation, active)),
        Finding::LeakedWriteEnd(leaked) => {
            style.sentence(&leaked_text(observation, leaked, alike))
        }
        Finding::SmallCalls(calls) => style.sentence(&small_calls_text(calls)),
        Finding::SmallPipe {
            pipe,
            capacity,
            cause,
            between,
        } => style.sentence(&format!(
            "{} between {} has only {}: {}.",
            pipe_name(observation, *pipe),
            list(between.iter().map(full)),
            size::format(*capacity),
            small_pipe_cause(*cause)
        )),
    }
}

fn turns_text(observation: &Observation, stages: &[ActiveStage]) -> String {
    let remedy = if may_larger_pipe_help(observation, stages) {
        let line = boost_line(observation, stages);
        format!(" A larger pipe between them may help: {line}.")
    } else {
        String::new()
    };
    format!(
        "No stage stands out as the bottleneck: {} wait for each other by turns.{remedy}",
        list(stages.iter().map(|stage| full(&stage.who))),
    )
}

/// Stages that wait for a smaller share of the time take no turns.
const MIN_TURNS: f64 = 0.1;
fn held_text(observation: &Observation, pipe: LinkId, holder: Option<&Who>) -> String {
    let holder = holder.map_or_else(|| "A process".to_owned(), full);
    format!(
        "{holder} splices and holds the lock of {} meanwhile: nobody else can read, write, open or \
         close this pipe. It goes on once the other side of the splice sends data, or takes some.",
        pipe_name(observation, pipe)
    )
}

fn unseen_text(observation: &Observation, process: &Who, pipe: LinkId, side: LinkSide) -> String {
    let what = match side {
        LinkSide::Input => "input on",
        LinkSide::Room => "room in",
    };
    format!(
        "{} waits for {what} {}, and no process that can be examined has the other end: it is in the hands \
         of one that can't be, of a thread with descriptors of its own, or in a message between processes \
         (SCM_RIGHTS).",
        full(process),
        pipe_name(observation, pipe)
    )
}

fn leaked_text(observation: &Observation, leaked: &LeakedWriteEnd, alike: &[&Finding]) -> String {
    let reader = full(&leaked.reader);
    let also = if leaked.is_last {
        ""
    } else {
        "also once its writers have ended, "
    };
    let holder = if leaked.holder == leaked.reader {
        "it".to_owned()
    } else {
        full(&leaked.holder)
    };
    let waits_for_reader = leaked.waits_for.contains(&leaked.reader);
    let waits_for = if leaked.waits_for.is_empty() {
        String::new()
    } else if waits_for_reader {
        format!(" It waits for the end of {reader}.")
    } else {
        let children = list(leaked.waits_for.iter().map(full));
        format!(" It waits for {children}, without that descriptor.")
    };
    let alike = alike.iter().filter_map(|finding| match finding {
        Finding::LeakedWriteEnd(other) => Some(other),
        _ => None,
    });
    let (own, others): (Vec<_>, Vec<_>) = alike.partition(|other| other.holder == leaked.holder);
    let fds = own.iter().map(|other| other.fd);
    let fds = fds.filter(|fd| *fd != leaked.fd).unique();
    let mut same: Vec<String> = fds.map(|fd| format!("its {}", descriptor(fd))).collect();
    let others = others.iter().map(|other| other.holder.pid).unique().count();
    if others > 0 {
        same.push(pluralize(others, "other process"));
    }
    let others = if same.is_empty() {
        String::new()
    } else {
        format!(" The same holds for {}.", list(same))
    };
    format!(
        "{reader} waits for input or its end on {}, but {also}{holder} holds a write end ({}), and wrote \
         nothing in {} s.{waits_for} {} can't reach the end of file until that is closed. {}{others}",
        pipe_name(observation, leaked.pipe),
        descriptor(leaked.fd),
        significant(observation.seconds),
        leaked.reader.name,
        remedies::leaked(observation, leaked, waits_for_reader),
    )
}

fn mutual_text(observation: &Observation, mutual: &MutualWait) -> String {
    let side = |side: &WaitingSide| {
        let at = side
            .fd
            .map_or(String::new(), |fd| format!(" ({})", descriptor(fd)));
        format!(
            "{} waits for what only {} can write, in {}{at}",
            full(&side.who),
            list(side.writers.iter().map(full)),
            pipe_name(observation, side.pipe)
        )
    };
    let sides: Vec<String> = mutual.sides.iter().map(side).collect();
    let none = match sides.len() {
        2 => "Neither",
        _ => "None of them",
    };
    let with_timeout = mutual.sides.iter().filter(|side| side.has_timeout);
    let timeouts = with_timeout.map(|side| {
        let who = full(&side.who);
        format!(" {who} also waits for a timeout, upon which it may send.")
    });
    format!(
        "{}. {none} sent anything in {} s.{} That is no fault if one of them waits for a reason of its \
         own to begin. If not: {}",
        sides.join("; "),
        significant(observation.seconds),
        timeouts.collect::<String>(),
        remedies::mutual(observation, mutual)
    )
}

fn small_calls_text(calls: &SmallCalls) -> String {
    let wakes = match &calls.wakes {
        Some(who) => format!(", and wakes {} each time", full(who)),
        None => String::new(),
    };
    let verb = match calls.side {
        LinkSide::Input => "reads",
        LinkSide::Room => "writes",
    };
    // Nothing but a shell's `read` reads a pipe byte by byte on purpose: what it must leave to
    // the next program it may not take.
    let remedy = match calls.side {
        LinkSide::Input if calls.bytes_per_call < MAX_SHELL_READ => {
            "A shell's 'read' takes a pipe byte by byte and can't do better: let awk or \
             another program read the lines, or put them into a file. Any other program needs \
             a larger buffer."
        }
        LinkSide::Input => "A larger buffer would save most of these calls.",
        LinkSide::Room if calls.wakes.is_some() => {
            "Buffering (no flush after each line) would save most of these calls."
        }
        LinkSide::Room => {
            "Larger pieces (a buffer, no flush after each line) would save most of these calls."
        }
    };
    format!(
        "{} {verb} only {} a call, {} times a second{wakes}. {remedy}",
        full(&calls.process),
        count_bytes(calls.bytes_per_call),
        significant(calls.calls_per_s),
    )
}

/// Fewer bytes a call are those of a shell's `read`.
const MAX_SHELL_READ: f64 = 1.05;

fn count_bytes(mean: f64) -> String {
    if mean < MAX_SHELL_READ {
        "one byte".to_owned()
    } else {
        format!("{} bytes", significant(mean))
    }
}

/// Why a pipe is small, and what can be done.
fn small_pipe_cause(cause: SmallPipeCause) -> &'static str {
    match cause {
        SmallPipeCause::SoftLimit => {
            "the pipes of this user exceed /proc/sys/fs/pipe-user-pages-soft, so that new ones are \
             small. Remedy: close or shrink others, or raise that limit"
        }
        SmallPipeCause::MaxSize => {
            "/proc/sys/fs/pipe-max-size allows no more. Remedy: raise that limit"
        }
        SmallPipeCause::Program => {
            "a program has set it (F_SETPIPE_SZ). Remedy: let that program choose 64KiB or more"
        }
        SmallPipeCause::ProgramOrLimit => {
            "a program has set it (F_SETPIPE_SZ), or a limit was reached when it was made \
             (/proc/sys/fs/pipe-user-pages-soft or pipe-max-size)"
        }
        SmallPipeCause::Unknown => "why can't be seen here",
    }
}

fn unread_text(observation: &Observation, unread: &Unread) -> String {
    let readers = unread.readers.iter().map(|reader| {
        let name = full(&reader.who);
        let does = match (&reader.child, reader.waits_for) {
            _ if reader.is_stopped => "is stopped".to_owned(),
            _ if reader.unread_by_writer.is_some()
                || remedies::reads_another(observation, reader, unread) =>
            {
                reads_instead(observation, reader, unread)
            }
            // A JVM has one for each child.
            (Some(child), _) if remedies::language(observation, &reader.who) == Language::Java => {
                format!(
                    "has a thread that waits for the end of its child {}",
                    full(child)
                )
            }
            (Some(child), _) => format!("waits for the end of its child {}", full(child)),
            (None, _) if reader.children.is_some() => {
                reader.children.iter().map(describe_children).collect()
            }
            (None, Some(what)) => format!("waits for {}", what.name()),
            (None, None) => reads_instead(observation, reader, unread),
        };
        let at = reader
            .fd
            .map_or(String::new(), |fd| format!(" at its {}", descriptor(fd)));
        format!("{name}, which can read it{at}, {does}")
    });
    format!(
        "{} waits for room in {}, and nobody read from it in {} s: {}. {}",
        full(&unread.writer),
        pipe_name(observation, unread.pipe),
        significant(observation.seconds),
        list(readers),
        remedies::unread(observation, unread)
    )
}

/// What a reader does that neither sleeps nor waits for anything outside of links.
fn reads_instead(observation: &Observation, reader: &IdleReader, unread: &Unread) -> String {
    if let Some(link) = reader.unread_by_writer {
        return format!(
            "may wait for room itself, in {}, from which {} does not read either",
            pipe_name(observation, link),
            unread.writer.name
        );
    }
    let process = observation.find(reader.who.pid);
    let waits = process.map_or(&[][..], |process| &process.on[..]);
    let mut others = waits.iter().filter(|on| on.pipe != unread.pipe);
    let other = others.next().map(|on| {
        let verb = match on.side {
            LinkSide::Input => "input",
            LinkSide::Room => "room",
        };
        format!("waits for {verb} on {}", pipe_name(observation, on.pipe))
    });
    other.unwrap_or_else(|| "does not".to_owned())
}

/// Whether a larger pipe may help these stages: there is one at which two of them wait by turns, and `boost` would
/// make it larger. A connection or a terminal can't be.
fn may_larger_pipe_help(observation: &Observation, stages: &[ActiveStage]) -> bool {
    let waits = |pid: i32, pipe: LinkId, side: LinkSide| {
        let process = observation.find(pid);
        let on = process.into_iter().flat_map(|process| &process.on);
        let mut on = on.filter(|on| (on.pipe, on.side) == (pipe, side));
        on.any(|on| on.share >= MIN_TURNS) && stages.iter().any(|stage| stage.who.pid == pid)
    };
    let is_large = |pipe: LinkId| {
        let link = observation.link(pipe);
        let capacity = link.and_then(|link| link.capacity);
        capacity.is_some_and(|bytes| bytes >= raise::TARGET)
    };
    observation.edges().into_iter().any(|(from, to, pipe)| {
        !pipe.is_direction()
            && !is_large(pipe)
            && waits(from, pipe, LinkSide::Room)
            && waits(to, pipe, LinkSide::Input)
    })
}

/// The command that raises the pipes between these stages.
fn boost_line(observation: &Observation, stages: &[ActiveStage]) -> String {
    let of = |stage: &ActiveStage| {
        let process = observation
            .find(stage.who.pid)
            .filter(|process| !process.has_ended)?;
        Some(process.process.parent)
    };
    let parents = stages.iter().map(of).unique().collect::<Vec<_>>();
    match parents[..] {
        [Some(parent)] if parent > 1 => format!("'pipespeed boost --pid {parent}'"),
        _ => "'pipespeed boost COMMAND'".to_owned(),
    }
}

/// Where the other sides of its sockets are, if it waits for one on another machine.
fn remote_peers(observation: &Observation, bottleneck: &Bottleneck) -> String {
    const MAX: usize = 3;
    let waits = bottleneck.children.is_none()
        && matches!(
            bottleneck.awaited(),
            Some(Outside::Socket | Outside::SocketOrTimer)
        );
    let process = observation.find(bottleneck.stage.pid).filter(|_| waits);
    let remotes = process.map(|process| &process.process.remotes);
    match remotes {
        Some(remotes) if (1..=MAX).contains(&remotes.len()) => {
            let remotes = remotes.iter().map(|address| address.to_string());
            format!(" Its peer is at {}.", list(remotes))
        }
        _ => String::new(),
    }
}

fn bottleneck_text(bottleneck: &Bottleneck, has_small_calls: bool) -> String {
    let stage = full(&bottleneck.stage);
    let verb = bottleneck.verb();
    let text = describe_bottleneck(bottleneck, has_small_calls);
    let waits = |stages: &[(Who, f64)], what: &str| {
        let most = stages.iter().filter(|(_, share)| *share >= 0.05);
        let names = most.map(|(who, share)| format!("{} {}", full(who), percent(*share)));
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| format!("{what} {}", list(names)))
    };
    let others = [
        waits(&bottleneck.before, "before it, waiting for room:"),
        waits(&bottleneck.after, "after it, waiting for input:"),
    ];
    let others = others.into_iter().flatten().join("; ");
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(" ({others})")
    };
    let text = if bottleneck.is_alone() {
        format!("{stage} {}. {}", text.does, text.remedy)
    } else {
        format!(
            "{stage} {verb} the bottleneck: it {}{others}. {}",
            text.does, text.remedy
        )
    };
    let text = text.trim_end();
    let bystanders = bystanders_text(&bottleneck.bystanders);
    format!("{text}{bystanders}")
}

/// Why some busy processes were left out, if any were.
fn bystanders_text(bystanders: &[Who]) -> String {
    let (has, it, is) = match bystanders.len() {
        0 => return String::new(),
        1 => ("is busy, has", "it", "was"),
        _ => ("are busy, have", "they", "were"),
    };
    format!(
        " {} {has} the same output, and wrote nothing: {it} {is} left out.",
        list(bystanders.iter().map(full))
    )
}
