//! The processes of a running command, as seen in /proc.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::time::Duration;

use pipespeed_measure::endpoint::counters::monotonic_ns;
use pipespeed_pipeline::graph::{LinkSide, Node, Process, Scanner};
use pipespeed_pipeline::proc::pipe_probe::PipeProbe;
use pipespeed_pipeline::proc::{LinkId, Proc};
use pipespeed_pipeline::wait::Asleep;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::status;
use super::usage::StageUsage;
use crate::profile::attribution::{Owners, StackSample};
use crate::profile::gathered::Chains;
use crate::profile::reason::{SleepReason, reason_of_sleep};
use crate::profile::record::Status;

/// A new process has its standard input and output by then.
const SETTLING_TIME: Duration = Duration::from_millis(100);
/// At most this many programs that a process runs are named with it.
const MAX_NAMES: usize = 3;
/// Of more processes at a time it is not known how they end.
const MAX_PIDFDS: usize = 64;
/// Of more processes that have ended, those with the shortest life count as their parents.
const MAX_ENDED: usize = 256;
/// A process that waits for children for this share only waits for them.
const MIN_ONLY_WAITS: f64 = 0.9;
/// The ancestors of a process are searched so far: numbers may be reused, so that there may be
/// a loop.
const MAX_LINEAGE: usize = 1000;

/// Bytes read and written.
pub type Bytes = [u64; 2];

/// What a process has moved. The kernel adds the bytes of a child to its parent's when the
/// child is reaped, whatever pipes the child had.
#[derive(Debug, Clone, Default)]
struct MovedBytes {
    /// What the process, its threads and its reaped children moved, at the last look.
    all: Bytes,
    /// The same for each of its threads, also of those that have ended.
    threads: HashMap<i32, Bytes>,
    /// What those of its children moved that were seen and have ended.
    ended_children: Bytes,
}

/// A process of the command, with those that count as a part of it.
#[derive(Debug, Default)]
pub struct Member {
    /// The process, with its pipes: as standard input and output also those that it has closed.
    /// `None` if its descriptors may not be read.
    process: Option<Process>,
    /// The numbers of its ancestors, the nearest first.
    pub ancestors: Vec<i32>,
    /// The name by which edges know it.
    number: i32,
    /// The name of its program.
    pub name: String,
    /// Its command line; empty for a shell that executed no program.
    pub command: String,
    /// The names of processes that count as a part of it.
    pub names: Vec<String>,
    /// How many later processes were the same stage again.
    pub repeats: usize,
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
    waited: [bool; 2],
    /// The end of the last look before it was there, by CLOCK_MONOTONIC.
    pub began: Duration,
    /// When it was first seen.
    found: Duration,
    /// When it was last seen.
    pub seen: Duration,
    /// How it ended, if known.
    pub status: Option<Status>,
    /// Its pidfd.
    ending: Option<OwnedFd>,
    /// Usage in phases without sampling.
    pub unsampled: StageUsage,
    /// Usage in phases with sampling.
    pub sampled: StageUsage,
    /// Usage at the start of the phase.
    before: StageUsage,
    /// Running time of each thread, and its time waiting for a processor.
    threads: HashMap<i32, (Duration, Duration)>,
    /// What it moved, if known.
    moved: Option<MovedBytes>,
    /// Bytes moved by processes that were not seen: children of those that count as a part of it.
    part_unseen: Bytes,
    /// Those of its bytes that unseen children had moved by the last look.
    unseen_before: Bytes,
    /// At most so many bytes it moved after it was last looked at.
    missed: Bytes,
    has_ended: bool,
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

    fn own_bytes(&self) -> Bytes {
        let threads = self.moved.iter().flat_map(|moved| moved.threads.values());
        threads.fold([0, 0], |sum, bytes| [sum[0] + bytes[0], sum[1] + bytes[1]])
    }

    /// Whether it is known what it moved.
    pub fn has_bytes(&self) -> bool {
        self.moved.is_some()
    }

    /// Whether it has other files than pipes, from which it may read or to which it may write.
    pub fn uses_files(&self, side: usize) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| [process.others.reads, process.others.writes][side])
    }

    /// How many bytes it may have moved after it was last looked at.
    pub fn missed(&self) -> Bytes {
        self.missed
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
    fn usage(&self) -> StageUsage {
        let (own, unseen) = (self.own_bytes(), self.unseen());
        StageUsage {
            bytes: [0, 1].map(|side| own[side] + unseen[side] - self.part_unseen[side]),
            ran: self.threads.values().map(|(ran, _)| *ran).sum(),
            delayed: self.threads.values().map(|(_, delayed)| *delayed).sum(),
            wall: self.life(),
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
        self.add_unseen(part.unseen(), is_same);
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

    /// Adds a process that is the same stage again, mostly a later one.
    pub fn add_repeat(&mut self, other: Member) {
        if other.name != self.name || other.began < self.seen {
            return self.absorb(other);
        }
        if self.command.is_empty() {
            self.command.clone_from(&other.command);
        } else if self.command != other.command && !other.command.is_empty() {
            self.command.clone_from(&self.name);
        }
        self.repeats += 1 + other.repeats;
        self.add_unseen(other.unseen(), [true; 2]);
        self.missed = [0, 1].map(|side| self.missed[side] + other.missed[side]);
        self.sampled = self.sampled.and(&other.sampled);
        self.unsampled = self.unsampled.and(&other.unsampled);
        self.status = match self.status {
            None | Some(Status::Exited(0)) => other.status,
            failed => failed,
        };
        self.add_samples_of(other);
    }

    fn add_unseen(&mut self, unseen: Bytes, is_same: [bool; 2]) {
        for side in [0, 1].into_iter().filter(|side| is_same[*side]) {
            self.part_unseen[side] += unseen[side];
        }
    }

    fn add_samples_of(&mut self, other: Member) {
        self.seen = self.seen.max(other.seen);
        self.chains.append(other.chains);
        self.weight_seen += other.weight_seen;
        self.weight_unseen += other.weight_unseen;
        for (wait, count) in other.waits {
            *self.waits.entry(wait).or_default() += count;
        }
    }

    /// Takes note of what the process is by now.
    fn update(&mut self, proc: &Proc, process: &Process) {
        let is_new = self.process.is_none();
        let is_other_program = process.name != self.name;
        let mut ends = process.ends.clone();
        // The other end of its pipe may be gone, and it may close or reuse its descriptors.
        if let Some(before) = self.process.take().filter(|_| !is_other_program) {
            let standard = before.ends.into_iter().filter(|end| end.fd < 2);
            for end in standard {
                if !ends.iter().any(|now| now.fd == end.fd) {
                    ends.push(end);
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
            ends,
            ..process.clone()
        });
    }

    fn examine(&mut self, proc: &Proc, pid: i32) {
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
        if !is_awake && let Some(wait) = reason_of_sleep(&sleeping) {
            self.waited[0] |= wait == SleepReason::Kind(Asleep::Input);
            self.waited[1] |= wait == SleepReason::Kind(Asleep::Room);
            *self.waits.entry(wait).or_default() += 1;
        }
        self.seen = now();
    }
}

/// All processes of a command.
#[derive(Debug, Default)]
pub struct Members {
    proc: Proc,
    scanner: Scanner,
    /// Those that were in the tree at the last look, and those that have ended since the last phase.
    living: HashMap<i32, Member>,
    ended: Vec<Member>,
    /// Processes of which nothing is known, or that are not told from each other any more.
    pub rest: Member,
    /// The weight of the samples of these, by their names.
    pub others: BTreeMap<String, u64>,
    count: i32,
    /// The end of the last look.
    look_ended: Duration,
}

impl Members {
    /// The descendants of this process.
    pub fn new(pipe_probe: PipeProbe) -> Self {
        let began = now();
        Members {
            proc: Proc::with_pipe_probe(pipe_probe),
            look_ended: began,
            rest: Member {
                began,
                seen: began,
                ..Member::default()
            },
            ..Members::default()
        }
    }

    /// The processes that read command lines.
    pub fn helpers(&self) -> Vec<i32> {
        let pipe_probe = self.proc.pipe_probe();
        pipe_probe.map_or(Vec::new(), |pipe_probe| pipe_probe.pids(&self.proc))
    }

    /// The processes that were seen last, with their threads.
    pub fn processes(&self) -> impl Iterator<Item = (i32, Vec<i32>)> {
        let living = self.living.iter().filter(|(_, member)| !member.has_ended);
        living.map(|(pid, _)| (*pid, self.proc.threads(*pid)))
    }

    /// All of them in the order of their numbers, and the rest.
    pub fn into_all(self) -> (Vec<Member>, Member, BTreeMap<String, u64>) {
        let mut all = self.ended;
        all.extend(self.living.into_values());
        all.sort_by_key(|member| (member.pid(), member.number));
        for (number, member) in (0..).zip(&mut all) {
            member.number = number;
        }
        (all, self.rest, self.others)
    }

    /// Finds new processes, and examines all.
    pub fn look(&mut self) {
        let began = now();
        let mut tree = self.proc.tree(getpid().as_raw_pid()).split_off(1);
        // One that replaces another one is a child of this process.
        let helpers = self.helpers();
        tree.retain(|pid| !helpers.contains(pid));
        let known = self.scanner.graph.processes.keys();
        let pids: BTreeSet<i32> = tree.iter().chain(known).copied().collect();
        let settled = began.saturating_sub(SETTLING_TIME);
        let new = self
            .living
            .iter()
            .filter(|(_, member)| member.found > settled);
        let new: BTreeSet<i32> = new.map(|(pid, _)| *pid).collect();
        self.scanner.read_some(&self.proc, &pids, &new);
        let ended = self.note_ended(&tree);
        for &pid in &tree {
            self.place(pid);
            if let Some(member) = self.living.get_mut(&pid) {
                member.examine(&self.proc, pid);
            }
        }
        self.note_missed(&tree, ended);
        let all = self.living.values_mut().chain(&mut self.ended);
        for member in all.filter(|member| member.ending.is_some()) {
            member.status = member.ending.as_ref().and_then(status::read);
            // One that is not in the tree any more was reaped.
            if member.status.is_some() || member.has_ended {
                member.ending = None;
            }
        }
        self.look_ended = now();
        self.rest.seen = self.look_ended;
    }

    /// Notes for processes that have ended what their parents' counts have gained beyond what was
    /// seen: which of several moved it is not known.
    fn note_missed(&mut self, tree: &[i32], ended: Vec<i32>) {
        for pid in ended {
            let parent = self.living[&pid]
                .ancestors
                .iter()
                .find(|pid| tree.contains(pid));
            let parent = parent.and_then(|parent| self.living.get(parent));
            let missed = parent.map_or([0; 2], |parent| {
                let unseen = parent.unseen();
                [0, 1].map(|side| unseen[side].saturating_sub(parent.unseen_before[side]))
            });
            if let Some(member) = self.living.get_mut(&pid) {
                member.missed = missed;
            }
        }
        for member in self.living.values_mut() {
            member.unseen_before = member.unseen();
        }
    }

    /// Adds what processes have moved that are no longer in the tree to their parents' account
    /// of ended children. Returns those processes.
    fn note_ended(&mut self, tree: &[i32]) -> Vec<i32> {
        let alive: BTreeSet<i32> = tree.iter().copied().collect();
        let mut ended = Vec::new();
        for (pid, member) in &mut self.living {
            if !member.has_ended && !alive.contains(pid) {
                member.has_ended = true;
                ended.push((member.ancestors.len(), *pid));
            }
        }
        // Children before their parents, which may have ended since, too.
        ended.sort_unstable_by(|a, b| b.cmp(a));
        let ended: Vec<i32> = ended.into_iter().map(|(_, pid)| pid).collect();
        for pid in &ended {
            let member = &self.living[pid];
            let (own, parent) = (member.own_bytes(), member.ancestors.first().copied());
            let Some(moved) = &member.moved else {
                continue;
            };
            let bytes =
                [0, 1].map(|side| moved.all[side].max(own[side] + moved.ended_children[side]));
            let parent = parent.and_then(|parent| self.living.get_mut(&parent));
            if let Some(moved) = parent.and_then(|parent| parent.moved.as_mut()) {
                for (sum, more) in moved.ended_children.iter_mut().zip(bytes) {
                    *sum += more;
                }
            }
        }
        ended
    }

    /// Takes note of a process. One that was not there at the last look started since.
    fn place(&mut self, pid: i32) {
        let process = self.scanner.graph.processes.get(&pid);
        let known = self.living.get(&pid);
        let is_other = |process: &Process| {
            let before = known.and_then(|member| member.process.as_ref());
            before.is_some_and(|before| before.id != process.id)
        };
        if process.is_some_and(is_other) || known.is_none() {
            // The number belongs to another process by now.
            self.ended.extend(self.living.remove(&pid));
            self.count += 1;
            let mut ancestors = self.scanner.graph.ancestors(pid);
            if ancestors.is_empty() {
                let parent = self.proc.stat(pid).map(|stat| stat.parent);
                ancestors.extend(parent);
            }
            let can_keep = self.living.len() < MAX_PIDFDS;
            let pidfd = Pid::from_raw(pid).filter(|_| can_keep);
            let member = Member {
                ancestors,
                number: self.count,
                name: match process {
                    Some(_) => String::new(),
                    None => self.proc.name(pid).unwrap_or_default(),
                },
                began: self.look_ended,
                found: now(),
                seen: self.look_ended,
                ending: pidfd.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
                ..Member::default()
            };
            self.living.insert(pid, member);
        }
        if let (Some(member), Some(process)) = (self.living.get_mut(&pid), process) {
            member.update(&self.proc, process);
        }
    }

    /// Adds the usage since the start of the phase to its kind of phase.
    pub fn end_phase(&mut self, is_sampled: bool) {
        let members = self.living.values_mut().chain(&mut self.ended);
        for member in members.chain([&mut self.rest]) {
            let now = member.usage();
            let used = now.since(&member.before);
            let sum = if is_sampled {
                &mut member.sampled
            } else {
                &mut member.unsampled
            };
            *sum = sum.and(&used);
            member.before = now;
        }
    }

    /// Adds samples to their processes. One that was not seen belongs to its parent. Then forgets the
    /// processes that have ended.
    pub fn add_samples(&mut self, samples: Vec<(u64, usize, StackSample)>, owners: &Owners) {
        let own = getpid().as_raw_pid() as u32;
        for (time_ns, _, sample) in samples {
            if sample.pid == own {
                continue;
            }
            let time = Duration::from_nanos(time_ns);
            let lineage = std::iter::successors(Some(sample.pid), |pid| owners.parent(*pid));
            let mut lineage = lineage.take(MAX_LINEAGE);
            let known = lineage
                .clone()
                .find(|pid| self.living.contains_key(&(*pid as i32)));
            let member = match known.and_then(|pid| self.living.get_mut(&(pid as i32))) {
                Some(member) => member,
                None => {
                    let name = lineage.find_map(|pid| owners.name(pid)).unwrap_or_default();
                    *self.others.entry(name.to_owned()).or_default() += sample.weight;
                    &mut self.rest
                }
            };
            if known == Some(sample.pid) && time <= member.seen {
                member.weight_seen += sample.weight;
            } else {
                member.weight_unseen += sample.weight;
            }
            member.chains.add(sample.chain, sample.weight);
        }
        self.forget_ended();
    }

    /// Forgets the processes that have ended; of many, the short-lived ones count as their
    /// parents.
    pub fn forget_ended(&mut self) {
        let ended = self.living.extract_if(|_, member| member.has_ended);
        self.ended.extend(ended.map(|(_, member)| member));
        let count = self.ended.len().saturating_sub(MAX_ENDED);
        if count == 0 {
            return;
        }
        self.ended.sort_by_key(|member| member.life());
        for short in self.ended.drain(..count) {
            let mut ancestors = short.ancestors.iter();
            let parent = ancestors.find(|pid| self.living.contains_key(pid)).copied();
            match parent.and_then(|pid| self.living.get_mut(&pid)) {
                Some(parent) => parent.absorb(short),
                None => add_to_rest(&mut self.rest, &mut self.others, short),
            }
        }
    }
}

/// Adds a process to those that are told by their names only.
pub fn add_to_rest(rest: &mut Member, others: &mut BTreeMap<String, u64>, member: Member) {
    let weight = member.weight_seen + member.weight_unseen;
    if weight > 0 {
        *others.entry(member.name.clone()).or_default() += weight;
    }
    rest.absorb(member);
}

fn now() -> Duration {
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
}
