//! A process of a running command, as seen in /proc.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::time::Duration;

use pipespeed_measure::endpoint::counters::monotonic_ns;
use pipespeed_pipeline::graph::{LinkSide, Node, Process};
use pipespeed_pipeline::proc::{LinkId, Proc};
use pipespeed_pipeline::wait::Asleep;

use super::usage::StageUsage;
use crate::profile::gathered::Chains;
use crate::profile::reason::{SleepReason, reason_of_sleep};
use crate::profile::record::Status;

/// At most this many programs that a process runs are named with it.
const MAX_NAMES: usize = 3;
/// A process that waits for children for this share only waits for them.
const MIN_ONLY_WAITS: f64 = 0.9;

/// Bytes read and written.
pub type Bytes = [u64; 2];

/// What a process has moved. The kernel adds the bytes of a child to its parent's when the
/// child is reaped, whatever pipes the child had.
#[derive(Debug, Clone, Default)]
pub(super) struct MovedBytes {
    /// What the process, its threads and its reaped children moved, at the last look.
    pub(super) all: Bytes,
    /// The same for each of its threads, also of those that have ended.
    pub(super) threads: HashMap<i32, Bytes>,
    /// What those of its children moved that were seen and have ended.
    pub(super) ended_children: Bytes,
}

/// A process of the command, with those that count as a part of it.
#[derive(Debug, Default)]
pub struct Member {
    /// The process, with its pipes: as standard input and output also those that it has closed.
    /// `None` if its descriptors may not be read.
    pub(super) process: Option<Process>,
    /// The numbers of its ancestors, the nearest first.
    pub ancestors: Vec<i32>,
    /// The name by which edges know it.
    pub(super) number: i32,
    /// The name of its program.
    pub name: String,
    /// Its command line; empty for a shell that executed no program.
    pub command: String,
    /// The names of processes that count as a part of it.
    pub names: Vec<String>,
    /// How many other processes were the same stage again.
    pub repeats: usize,
    /// When those were there that ended before it began.
    pub(super) earlier: Vec<(Duration, Duration)>,
    /// Samples.
    pub chains: Chains<u64>,
    /// The weight of samples whose running time is known.
    pub weight_seen: u64,
    /// The weight of samples from processes never seen in /proc, or taken after their last
    /// sighting.
    pub weight_unseen: u64,
    /// How often all threads were seen asleep, by what they waited for.
    pub waits: BTreeMap<SleepReason, u64>,
    /// Whether it waited for input, and for room.
    pub(super) waited: [bool; 2],
    /// The end of the last look before it was there, by CLOCK_MONOTONIC.
    pub began: Duration,
    /// When it was first seen.
    pub(super) found: Duration,
    /// When it was last seen.
    pub seen: Duration,
    /// Time between looks that found all of its threads asleep and the looks before, if it has several.
    pub(super) asleep: Duration,
    /// How it ended, if known.
    pub status: Option<Status>,
    /// Its pidfd.
    pub(super) ending: Option<OwnedFd>,
    /// Usage in phases without sampling.
    pub unsampled: StageUsage,
    /// Usage in phases with sampling.
    pub sampled: StageUsage,
    /// Usage at the start of the phase.
    pub(super) before: StageUsage,
    /// Running time of each thread, and its time waiting for a processor.
    pub(super) threads: HashMap<i32, (Duration, Duration)>,
    /// What it moved, if known.
    pub(super) moved: Option<MovedBytes>,
    /// Whether those that count as a part of it had other files, as `uses_files` has it.
    pub(super) part_uses_files: [bool; 2],
    /// Bytes moved by processes that were not seen: children of those that count as a part of it.
    pub(super) part_unseen: Bytes,
    /// Those of its bytes that unseen children had moved by the last look, and by the one before.
    pub(super) unseen_before: [Bytes; 2],
    /// The most that it may have moved after it was last looked at. It can't be told for one without
    /// a known ancestor.
    pub(super) missed: Bytes,
    /// For how long it may have run after it was last looked at.
    pub(super) missed_time: Duration,
    pub(super) has_ended: bool,
}

impl Node for Member {
    fn process(&self) -> &Process {
        self.process.as_ref().expect("a process with descriptors")
    }

    fn number(&self) -> i32 {
        self.number
    }

    fn ancestors(&self) -> &[i32] {
        &self.ancestors
    }

    /// By the kernel function in which it slept, which doesn't name the pipe.
    fn waited_on(&self, link: LinkId, side: LinkSide) -> bool {
        let standard = standard(side);
        let has_standard = self.standard_link(side).is_some();
        self.waited[standard] && (!has_standard || self.standard_link(side) == Some(link))
    }

    fn only_waits_for_children(&self) -> bool {
        let all: u64 = self.waits.values().sum();
        let for_children: u64 = self
            .waits
            .iter()
            .filter(|(wait, _)| wait.may_be_child())
            .map(|(_, count)| count)
            .sum();
        let ran: Duration = self.threads.values().map(|(ran, _)| *ran).sum();
        all > 0
            && for_children as f64 >= MIN_ONLY_WAITS * all as f64
            && ran.as_secs_f64() <= (1.0 - MIN_ONLY_WAITS) * self.life().as_secs_f64()
    }

    fn is_idle(&self, side: LinkSide) -> bool {
        self.moved.is_some() && self.own_bytes()[standard(side)] == 0
    }

    /// Not known: each has run since its start.
    fn is_frozen(&self) -> bool {
        false
    }
}

/// The descriptor of a side that a process started from a shell has.
fn standard(side: LinkSide) -> usize {
    match side {
        LinkSide::Input => 0,
        LinkSide::Room => 1,
    }
}

impl Member {
    /// Whether a look has missed it: the list of a process's children may lack one while another one of them
    /// ends (proc_pid_task(5)), and lists are read one after the other.
    pub(super) fn was_missed(&self, proc: &Proc, pid: i32) -> bool {
        let start = self.process.as_ref().map(|process| process.id.start);
        let now = proc.stat(pid).filter(|now| now.state != 'Z');
        now.is_some_and(|now| {
            Some(now.start) == start && self.ancestors.first() == Some(&now.parent)
        })
    }

    /// Whether its descriptors are known.
    pub fn is_known(&self) -> bool {
        self.process.is_some()
    }

    /// How long it was there.
    pub fn life(&self) -> Duration {
        self.seen.saturating_sub(self.began)
    }

    /// The number of its process.
    pub fn pid(&self) -> i32 {
        self.process.as_ref().map_or(0, |process| process.id.pid)
    }

    /// The pipe that is its standard input or output.
    pub fn standard_link(&self, side: LinkSide) -> Option<LinkId> {
        let mut ends = self.process.iter().flat_map(|process| &process.ends);
        let end = ends.find(|end| end.fd == standard(side) as i32)?;
        self.process
            .as_ref()?
            .holds(end.pipe, side)
            .then_some(end.pipe)
    }

    pub(super) fn own_bytes(&self) -> Bytes {
        let threads = self.moved.iter().flat_map(|moved| moved.threads.values());
        threads.fold([0, 0], |sum, bytes| [sum[0] + bytes[0], sum[1] + bytes[1]])
    }

    /// Whether it is known what it moved.
    pub fn has_bytes(&self) -> bool {
        self.moved.is_some()
    }

    /// Whether it or a part of it has other files than pipes, from which it may read or to which it may write.
    pub fn uses_files(&self, side: usize) -> bool {
        let process = self.process.as_ref();
        self.part_uses_files[side]
            || process.is_some_and(|process| [process.others.reads, process.others.writes][side])
    }

    /// How many bytes it may have moved after it was last looked at.
    pub fn missed(&self) -> Bytes {
        self.missed
    }

    /// For how long it may have run after it was last looked at.
    pub fn missed_time(&self) -> Duration {
        self.missed_time
    }

    /// Those of its bytes that children moved which were not seen, through whatever pipes.
    pub fn unseen(&self) -> Bytes {
        let own = self.own_bytes();
        let Some(moved) = &self.moved else {
            return self.part_unseen;
        };
        [0, 1].map(|side| {
            let reaped = moved.all[side].saturating_sub(own[side]);
            self.part_unseen[side] + reaped.saturating_sub(moved.ended_children[side])
        })
    }

    /// Its resource usage so far.
    pub(super) fn usage(&self) -> StageUsage {
        let (own, unseen) = (self.own_bytes(), self.unseen());
        StageUsage {
            bytes: [0, 1].map(|side| own[side] + unseen[side] - self.part_unseen[side]),
            ran: self.threads.values().map(|(ran, _)| *ran).sum(),
            delayed: self.threads.values().map(|(_, delayed)| *delayed).sum(),
            wall: self.life(),
            asleep: self.asleep,
        }
    }

    /// Counts another process as a part of this one: a descendant, or one that has the same pipes.
    pub fn absorb(&mut self, part: Member) {
        for name in std::iter::once(part.name.clone()).chain(part.names.iter().cloned()) {
            let is_known = name == self.name || self.names.contains(&name);
            if !is_known && !name.is_empty() && self.names.len() < MAX_NAMES {
                self.names.push(name);
            }
        }
        let sides = [LinkSide::Input, LinkSide::Room];
        let is_same = sides.map(|side| part.standard_link(side) == self.standard_link(side));
        self.add_doubts(&part, is_same);
        for side in [0, 1].into_iter().filter(|side| is_same[*side]) {
            self.missed[side] += part.missed[side];
        }
        // It waits for the part.
        self.waits.retain(|wait, _| !wait.may_be_child());
        self.sampled = self.sampled.and_part(&part.sampled, is_same);
        self.unsampled = self.unsampled.and_part(&part.unsampled, is_same);
        self.began = self.began.min(part.began);
        self.add_samples_of(part);
    }

    /// Adds a process that is the same stage again, before or after it.
    pub fn add_repeat(&mut self, other: Member) {
        let (began, seen) = (other.began, other.seen);
        let is_before = |earlier: &(Duration, Duration)| seen <= earlier.0 || earlier.1 <= began;
        let is_apart =
            self.seen <= began || seen <= self.began && self.earlier.iter().all(is_before);
        if other.name != self.name || !is_apart {
            return self.absorb(other);
        }
        if self.command.is_empty() {
            self.command.clone_from(&other.command);
        } else if self.command != other.command && !other.command.is_empty() {
            self.command.clone_from(&self.name);
        }
        self.repeats += 1 + other.repeats;
        if seen <= self.began {
            self.earlier.push((began, seen));
        }
        self.add_doubts(&other, [true; 2]);
        self.missed = [0, 1].map(|side| self.missed[side] + other.missed[side]);
        self.sampled = self.sampled.and(&other.sampled);
        self.unsampled = self.unsampled.and(&other.unsampled);
        self.status = match self.status {
            None | Some(Status::Exited(0)) => other.status,
            failed => failed,
        };
        self.add_samples_of(other);
    }

    /// Adds what makes the bytes of a part doubtful on these sides.
    fn add_doubts(&mut self, part: &Member, is_same: [bool; 2]) {
        let unseen = part.unseen();
        for side in [0, 1].into_iter().filter(|side| is_same[*side]) {
            self.part_unseen[side] += unseen[side];
            self.part_uses_files[side] |= part.uses_files(side);
        }
    }

    /// Takes bytes out of the phases that are not its own after all: a child's, which is reaped before it is
    /// known to have ended. They were counted in the last phase, if not before.
    pub(super) fn take_back(&mut self, was_sampled: bool) {
        let now = self.usage().bytes;
        let mut phases = [&mut self.unsampled, &mut self.sampled];
        if was_sampled {
            phases.reverse();
        }
        for side in [0, 1] {
            let mut excess = self.before.bytes[side].saturating_sub(now[side]);
            self.before.bytes[side] -= excess;
            for phase in &mut phases {
                let part = excess.min(phase.bytes[side]);
                phase.bytes[side] -= part;
                excess -= part;
            }
        }
    }

    fn add_samples_of(&mut self, other: Member) {
        self.seen = self.seen.max(other.seen);
        self.missed_time += other.missed_time;
        self.chains.append(other.chains);
        self.weight_seen += other.weight_seen;
        self.weight_unseen += other.weight_unseen;
        for (wait, count) in other.waits {
            *self.waits.entry(wait).or_default() += count;
        }
    }

    /// Takes note of what the process is by now.
    pub(super) fn update(&mut self, proc: &Proc, process: &Process) {
        let is_new = self.process.is_none();
        let is_other_program = process.name != self.name;
        let mut ends = process.ends.to_vec();
        // The other end of its pipe may be gone, and it may close or reuse its descriptors.
        if let Some(before) = self.process.take().filter(|_| !is_other_program) {
            let standard = before.ends.iter().filter(|end| end.fd < 2);
            for end in standard {
                if !ends.iter().any(|now| now.fd == end.fd) {
                    ends.push(end.clone());
                }
            }
        }
        if is_new || is_other_program || self.command.is_empty() {
            let command = proc.command_line(process.id.pid).unwrap_or_default();
            self.name.clone_from(&process.name);
            // A shell's child has its command line until it executes a program.
            let inherited = proc.command_line(process.parent);
            self.command = if Some(&command) == inherited.as_ref() {
                String::new()
            } else {
                command
            };
        }
        self.process = Some(Process {
            ends: ends.into(),
            ..process.clone()
        });
    }

    pub(super) fn examine(&mut self, proc: &Proc, pid: i32) {
        if let Some(io) = proc.io(pid) {
            let moved = self.moved.get_or_insert_default();
            for task in proc.threads(pid) {
                if let Some(io) = proc.thread_io(pid, task) {
                    moved
                        .threads
                        .insert(task, [io.read_bytes, io.written_bytes]);
                }
            }
            moved.all = [io.read_bytes, io.written_bytes];
        }
        let (mut is_awake, mut sleeping) = (false, Vec::new());
        for task in proc.threads(pid) {
            if let Some(times) = proc.schedule(pid, task) {
                self.threads.insert(task, times);
            }
            match proc.sleeps_in(pid, task) {
                Some(function) => sleeping.push(function),
                // A running, exiting or dead thread.
                None => {
                    let state = proc.thread_state(pid, task);
                    is_awake |= state.is_some_and(|state| !matches!(state, 'Z' | 'X'));
                }
            }
        }
        // Threads that wake each other may have slept by turns.
        let has_run = || {
            let mut threads = self.threads.iter();
            threads.any(|(task, times)| proc.schedule(pid, *task).is_some_and(|now| now != *times))
        };
        let now = now();
        if !is_awake && sleeping.len() > 1 && !has_run() {
            self.asleep += now.saturating_sub(self.seen);
        }
        if !is_awake && let Some(wait) = reason_of_sleep(&sleeping) {
            self.waited[0] |= wait == SleepReason::Kind(Asleep::Input);
            self.waited[1] |= wait == SleepReason::Kind(Asleep::Room);
            *self.waits.entry(wait).or_default() += 1;
        }
        self.seen = now;
    }
}

/// The time of the samples: CLOCK_MONOTONIC.
pub(super) fn now() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

#[cfg(test)]
pub mod tests {
    use pipespeed_pipeline::fixtures;
    use pipespeed_pipeline::proc::LinkFd;

    use super::*;

    /// A process that was seen from one second to another.
    pub fn member(pid: i32, name: &str, [began, seen]: [u64; 2], ends: Vec<LinkFd>) -> Member {
        let process = Process {
            parent: 0,
            ..fixtures::process(pid, name, ends)
        };
        Member {
            process: Some(process),
            number: pid,
            name: name.to_owned(),
            command: name.to_owned(),
            began: Duration::from_secs(began),
            seen: Duration::from_secs(seen),
            moved: Some(MovedBytes::default()),
            ..Member::default()
        }
    }

    /// A process that has moved these bytes.
    pub fn moving(member: Member, bytes: Bytes) -> Member {
        Member {
            moved: Some(MovedBytes {
                all: bytes,
                threads: HashMap::from([(1, bytes)]),
                ..MovedBytes::default()
            }),
            unsampled: StageUsage {
                bytes,
                ..StageUsage::default()
            },
            ..member
        }
    }

    /// A shell whose children, that were not seen, have moved these bytes.
    pub fn reaping(member: Member, bytes: Bytes) -> Member {
        let mut member = moving(member, bytes);
        let moved = member.moved.get_or_insert_default();
        moved.threads.clear();
        member
    }

    /// A child of that process which waits for its own children.
    pub fn waiting(member: Member, parent: i32) -> Member {
        Member {
            ancestors: vec![parent],
            waits: BTreeMap::from([(SleepReason::Kind(Asleep::Child), 9)]),
            ..member
        }
    }

    /// A child of that process.
    pub fn child(member: Member, parent: i32) -> Member {
        Member {
            ancestors: vec![parent],
            ..member
        }
    }
    #[test]
    fn bytes_of_a_child_are_no_longer_its_parents_once_it_is_known_to_have_ended() {
        for was_sampled in [false, true] {
            let mut parent = reaping(member(1, "sh", [0, 9], Vec::new()), [300, 20]);
            // Of two phases, of which the later one counted the child's.
            let (later, earlier) = ([290, 20], [10, 0]);
            (parent.sampled.bytes, parent.unsampled.bytes) = if was_sampled {
                (later, earlier)
            } else {
                (earlier, later)
            };
            parent.before = parent.usage();
            let moved = parent.moved.get_or_insert_default();
            moved.ended_children = [280, 20];
            parent.take_back(was_sampled);
            let phases = [parent.sampled.bytes, parent.unsampled.bytes];
            assert_eq!(phases, [[10, 0], [10, 0]]);
            // What follows is counted from there.
            assert_eq!(parent.usage().since(&parent.before).bytes, [0, 0]);
        }
    }

    #[test]
    fn files_of_a_part_make_its_whole_doubtful_on_the_same_side() {
        let mut part = member(2, "head", [0, 9], Vec::new());
        let process = part.process.as_mut().unwrap();
        process.others.reads = true;
        let mut whole = member(1, "sh", [0, 9], Vec::new());
        whole.absorb(part);
        assert_eq!([0, 1].map(|side| whole.uses_files(side)), [true, false]);
    }
}
