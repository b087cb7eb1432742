//! Sentences about processes that wait for each other.

use itertools::Itertools as _;
use pipespeed_pipeline::diagnosis::{
    Certainty, Deadlock, DeadlockKind, DeadlockMember, PossibleEnd, WaitReason,
};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::{Language, LinkId};

use super::names::{descriptor, full, pipe_name};
use super::remedies;
use crate::format::list;
use crate::style::{RED, Style};

/// What else helps who waits at a FIFO. That it has lost its name since can't be seen here.
pub(super) const OPEN_FIFO: &str = ", or open it by O_NONBLOCK or O_RDWR. If the FIFO was deleted or made anew meanwhile, \
     only starting what waits there again helps.";

/// The headline unless it `is_said`, a line for each member, and the remedy.
pub(super) fn deadlock_text(
    observation: &Observation,
    deadlock: &Deadlock,
    is_said: bool,
    style: Style,
) -> String {
    let stuck = match deadlock.certainty {
        Certainty::Clear => "STUCK",
        Certainty::Likely => "PROBABLY STUCK",
    };
    let mut lines = Vec::new();
    if !is_said {
        lines.push(style.note(&format!("{stuck}: {}", headline(deadlock)), RED));
    }
    for member in &deadlock.members {
        let reasons = member
            .reasons
            .iter()
            .map(|process| reason(observation, member, process));
        let text = format!(
            "  {} waits for {}.",
            full(&member.who),
            reasons.unique().join(", or ")
        );
        lines.push(style.sentence(&text));
    }
    if !deadlock.waiting.is_empty() {
        let text = format!(
            "  Waiting for them: {}.",
            list(deadlock.waiting.iter().map(full))
        );
        lines.push(style.sentence(&text));
    }
    if !deadlock.doubts.is_empty() {
        let doubts = deadlock.doubts.iter().map(|doubt| match doubt {
            PossibleEnd::HiddenProcess => {
                "a process that can't be examined may have an end of these pipes"
            }
            PossibleEnd::SignalHandler => "a signal handler of one of them may read or write",
            PossibleEnd::Timeout => "timeout(1) may end one of them",
            PossibleEnd::OtherProcess => {
                "another process goes on, or has a timer, and may end one of them"
            }
            PossibleEnd::Anybody => "a program or a person from outside may end this",
        });
        let doubts = list(doubts.map(str::to_owned));
        lines.push(style.sentence(&format!("  Only probably: {doubts}.")));
    }
    let remedy = remedy(observation, deadlock);
    lines.push(style.sentence(&format!("  Remedy: {remedy}")));
    lines.join("\n")
}

/// Whether a process in it waits for the end of a child.
fn waits_for_child(deadlock: &Deadlock) -> bool {
    let mut reasons = deadlock.members.iter().flat_map(|member| &member.reasons);
    reasons.any(|reason| matches!(reason, WaitReason::Child { .. }))
}

/// Who waits, and why nobody goes on.
pub(super) fn headline(deadlock: &Deadlock) -> String {
    let names = list(deadlock.members.iter().map(|member| full(&member.who)));
    match deadlock.kind {
        DeadlockKind::AllWrite => {
            format!("{names} wait for each other: all write, and none reads.")
        }
        DeadlockKind::AllRead if waits_for_child(deadlock) => format!(
            "{names} wait for each other: for data or for the end of a child, and none writes."
        ),
        DeadlockKind::AllRead => format!("{names} wait for each other: all read, and none writes."),
        DeadlockKind::OtherPipe => format!(
            "{names} wait for each other: one writes to a pipe whose reader waits for something \
             else."
        ),
        DeadlockKind::UnreadOutput => format!(
            "{names} wait for each other: a process waits for the end of its child, but does not \
             read the child's output."
        ),
        DeadlockKind::MissingEnd => format!(
            "{names} wait for each other: an input does not end because a process that waits for \
             its reader keeps it open."
        ),
        DeadlockKind::OwnEnd => format!("{names} waits for input that only it could write itself."),
        DeadlockKind::OwnOutput => {
            format!("{names} waits for room in a pipe that only it could read itself.")
        }
        DeadlockKind::NoPeer => format!("{names} waits until another process opens the FIFO."),
        DeadlockKind::Stopped => format!("{names} is stopped."),
    }
}

fn remedy(observation: &Observation, deadlock: &Deadlock) -> String {
    match (deadlock.kind, deadlock.members.first()) {
        (DeadlockKind::AllWrite, _) => {
            "one of them must read before it writes more: with poll(2), or in a thread of its own. \
             A larger pipe only delays this."
                .to_owned()
        }
        (DeadlockKind::AllRead, _) => {
            "one of them must write first (is its output still in a buffer that was not flushed?), \
             or close its write end."
                .to_owned()
        }
        (DeadlockKind::OtherPipe, _) => {
            let how = remedies::read_both(language(observation, deadlock));
            format!("read both at once ({how}), or send one to a file.")
        }
        (DeadlockKind::UnreadOutput, _) => {
            let how = remedies::read_first(language(observation, deadlock), None);
            format!(
                "read the child's output to its end before waiting for the child ({how}), or send it \
                 to a file."
            )
        }
        (DeadlockKind::MissingEnd, _) => missing_end_remedy(observation, deadlock),
        (DeadlockKind::OwnEnd, Some(member)) => {
            let fds = own_write_ends(observation, member);
            format!("close {} before reading to the end.", list(fds.map(descriptor)))
        }
        (DeadlockKind::OwnOutput, _) => {
            "start the reader before writing more than the pipe holds, write in a thread of its own, \
             or use a file."
                .to_owned()
        }
        (DeadlockKind::NoPeer, _) => format!("start the program that opens the other end{OPEN_FIFO}"),
        (DeadlockKind::Stopped, Some(member)) => {
            let pid = member.who.pid;
            let process = observation.find(pid);
            if process.is_some_and(|process| process.is_in_background) {
                format!(
                    "'fg' in its shell, if it was stopped since it read its terminal in the background \
                     ('< /dev/null' avoids that); else kill -CONT {pid}"
                )
            } else {
                format!("kill -CONT {pid}")
            }
        }
        _ => String::new(),
    }
}

/// What the member is written in that is none of a shell's commands, if one is known.
fn language(observation: &Observation, deadlock: &Deadlock) -> Language {
    let members = deadlock.members.iter();
    let mut languages = members
        .filter_map(|member| Some(observation.find(member.who.pid)?.language))
        .filter(|language| !matches!(language, Language::Other | Language::Shell));
    languages.next().unwrap_or_default()
}

/// A reader that holds the write end, too, does not see the end of file either way.
fn missing_end_remedy(observation: &Observation, deadlock: &Deadlock) -> String {
    let own = |member: &DeadlockMember| {
        let fds: Vec<String> = own_write_ends(observation, member)
            .map(descriptor)
            .collect();
        (!fds.is_empty()).then(|| format!("{} its {}", full(&member.who), list(fds)))
    };
    let readers: Vec<String> = deadlock.members.iter().filter_map(own).collect();
    if readers.is_empty() {
        "close the write end before waiting for the process that reads it.".to_owned()
    } else {
        format!(
            "if an end of file is to come, the write end must be closed on both sides: here {} \
             has it, too. Otherwise write what is waited for before waiting for the reader.",
            list(readers)
        )
    }
}

/// The descriptors by which a member of a deadlock holds the write end of what it reads.
fn own_write_ends<'a>(
    observation: &'a Observation,
    member: &DeadlockMember,
) -> impl Iterator<Item = i32> + 'a {
    let pipes: Vec<LinkId> = member
        .reasons
        .iter()
        .filter_map(|reason| match reason {
            WaitReason::Pipe { on, .. } => Some(on.pipe),
            _ => None,
        })
        .collect();
    let ends = observation
        .find(member.who.pid)
        .map(|process| &process.process.ends);
    let ends = ends.into_iter().flatten();
    ends.filter(move |end| end.writes && pipes.contains(&end.pipe))
        .map(|end| end.fd)
}

fn reason(observation: &Observation, member: &DeadlockMember, reason: &WaitReason) -> String {
    match reason {
        WaitReason::Pipe { on, others } => {
            let is_one = others.len() == 1;
            let (what, verb) = match on.side {
                LinkSide::Input => ("data or the end of file", "can write"),
                LinkSide::Room if is_one => ("room", "reads"),
                LinkSide::Room => ("room", "read"),
            };
            let only = if is_one { "only " } else { "" };
            let others = others.iter().map(|who| {
                if *who == member.who {
                    "it itself".to_owned()
                } else {
                    full(who)
                }
            });
            let at = on
                .fd
                .map_or_else(String::new, |fd| format!(" at its {}", descriptor(fd)));
            format!(
                "{what} in {}{at}, which {only}{} {verb}",
                pipe_name(observation, on.pipe),
                list(others)
            )
        }
        WaitReason::Child { others } => format!("the end of {}", list(others.iter().map(full))),
        WaitReason::FifoPeer { path } => match path {
            Some(path) => format!("another process to open {path}"),
            None => "another process to open a FIFO".to_owned(),
        },
        WaitReason::Continue => "SIGCONT".to_owned(),
    }
}
