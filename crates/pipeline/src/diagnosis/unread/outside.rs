//! What readers wait for that is not part of what was asked for.

use std::collections::BTreeSet;

use super::{MIN_BUSY, Observed, TIMEOUT, line_below};
use crate::diagnosis::wakes::{anybody_may_wake, handles_requests, waits_outside};
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::{Language, LinkId};
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Whether a process moved no bytes, hardly ran, and waits for nobody outside of what was asked for.
pub(super) fn does_nothing(observation: &Observation, process: &Observed) -> bool {
    const MAX_RUNNING: f64 = 0.01;
    let moves_nothing = process.io.is_some_and(|io| io.reads == 0 && io.writes == 0);
    // Who has children waits for the signal of their end.
    let pid = process.process.id.pid;
    let waits_for_signal = process.outside.contains_key(&Outside::Signal)
        && observation
            .living()
            .all(|other| other.process.parent != pid);
    moves_nothing
        && !process.splices
        && process.ran_s <= MAX_RUNNING * process.counted_s
        && !waits_for_signal
        && !may_wake_itself(process)
}

/// Whether a process may wait for events that come from somebody outside, or from the kernel.
fn may_hear(observation: &Observation, process: &Observed) -> bool {
    // The kernel writes to an eventfd(2) for aio, for example. Runtimes have theirs to wake themselves.
    let may_be_kernel = !matches!(
        process.language,
        Language::JavaScript | Language::Java | Language::Go | Language::Python | Language::Ruby
    );
    let has_events = is_event_loop(process)
        && (may_be_kernel || observation.has_eventfd || has_outer_socket(observation, process));
    has_events || process.watches_others
}

/// Whether what a process waits for may end by itself, in whichever thread, or the kernel works for it: of one of two
/// that wait for each other. Runtimes have threads that wait for times and signals. What has waited for a time, and does
/// so again, did not read on.
pub(super) fn may_be_woken(
    observation: &Observation,
    process: &Observed,
    other: &Observed,
) -> bool {
    let is_runtime = matches!(
        process.language,
        Language::JavaScript | Language::Java | Language::Go
    );
    let is_shell = process.language == Language::Shell;
    let own = process.process.id.pid;
    let children = observation.living();
    let children = children.filter(|child| child.process.parent == own);
    let children: Vec<&Observed> = children.collect();
    let waits_for_child = !children.is_empty() && (is_shell || process.process.name == TIMEOUT);
    let may_end = |outside: Outside| match outside {
        Outside::Child | Outside::Event => false,
        Outside::Timer | Outside::EventOrTimer | Outside::LockOrTimer => {
            !is_runtime && process.is_frozen
        }
        Outside::Signal => !waits_for_child,
        // By a futex in memory that others may share, for example.
        _ => true,
    };
    let wakes = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Outside(outside)) => may_end(*outside),
        ThreadState::Waiting(BlockedOn::Pipes { or, .. }) => or.is_some_and(may_end),
        state => anybody_may_wake(state),
    };
    let line = line_below(process, other);
    let has_handler = process.handles(libc::SIGCHLD) && !is_runtime && !is_shell;
    process.threads.iter().any(wakes)
        || may_hear(observation, process)
        || waits_outside(observation, process)
        || process.process.others.has_uring
        || handles_requests(process) && !is_runtime && !is_shell
        || has_handler
            && children
                .iter()
                .any(|child| !line.contains(&child.process.id.pid))
}

/// Whether a process waits at a pipe or a connection to itself, into which its handler of a signal may write: somebody
/// outside may send one, or a child's end does.
fn may_wake_itself(process: &Observed) -> bool {
    let is_own = |link: LinkId| {
        let mut ends = process.process.ends.of_link(link);
        ends.clone().any(|end| end.reads) && ends.any(|end| end.writes)
    };
    let waits_there = process.threads.iter().any(|state| match state {
        ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
            any_of.iter().any(|wait| is_own(wait.pipe))
        }
        _ => false,
    });
    // These handle signals of which their programs know nothing.
    let is_runtime = matches!(
        process.language,
        Language::JavaScript | Language::Java | Language::Go
    );
    let mut links = process.process.ends.iter().map(|end| end.pipe);
    let may_be_among_others = !is_runtime && is_event_loop(process) && links.any(is_own);
    process.handles_signals() && (waits_there || may_be_among_others)
}

/// Whether a thread waits for events, of which it can't be seen which: those of sockets may be among them.
fn is_event_loop(process: &Observed) -> bool {
    let waits_for = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Outside(outside)) => Some(*outside),
        ThreadState::Waiting(BlockedOn::Pipes { or, .. }) => *or,
        _ => None,
    };
    let mut waits = process.threads.iter().filter_map(waits_for);
    waits.any(|outside| matches!(outside, Outside::Event | Outside::EventOrTimer))
}

/// Whether a process is connected with somebody who was not asked for.
fn has_outer_socket(observation: &Observation, process: &Observed) -> bool {
    let mut links = process.process.ends.iter().map(|end| end.pipe);
    !process.process.remotes.is_empty()
        || links.any(|link| {
            let mut others = [LinkSide::Input, LinkSide::Room]
                .into_iter()
                .flat_map(|side| observation.holders(link, side));
            link.is_socket() && others.any(|other| !other.is_asked)
        })
}

/// Whether a reader may wait, through others, for a process that goes on or waits for somebody outside, as Python's
/// run(capture_output=True) does for curl. The writer waits for the reader.
pub(in crate::diagnosis) fn leads_outside(
    observation: &Observation,
    reader: &Observed,
    writer: &Observed,
) -> bool {
    let mut seen: BTreeSet<i32> = [reader, writer]
        .map(|process| process.process.id.pid)
        .into();
    let mut open = vec![reader];
    while let Some(process) = open.pop() {
        for next in awaited(observation, process) {
            if !seen.insert(next.process.id.pid) {
                continue;
            }
            if !next.is_asked || may_go_on(next) {
                return true;
            }
            open.push(next);
        }
    }
    false
}

/// Whether a process works, or what it waits for is neither a link nor another process that can be seen.
fn may_go_on(process: &Observed) -> bool {
    let shares = &process.shares;
    let has_moved = process.io.is_some_and(|io| io.reads + io.writes > 0);
    let is_outside = |outside: &Outside| !matches!(outside, Outside::Child | Outside::Lock);
    has_moved
        || process.splices && !process.is_frozen
        || shares.runs + shares.queued + shares.disk >= MIN_BUSY
        || process.outside.keys().any(is_outside)
}

/// The living processes for which a process may wait: those at the other side of its links, and its children.
fn awaited<'a>(observation: &'a Observation, process: &Observed) -> Vec<&'a Observed> {
    let mut links: BTreeSet<(LinkId, LinkSide)> =
        process.on.iter().map(|on| (on.pipe, on.side)).collect();
    let mut child = None;
    let mut may_be_child = false;
    for thread in &process.threads {
        match thread {
            ThreadState::Waiting(BlockedOn::Pipes { any_of, or }) => {
                links.extend(any_of.iter().map(|wait| (wait.pipe, wait.side)));
                may_be_child |= or.is_some_and(may_be_for_child);
            }
            ThreadState::Waiting(BlockedOn::Child(Some(pid))) => child = Some(*pid),
            ThreadState::Waiting(BlockedOn::Child(None)) => may_be_child = true,
            ThreadState::Waiting(BlockedOn::Outside(outside)) => {
                may_be_child |= may_be_for_child(*outside);
            }
            _ => {}
        }
    }
    let pid = process.process.id.pid;
    let children = observation.living().filter(move |other| {
        other.process.parent == pid && (may_be_child || child == Some(other.process.id.pid))
    });
    let peers = links
        .into_iter()
        .flat_map(|(link, side)| observation.holders(link, side.other()));
    peers
        .filter(|peer| !peer.has_ended)
        .chain(children)
        .collect()
}

/// Whether a wait may be for the end of a child: by pidfd_open(2), signalfd(2) or a signal.
fn may_be_for_child(outside: Outside) -> bool {
    matches!(
        outside,
        Outside::Event | Outside::EventOrTimer | Outside::Signal | Outside::Child
    )
}
