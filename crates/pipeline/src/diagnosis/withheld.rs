//! Ends of pipes that somebody withholds.

use std::collections::BTreeSet;

use super::bottleneck::MIN_THROUGH_CHILDREN;
use super::{Finding, LeakedWriteEnd, Observed, Who};
use crate::graph::{INIT, LinkSide, Node, STDOUT};
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::Children;
use crate::wait::{BlockedOn, Outside, ThreadState};

/// A reader that waited for input for at least this share is short of it.
const MIN_STARVED: f64 = 0.9;
/// A process that was there for less of the time than the reader withholds nothing.
const MIN_PRESENT: f64 = 0.9;

/// Write ends of processes that wrote nothing, while the reader waits for input or its end.
///
/// Somebody must hold the write end of a pipe that is in use, and may write later. So only
/// those are named that are probably not meant to: see [`is_meant`].
pub(super) fn leaked_write_ends(
    observation: &Observation,
    tied: &BTreeSet<i32>,
) -> Vec<LeakedWriteEnd> {
    let mut found = Vec::new();
    let pipes = observation.pipes.iter();
    for pipe in pipes.filter(|pipe| !observation.own_output.contains(&pipe.id)) {
        let readers = observation.users(pipe.id, LinkSide::Input);
        let starved = readers
            .iter()
            .find(|process| process.share_on(pipe.id, LinkSide::Input) >= MIN_STARVED);
        let Some(reader) = starved.filter(|reader| reader.is_asked && !reader.has_ended) else {
            continue;
        };
        let holders: Vec<&Observed> = observation
            .holders(pipe.id, LinkSide::Room)
            .filter(|process| !process.has_ended)
            .collect();
        // Processes that pass tokens through a pipe, as make does, or wake themselves by one.
        let has_both = |process: &&&Observed| process.process.holds(pipe.id, LinkSide::Input);
        let is_token = holders.iter().filter(has_both).count() > 1;
        let is_reader = |process: &&&Observed| process.process.id == reader.process.id;
        let wakes_itself = holders.len() == 1 && holders.iter().any(|holder| is_reader(&holder));
        // What reads its standard input, or opened a FIFO to read, waits for somebody else to write
        // there, unless it opened the same to write.
        let ends = || reader.process.ends.iter().filter(|end| end.pipe == pipe.id);
        let is_stdin = ends().any(|end| end.fd == 0 && !end.writes);
        let is_fifo_input =
            pipe.id.is_fifo() && ends().any(|end| !end.writes) && !ends().any(|end| !end.reads);
        if (is_token || wakes_itself) && !is_stdin && !is_fifo_input {
            continue;
        }
        // What still runs at a terminal may write there, and the reader may keep it open.
        let has_program = |holder: &&Observed| !is_left_behind(holder, reader);
        if pipe.id.is_terminal() && holders.iter().any(has_program) {
            continue;
        }
        for holder in &holders {
            // One's own end, beside those of workers, is for results to come.
            if is_reader(&holder) && holders.len() > 1 {
                continue;
            }
            // A short-lived one may come to write, and its end is near.
            let is_lasting = holder.age_s >= MIN_PRESENT * reader.counted_s;
            if !is_lasting
                || tied.contains(&holder.process.id.pid)
                || is_meant(observation, holder, reader, &holders, pipe.id)
            {
                continue;
            }
            let ends = holder.process.ends.iter();
            let fd = ends
                .filter(|end| end.pipe == pipe.id && end.writes)
                .map(|end| end.fd)
                .next();
            let is_idle = |process: &&Observed| {
                process.is_idle(LinkSide::Room) || process.only_waits_for_children()
            };
            // Who made the pipe for the reader may still write, as a script to its logger: what its other
            // children have inherited withholds nothing.
            let serves_another = holders.iter().any(|other| {
                other.process.id != holder.process.id
                    && reader.is_below(other.process.id.pid)
                    && is_meant(observation, other, reader, &holders, pipe.id)
            });
            found.extend(fd.map(|fd| LeakedWriteEnd {
                pipe: pipe.id,
                reader: reader.who(),
                holder: holder.who(),
                fd,
                is_output: fd == STDOUT && !reader.is_below(holder.process.id.pid),
                waits_for: children(observation, holder),
                is_last: holders.iter().all(is_idle) && !serves_another,
            }));
        }
    }
    found
}

/// Processes that stood still on a pipe of which nobody has the other end, as far as is known. Somebody
/// does: else the wait would have ended.
pub(super) fn unseen_peers(observation: &Observation, tied: &BTreeSet<i32>) -> Vec<Finding> {
    let is_still = |process: &&Observed| {
        // What is polled may be waited for in vain.
        process.is_asked && process.is_frozen && process.polled.is_empty()
    };
    let mut found = Vec::new();
    for process in observation.living().filter(is_still) {
        let waits = process.on.iter().find(|on| {
            let mut others = observation.holders(on.pipe, on.side.other());
            !on.pipe.is_direction() && on.share >= MIN_STARVED && others.next().is_none()
        });
        let is_told = observation.is_survey || tied.contains(&process.process.id.pid);
        found.extend(waits.filter(|_| !is_told).map(|on| Finding::UnseenPeer {
            process: process.who(),
            pipe: on.pipe,
            side: on.side,
        }));
    }
    found
}

/// The living children of a process that waits for them.
fn children(observation: &Observation, parent: &Observed) -> Vec<Who> {
    let awaited = parent.children.as_ref().map(|children| &children.awaited);
    let is_child = |process: &&Observed| {
        let pid = process.process.id.pid;
        process.process.parent == parent.process.id.pid
            && awaited.is_none_or(|awaited| awaited.contains(&pid))
    };
    let children = observation.living().filter(is_child).map(Observed::who);
    if parent.only_waits_for_children() {
        children.collect()
    } else {
        Vec::new()
    }
}

/// A process, and those that waited for its output, or for that of one of them, and for that of no other.
fn behind(observation: &Observation, first: &Observed) -> BTreeSet<i32> {
    let mut behind = BTreeSet::from([first.process.id.pid]);
    loop {
        let waits = |process: &&Observed| {
            let mut inputs = process.on.iter().filter(|on| on.side == LinkSide::Input);
            let is_starved = inputs.clone().any(|on| on.share >= MIN_STARVED);
            // What polls may go on by another one, or by a timer.
            process.polled.is_empty()
                && is_starved
                && inputs.all(|on| {
                    let mut writers = observation.holders(on.pipe, LinkSide::Room).peekable();
                    writers.peek().is_some()
                        && writers.all(|writer| behind.contains(&writer.process.id.pid))
                })
        };
        let more: Vec<i32> = observation
            .living()
            .filter(waits)
            .map(|process| process.process.id.pid)
            .filter(|pid| !behind.contains(pid))
            .collect();
        if more.is_empty() {
            return behind;
        }
        behind.extend(more);
    }
}

/// Whether a process probably has a write end on purpose, or has used it.
fn is_meant(
    observation: &Observation,
    holder: &Observed,
    reader: &Observed,
    holders: &[&Observed],
    pipe: LinkId,
) -> bool {
    let own = holder.process.id.pid;
    let others = || {
        holders
            .iter()
            .filter(|process| process.process.id.pid != own)
    };
    if holder.waited_on(pipe, LinkSide::Room) || !holder.is_idle(LinkSide::Room) {
        return true;
    }
    // A shell whose children write, and end before they can be seen, or which waits for the report of this observer.
    let may_write = holder.has_reaped || observation.is_above_observer(holder);
    if may_write && holder.is_standard(pipe, LinkSide::Room) {
        return true;
    }
    // A shell that keeps a FIFO open for others, while it waits for them. Those that wait for the reader's own
    // output write nothing there.
    let keeps_open =
        holder.process.holds(pipe, LinkSide::Input) && holder.only_waits_for_children();
    if keeps_open && pipe.is_fifo() {
        let behind = behind(observation, reader);
        let mut others = others().filter(|other| !behind.contains(&other.process.id.pid));
        return others.any(|other| other.is_below(own));
    }
    // Of a connection each side has its own socket. A standard output may be withheld.
    if pipe.is_socket() && !holder.is_standard(pipe, LinkSide::Room) {
        return true;
    }
    if is_shared_by_workers(holder, reader, pipe) || waits_for_turn(holder, pipe) {
        return true;
    }
    // It waits for the end of the reader, which comes with the end of its input, and for nothing else:
    // a runtime may have a thread for that.
    let waits_for_others = holder.threads.iter().any(|state| {
        matches!(
            state,
            ThreadState::Waiting(
                BlockedOn::Pipes { .. }
                    | BlockedOn::Outside(
                        Outside::Socket | Outside::SocketOrTimer | Outside::Terminal
                    )
            )
        )
    });
    let waits_for_reader = holder.threads.iter().any(|state| match state {
        ThreadState::Waiting(BlockedOn::Child(Some(pid))) => {
            *pid == reader.process.id.pid || reader.ancestors.contains(pid)
        }
        // For any: it has no other one.
        ThreadState::Waiting(BlockedOn::Child(None)) => {
            let children = observation.living();
            let mut children = children.filter(|child| child.process.parent == own);
            let behind = behind(observation, reader);
            children.all(|child| {
                let pid = child.process.id.pid;
                behind.contains(&pid) || reader.ancestors.contains(&pid)
            })
        }
        _ => false,
    });
    // A server that ends with its parent reads nothing else from it.
    let serves = reader.threads.iter().any(|state| {
        matches!(
            state,
            ThreadState::Waiting(BlockedOn::Outside(Outside::Socket | Outside::SocketOrTimer))
        )
    });
    if waits_for_reader && !waits_for_others && !serves && reader.is_below(own) {
        return false;
    }
    // It goes on once the child that works has ended.
    if waits_for_working_child(holder) {
        return true;
    }
    // It made the pipe for its child, as popen(3) and coprocesses do, unless another one is
    // the writer.
    let writes = |process: &&&Observed| {
        !process.is_idle(LinkSide::Room) || process.is_standard(pipe, LinkSide::Room)
    };
    if reader.is_below(own) && !others().any(|process| writes(&process)) {
        return true;
    }
    // The shell of a process that has its output. A shell that waits for others only has no
    // use for it.
    if holder.only_waits_for_children() {
        return others().any(|process| process.is_below(own));
    }
    // A stage that has not written yet, unless it was left behind by one.
    let is_output = holder.is_standard(pipe, LinkSide::Room)
        || others().next().is_none() && is_only_output(holder, pipe);
    is_output && !is_left_behind(holder, reader)
}

/// Whether a process waits for input from another link, and has no standard output but a file, a terminal or none: it
/// writes what it reads by another descriptor, as mbuffer(1).
fn is_only_output(holder: &Observed, pipe: LinkId) -> bool {
    let mut inputs = holder.on.iter();
    let mut ends = holder.process.ends.iter();
    inputs.any(|on| on.side == LinkSide::Input && on.pipe != pipe)
        && !ends.any(|end| end.writes && end.fd == STDOUT && !end.pipe.is_terminal())
}

/// Whether workers of one program have inherited each other's ends, or what looks after them theirs.
fn is_shared_by_workers(holder: &Observed, reader: &Observed, pipe: LinkId) -> bool {
    let are_fellows = || holder.is_fellow(reader) && !reader.is_standard(pipe, LinkSide::Input);
    holder.process.name == reader.process.name
        && !holder.is_standard(pipe, LinkSide::Room)
        && (holder.is_below(reader.process.id.pid) || are_fellows())
}

/// Whether a process may write to its output once it has its turn, as a job behind flock(1).
fn waits_for_turn(holder: &Observed, pipe: LinkId) -> bool {
    holder.is_standard(pipe, LinkSide::Room) && holder.mainly() == Some(Outside::FileLock)
}

/// Whether a process waits for a child that works.
fn waits_for_working_child(process: &Observed) -> bool {
    let children = process.children.as_ref();
    process.waits_or_polls_for_children() >= MIN_THROUGH_CHILDREN
        && children.is_some_and(Children::are_mostly_awake)
}

/// Whether a process's parent has ended, which it has in common with the reader of its output.
fn is_left_behind(holder: &Observed, reader: &Observed) -> bool {
    let family = |process: &Observed| {
        let all = process.ancestors.iter().copied().filter(|pid| *pid != INIT);
        let all: BTreeSet<i32> = all.chain([process.process.id.pid]).collect();
        all
    };
    let are_siblings =
        holder.is_orphan && reader.is_orphan && holder.process.group == reader.process.group;
    family(holder).is_disjoint(&family(reader)) && !are_siblings
}

#[cfg(test)]
mod tests;
