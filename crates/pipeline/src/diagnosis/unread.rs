//! Links from which nobody read while a writer waited for room.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Observed, Who};
use crate::graph::{LinkSide, Node};
use crate::observe::Observation;
use crate::proc::{Language, LinkId};
use crate::sample::{Children, OnLink, Shares};
use crate::wait::{BlockedOn, Outside, ThreadState};

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
    /// who was not asked for.
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
        let readers: Vec<&Observed> = readers.collect();
        let is_asked = writer.is_asked || readers.iter().any(|process| process.is_asked);
        let is_busy = |process: &&Observed| {
            let awake = |shares: &Shares| shares.runs + shares.queued + shares.disk;
            let children = process
                .children
                .as_ref()
                .map_or(0.0, |children| awake(&children.shares));
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
                || is_next(process) && !may_forget(observation, process, writer)
        });
        if !is_asked || readers.is_empty() || was_read || reads_later {
            continue;
        }
        let are_readers_idle = readers
            .iter()
            .all(|reader| does_nothing(observation, reader));
        let awaits_server = readers
            .iter()
            .any(|reader| awaits_server(observation, reader, writer));
        let may_come = readers.iter().any(|process| is_next(process));
        let readers: Vec<(&Observed, IdleReader)> = readers
            .into_iter()
            .map(|reader| (reader, idle_reader(observation, reader, writer, pipe.id)))
            .collect();
        let may_read = readers
            .iter()
            .any(|(reader, idle)| idle.may_read() && !child_waits_for(observation, reader, writer));
        found.push(Unread {
            pipe: pipe.id,
            writer: writer.who(),
            fd: descriptor(writer, pipe.id, LinkSide::Room),
            may_be_read: awaits_server || may_come || may_read,
            are_readers_idle,
            has_lasted: false,
            readers: readers.into_iter().map(|(_, idle)| idle).collect(),
        });
    }
    found
}

/// Whether all room for which a process waited is in links to this other one.
fn writes_only_to(process: &Observed, other: &Observed) -> bool {
    let mut waits = process.on.iter().filter(|on| on.side == LinkSide::Room);
    waits.all(|on| other.process.holds(on.pipe, LinkSide::Input))
}

/// Whether a process reads from one input after the other, as cat, diff and `sort -m` do: its only
/// thread read in this time, and waited on one link at a time.
fn takes_in_order(process: &Observed) -> bool {
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
fn comes_later(
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
    if !is_other || on.pipe.is_socket() || !waits_on_one(process) || ends.any(|end| end.fd == 2) {
        return false;
    }
    let others = observation.holders(on.pipe, LinkSide::Room);
    let others: Vec<&Observed> = others.filter(|other| !other.has_ended).collect();
    let pair = [process, writer].map(|process| process.process.id.pid);
    // Where no writer can be examined there is one: the read would have ended.
    others.is_empty()
        || others
            .into_iter()
            .any(|other| !waits_for_one(observation, other, pair))
}

/// Whether a reader may have started the writer and forgotten its output, as a program does that starts a
/// server and then a client. Shells, and what these become, have all links from a command line.
fn may_forget(observation: &Observation, reader: &Observed, writer: &Observed) -> bool {
    !matches!(reader.language, Language::Shell | Language::Other)
        && observation.descends(writer, reader.process.id.pid)
}

/// The processes from which others have a link that is full: how they read depends on their language.
pub(super) fn parents_of_blocked(observation: &Observation) -> impl Iterator<Item = i32> {
    let blocked = observation.processes.iter();
    let blocked = blocked.filter(|process| process.is_frozen && !process.has_ended);
    blocked.flat_map(|writer| {
        let on = writer.on.iter();
        on.filter(|on| on.side == LinkSide::Room && on.share >= MIN_BLOCKED)
            .flat_map(|on| observation.holders(on.pipe, LinkSide::Input))
            .map(|reader| reader.process.id.pid)
            .filter(|pid| observation.descends(writer, *pid))
    })
}

/// Whether a process is one of these or waits for one, directly or through others, on links or for a child.
/// Who may hear from somebody outside first, as ssh(1) does, waits for none of them.
fn waits_for_one(observation: &Observation, process: &Observed, pids: [i32; 2]) -> bool {
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
fn reads_other_stream(observation: &Observation, reader: &Observed, unread: LinkId) -> bool {
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

/// Whether a reader waits at a socket for somebody else than the writer, as the client of a server that
/// works on what it has read before. Who has started the writer is expected to read what that writes.
fn awaits_server(observation: &Observation, reader: &Observed, writer: &Observed) -> bool {
    let is_at_server = |on: &OnLink| {
        on.pipe.is_socket()
            && on.share >= MIN_BUSY
            && !writer.process.holds(on.pipe, on.side.other())
    };
    let is_outside = matches!(
        reader.mainly(),
        Some(Outside::Socket | Outside::SocketOrTimer)
    );
    !observation.descends(writer, reader.process.id.pid)
        && (is_outside || reader.on.iter().any(is_at_server))
}

/// Whether a process moved no bytes, hardly ran, and waits for nobody outside of what was asked for.
fn does_nothing(observation: &Observation, process: &Observed) -> bool {
    const MAX_RUNNING: f64 = 0.01;
    let moves_nothing = process.io.is_some_and(|io| io.reads == 0 && io.writes == 0);
    let is_outside = |link: LinkId, side: LinkSide| {
        let mut others = observation.holders(link, side.other());
        !others.any(|other| other.is_asked && other.process.id != process.process.id)
    };
    let waits_outside = process.outside.keys().any(|outside| {
        matches!(
            outside,
            Outside::Socket | Outside::SocketOrTimer | Outside::Terminal
        )
    });
    let waits_on_others = process.on.iter().any(|on| is_outside(on.pipe, on.side));
    moves_nothing
        && !process.splices
        && process.ran_s <= MAX_RUNNING * process.counted_s
        && !waits_outside
        && !waits_on_others
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
    /// terminal, a lock, a debugger, its children. Event loops wait with timeouts, too.
    fn may_read(&self) -> bool {
        let ends_by_itself = matches!(
            self.waits_for,
            Some(
                Outside::Timer
                    | Outside::Terminal
                    | Outside::FileLock
                    | Outside::Frozen
                    | Outside::FifoPeer
                    | Outside::Tracer
            )
        );
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
    let is_awaited = reader.threads.iter().any(waits_for);
    IdleReader {
        who: reader.who(),
        fd: descriptor(reader, link, LinkSide::Input),
        waits_for: reader.mainly(),
        children: reader.children.clone(),
        child: child.filter(|_| is_awaited).map(Observed::who),
        unread_by_writer: unread_between(observation, reader, writer),
        is_stopped: reader.shares.stopped >= MIN_BUSY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        busy, child_of, frozen, observation, on_input, on_outside, on_room, process, reads, writes,
    };
    use crate::observe::FillChange;
    use crate::proc::Io;
    use crate::wait::LinkWait;

    fn found(processes: Vec<Observed>) -> Vec<Unread> {
        find(&observation(processes), &BTreeSet::new())
    }

    fn blocked() -> Observed {
        let yes = child_of(2, process(1, "yes", vec![writes(1, 7)]));
        frozen(yes, on_room(7))
    }

    fn reader(thread: ThreadState) -> Observed {
        frozen(process(2, "python3", vec![reads(5, 7)]), thread)
    }

    #[test]
    fn a_parent_that_waits_and_does_not_read_is_named() {
        let mut parent = reader(on_outside(Outside::Timer));
        parent.is_frozen = false;
        let [unread] = &found(vec![blocked(), parent.clone()])[..] else {
            panic!();
        };
        assert_eq!((&*unread.writer.name, unread.readers.len()), ("yes", 1));
        assert_eq!(unread.readers[0].child, None);
        parent
            .threads
            .push(ThreadState::Waiting(BlockedOn::Child(Some(1))));
        let [unread] = &found(vec![blocked(), parent])[..] else {
            panic!();
        };
        assert_eq!(unread.readers[0].child, Some(blocked().who()));
    }

    /// `for line in p.stdout: run(["sleep", "60"])`.
    #[test]
    fn a_parent_that_waits_for_another_child_may_read_on() {
        let sleep = |parent| {
            let sleep = child_of(parent, process(3, "sleep", Vec::new()));
            frozen(sleep, on_outside(Outside::Timer))
        };
        let parent = |waited: Option<i32>, other: &Observed| {
            let mut parent = reader(ThreadState::Waiting(BlockedOn::Child(waited)));
            parent.children = Some(Children {
                names: vec![other.process.name.clone()],
                shares: other.shares,
                outside: other.outside.clone(),
                on: Vec::new(),
                processors: 0.0,
                are_short: false,
            });
            parent
        };
        let found = |waited: Option<i32>, other: Observed| {
            let found = found(vec![blocked(), parent(waited, &other), other]);
            let [unread] = &found[..] else {
                panic!("{found:?}");
            };
            (unread.readers[0].child.is_some(), unread.may_be_read)
        };
        assert_eq!(found(Some(3), sleep(2)), (false, true));
        assert_eq!(found(None, sleep(2)), (false, true));
        assert_eq!(found(Some(1), sleep(1000)), (true, false));
        // A client that waits for the writer.
        let ends = vec![reads(0, 9)];
        let client = frozen(child_of(2, process(3, "curl", ends)), on_input(9));
        let mut server = blocked();
        server.process.ends = vec![writes(1, 7), writes(4, 9)].into();
        let parent = parent(Some(3), &client);
        let all = find(&observation(vec![server, parent, client]), &BTreeSet::new());
        assert!(matches!(&all[..], [one] if !one.may_be_read), "{all:?}");
    }

    #[test]
    fn a_client_reads_on_once_its_server_answers_but_a_parent_need_not() {
        let socket = LinkId::Socket { inode: 9 };
        let at_server = || {
            ThreadState::Waiting(BlockedOn::Pipes {
                any_of: vec![LinkWait {
                    pipe: socket,
                    fd: Some(3),
                    side: LinkSide::Input,
                }],
                or: None,
            })
        };
        let waits = [
            (at_server(), true),
            (on_outside(Outside::Socket), true),
            (on_outside(Outside::Tracer), true),
            (on_outside(Outside::Event), false),
        ];
        for (wait, may_be_read) in waits {
            let mut stranger = blocked();
            stranger.process.parent = 1000;
            stranger.ancestors.clear();
            let [unread] = &found(vec![stranger, reader(wait.clone())])[..] else {
                panic!("{wait:?}");
            };
            assert_eq!(unread.may_be_read, may_be_read, "{wait:?}");
            let [unread] = &found(vec![blocked(), reader(wait.clone())])[..] else {
                panic!("{wait:?}");
            };
            let by_itself = wait == on_outside(Outside::Tracer);
            assert_eq!(unread.may_be_read, by_itself, "{wait:?}");
        }
    }

    #[test]
    fn a_working_or_blocked_reader_is_not_named() {
        let works = busy(process(2, "gzip", vec![reads(0, 7)]), 0.9, 0.0, 0.0);
        assert_eq!(found(vec![blocked(), works]), []);
        let cat = frozen(
            process(2, "cat", vec![reads(0, 7), writes(1, 8)]),
            on_room(8),
        );
        let sleep = frozen(
            process(3, "sleep", vec![reads(0, 8)]),
            on_outside(Outside::Timer),
        );
        let unread = found(vec![blocked(), cat, sleep]);
        let names = unread.iter().map(|unread| &*unread.writer.name);
        assert_eq!(names.collect::<Vec<&str>>(), ["cat"]);
    }

    #[test]
    fn who_takes_its_inputs_in_order_comes_to_this_one() {
        let ends = vec![reads(3, 8), reads(5, 7), writes(1, 9)];
        let mut cat = busy(process(2, "cat", ends), 0.1, 0.0, 0.9);
        cat.on.retain(|on| on.pipe == LinkId::pipe(8));
        (cat.threads, cat.io) = (vec![on_input(8)], None);
        let found = |reader: &Observed| {
            let mut observation = observation(vec![blocked(), reader.clone()]);
            observation.pipes[0].fill_change = Some(FillChange {
                is_constant: true,
                bytes_per_s: 0.0,
            });
            find(&observation, &BTreeSet::new()).len()
        };
        assert_eq!(found(&cat), 1);
        cat.io = Some(Io {
            read_bytes: 1 << 20,
            reads: 16,
            ..Io::default()
        });
        assert_eq!(found(&cat), 0);
        // A server reads from others, too.
        cat.polled = [(LinkId::pipe(8), LinkSide::Input)].into();
        assert_eq!(found(&cat), 1);
    }

    /// As `comm <(sleep 9; sort) <(sort)`.
    #[test]
    fn who_waits_for_its_first_input_comes_to_the_second() {
        let comm = frozen(
            process(2, "comm", vec![reads(63, 8), reads(62, 7)]),
            on_input(8),
        );
        let sleep = |ends| frozen(process(3, "sleep", ends), on_outside(Outside::Timer));
        let first = || sleep(vec![writes(1, 8)]);
        assert_eq!(found(vec![blocked(), comm.clone(), first()]), []);
        // A copy of the read end has been left to the other one.
        let both = sleep(vec![writes(1, 8), reads(60, 7)]);
        assert_eq!(found(vec![blocked(), comm.clone(), both]), []);
        // Who could write there waits for the writer here, as a filter of what tee(1) passes on.
        let mut filter = frozen(
            process(3, "filter", vec![reads(0, 9), writes(1, 8)]),
            on_input(9),
        );
        let mut tee = blocked();
        tee.process.ends = vec![writes(1, 7), writes(3, 9)].into();
        let all = vec![tee.clone(), comm.clone(), filter.clone()];
        assert_eq!(found(all).len(), 1);
        // It may hear from another machine, as ssh.
        filter.threads = vec![ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: LinkId::pipe(9),
                fd: Some(0),
                side: LinkSide::Input,
            }],
            or: Some(Outside::Socket),
        })];
        assert_eq!(found(vec![tee, comm.clone(), filter]), []);
        // Whoever writes there can't be examined.
        assert_eq!(found(vec![blocked(), comm.clone()]), []);
        // Its standard error, which is its standard output, too.
        let mut error = blocked();
        error.process.ends = vec![writes(1, 7), writes(2, 7)].into();
        assert_eq!(found(vec![error, comm.clone(), first()]).len(), 1);
        // A runtime that polls has forgotten it.
        let mut polls = comm;
        polls.polled = [(LinkId::pipe(8), LinkSide::Input)].into();
        assert_eq!(found(vec![blocked(), polls, first()]).len(), 1);
    }

    /// `Popen(server)`, and then `check_output(client)`, whose server does not get as far as to answer.
    #[test]
    fn who_reads_a_client_may_have_forgotten_its_server() {
        let reader = |language: Language| {
            let ends = vec![reads(3, 8), reads(5, 7)];
            let mut reader = frozen(process(2, "reader", ends), on_input(8));
            reader.language = language;
            reader
        };
        let timer = on_outside(Outside::Timer);
        let client = || frozen(process(3, "curl", vec![writes(1, 8)]), timer.clone());
        let all = found(vec![blocked(), reader(Language::Python), client()]);
        assert!(matches!(&all[..], [one] if one.may_be_read), "{all:?}");
        let shell = found(vec![blocked(), reader(Language::Shell), client()]);
        assert_eq!(shell, []);
        // Not if it was started by somebody else.
        let mut stranger = blocked();
        stranger.process.parent = 1000;
        stranger.ancestors.clear();
        let all = vec![stranger, reader(Language::Python), client()];
        assert_eq!(found(all), []);
        // The client's parent, as timeout(1), waits for it, and it waits for the server.
        let ends = vec![writes(1, 8), reads(6, 9)];
        let client = frozen(child_of(4, process(3, "client", ends)), on_input(9));
        let signal = on_outside(Outside::Signal);
        let timeout = frozen(process(4, "timeout", vec![writes(1, 8)]), signal);
        let mut server = blocked();
        server.process.ends = vec![writes(1, 7), writes(4, 9)].into();
        let all = found(vec![server, reader(Language::Python), client, timeout]);
        assert!(matches!(&all[..], [one] if !one.may_be_read), "{all:?}");
    }

    /// Python's `for line in p.stdout`, of a shell whose child fills standard error.
    #[test]
    fn the_other_stream_of_who_is_read_in_order_is_unread() {
        let mut python = busy(
            process(2, "python3", vec![reads(3, 8), reads(5, 7)]),
            0.0,
            0.0,
            1.0,
        );
        python.on.retain(|on| on.pipe == LinkId::pipe(8));
        python.threads = vec![on_input(8)];
        python.io = Some(Io {
            read_bytes: 40,
            reads: 20,
            ..Io::default()
        });
        let found = |standard_error: i32| {
            let ends = vec![writes(1, 8), writes(standard_error, 7)];
            let shell = busy(process(3, "sh", ends), 0.0, 0.0, 0.0);
            let all = vec![blocked(), python.clone(), shell];
            let mut observation = observation(all);
            observation.pipes[0].fill_change = Some(FillChange {
                is_constant: true,
                bytes_per_s: 0.0,
            });
            find(&observation, &BTreeSet::new()).len()
        };
        // An end that was left to it by accident is none of its streams.
        assert_eq!((found(2), found(9)), (1, 0));
    }

    #[test]
    fn a_writer_that_ran_had_a_reader() {
        let writer = busy(blocked().process, 0.01, 0.99, 0.0);
        assert_eq!(found(vec![writer, reader(on_outside(Outside::Timer))]), []);
    }

    /// Node and asyncio wait in a poll with a timeout.
    #[test]
    fn a_reader_in_an_event_loop_takes_nothing_and_a_sleeper_may() {
        let in_loop = ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: LinkId::pipe(7),
                fd: Some(5),
                side: LinkSide::Input,
            }],
            or: Some(Outside::Timer),
        });
        let constant = |observation: &mut Observation| {
            observation.pipes[0].unread = Some(4096);
            observation.pipes[0].fill_change = Some(FillChange {
                is_constant: true,
                bytes_per_s: 0.0,
            });
        };
        for (thread, may_be_read) in [(in_loop, false), (on_outside(Outside::Timer), true)] {
            let mut observation = observation(vec![blocked(), reader(thread)]);
            constant(&mut observation);
            let [unread] = &find(&observation, &BTreeSet::new())[..] else {
                panic!("{observation:?}");
            };
            assert_eq!((unread.may_be_read, unread.fd), (may_be_read, Some(1)));
            assert_eq!(unread.readers[0].fd, Some(5));
        }
    }
}
