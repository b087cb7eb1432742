//! How many bytes went through a pipe, by what its ends have read and written.
//!
//! The kernel counts bytes for a process, not for a pipe. So an end counts only if all its bytes
//! went through this pipe, as far as can be seen. Where both ends count and differ, one of them also
//! moves data elsewhere, or moves some by calls that are not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::Observation;
use crate::graph::LinkSide;
use crate::proc::{LinkId, ProcessId};
use crate::sample::{Observed, Start};

/// The ends of a pipe may differ by what it holds, and by what a program reads when it starts.
const MAX_DIFFERENCE: u64 = 128 << 10;

/// What the processes at one side of a pipe have moved.
#[derive(Clone, Copy)]
enum Moved {
    /// Bytes, counted by calls.
    Bytes {
        /// Their number.
        count: u64,
        /// The same per second.
        per_s: f64,
        /// Without those that were read while the processes started.
        after_start_per_s: f64,
        /// Whether they may have moved some of them through other files, or more than these.
        is_shared: bool,
    },
    /// Nothing: none of them ran.
    Nothing,
    /// Nothing by a call that the kernel counts.
    Uncounted,
    /// It can't be known how much.
    Unknown,
}

/// What is known about all processes before the rates of their links are found.
#[derive(Default)]
pub(crate) struct UsedLinks {
    /// Through which links a process may have moved its bytes on a side: the first two of them, which
    /// shows of each link whether there is another one.
    links: BTreeMap<(ProcessId, LinkSide), [Option<LinkId>; 2]>,
    /// The processes that have moved more than the kernel has counted.
    undercounted: BTreeSet<ProcessId>,
}

/// By how much two counts of the same bytes may differ.
pub(super) fn slack(bytes: u64) -> u64 {
    MAX_DIFFERENCE.max(bytes / 10)
}

impl Observation {
    /// Finds the processes whose counts don't show all that they have moved.
    pub(crate) fn used_links(&self) -> UsedLinks {
        let mut used = UsedLinks::default();
        let mut undercounted = BTreeSet::new();
        for pipe in &self.pipes {
            for side in [LinkSide::Input, LinkSide::Room] {
                undercounted.extend(self.undercounted(pipe.id, side, &mut used));
            }
        }
        UsedLinks {
            undercounted,
            ..used
        }
    }

    /// The only process at a side of a pipe, if all that it was counted on that side is less than what
    /// the other end has moved through this pipe: it moves some by calls that are not counted (pv).
    fn undercounted(
        &self,
        pipe: LinkId,
        side: LinkSide,
        used: &mut UsedLinks,
    ) -> Option<ProcessId> {
        let mut active = self.holders(pipe, side).filter(|holder| !holder.is_frozen);
        let (process, None) = (active.next()?, active.next()) else {
            return None;
        };
        let has_children = process.has_reaped || process.children.is_some();
        let io = process.io.filter(|_| !has_children)?;
        let counted = match side {
            LinkSide::Input => io.read_bytes,
            LinkSide::Room => io.written_bytes,
        };
        let Moved::Bytes {
            count,
            per_s,
            is_shared: false,
            ..
        } = self.moved(pipe, side.other(), used)
        else {
            return None;
        };
        // One of them may have been there for a shorter time.
        let moved = count.min((per_s * process.counted_s) as u64);
        (counted + slack(moved) < moved).then_some(process.process.id)
    }

    /// Sets the rates of all pipes.
    pub(crate) fn set_rates(&mut self) {
        let mut used = self.used_links();
        let rates: Vec<Option<f64>> = self
            .pipes
            .iter()
            .map(|pipe| self.rate(pipe.id, &mut used))
            .collect();
        for (pipe, rate) in self.pipes.iter_mut().zip(rates) {
            pipe.bytes_per_s = rate;
        }
        let doubtful: BTreeSet<LinkId> = self
            .living()
            .flat_map(|process| self.incomplete_outputs(process))
            .collect();
        for pipe in &mut self.pipes {
            if doubtful.contains(&pipe.id) {
                pipe.bytes_per_s = None;
            }
        }
    }

    /// The pipes of a process with several outputs, as tee(1), if their rates are less than what it
    /// wrote: a reader moves some by calls that are not counted, and does not show it (pv).
    fn incomplete_outputs(&self, process: &Observed) -> BTreeSet<LinkId> {
        let ends = process.process.ends.iter();
        let outputs = ends.filter(|end| end.writes && end.fd != 2);
        let outputs: BTreeSet<LinkId> = outputs.map(|end| end.pipe).collect();
        let is_counted = !process.splices && !process.has_reaped && !process.process.others.writes;
        let written = process.io.filter(|_| is_counted && process.counted_s > 0.0);
        let written = written.map_or(0, |io| io.written_bytes);
        let rate = |link: &LinkId| self.link(*link)?.bytes_per_s;
        let read = outputs.iter().filter_map(rate).sum::<f64>() * process.counted_s;
        if outputs.len() > 1 && read + (slack(written) as f64) < written as f64 {
            outputs
        } else {
            BTreeSet::new()
        }
    }

    /// Bytes per second through a pipe; `None` if not known.
    pub(crate) fn rate(&self, pipe: LinkId, used: &mut UsedLinks) -> Option<f64> {
        let sides = [LinkSide::Input, LinkSide::Room];
        let ends = sides.map(|side| self.moved(pipe, side, used));
        let change = self.link(pipe).and_then(|pipe| pipe.fill_change);
        let changes = change.is_some_and(|change| !change.is_constant);
        match ends {
            [Moved::Nothing, _] => Some(0.0),
            // It is read in small pieces: the writer is only woken once a whole page is free.
            [
                Moved::Bytes {
                    per_s,
                    is_shared: false,
                    ..
                },
                Moved::Nothing,
            ] if changes => Some(per_s),
            [_, Moved::Nothing] if changes => None,
            [_, Moved::Nothing] => Some(0.0),
            [
                Moved::Bytes {
                    count: read,
                    per_s: read_per_s,
                    is_shared: reads_others,
                    ..
                },
                Moved::Bytes {
                    count: written,
                    per_s: written_per_s,
                    is_shared: writes_others,
                    ..
                },
            ] => {
                let (less, more) = (read.min(written), read.max(written));
                // Else one of them has moved some elsewhere, or by splice(2). Where both may have,
                // they may be equal by chance, as tee(1) into cmp(1).
                let is_equal = more - less <= slack(more);
                let is_sure = is_equal && !(reads_others && writes_others);
                is_sure.then(|| read_per_s.min(written_per_s))
            }
            // A program reads some when it starts.
            [
                Moved::Bytes {
                    count,
                    after_start_per_s,
                    is_shared: false,
                    ..
                },
                Moved::Uncounted | Moved::Unknown,
            ]
            | [
                Moved::Uncounted | Moved::Unknown,
                Moved::Bytes {
                    count,
                    after_start_per_s,
                    is_shared: false,
                    ..
                },
            ] => {
                let is_start = matches!(ends, [Moved::Bytes { .. }, Moved::Uncounted]);
                (!is_start || count > MAX_DIFFERENCE).then_some(after_start_per_s)
            }
            _ => None,
        }
    }

    /// Whether a process may have moved its bytes through another pipe on this side. Not through one
    /// that was left to it by accident, which others have, too; and standard error mostly carries
    /// little.
    pub(super) fn uses_others(
        &self,
        process: &Observed,
        pipe: LinkId,
        side: LinkSide,
        used: &mut UsedLinks,
    ) -> bool {
        let id = (process.process.id, side);
        let links = used.links.entry(id);
        let used = links.or_insert_with(|| self.used(process, side));
        used.iter().flatten().any(|link| *link != pipe)
    }

    fn used(&self, process: &Observed, side: LinkSide) -> [Option<LinkId>; 2] {
        let waited = process.on.iter().filter(|on| on.side == side);
        let waited: BTreeSet<LinkId> = waited.map(|on| on.pipe).collect();
        let used = process.process.ends.iter().filter(|end| {
            let (is_open, standard) = match side {
                LinkSide::Input => (end.reads, 0),
                LinkSide::Room => (end.writes, 1),
            };
            let is_inherited = || {
                let active = self
                    .holders(end.pipe, side)
                    .filter(|holder| !holder.is_frozen);
                active.count() > 1
            };
            // A queue between processes that all have both ends of it.
            let is_queue = || {
                let sides = [LinkSide::Input, LinkSide::Room];
                let has_both = sides.map(|side| process.process.holds(end.pipe, side));
                has_both == [true; 2] && self.link(end.pipe).is_some_and(|link| link.has_data())
            };
            is_open
                && (end.fd == standard
                    || (waited.contains(&end.pipe)
                        || end.fd > 2 && (!is_inherited() || is_queue()))
                        && !self.is_own(end.pipe, process))
        });
        let mut links = used.map(|end| end.pipe);
        let first = links.next();
        [first, links.find(|link| Some(*link) != first)]
    }

    /// Whether a process has both ends of a link and nobody else has one: its threads and its handlers of
    /// signals wake each other by it (curl, mbuffer).
    fn is_own(&self, link: LinkId, process: &Observed) -> bool {
        let has_only_it = |side| {
            let mut holders = self.holders(link, side).peekable();
            holders.peek().is_some()
                && holders.all(|holder| holder.process.id == process.process.id)
        };
        // Others may open a FIFO for a moment.
        !link.is_fifo() && has_only_it(LinkSide::Input) && has_only_it(LinkSide::Room)
    }

    /// Bytes per second that were written to a pipe, if that is known.
    pub(super) fn written_per_s(&self, pipe: LinkId, used: &mut UsedLinks) -> Option<f64> {
        match self.moved(pipe, LinkSide::Room, used) {
            Moved::Bytes {
                per_s,
                is_shared: false,
                ..
            } => Some(per_s),
            _ => None,
        }
    }

    fn moved(&self, pipe: LinkId, side: LinkSide, used: &mut UsedLinks) -> Moved {
        let (mut bytes, mut calls, mut seconds) = (0, 0, 0.0_f64);
        let (mut start_bytes, mut start_s) = (0, f64::INFINITY);
        let mut is_shared = false;
        let holders: Vec<&Observed> = self.holders(pipe, side).collect();
        let (frozen, active): (Vec<&Observed>, Vec<&Observed>) =
            holders.into_iter().partition(|holder| holder.is_frozen);
        if active.is_empty() && !frozen.is_empty() {
            return Moved::Nothing;
        }
        for process in &active {
            // Children that have ended may have moved some.
            let uses_others = process.has_reaped || self.uses_others(process, pipe, side, used);
            let Some(io) = process.io.filter(|_| !process.splices && !uses_others) else {
                return Moved::Unknown;
            };
            let others = process.process.others;
            let (more_bytes, more_calls, has_others) = match side {
                LinkSide::Input => (io.read_bytes, io.reads, others.reads),
                LinkSide::Room => (io.written_bytes, io.writes, others.writes),
            };
            is_shared |= has_others || used.undercounted.contains(&process.process.id);
            (bytes, calls) = (bytes + more_bytes, calls + more_calls);
            // It writes nothing while it starts.
            let Start { time, read_bytes } = match side {
                LinkSide::Input => process.start,
                LinkSide::Room => Start::default(),
            };
            start_bytes += read_bytes;
            start_s = start_s.min(time.as_secs_f64());
            seconds = seconds.max(process.counted_s);
        }
        if calls == 0 || seconds == 0.0 {
            Moved::Uncounted
        } else {
            let per_s = bytes as f64 / seconds;
            let has_started = start_s <= seconds / 2.0;
            let after_start = bytes.saturating_sub(start_bytes) as f64 / (seconds - start_s);
            Moved::Bytes {
                count: bytes,
                per_s,
                after_start_per_s: if has_started { after_start } else { per_s },
                is_shared,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixtures::{busy, frozen, observation, on_input, process, reads, writes};
    use crate::proc::{Io, LinkFd, OtherFiles};

    /// The rate in bytes per 2 s of a pipe between these two.
    fn rate(writer: Observed, reader: Observed) -> Option<f64> {
        let rate = observation(vec![writer, reader]).pipes[0].bytes_per_s;
        rate.map(|rate| rate * 2.0)
    }

    fn moves(process: &Observed, bytes: u64, calls: u64) -> Observed {
        let io = Io {
            read_bytes: bytes,
            written_bytes: bytes,
            reads: calls,
            writes: calls,
        };
        Observed {
            io: Some(io),
            ..process.clone()
        }
    }

    #[test]
    fn rates_of_outputs_add_up_to_what_was_written() {
        for (read, expected) in [(990, Some(990.0)), (200, None)] {
            let io = |read_bytes, written_bytes| Io {
                read_bytes,
                written_bytes,
                reads: 9,
                writes: 9,
            };
            let moves = |pid, name, ends, io| Observed {
                io: Some(io),
                counted_s: 1.0,
                ..busy(process(pid, name, ends), 1.0, 0.0, 0.0)
            };
            let million = 1 << 20;
            let tee = moves(
                2,
                "tee",
                vec![writes(1, 7), writes(3, 8)],
                io(0, 2000 * million),
            );
            let all = vec![
                tee,
                moves(3, "cat", vec![reads(0, 7)], io(1000 * million, 0)),
                moves(4, "pv", vec![reads(0, 8)], io(read * million, 0)),
            ];
            let mut all = observation(all);
            all.set_rates();
            let rate = all.link(LinkId::pipe(8)).unwrap().bytes_per_s;
            assert_eq!(rate.map(|rate| rate / million as f64), expected);
        }
    }

    /// A queue of Python's multiprocessing, and a pipe by which the child learns of its parent's end.
    #[test]
    fn what_goes_through_a_queue_is_not_that_of_a_pipe_beside_it() {
        let both = |last: LinkFd| vec![reads(4, 8), writes(5, 8), last];
        let parent = busy(process(1, "python3", both(writes(6, 7))), 0.5, 0.0, 0.0);
        let child = busy(process(2, "python3", both(reads(6, 7))), 0.5, 0.0, 0.0);
        let rate = |fill| {
            let mut all = observation(vec![moves(&parent, 0, 0), moves(&child, 9 << 20, 9)]);
            for pipe in &mut all.pipes {
                (pipe.unread, pipe.fill) = (Some(0), Some(0.0));
                if pipe.id == LinkId::pipe(8) {
                    pipe.fill = Some(fill);
                }
            }
            all.set_rates();
            all.link(LinkId::pipe(7)).unwrap().bytes_per_s
        };
        assert_eq!(rate(0.97), None);
    }

    #[test]
    fn a_pipes_rate_is_of_an_end_using_only_it() {
        let writer = busy(process(1, "a", vec![writes(1, 7)]), 0.5, 0.0, 0.0);
        let reader = busy(process(2, "b", vec![reads(0, 7)]), 0.5, 0.0, 0.0);
        let mib = |count: u64| count << 20;
        let both = |written, read| rate(moves(&writer, written, 9), moves(&reader, read, 9));
        let found = |count: u64| Some(mib(count) as f64);
        assert_eq!(both(mib(90), mib(89)), found(89));
        // One of them splices, writes to a file or reads one.
        assert_eq!(
            (both(mib(90), mib(50)), both(mib(1), mib(50))),
            (None, None)
        );
        // The writer also has a file, and a pipe to itself or to another one.
        let wakes_itself = |others: &[LinkFd]| {
            let ends = [&[writes(1, 7), writes(5, 8)], others].concat();
            let mut curl = process(1, "curl", ends);
            curl.others.writes = true;
            let curl = busy(curl, 0.5, 0.0, 0.0);
            rate(moves(&curl, mib(90), 9), moves(&reader, mib(9), 9))
        };
        assert_eq!(wakes_itself(&[reads(4, 8)]), None);
        assert_eq!(wakes_itself(&[]), found(9));
        // By splice(2).
        let some = |process: &Observed, count| moves(process, mib(count), 9);
        assert_eq!(rate(some(&writer, 5), moves(&reader, 0, 0)), found(5));
        assert_eq!(rate(moves(&writer, 0, 0), some(&reader, 5)), found(5));
        // A program that has just started has read its libraries.
        assert_eq!(rate(moves(&writer, 0, 0), moves(&reader, 7000, 9)), None);
        assert_eq!(rate(moves(&writer, 0, 0), moves(&reader, 0, 0)), None);
        let splices = |process: &Observed| Observed {
            splices: true,
            ..moves(process, 70, 9)
        };
        assert_eq!(rate(splices(&writer), moves(&reader, 500, 9)), Some(500.0));
        assert_eq!(rate(splices(&writer), splices(&reader)), None);
    }

    #[test]
    fn an_end_with_other_files_does_not_count_alone_nor_do_two() {
        let with = |name: &str, end, reads: bool, writes: bool| {
            let mut process = process(i32::from(writes) + 1, name, vec![end]);
            process.others = OtherFiles {
                reads,
                writes,
                has_uring: false,
            };
            moves(&busy(process, 0.5, 0.0, 0.0), 9 << 20, 9)
        };
        let (tee, yes) = (
            || with("tee", writes(1, 7), false, true),
            || {
                moves(
                    &busy(process(2, "yes", vec![writes(1, 7)]), 0.5, 0.0, 0.0),
                    9 << 20,
                    9,
                )
            },
        );
        let cmp = || with("cmp", reads(0, 7), true, false);
        let all = Some(f64::from(9 << 20));
        assert_eq!((rate(tee(), cmp()), rate(yes(), cmp())), (None, all));
        let parent = Observed {
            has_reaped: true,
            ..yes()
        };
        assert_eq!(rate(parent, cmp()), None);
    }

    #[test]
    fn bytes_of_children_and_of_other_pipes_are_not_counted() {
        let reader = busy(process(2, "b", vec![reads(0, 7)]), 0.5, 0.0, 0.0);
        let xargs = busy(process(1, "xargs", vec![writes(1, 7)]), 0.5, 0.0, 0.0);
        let unknown = Observed {
            has_reaped: true,
            ..moves(&xargs, 466 << 20, 9)
        };
        assert_eq!(rate(unknown.clone(), moves(&reader, 852, 9)), Some(852.0));
        let started = |seconds| Observed {
            start: Start {
                time: Duration::from_secs_f64(seconds),
                read_bytes: 4612,
            },
            ..moves(&reader, 4612 + 852, 9)
        };
        let after = [1.0, 1.5].map(|seconds| rate(unknown.clone(), started(seconds)));
        assert_eq!(after, [Some(2.0 * 852.0), Some(4612.0 + 852.0)]);
        let other = Observed {
            io: None,
            ..reader.clone()
        };
        assert_eq!(rate(unknown, other), None);
        let ends = vec![writes(1, 7), writes(4, 8)];
        let tee = busy(process(1, "tee", ends), 0.5, 0.0, 0.0);
        assert_eq!(
            rate(moves(&tee, 9000, 9), moves(&reader, 4500, 9)),
            Some(4500.0)
        );
        // Standard error carries little, and an inherited end nothing.
        let noisy = busy(
            process(1, "a", vec![writes(1, 7), writes(2, 8), writes(251, 9)]),
            0.5,
            0.0,
            0.0,
        );
        let parent = busy(process(3, "sh", vec![writes(251, 9)]), 0.1, 0.0, 0.0);
        let splices = Observed {
            splices: true,
            ..reader
        };
        let mut noisy = moves(&noisy, 9000, 9);
        noisy.on.clear();
        let all = observation(vec![noisy, splices, parent]);
        let rate = all.link(LinkId::pipe(7)).unwrap().bytes_per_s;
        assert_eq!(rate, Some(4500.0));
    }

    #[test]
    fn a_neighbour_that_moved_more_shows_that_a_stage_is_undercounted() {
        let million = 1_000_000;
        let stage = |pid, ends, count: u64| {
            let stage = busy(process(pid, "a", ends), 0.5, 0.0, 0.0);
            moves(&stage, count * million, 99)
        };
        let shares = |mut stage: Observed| {
            (stage.process.others.reads, stage.process.others.writes) = (true, true);
            stage
        };
        let rates = |stages| {
            let pipes = observation(stages).pipes;
            [0, 1].map(|at: usize| Some(pipes[at].bytes_per_s? * 2.0 / million as f64))
        };
        let splicer = || stage(2, vec![reads(0, 7), writes(1, 8)], 12);
        // curl | pv | sha1sum: pv's counted bytes are too few for what was read from it.
        let curl = || shares(stage(1, vec![writes(1, 7), writes(5, 9)], 61));
        let reader = |count| stage(3, vec![reads(0, 8)], count);
        assert_eq!(rates(vec![curl(), splicer(), reader(61)]), [None, None]);
        let all = [Some(12.0); 2];
        assert_eq!(rates(vec![curl(), splicer(), reader(12)]), all);
        // cat | pv | socat: or for what was written to it.
        let writer = |count| stage(1, vec![writes(1, 7)], count);
        let socat = || shares(stage(3, vec![reads(0, 8), reads(5, 9)], 61));
        assert_eq!(rates(vec![writer(61), splicer(), socat()]), [None, None]);
        assert_eq!(rates(vec![writer(12), splicer(), socat()]), all);
        // A shell's children may have moved the rest, and an end with other files proves nothing.
        let mut shell = splicer();
        shell.has_reaped = true;
        for (stage, reader) in [(shell, reader(61)), (splicer(), shares(reader(61)))] {
            let observed = observation(vec![curl(), stage, reader]);
            assert!(observed.used_links().undercounted.is_empty());
        }
    }

    #[test]
    fn nothing_goes_through_a_pipe_whose_reader_sleeps() {
        let writer = busy(process(1, "gzip", vec![writes(1, 7)]), 1.0, 0.0, 0.0);
        let reader = frozen(process(2, "wc", vec![reads(0, 7)]), on_input(7));
        assert_eq!(rate(moves(&writer, 0, 0), reader), Some(0.0));
    }
}
