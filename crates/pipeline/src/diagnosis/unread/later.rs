//! Readers that take one input after the other, and come to the one that is full later.

use std::collections::BTreeSet;

use super::{MIN_BLOCKED, MIN_BUSY, Observed};
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::{Language, LinkId};
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Whether a process reads from one input after the other, as cat, diff and `sort -m` do: its only
/// thread read in this time, and waited on one link at a time.
pub(super) fn takes_in_order(process: &Observed) -> bool {
    let has_read = process
        .io
        .is_some_and(|io| io.reads > 0 && io.read_bytes > 0);
    has_read && waits_on_one(process)
}

/// Whether a process can wait on one link at a time only.
fn waits_on_one(process: &Observed) -> bool {
    process.threads.len() == 1 && process.polled.is_empty()
}

/// Whether a process waits in a read of another input first, as comm, awk and `grep -f` do with two process
/// substitutions: somebody can write there who waits neither for it nor for the writer here. Whoever starts
/// several programs reads the standard output of one after the other's, but may forget their standard error.
pub(super) fn comes_later(
    observation: &Observation,
    process: &Observed,
    writer: &Observed,
    unread: LinkId,
) -> bool {
    let [on] = &process.on[..] else {
        return false;
    };
    let is_other = on.side == LinkSide::Input && on.pipe != unread && on.share >= MIN_BLOCKED;
    let mut ends = writer.process.ends.of_link(unread);
    if !is_other || !waits_on_one(process) || ends.any(|end| end.fd == 2) {
        return false;
    }
    let others = observation.holders(on.pipe, LinkSide::Room);
    let others: Vec<&Observed> = others.filter(|other| !other.has_ended).collect();
    let pair = [process, writer].map(|process| process.process.id.pid);
    // Where no writer can be examined there is one: the read would have ended.
    others.is_empty() && !on.pipe.is_socket()
        || others
            .into_iter()
            .any(|other| !waits_for_one(observation, other, pair))
}

/// Whether a reader may have started the writer and forgotten its output, as a program does that starts a
/// server and then a client. Shells, and what these become, have all links from a command line.
pub(super) fn may_forget(reader: &Observed, writer: &Observed) -> bool {
    !matches!(reader.language, Language::Shell | Language::Other)
        && writer.is_below(reader.process.id.pid)
}

/// The processes from which others have a link that is full: how they read depends on their language.
pub(in crate::diagnosis) fn parents_of_blocked(
    observation: &Observation,
) -> impl Iterator<Item = i32> {
    let blocked = observation.processes.iter();
    let blocked = blocked.filter(|process| process.is_frozen && !process.has_ended);
    blocked.flat_map(|writer| {
        let on = writer.on.iter();
        on.filter(|on| on.side == LinkSide::Room && on.share >= MIN_BLOCKED)
            .flat_map(|on| observation.holders(on.pipe, LinkSide::Input))
            .map(|reader| reader.process.id.pid)
            .filter(|pid| writer.is_below(*pid))
    })
}

/// Whether a process is one of these or waits for one, directly or through others, on links or for a child.
/// Who may hear from somebody outside first, as ssh(1) does, waits for none of them.
pub(super) fn waits_for_one(observation: &Observation, process: &Observed, pids: [i32; 2]) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![process];
    while let Some(process) = next.pop() {
        let pid = process.process.id.pid;
        if pids.contains(&pid) {
            return true;
        }
        if !seen.insert(pid) {
            continue;
        }
        let hears = |state: &ThreadState| {
            matches!(
                state,
                ThreadState::Waiting(BlockedOn::Pipes {
                    or: Some(Outside::Socket | Outside::SocketOrTimer | Outside::Terminal),
                    ..
                })
            )
        };
        if !process.threads.iter().any(hears) {
            let on = process.on.iter().filter(|on| on.share >= MIN_BUSY);
            for on in on {
                next.extend(observation.holders(on.pipe, on.side.other()));
            }
        }
        if process.waits_for_children() >= MIN_BUSY {
            let all = observation.processes.iter();
            next.extend(all.filter(|child| child.process.parent == pid));
        }
    }
    false
}

/// Whether a process reads one of the two standard streams of another one, and this is the other one.
/// The one that it reads may go on for as long as that lives, also where what fills this is a child.
pub(super) fn reads_other_stream(
    observation: &Observation,
    reader: &Observed,
    unread: LinkId,
) -> bool {
    let streams = [1, 2];
    let reads = |link: LinkId| link != unread && reader.process.holds(link, LinkSide::Input);
    let mut writers = observation.holders(unread, LinkSide::Room);
    writers.any(|writer| {
        let ends = || {
            writer
                .process
                .ends
                .iter()
                .filter(|end| streams.contains(&end.fd))
        };
        !writer.has_ended
            && ends().any(|end| end.pipe == unread)
            && ends().any(|end| end.writes && reads(end.pipe))
    })
}
