//! Links from which nobody read while a writer waited for room.

use std::collections::BTreeSet;

use serde::Serialize;

use super::deadlock::TIMEOUT;
use super::wakes::{goes_on_beside, may_have_alarm};
use super::{Observed, Who};
use crate::graph::{LinkSide, Node, STDIN, STDOUT};
use crate::observe::Observation;
use crate::proc::{Language, LinkId};
use crate::sample::{Children, OnLink, Shares};
use crate::wait::{BlockedOn, Outside, ThreadState};
use later::{comes_later, may_forget, reads_other_stream, takes_in_order, waits_for_one};
use outside::{does_nothing, may_be_woken};

pub(super) use later::parents_of_blocked;
pub(super) use outside::leads_outside;

mod later;
mod outside;

/// A writer that waited for this share of the time waited all the time.
const MIN_BLOCKED: f64 = 0.95;
/// A reader that ran or waited for its disk for this share has something to do before it reads on.
const MIN_BUSY: f64 = 0.5;

/// A writer waited for room for the whole observation, and nobody read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unread {
    /// The link.
    pub pipe: LinkId,
    /// The writer.
    pub writer: Who,
    /// The writer's descriptor.
    pub fd: Option<i32>,
    /// Whether a reader may take it by itself: it sleeps for a time, or waits for a person, a file lock, a
    /// debugger or a server.
    pub may_be_read: bool,
    /// Whether no reader moved any bytes, ran for more than 1 % of the time, or waited for anybody
    /// who was not asked for, nor for a time unless it waits for the writer's end, too. Not of what the observer has
    /// an end of, too.
    pub are_readers_idle: bool,
    /// Whether it has lasted for as long as was asked for: see [`Finding::has_lasted`].
    ///
    /// [`Finding::has_lasted`]: super::Finding::has_lasted
    pub has_lasted: bool,
    /// The processes that hold a read end.
    pub readers: Vec<IdleReader>,
}

/// A process that could read from a link that is full, and did not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReader {
    /// The process.
    pub who: Who,
    /// Its descriptor.
    pub fd: Option<i32>,
    /// What it waits for, as last seen.
    pub waits_for: Option<Outside>,
    /// What its children did, if it waited for them.
    pub children: Option<Children>,
    /// The child for whose end one of its threads waits: the writer, or one through which the
    /// writer was started.
    pub child: Option<Who>,
    /// A link to the writer in which data lies that the writer does not read: the reader may wait for
    /// room there.
    pub unread_by_writer: Option<LinkId>,
    /// Whether it is stopped.
    pub is_stopped: bool,
}

impl Unread {
    /// Whether a process holds the read end.
    pub fn is_reader(&self, who: &Who) -> bool {
        self.readers.iter().any(|reader| reader.who == *who)
    }

    /// The same, or whether it is a child for which such a process may wait.
    pub(super) fn is_reader_or_its_child(&self, observation: &Observation, who: &Who) -> bool {
        let process = observation.find(who.pid);
        let is_child = |reader: &IdleReader| {
            reader.children.is_some()
                && process.is_some_and(|process| process.is_below(reader.who.pid))
        };
        self.is_reader(who) || self.readers.iter().any(is_child)
    }
}

/// Finds the full pipes from which nobody read, except where a reader has something else to do
/// or waits for room itself. Those with a process in `tied` are left out.
pub(super) fn find(observation: &Observation, tied: &BTreeSet<i32>) -> Vec<Unread> {
    let mut found = Vec::new();
    for pipe in &observation.pipes {
        let writers = observation.holders(pipe.id, LinkSide::Room);
        let mut blocked = writers.filter(|process| {
            let waited = process.share_on(pipe.id, LinkSide::Room) >= MIN_BLOCKED;
            waited
                && process.is_frozen
                && !process.has_ended
                && !tied.contains(&process.process.id.pid)
        });
        let Some(writer) = blocked.next() else {
            continue;
        };
        let readers = observation.holders(pipe.id, LinkSide::Input);
        let readers =
            readers.filter(|process| !process.has_ended && process.process.id != writer.process.id);
        let mut readers: Vec<&Observed> = readers.collect();
        without_timeout(&mut readers);
        let is_asked = writer.is_asked || readers.iter().any(|process| process.is_asked);
        let is_busy = |process: &&Observed| {
            let awake = |shares: &Shares| shares.runs + shares.queued + shares.disk;
            let children = process.awaited_children().map_or(0.0, Children::awake);
            let is_blocked = process.shares.blocked >= MIN_BLOCKED;
            awake(&process.shares) + children >= MIN_BUSY
                || is_blocked && !writes_only_to(process, writer)
        };
        // A reader that waits for input while there is some only has the descriptor registered, as
        // runtimes have for edges.
        let is_constant = pipe.fill_change.is_some_and(|change| change.is_constant);
        let has_input = is_constant && pipe.unread.is_some_and(|bytes| bytes > 0);
        let is_starved =
            |process: &&Observed| !has_input && process.waited_on(pipe.id, LinkSide::Input);
        // How much lies at a terminal is not known, nor whether it is read by what can't be seen.
        let may_poll = |process: &&Observed| {
            pipe.id.is_terminal() && process.outside.contains_key(&Outside::Other)
        };
        // A writer is only woken once a whole page has been read.
        let was_read = match pipe.fill_change {
            Some(change) => !change.is_constant,
            None => readers
                .iter()
                .any(|reader| reader.io.is_some_and(|io| io.reads > 0)),
        };
        let is_next = |process: &Observed| {
            comes_later(observation, process, writer, pipe.id)
                && !reads_other_stream(observation, process, pipe.id)
        };
        let reads_later = readers.iter().any(|process| {
            is_busy(process)
                || is_starved(process)
                || may_poll(process)
                || takes_in_order(process) && !reads_other_stream(observation, process, pipe.id)
                || is_next(process) && !may_forget(process, writer)
                || goes_on(process, writer, pipe.id)
                || talks(observation, process, writer)
        });
        if !is_asked || readers.is_empty() || was_read || reads_later {
            continue;
        }
        let may_come = readers.iter().any(|process| is_next(process));
        found.push(unread(observation, pipe.id, writer, &readers, may_come));
    }
    found
}

/// A link that these readers leave full. One of them `may_come` to it after what it reads now.
fn unread(
    observation: &Observation,
    link: LinkId,
    writer: &Observed,
    readers: &[&Observed],
    may_come: bool,
) -> Unread {
    let awaits_server = readers.iter().any(|reader| awaits_server(reader, writer));
    let members: Vec<&Observed> = readers.iter().copied().chain([writer]).collect();
    let pids: BTreeSet<i32> = members.iter().map(|one| one.process.id.pid).collect();
    let readers: Vec<(&Observed, IdleReader)> = readers
        .iter()
        .map(|reader| (*reader, idle_reader(observation, reader, writer, link)))
        .collect();
    let are_readers_idle = !observation.own_links.contains(&link)
        && !may_time_out(writer)
        && !goes_on_beside(observation, &members, &pids)
        && readers
            .iter()
            .all(|(reader, idle)| is_idle(observation, reader, idle, writer));
    let may_read = readers.iter().any(|(reader, idle)| {
        let has_started_writer = writer.is_below(reader.process.id.pid);
        idle.may_read(has_started_writer) && !child_waits_for(observation, reader, writer)
    });
    Unread {
        pipe: link,
        writer: writer.who(),
        fd: descriptor(writer, link, LinkSide::Room),
        may_be_read: awaits_server || may_come || may_read,
        are_readers_idle,
        has_lasted: false,
        readers: readers.into_iter().map(|(_, idle)| idle).collect(),
    }
}

/// Leaves out timeout(1), which has its command's descriptors and uses none.
fn without_timeout(readers: &mut Vec<&Observed>) {
    let all = readers.clone();
    readers.retain(|reader| {
        let mut others = all.iter();
        let own = reader.process.id.pid;
        reader.process.name != TIMEOUT || !others.any(|other| other.is_below(own))
    });
}

/// Whether all room for which a process waited is in links to this other one.
fn writes_only_to(process: &Observed, other: &Observed) -> bool {
    let mut waits = process.on.iter().filter(|on| on.side == LinkSide::Room);
    waits.all(|on| other.process.holds(on.pipe, LinkSide::Input))
}

/// Whether a reader waits at a connection for somebody else than the writer, as the client of a server that works on what
/// it has read before. Who has started the writer is expected to read what that writes.
fn awaits_server(reader: &Observed, writer: &Observed) -> bool {
    let is_at_server = |on: &OnLink| {
        on.pipe.is_socket()
            && on.share >= MIN_BUSY
            && !writer.process.holds(on.pipe, on.side.other())
    };
    !writer.is_below(reader.process.id.pid) && reader.on.iter().any(is_at_server)
}

/// Whether a reader is a client that gets answers from a server that is seen: it reads on after those to what it has read.
/// Not of who has started the writer, which may have forgotten its output.
fn talks(observation: &Observation, reader: &Observed, writer: &Observed) -> bool {
    let answers = |on: &&OnLink| {
        let mut servers = observation.holders(on.pipe, LinkSide::Room);
        on.pipe.is_socket()
            && on.side == LinkSide::Input
            && servers.any(|server| !server.is_frozen && server.process.id != writer.process.id)
    };
    let waits = reader.on.iter().filter(answers).map(|on| on.share);
    let runs = reader.shares.runs + reader.shares.queued;
    !reader.is_frozen
        && !writer.is_below(reader.process.id.pid)
        && waits.fold(runs, |sum, share| sum + share) >= MIN_BUSY
}

/// Whether a process works on what it has read, and reads on once that is used up: it has noticed the end of a child,
/// as xargs does, or writes on, as a filter that takes 64 KiB and pauses at each line. What comes from below it may come
/// from a child that it has forgotten.
fn goes_on(reader: &Observed, writer: &Observed, unread: LinkId) -> bool {
    (reader.has_reaped_late || digests(reader, unread)) && !writer.is_below(reader.process.id.pid)
}

/// Whether a reader writes something, and may have read that from its standard input.
fn digests(reader: &Observed, unread: LinkId) -> bool {
    let has_written = reader.io.is_some_and(|io| io.written_bytes > 0);
    let mut output = reader.process.ends.of_descriptor(STDOUT);
    let has_output = reader.process.others.writes || output.any(|end| end.writes);
    has_written && has_output && reader.has_as(unread, STDIN)
}

/// Whether a reader does nothing, and neither it nor the writer waits for anything that may let it read on. One that
/// waits for the writer's end won't read before, whatever the timers of its other threads do.
fn is_idle(
    observation: &Observation,
    reader: &Observed,
    idle: &IdleReader,
    writer: &Observed,
) -> bool {
    does_nothing(observation, reader)
        && !may_be_woken(observation, reader, writer)
        && !may_be_woken(observation, writer, reader)
        && (idle.child.is_some() || !has_timer(reader))
        && !leads_outside(observation, reader, writer)
        && !leads_outside(observation, writer, reader)
}

/// Whether a timeout ends a wait of a process for room or data.
fn may_time_out(process: &Observed) -> bool {
    let is_timed = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Pipes { or: Some(or), .. }) => or.may_be_timer(),
        _ => false,
    };
    process.threads.iter().any(is_timed)
}

/// Whether a thread of a process waits for a time, among other things, or a signal may wake it after one.
fn has_timer(process: &Observed) -> bool {
    process.threads.iter().any(ThreadState::may_time_out) || may_have_alarm(process)
}

/// The descriptor by which a process has this side of a link, the first of several.
pub(super) fn descriptor(process: &Observed, link: LinkId, side: LinkSide) -> Option<i32> {
    let mut ends = process.process.ends.iter();
    let end = ends.find(|end| {
        end.pipe == link
            && match side {
                LinkSide::Input => end.reads,
                LinkSide::Room => end.writes,
            }
    })?;
    Some(end.fd)
}

impl IdleReader {
    /// Whether what it waits for ends without the data that it leaves: a sleep, a person at the
    /// terminal, a lock, a debugger, its children. Event loops wait with timeouts, too: those of a process that has
    /// started the writer may have forgotten its output, and others pause.
    fn may_read(&self, has_started_writer: bool) -> bool {
        let ends_by_itself = match self.waits_for {
            Some(
                Outside::Timer
                | Outside::Terminal
                | Outside::FileLock
                | Outside::Frozen
                | Outside::FifoPeer
                | Outside::Tracer,
            ) => true,
            Some(
                Outside::Event
                | Outside::EventOrTimer
                | Outside::Lock
                | Outside::LockOrTimer
                | Outside::Socket
                | Outside::SocketOrTimer
                | Outside::Signal,
            ) => !has_started_writer,
            _ => false,
        };
        self.child.is_none() && (self.children.is_some() || ends_by_itself)
    }
}

/// A link from one process to another in which the same data lay all the time.
fn unread_between(observation: &Observation, from: &Observed, to: &Observed) -> Option<LinkId> {
    let mut links = observation.pipes.iter();
    let link = links.find(|link| {
        let is_constant = link.fill_change.is_some_and(|change| change.is_constant);
        let has_data = link.unread.is_some_and(|bytes| bytes > 0);
        let holds = |process: &Observed, side| process.process.holds(link.id, side);
        is_constant && has_data && holds(from, LinkSide::Room) && holds(to, LinkSide::Input)
    })?;
    Some(link.id)
}

/// The child of a process through which it started another one, and all between them, that included; none
/// if it did not start it.
fn line_below(process: &Observed, other: &Observed) -> Vec<i32> {
    let mut above = vec![other.process.id.pid, other.process.parent];
    above.extend(&other.ancestors);
    above.dedup();
    let own = above.iter().position(|pid| *pid == process.process.id.pid);
    above.truncate(own.unwrap_or(0));
    above.reverse();
    above
}

/// Whether a child for which a process may wait needs it or the writer: a client of the writer, for example.
fn child_waits_for(observation: &Observation, process: &Observed, writer: &Observed) -> bool {
    let pids = [process, writer].map(|process| process.process.id.pid);
    let line = line_below(process, writer);
    let mut children = observation.living().filter(|child| {
        child.process.parent == process.process.id.pid && !line.contains(&child.process.id.pid)
    });
    children.any(|child| waits_for_one(observation, child, pids))
}

fn idle_reader(
    observation: &Observation,
    reader: &Observed,
    writer: &Observed,
    link: LinkId,
) -> IdleReader {
    let own = reader.process.id.pid;
    let line = line_below(reader, writer);
    let child = line.first().and_then(|pid| observation.find(*pid));
    let waits_for = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Child(Some(pid))) => line.contains(pid),
        // For any of its children, of which all that were seen are on the way to the writer.
        ThreadState::Waiting(BlockedOn::Child(None)) => {
            let names = reader.children.iter().flat_map(|children| &children.names);
            let mut others = observation.living().filter(|process| {
                process.process.parent == own && !line.contains(&process.process.id.pid)
            });
            let is_on_line = |name: &String| {
                let mut on_line = line.iter().filter_map(|pid| observation.find(*pid));
                on_line.any(|process| process.process.name == *name)
            };
            others.next().is_none() && names.into_iter().all(is_on_line)
        }
        _ => false,
    };
    // asyncio has a thread for each child that waits for its end, which holds nothing up.
    let polls = |state: &ThreadState| {
        matches!(
            state,
            ThreadState::Waiting(
                BlockedOn::Pipes { .. }
                    | BlockedOn::Outside(
                        Outside::Event
                            | Outside::EventOrTimer
                            | Outside::Socket
                            | Outside::SocketOrTimer
                    )
            )
        )
    };
    let is_python = reader.language == Language::Python;
    let event_loop = reader
        .threads
        .iter()
        .find(|state| is_python && polls(state));
    let has_loop = event_loop.is_some();
    let is_awaited = !has_loop && reader.threads.iter().any(waits_for);
    let children = reader.awaited_children();
    IdleReader {
        who: reader.who(),
        fd: descriptor(reader, link, LinkSide::Input),
        waits_for: match event_loop {
            Some(ThreadState::Waiting(BlockedOn::Outside(what))) => Some(*what),
            _ => reader.mainly(),
        },
        children: children.filter(|_| !has_loop).cloned(),
        child: child.filter(|_| is_awaited).map(Observed::who),
        unread_by_writer: unread_between(observation, reader, writer),
        is_stopped: reader.shares.stopped >= MIN_BUSY,
    }
}

#[cfg(test)]
mod tests;
