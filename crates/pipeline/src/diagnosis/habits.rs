//! What is worth knowing though nothing is stuck.

use std::collections::BTreeSet;

use serde::Serialize;

use super::unread::leads_outside;
use super::wakes::waits_outside;
use super::{Finding, Observed, SmallCalls, Who};
use crate::graph::{Adjacency, LinkSide, reach};
use crate::observe::{NewPipe, Observation, ObservedLink, default_capacity};
use crate::proc::LinkId;
use crate::wait::{BlockedOn, ThreadState};

/// Calls of no more bytes are small.
const MAX_SMALL: f64 = 512.0;
/// So many small calls a second take noticeable time: about 1 % of a processor at half a
/// microsecond each.
const MIN_CALLS_PER_S: f64 = 20_000.0;
/// The same for small calls that each wake the reader, which takes some 5 us.
const MIN_WAKES_PER_S: f64 = 2_000.0;
/// Fewer calls are worth while if there are as many times more in each second for which the process runs: they
/// take 5 % of it then.
const MIN_TIMES_OF_RUNNING: f64 = 5.0;
/// A pipe that is less full than this, on average, has room for nearly every write.
const MAX_ROOMY: f64 = 0.25;
/// A reader that waits for input for this share of the time mostly finds a pipe empty.
const MIN_STARVED: f64 = 0.5;
/// Where writes of a process are mostly in vain, its bytes a call are few beside those that its reader takes.
const MAX_TIMES_WRITTEN: f64 = 16.0;

/// Pipes whose lock is held.
pub(super) fn held(observation: &Observation) -> Vec<Finding> {
    let is_asked = |pipe: LinkId| {
        let mut holders = observation
            .living()
            .filter(|process| process.process.pipes().contains(&pipe));
        holders.any(|process| process.is_asked)
    };
    // What it splices from or to may be in the hands of somebody outside, who goes on later.
    let is_stuck = |holder: &Observed| {
        holder.is_frozen
            && !waits_outside(observation, holder)
            && !leads_outside(observation, holder, holder)
    };
    let held = observation.pipes.iter();
    held.filter(|pipe| pipe.is_held && is_asked(pipe.id))
        .map(|pipe| {
            let holder = pipe.held_by.and_then(|pid| observation.find(pid));
            Finding::Held {
                pipe: pipe.id,
                holder: holder.map(Observed::who),
                is_stuck: holder.is_some_and(is_stuck),
            }
        })
        .collect()
}

/// Processes with a thread that waits for the other end of a FIFO to be opened.
pub(super) fn fifo_peers(observation: &Observation, tied: &BTreeSet<i32>) -> Vec<Finding> {
    let asked = observation.living().filter(|process| process.is_asked);
    let free = asked.filter(|process| !tied.contains(&process.process.id.pid));
    let waits = free.filter_map(|process| {
        let mut threads = process.threads.iter();
        let path = threads.find_map(|state| match state {
            ThreadState::Waiting(BlockedOn::FifoPeer { path }) => Some(path.clone()),
            _ => None,
        })?;
        Some(Finding::FifoPeer {
            process: process.who(),
            path,
        })
    });
    waits.collect()
}

/// Processes that move few bytes a call, many times. A reader that gets as few at a time has no choice.
pub(super) fn small_calls(observation: &Observation) -> Vec<SmallCalls> {
    let edges = observation.edges();
    let adjacency = Adjacency::new(&edges);
    let mut findings = Vec::new();
    for observed in observation.living().filter(|process| process.is_asked) {
        let own = observed.process.id.pid;
        let before: Vec<(i32, LinkId)> = adjacency.before.get(&own).cloned().unwrap_or_default();
        // What waits for answers can't ask several questions at once, nor keep one back.
        let (after, _) = reach(own, &adjacency.after);
        if before.iter().any(|(from, _)| after.contains(from)) {
            continue;
        }
        let takes = small(observation, &adjacency, observed, LinkSide::Input)
            .filter(|calls| could_take_more(observation, &before, calls));
        let gives = small(observation, &adjacency, observed, LinkSide::Room).filter(|_| {
            !before.iter().any(|(from, _)| {
                let writer = observation.find(*from);
                writer.is_some_and(|writer| {
                    small(observation, &adjacency, writer, LinkSide::Room).is_some()
                })
            })
        });
        findings.extend(takes.into_iter().chain(gives));
    }
    findings
}

/// Whether a reader takes less a call than there is: a pipe before it is not nearly empty, the writers
/// write more at a time, and what it reads comes from them, not from short files.
fn could_take_more(
    observation: &Observation,
    before: &[(i32, LinkId)],
    calls: &SmallCalls,
) -> bool {
    // Else most calls would stay, as of Python's multiprocessing, which reads the length of each message first.
    const MIN_MORE: f64 = 4.0;
    const MIN_FROM_PIPES: f64 = 0.9;
    // Nothing but a shell's `read` takes this much at a time, whatever is written.
    const ONE_BYTE: f64 = 1.05;
    let is_filled = before.iter().any(|(_, link)| {
        let fill = observation.link(*link).and_then(|link| link.fill);
        fill.is_some_and(|fill| fill >= MAX_ROOMY)
    });
    // What the others would not get is the next message.
    let is_shared = |link: LinkId| observation.users(link, LinkSide::Input).len() > 1;
    if before.iter().any(|(_, link)| is_shared(*link)) {
        return false;
    }
    let mut written_per_s = 0.0;
    let mut writes_more = true;
    for (from, _) in before {
        let writer = observation.find(*from);
        let bytes = writer.and_then(|writer| Some((writer.io?, writer.counted_s)));
        let (io, seconds) = bytes.unwrap_or_default();
        writes_more &=
            io.written_bytes as f64 >= MIN_MORE * calls.bytes_per_call * io.writes as f64;
        written_per_s += io.written_bytes as f64 / seconds.max(f64::MIN_POSITIVE);
    }
    let read_per_s = calls.bytes_per_call * calls.calls_per_s;
    let is_from_pipes = written_per_s >= MIN_FROM_PIPES * read_per_s;
    is_filled && (calls.bytes_per_call <= ONE_BYTE || writes_more && is_from_pipes)
}

fn small(
    observation: &Observation,
    adjacency: &Adjacency,
    observed: &Observed,
    side: LinkSide,
) -> Option<SmallCalls> {
    let io = observed.io.filter(|_| !observed.splices)?;
    let (bytes, calls) = match side {
        LinkSide::Input => (io.read_bytes, io.reads),
        LinkSide::Room => (io.written_bytes, io.writes),
    };
    let mut ends = observed.process.ends.iter();
    let has_end = ends.any(|end| side.has(end) && observation.link(end.pipe).is_some());
    let calls_per_s = calls as f64 / observed.counted_s;
    let bytes_per_call = bytes as f64 / calls.max(1) as f64;
    let has_room = || has_room(observation, adjacency, observed, bytes_per_call);
    let is_vain = observed.tries(side) && !(side == LinkSide::Room && has_room());
    if !has_end || is_vain || bytes_per_call > MAX_SMALL || calls_per_s < MIN_WAKES_PER_S {
        return None;
    }
    let wakes =
        woken(observation, adjacency, observed, calls_per_s).filter(|_| side == LinkSide::Room);
    let per_s_of_running = calls_per_s / observed.shares.runs.max(f64::MIN_POSITIVE);
    let least = wakes.as_ref().map_or(MIN_CALLS_PER_S, |_| MIN_WAKES_PER_S);
    let is_costly = calls_per_s >= least && per_s_of_running >= MIN_TIMES_OF_RUNNING * least;
    is_costly.then(|| SmallCalls {
        process: observed.who(),
        side,
        bytes_per_call,
        calls_per_s,
        wakes,
    })
}

/// Whether there is room for nearly every write to the next stages, so that hardly any is in vain: they mostly wait
/// for input. Few looks into a pipe prove little.
fn has_room(
    observation: &Observation,
    adjacency: &Adjacency,
    observed: &Observed,
    bytes_per_write: f64,
) -> bool {
    let next = adjacency.after.get(&observed.process.id.pid);
    let next = next.into_iter().flatten();
    let mut outputs = next.peekable();
    let is_roomy = |(to, link): &(i32, LinkId)| {
        let fill = observation.link(*link).and_then(|link| link.fill);
        let reader = observation.find(*to);
        let starved = reader.map_or(0.0, |reader| reader.share_on(*link, LinkSide::Input));
        let read = reader.and_then(|reader| reader.io);
        let bytes_per_read = read.map(|io| io.read_bytes as f64 / io.reads.max(1) as f64);
        fill.is_some_and(|fill| fill < MAX_ROOMY)
            && starved >= MIN_STARVED
            && bytes_per_read.is_some_and(|bytes| bytes <= MAX_TIMES_WRITTEN * bytes_per_write)
    };
    outputs.peek().is_some() && outputs.all(is_roomy)
}

/// The reader of a process that waits for it most of the time and reads about as often as that
/// writes: line by line.
fn woken(
    observation: &Observation,
    adjacency: &Adjacency,
    writer: &Observed,
    writes_per_s: f64,
) -> Option<Who> {
    let readers = adjacency.after.get(&writer.process.id.pid);
    readers.into_iter().flatten().find_map(|(to, pipe)| {
        let reader = observation.find(*to)?;
        let reads_per_s = reader.io?.reads as f64 / reader.counted_s;
        // Which of several writers wakes it does not show.
        let is_woken = observation.users(*pipe, LinkSide::Room).len() == 1
            && reader.share_on(*pipe, LinkSide::Input) > 0.5
            && (0.5..2.0).contains(&(reads_per_s / writes_per_s));
        is_woken.then(|| reader.who())
    })
}

/// Why a pipe holds less than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SmallPipeCause {
    /// The pipes of its user exceed /proc/sys/fs/pipe-user-pages-soft: also a new one is small.
    SoftLimit,
    /// /proc/sys/fs/pipe-max-size is as low: also a new pipe is small.
    MaxSize,
    /// A program has set it (F_SETPIPE_SZ).
    Program,
    /// A program has set it, or one of these limits was in force when it was made.
    ProgramOrLimit,
    /// It does not show.
    Unknown,
}

/// Why a pipe is small. The kernel gives a new pipe two pages once the pipes of an unprivileged
/// user exceed the soft limit (one before Linux 5.14), and never more than the maximum
/// (alloc_pipe_info() in fs/pipe.c).
fn cause(pipe: &ObservedLink, capacity: u64, new: Option<NewPipe>) -> SmallPipeCause {
    let page = fastpipe::pipe::page_size() as u64;
    let is_minimal = capacity <= 2 * page;
    let Some(new) = new else {
        return SmallPipeCause::Unknown;
    };
    let is_own = pipe.owner == Some(new.user);
    let is_privileged = pipe.owner == Some(0) || is_own && new.is_privileged;
    let is_max = new
        .max
        .is_some_and(|max| max < default_capacity() && max == capacity);
    if is_privileged && new.is_privileged {
        SmallPipeCause::Program
    } else if is_own && new.capacity == capacity && is_max {
        SmallPipeCause::MaxSize
    } else if is_own && new.capacity == capacity && is_minimal {
        SmallPipeCause::SoftLimit
    } else if is_minimal || is_max {
        SmallPipeCause::ProgramOrLimit
    } else {
        SmallPipeCause::Program
    }
}

/// Pipes that hold less than a new one usually does.
pub(super) fn small_pipes(observation: &Observation) -> Vec<Finding> {
    let is_asked = |process: &&Observed| process.is_asked;
    let mut findings = Vec::new();
    for pipe in observation.pipes.iter().filter(|pipe| pipe.is_small()) {
        let capacity = pipe.capacity.unwrap_or_default();
        let mut between = observation.users(pipe.id, LinkSide::Room);
        between.extend(observation.users(pipe.id, LinkSide::Input));
        // A program that made itself a small pipe knows why.
        let is_shared = between.len() > 1;
        if is_shared && between.iter().any(is_asked) {
            findings.push(Finding::SmallPipe {
                pipe: pipe.id,
                capacity,
                cause: cause(pipe, capacity, observation.new_pipe),
                between: between.iter().map(|process| process.who()).collect(),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{busy, observation, process, reads, writes};

    use crate::proc::Io;

    #[test]
    fn small_pipe_is_explained_only_as_far_as_it_shows() {
        use SmallPipeCause::{MaxSize, Program, ProgramOrLimit, SoftLimit, Unknown};
        let page = fastpipe::pipe::page_size() as u64;
        let usual = default_capacity();
        let find = |capacity, owner, user, new_capacity, max| {
            let pipe = ObservedLink {
                owner: Some(owner),
                ..observation(vec![busy(
                    process(1, "a", vec![writes(1, 7)]),
                    0.1,
                    0.0,
                    0.0,
                )])
                .pipes[0]
                    .clone()
            };
            let new = NewPipe {
                user,
                is_privileged: user == 0,
                capacity: new_capacity,
                max: Some(max),
            };
            cause(&pipe, capacity, Some(new))
        };
        let (own, other, root, large) = (1000, 1001, 0, 1 << 20);
        for (capacity, owner, user, new, max, expected) in [
            (2 * page, own, own, 2 * page, large, SoftLimit),
            (page, own, own, page, page, MaxSize),
            (2 * page, own, own, usual, large, ProgramOrLimit),
            (4 * page, own, own, usual, large, Program),
            // The limits don't apply to root.
            (2 * page, root, root, usual, large, Program),
            (2 * page, other, root, usual, large, ProgramOrLimit),
            (4 * page, other, own, 4 * page, 4 * page, ProgramOrLimit),
        ] {
            assert_eq!(
                find(capacity, owner, user, new, max),
                expected,
                "{capacity}"
            );
        }
        let pipe = &observation(vec![busy(
            process(1, "a", vec![writes(1, 7)]),
            0.1,
            0.0,
            0.0,
        )])
        .pipes[0];
        assert_eq!(cause(pipe, page, None), Unknown);
    }

    #[test]
    fn many_small_calls_are_counted_and_few_are_not() {
        let found = |calls: u64, bytes: u64| {
            let mut observed = busy(process(1, "a", vec![writes(1, 7)]), 1.0, 0.0, 0.0);
            observed.io = Some(Io {
                writes: calls,
                written_bytes: bytes,
                ..Io::default()
            });
            small_calls(&observation(vec![observed]))
        };
        assert_eq!(found(300_000, 3_000_000).len(), 1);
        assert_eq!(found(300_000, 3_000_000_000), []);
        // Without them it would be a few percent faster.
        assert_eq!(found(100_000, 1_000_000), []);
    }

    #[test]
    fn small_calls_that_each_wake_the_reader_are_named_sooner() {
        let found = |written: u64, calls: u64, starved| {
            let io = |calls| {
                Some(Io {
                    reads: calls,
                    writes: calls,
                    read_bytes: 50 * calls,
                    written_bytes: 50 * calls,
                })
            };
            let mut writer = busy(process(1, "a", vec![writes(1, 7)]), 0.5, 0.0, 0.0);
            let mut reader = busy(process(2, "b", vec![reads(0, 7)]), 0.1, 0.0, starved);
            (writer.io, reader.io) = (io(written), io(calls));
            let found = small_calls(&observation(vec![writer.clone(), reader.clone()]));
            // One that answers, as bc in a coprocess, gets each question by itself.
            writer.process = process(1, "a", vec![writes(1, 7), reads(3, 8)]);
            reader.process = process(2, "b", vec![reads(0, 7), writes(1, 8)]);
            assert_eq!(small_calls(&observation(vec![writer, reader])), []);
            let wakes = found
                .into_iter()
                .map(|calls| calls.wakes.map(|who| who.pid));
            wakes.collect::<Vec<Option<i32>>>()
        };
        assert_eq!(found(12_000, 12_000, 0.9), [Some(2)]);
        // It takes several at a time, or has no time to wait.
        assert_eq!(found(12_000, 1_000, 0.9), []);
        assert_eq!(found(12_000, 12_000, 0.1), []);
        // They take a hundredth of its time.
        assert_eq!(found(5_000, 5_000, 0.9), []);
    }

    #[test]
    fn a_reader_of_small_pieces_is_not_blamed_for_them() {
        let small = Some(Io {
            reads: 300_000,
            read_bytes: 3_000_000,
            writes: 300_000,
            written_bytes: 3_000_000,
        });
        let mut writer = busy(process(1, "a", vec![writes(1, 7)]), 1.0, 0.0, 0.0);
        let mut reader = busy(process(2, "b", vec![reads(0, 7)]), 0.5, 0.0, 0.5);
        (writer.io, reader.io) = (small, small);
        let findings = small_calls(&observation(vec![writer, reader]));
        let pids = |found: Vec<SmallCalls>| -> Vec<i32> {
            found.iter().map(|calls| calls.process.pid).collect()
        };
        assert_eq!(pids(findings), [1]);
        // It writes a few lines at a time, of which the reader takes several.
        let node = |is_tried: bool, fill, starved: f64, reads_made: u64| {
            // It has inherited an end of another pipe, of which nothing is known.
            let ends = vec![writes(1, 7), writes(251, 8)];
            let mut writer = busy(process(1, "node", ends), 1.0, 0.0, 0.0);
            let input = vec![reads(0, 7)];
            let mut reader = busy(process(2, "wc", input), 1.0 - starved, 0.0, starved);
            let output = (LinkId::pipe(7), LinkSide::Room);
            writer.tried = is_tried.then_some(output).into_iter().collect();
            writer.io = Some(Io {
                writes: 600_000,
                written_bytes: 13_000_000,
                ..Io::default()
            });
            reader.io = Some(Io {
                reads: reads_made,
                read_bytes: 13_000_000,
                ..Io::default()
            });
            let mut observation = observation(vec![writer, reader]);
            observation.pipes[0].fill = Some(fill);
            pids(small_calls(&observation))
        };
        assert_eq!(node(false, 0.9, 0.8, 90_000), [1]);
        assert_eq!(node(true, 0.01, 0.8, 90_000), [1]);
        assert_eq!(node(true, 0.9, 0.8, 90_000), [0; 0]);
        // It writes as much as there is room for, mostly nothing.
        assert_eq!(node(true, 0.01, 0.8, 400), [0; 0]);
        // Its reader works, and the pipe was full between the few looks.
        assert_eq!(node(true, 0.2, 0.1, 90_000), [0; 0]);
    }

    #[test]
    fn only_a_reader_that_could_take_more_is_named() {
        let (full, empty) = (Some(0.9), Some(0.01));
        for (fill, written_bytes, writes_made, read_bytes, reads_made, expected) in [
            // A shell's read, whatever its writer does; and one of ten bytes.
            (full, 409_600, 100, 409_600, 409_600, true),
            (full, 0, 0, 409_600, 409_600, true),
            (full, 4_096_000, 100, 4_096_000, 409_600, true),
            // It takes what there is.
            (empty, 409_600, 100, 409_600, 409_600, false),
            (None, 409_600, 100, 409_600, 409_600, false),
            // The pipe was full for a while, and then had lines one by one.
            (full, 4_096_000, 409_600, 4_096_000, 409_600, false),
            // It also reads short files.
            (full, 409_600, 100, 4_000_000, 400_000, false),
            (full, 0, 0, 4_000_000, 400_000, false),
            // It reads the length of each message first, as Python's multiprocessing.
            (full, 8_320_000, 160_000, 8_320_000, 320_000, false),
        ] {
            let mut writer = busy(process(1, "seq", vec![writes(1, 7)]), 1.0, 0.0, 0.0);
            let mut reader = busy(process(2, "sh", vec![reads(0, 7)]), 1.0, 0.0, 0.0);
            writer.splices = written_bytes == 0;
            writer.io = Some(Io {
                writes: writes_made,
                written_bytes,
                ..Io::default()
            });
            reader.io = Some(Io {
                reads: reads_made,
                read_bytes,
                ..Io::default()
            });
            let other = busy(process(3, "sh", vec![reads(0, 7)]), 1.0, 0.0, 0.0);
            let is_named = |processes: Vec<Observed>| {
                let mut observation = observation(processes);
                observation.pipes[0].fill = fill;
                let found = small_calls(&observation);
                found.iter().any(|calls| calls.process.pid == 2)
            };
            let both = vec![writer.clone(), reader.clone()];
            assert_eq!(
                is_named(both),
                expected,
                "{fill:?} {written_bytes} {read_bytes}"
            );
            // Of two that share the pipe, one would get the other's messages.
            assert!(!is_named(vec![writer, reader, other]));
        }
    }
}
