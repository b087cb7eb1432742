//! What is worth knowing though nothing is stuck.

use std::collections::BTreeSet;

use super::{Finding, Observed};
use crate::look::is_minimal;
use crate::observe::Observation;
use crate::proc::PipeId;
use crate::wait::Side;

/// A reader that waited for input for at least this share is short of it.
const MIN_STARVED: f64 = 0.9;
/// Calls of fewer bytes are small.
const MAX_SMALL: f64 = 512.0;
/// So many small calls a second take noticeable time: about 1 % of a processor at half a
/// microsecond each.
const MIN_CALLS_PER_S: f64 = 20_000.0;

/// Pipes whose lock is held.
pub(super) fn held(observation: &Observation) -> Vec<Finding> {
    let is_asked = |pipe: PipeId| {
        let mut holders = observation
            .living()
            .filter(|it| it.process.pipes().contains(&pipe));
        holders.any(|it| it.is_asked)
    };
    let held = observation.pipes.iter();
    held.filter(|pipe| pipe.is_held && is_asked(pipe.id))
        .map(|pipe| {
            let holder = pipe.held_by.and_then(|pid| observation.find(pid));
            Finding::Held {
                pipe: pipe.id,
                holder: holder.map(Observed::who),
                is_stuck: holder.is_some_and(|it| it.is_frozen),
            }
        })
        .collect()
}

/// Write ends of processes that don't write, while the reader waits for input or its end.
pub(super) fn spare_ends(observation: &Observation, tied: &BTreeSet<i32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pipe in &observation.pipes {
        let readers = observation.users(pipe.id, Side::Input);
        let starved = readers
            .iter()
            .find(|it| it.waited_on(pipe.id, Side::Input) >= MIN_STARVED);
        let Some(reader) = starved.filter(|it| it.is_asked && !it.has_ended) else {
            continue;
        };
        let holders: Vec<&Observed> = observation
            .holders(pipe.id, Side::Room)
            .filter(|it| !it.has_ended)
            .collect();
        let (idle, users): (Vec<&Observed>, Vec<&Observed>) = holders
            .iter()
            .partition(|it| it.holds_idly(pipe.id, Side::Room));
        for holder in idle {
            let pid = holder.process.id.pid;
            // A process that wakes itself by a pipe is the only one that knows it.
            let is_own = pid == reader.process.id.pid && holders.len() == 1;
            // A shell waits for the children that do the writing.
            if is_own || tied.contains(&pid) || holder.only_waits_for_children() {
                continue;
            }
            let ends = holder.process.ends.iter();
            let fd = ends
                .filter(|end| end.pipe == pipe.id && end.writes)
                .map(|end| end.fd)
                .next();
            findings.extend(fd.map(|fd| Finding::SpareEnd {
                pipe: pipe.id,
                reader: reader.who(),
                holder: holder.who(),
                fd,
                is_last: users.is_empty(),
            }));
        }
    }
    findings
}

/// Processes that move few bytes a call, many times. Those that read from such a writer have
/// no choice.
pub(super) fn small_calls(observation: &Observation) -> Vec<Finding> {
    let edges = observation.edges();
    let mut findings = Vec::new();
    for observed in observation.living().filter(|it| it.is_asked) {
        let own = observed.process.id.pid;
        let mut before = edges.iter().filter(|(_, to, _)| *to == own);
        let has_cause = before.any(|(from, ..)| {
            let writer = observation.find(*from);
            writer.is_some_and(|it| small(observation, it, Side::Room).is_some())
        });
        if !has_cause {
            let sides = [Side::Input, Side::Room].into_iter();
            findings.extend(sides.filter_map(|side| small(observation, observed, side)));
        }
    }
    findings
}

fn small(observation: &Observation, observed: &Observed, side: Side) -> Option<Finding> {
    let io = observed.io.filter(|_| !observed.splices)?;
    let (bytes, calls) = match side {
        Side::Input => (io.read_bytes, io.reads),
        Side::Room => (io.written_bytes, io.writes),
    };
    let mut pipes = observation.pipes.iter();
    let has_end = pipes.any(|pipe| observed.process.holds(pipe.id, side));
    let calls_per_s = calls as f64 / observed.counted_s;
    let bytes_per_call = bytes as f64 / calls.max(1) as f64;
    let is_small = calls_per_s >= MIN_CALLS_PER_S && bytes_per_call < MAX_SMALL;
    (has_end && is_small).then(|| Finding::SmallCalls {
        process: observed.who(),
        side,
        bytes_per_call,
        calls_per_s,
    })
}

/// Pipes with the capacity that the kernel gives once a user's share is used up.
pub(super) fn small_pipes(observation: &Observation) -> Vec<Finding> {
    let is_asked = |it: &&Observed| it.is_asked;
    let mut findings = Vec::new();
    for pipe in &observation.pipes {
        let Some(capacity) = pipe.capacity.filter(|capacity| is_minimal(*capacity)) else {
            continue;
        };
        let mut between = observation.users(pipe.id, Side::Room);
        between.extend(observation.users(pipe.id, Side::Input));
        // A program that made itself a small pipe knows why.
        let is_shared = between.len() > 1;
        if is_shared && between.iter().any(is_asked) {
            findings.push(Finding::SmallPipe {
                pipe: pipe.id,
                capacity,
                between: between.iter().map(|it| it.who()).collect(),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{busy, frozen, observation, on_input, process, reads, writes};
    use crate::proc::Io;
    use crate::wait::{Outside, State, Wait};

    fn sleeping() -> State {
        State::Waiting(Wait::Outside(Outside::Timer))
    }

    #[test]
    fn a_stray_write_end_is_named_unless_it_is_standard_output() {
        let reader = || frozen(process(2, "cat", vec![reads(0, 7)]), on_input(7));
        let stray = |fd| frozen(process(3, "sleep", vec![writes(fd, 7)]), sleeping());
        let spare = |fd| {
            let observation = observation(vec![reader(), stray(fd)]);
            spare_ends(&observation, &BTreeSet::new())
        };
        let expected = Finding::SpareEnd {
            pipe: PipeId::pipe(7),
            reader: reader().who(),
            holder: stray(5).who(),
            fd: 5,
            is_last: true,
        };
        assert_eq!(spare(5), [expected]);
        assert_eq!(spare(1), []);
    }

    #[test]
    fn a_shell_that_waits_for_the_writer_is_no_stray() {
        let child = State::Waiting(Wait::Child(None));
        let observation = observation(vec![
            frozen(process(1, "sh", vec![writes(1, 7)]), child),
            busy(process(2, "cat", vec![writes(1, 7)]), 0.1, 0.0, 0.0),
            frozen(process(3, "wc", vec![reads(0, 7)]), on_input(7)),
        ]);
        assert_eq!(spare_ends(&observation, &BTreeSet::new()), []);
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
        assert_eq!(found(100_000, 1_000_000).len(), 1);
        assert_eq!(found(100_000, 1_000_000_000), []);
        assert_eq!(found(1000, 10_000), []);
    }

    #[test]
    fn a_reader_of_small_pieces_is_not_blamed_for_them() {
        let small = Some(Io {
            reads: 100_000,
            read_bytes: 1_000_000,
            writes: 100_000,
            written_bytes: 1_000_000,
        });
        let mut writer = busy(process(1, "a", vec![writes(1, 7)]), 1.0, 0.0, 0.0);
        let mut reader = busy(process(2, "b", vec![reads(0, 7)]), 0.5, 0.0, 0.5);
        (writer.io, reader.io) = (small, small);
        let findings = small_calls(&observation(vec![writer.clone(), reader]));
        let [Finding::SmallCalls { process, .. }] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(*process, writer.who());
    }
}
