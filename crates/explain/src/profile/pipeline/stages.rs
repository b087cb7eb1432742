//! The stages of a running command: found by their pipes, and observed in /proc.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::time::Duration;

use pipespeed_measure::endpoint::counters::monotonic_ns;
use pipespeed_pipeline::graph::Flow;
use pipespeed_pipeline::graph::{Process, Scanner};
use pipespeed_pipeline::proc::ProcessId;
use pipespeed_pipeline::proc::pipe_probe::PipeProbe;
use pipespeed_pipeline::proc::{PipeId, Proc};
use pipespeed_pipeline::wait::{Asleep, asleep};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::account::Account;
use super::status;
use crate::profile::attribution::{Owners, StackSample};
use crate::profile::gathered::Chains;
use crate::profile::record::Status;

/// A new process has its standard input and output by then.
const SETTLING_TIME: Duration = Duration::from_millis(100);
/// At most this many programs that a shell runs are named with it.
const MAX_NAMES: usize = 3;

/// A process of the command.
#[derive(Debug)]
struct Known {
    id: ProcessId,
    name: String,
    parent: i32,
    flow: Flow,
    stage: usize,
    moved: Moved,
    /// When it was first and last seen, by CLOCK_MONOTONIC.
    found: Duration,
    seen: Duration,
}

/// Bytes read and written.
type Bytes = [u64; 2];

/// What a process has moved. The kernel adds the bytes of a child to its parent's when the
/// child is reaped, whatever pipes the child had.
#[derive(Debug, Clone, Default)]
struct Moved {
    /// What the process, its threads and its reaped children moved, at the last look.
    all: Bytes,
    /// The same for each of its threads, also of those that have ended.
    threads: HashMap<i32, Bytes>,
    /// What those of its children moved that were seen and have ended.
    ended_children: Bytes,
    /// Whether a descendant has another input, or another output.
    has_other_pipes: [bool; 2],
    has_ended: bool,
}

impl Moved {
    /// Bytes read (0) or written (1) by children that were reaped.
    fn reaped(&self, side: usize) -> u64 {
        let own: u64 = self.threads.values().map(|bytes| bytes[side]).sum();
        self.all[side].saturating_sub(own)
    }

    /// Those of them that may have gone through other pipes.
    fn foreign(&self, side: usize) -> u64 {
        if self.has_other_pipes[side] {
            self.reaped(side)
        } else {
            0
        }
    }

    /// Those of them that no process moved while it was seen.
    fn unseen(&self, side: usize) -> u64 {
        self.reaped(side).saturating_sub(self.ended_children[side])
    }
}

/// Whether the bytes of a stage that were counted went through its pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// All but a few did.
    Pipe,
    /// Some were moved by processes that were not seen, which may have had other pipes.
    Unseen,
    /// Some were moved by children with other pipes.
    OtherPipes,
}

/// The volume of a stage's pipe is unknown if more than this share of its bytes may have gone
/// through others.
const MAX_DOUBTFUL: f64 = 0.05;

/// Processes with the same pipes as standard input and output, and their descendants
/// without other pipes.
#[derive(Debug, Default)]
pub struct Stage {
    /// Its pipes.
    pub flow: Flow,
    /// The process that was found first.
    pub first: Option<ProcessId>,
    /// The name of its program.
    pub name: String,
    /// Its command line; empty for a shell that executed no program.
    pub command: String,
    /// The names of its other processes.
    pub names: Vec<String>,
    /// Its samples.
    pub chains: Chains<u64>,
    /// The weight of its samples whose running time is known.
    pub weight_seen: u64,
    /// The weight of those taken of processes that were not seen, or after they were last
    /// seen.
    pub weight_unseen: u64,
    /// How often all threads were seen asleep, by what they waited for.
    pub waits: BTreeMap<String, u64>,
    /// When it was first and last seen, by CLOCK_MONOTONIC.
    pub began: Duration,
    /// See `began`.
    pub seen: Duration,
    /// How its first process ended, if known.
    pub status: Option<Status>,
    /// Its usage in phases without sampling.
    pub unsampled: Account,
    /// Its usage in phases with sampling.
    pub sampled: Account,
    /// Its usage at the start of the phase.
    before: Account,
    /// Running time of each thread, and its time waiting for a processor.
    threads: HashMap<(i32, i32), (Duration, Duration)>,
    /// What its processes read from its input and wrote to its output, if known.
    bytes: Option<Bytes>,
    /// Those of its bytes that children with other pipes moved.
    pub foreign: Bytes,
    /// Those of its bytes that were moved unseen.
    pub unseen: Bytes,
    /// The pidfd of its first process.
    ending: Option<OwnedFd>,
}

impl Stage {
    fn account(&self) -> Account {
        let (ran, delayed): (Vec<Duration>, Vec<Duration>) = self.threads.values().copied().unzip();
        Account {
            taken: self.bytes.map(|[taken, _]| taken),
            given: self.bytes.map(|[_, given]| given),
            ran: ran.iter().sum(),
            delayed: delayed.iter().sum(),
            wall: self.seen - self.began,
        }
    }

    /// Where the `bytes` come from that it read (0) or wrote (1).
    pub fn origin(&self, side: usize, bytes: u64) -> Origin {
        let is_much = |doubtful: u64| doubtful as f64 > MAX_DOUBTFUL * bytes as f64;
        if is_much(self.foreign[side]) {
            Origin::OtherPipes
        } else if is_much(self.unseen[side]) {
            Origin::Unseen
        } else {
            Origin::Pipe
        }
    }

    /// Whether it is a shell that only waits for other stages.
    pub fn only_waits(&self) -> bool {
        let mut waits = self.waits.keys();
        let account = self.sampled.and(&self.unsampled);
        self.names.is_empty()
            && !self.waits.is_empty()
            && waits.all(|wait| wait == CHILD || wait == SIGNAL)
            && account.ran < account.wall / 20
    }

    /// Whether it has no process: those that were seen got other pipes later.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }
}

/// What was seen of a stage at one moment.
#[derive(Debug, Default)]
struct Look {
    is_alive: bool,
    time: Duration,
    is_awake: bool,
    sleeping: Vec<String>,
    moved: Option<Bytes>,
    foreign: Bytes,
    unseen: Bytes,
}

/// All stages. The first one is what does not belong to a pipeline.
#[derive(Debug, Default)]
pub struct Stages {
    proc: Proc,
    scanner: Scanner,
    /// Pipes of this process, which lead out of the command.
    outer: BTreeSet<PipeId>,
    known: HashMap<i32, Known>,
    /// The time of the last look.
    looked: Duration,
    /// The end of the last look.
    look_ended: Duration,
    /// The stages, in the order of discovery.
    pub all: Vec<Stage>,
    by_flow: HashMap<Flow, usize>,
    /// The weight of the samples of processes outside of pipelines, by their names.
    pub others: BTreeMap<String, u64>,
}

impl Stages {
    /// Stages of the descendants of this process. Its own pipes don't make stages.
    pub fn new(pipe_probe: PipeProbe) -> Self {
        let proc = Proc::with_pipe_probe(pipe_probe);
        let own = proc.ends(getpid().as_raw_pid()).unwrap_or_default();
        let began = now();
        Stages {
            outer: own.iter().map(|end| end.pipe).collect(),
            proc,
            look_ended: began,
            all: vec![Stage {
                began,
                seen: began,
                ..Stage::default()
            }],
            ..Stages::default()
        }
    }

    /// The processes that read command lines.
    pub fn helpers(&self) -> Vec<i32> {
        let pipe_probe = self.proc.pipe_probe();
        pipe_probe.map_or(Vec::new(), |pipe_probe| pipe_probe.pids(&self.proc))
    }

    /// The processes that were seen last, with their threads.
    pub fn processes(&self) -> impl Iterator<Item = (i32, Vec<i32>)> {
        let pids = self.known.keys().copied();
        pids.map(|pid| (pid, self.proc.threads(pid)))
    }

    /// Finds new processes, and examines all.
    pub fn look(&mut self) {
        let now = now();
        self.looked = now;
        let mut tree = self.proc.tree(getpid().as_raw_pid()).split_off(1);
        // One that replaces another one is a child of this process.
        let helpers = self.helpers();
        tree.retain(|pid| !helpers.contains(pid));
        let tree = &tree[..];
        let known = self.scanner.graph.processes.keys();
        let pids: BTreeSet<i32> = tree.iter().chain(known).copied().collect();
        let settled = now.saturating_sub(SETTLING_TIME);
        let new = self.known.iter().filter(|(_, it)| it.found > settled);
        let new: BTreeSet<i32> = new.map(|(pid, _)| *pid).collect();
        self.scanner.read_some(&self.proc, &pids, &new);
        self.note_ended(tree);
        let mut looks: Vec<Look> = Vec::new();
        for pid in tree {
            let stage = self.place(*pid, now);
            looks.resize_with(self.all.len(), Look::default);
            self.examine(*pid, stage, &mut looks[stage]);
        }
        for (stage, look) in self.all.iter_mut().zip(looks) {
            if !look.is_alive {
                continue;
            }
            stage.seen = look.time;
            // Without what an orphan has moved, once it has ended.
            if let Some(moved) = look.moved {
                let before = stage.bytes.unwrap_or_default();
                stage.bytes = Some([0, 1].map(|side| moved[side].max(before[side])));
                for side in [0, 1] {
                    stage.foreign[side] = stage.foreign[side].max(look.foreign[side]);
                    stage.unseen[side] = stage.unseen[side].max(look.unseen[side]);
                }
            }
            if !look.is_awake
                && let Some(wait) = reason_of_stage(&look.sleeping)
            {
                *stage.waits.entry(wait).or_default() += 1;
            }
        }
        for stage in &mut self.all {
            stage.status = stage
                .status
                .or(stage.ending.as_ref().and_then(status::read));
            if stage.status.is_some() {
                stage.ending = None;
            }
        }
        self.look_ended = self::now();
    }

    /// Adds what processes have moved that are no longer in the tree to their parents' account
    /// of ended children.
    fn note_ended(&mut self, tree: &[i32]) {
        let alive: BTreeSet<i32> = tree.iter().copied().collect();
        let mut ended = Vec::new();
        for (pid, known) in &mut self.known {
            if !known.moved.has_ended && !alive.contains(pid) {
                known.moved.has_ended = true;
                ended.push((known.parent, known.moved.all));
            }
        }
        for (parent, bytes) in ended {
            if let Some(parent) = self.known.get_mut(&parent) {
                for (sum, more) in parent.moved.ended_children.iter_mut().zip(bytes) {
                    *sum += more;
                }
            }
        }
    }

    /// Notes at the ancestors of a process that it has other pipes than they have.
    fn note_other_pipes(&mut self, parent: i32, flow: Flow) {
        let mut next = parent;
        for _ in 0..MAX_LINEAGE {
            let Some(ancestor) = self.known.get_mut(&next) else {
                return;
            };
            let other = &mut ancestor.moved.has_other_pipes;
            other[0] |= ancestor.flow.input != flow.input;
            other[1] |= ancestor.flow.output != flow.output;
            next = ancestor.parent;
        }
    }

    /// The stage of a process that is looked at `now`. One that was not there at the last look
    /// started since.
    fn place(&mut self, pid: i32, now: Duration) -> usize {
        let before = self.known.remove(&pid);
        let Some(process) = self.scanner.graph.processes.get(&pid) else {
            // It has ended, or its descriptors may not be read.
            let known = before.unwrap_or_else(|| self.hidden(pid, now));
            let stage = known.stage;
            self.known.insert(pid, Known { seen: now, ..known });
            return stage;
        };
        let before = before.filter(|it| it.id == process.id);
        let is_argument = |pid: i32, fd: i32| {
            let line = self.proc.command_line(pid).unwrap_or_default();
            let name = format!("/fd/{fd}");
            line.split(' ').any(|word| word.ends_with(&name))
        };
        let graph = &self.scanner.graph;
        let mut flow = graph.flow(process, &self.outer, &is_argument);
        // The other end of its pipe may be gone, and it may close or reuse its descriptors.
        if let Some(before) = before.as_ref().filter(|it| it.name == process.name) {
            flow = flow.or(before.flow);
        }
        let is_within = |at: &usize| flow.is_within(self.all[*at].flow);
        let found = match (self.known.get(&process.parent), &before) {
            (Some(parent), _) => Some(parent.stage).filter(is_within),
            // An orphan, whose pipes may lead to a former ancestor, or the first process.
            (None, Some(before)) => Some(before.stage),
            (None, None) => (0..self.all.len()).find(is_within),
        };
        let stage = match found {
            Some(stage) => stage,
            None => *self.by_flow.entry(flow).or_insert(self.all.len()),
        };
        if stage == self.all.len() {
            self.all.push(Stage {
                flow,
                began: before.as_ref().map_or(self.look_ended, |it| it.found),
                ending: Pid::from_raw(pid)
                    .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
                ..Stage::default()
            });
        }
        if let Some(before) = before.as_ref().filter(|it| it.stage != stage) {
            let threads = &mut self.all[before.stage].threads;
            threads.retain(|(process, _), _| *process != pid);
        }
        let is_new_name = before.as_ref().is_none_or(|it| it.name != process.name);
        self.all[stage].add(&self.proc, process, is_new_name);
        let parent = process.parent;
        let known = Known {
            id: process.id,
            name: process.name.clone(),
            parent,
            flow,
            stage,
            found: before.as_ref().map_or(now, |it| it.found),
            moved: before.map(|it| it.moved).unwrap_or_default(),
            seen: now,
        };
        self.known.insert(pid, known);
        self.note_other_pipes(parent, flow);
        stage
    }

    /// A process whose descriptors are not known is of its parent's stage.
    fn hidden(&self, pid: i32, now: Duration) -> Known {
        let stat = self.proc.stat(pid);
        let parent = stat.as_ref().and_then(|stat| self.known.get(&stat.parent));
        let start = stat.as_ref().map_or(0, |stat| stat.start);
        Known {
            id: ProcessId { pid, start },
            name: self.proc.name(pid).unwrap_or_default(),
            parent: stat.as_ref().map_or(0, |stat| stat.parent),
            moved: Moved::default(),
            flow: Flow::default(),
            stage: parent.map_or(0, |parent| parent.stage),
            found: now,
            seen: now,
        }
    }

    fn examine(&mut self, pid: i32, stage: usize, look: &mut Look) {
        look.is_alive = true;
        self.count_bytes(pid, stage, look);
        for task in self.proc.threads(pid) {
            if let Some(times) = self.proc.schedule(pid, task) {
                self.all[stage].threads.insert((pid, task), times);
            }
            match self.proc.sleeps_in(pid, task) {
                Some(function) => look.sleeping.push(function),
                // A running, exiting or dead thread.
                None => {
                    let state = self.proc.thread_state(pid, task);
                    look.is_awake |= state.is_some_and(|state| !matches!(state, 'Z' | 'X'));
                }
            }
        }
        look.time = now();
        if let Some(known) = self.known.get_mut(&pid) {
            known.seen = look.time;
        }
    }

    /// Adds what a process has moved through the pipes of its stage.
    fn count_bytes(&mut self, pid: i32, stage: usize, look: &mut Look) {
        let Some(io) = self.proc.io(pid) else { return };
        let Some(known) = self.known.get_mut(&pid) else {
            return;
        };
        let moved = &mut known.moved;
        for task in self.proc.threads(pid) {
            if let Some(io) = self.proc.thread_io(pid, task) {
                moved
                    .threads
                    .insert(task, [io.read_bytes, io.written_bytes]);
            }
        }
        moved.all = [io.read_bytes, io.written_bytes];
        let pipes = |flow: Flow| [flow.input, flow.output];
        let (own, of_stage) = (pipes(known.flow), pipes(self.all[stage].flow));
        let sum = look.moved.get_or_insert_default();
        for side in [0, 1] {
            if own[side].is_some() && own[side] == of_stage[side] {
                sum[side] += moved.all[side];
                look.foreign[side] += moved.foreign(side);
                look.unseen[side] += moved.unseen(side);
            }
        }
    }

    /// Adds the usage since the start of the phase to its kind of phase.
    pub fn end_phase(&mut self, is_sampled: bool) {
        for stage in &mut self.all {
            let now = stage.account();
            let used = now.since(&stage.before);
            let sum = if is_sampled {
                &mut stage.sampled
            } else {
                &mut stage.unsampled
            };
            *sum = sum.and(&used);
            stage.before = now;
        }
    }

    /// Adds samples to the stages of their processes. One that was not seen belongs to the
    /// stage of its parent. Then forgets the processes that have ended.
    pub fn add_samples(&mut self, samples: Vec<(u64, usize, StackSample)>, owners: &Owners) {
        let own = getpid().as_raw_pid() as u32;
        for (time_ns, _, sample) in samples {
            if sample.pid == own {
                continue;
            }
            let time = Duration::from_nanos(time_ns);
            let lineage = std::iter::successors(Some(sample.pid), |pid| owners.parent(*pid));
            let lineage = lineage.take(MAX_LINEAGE);
            let known = |pid: u32| self.known.get(&(pid as i32));
            let stage = lineage.clone().find_map(known).map_or(0, |it| it.stage);
            if stage == 0 {
                let name = |pid| owners.name(pid).or(known(pid).map(|it| &*it.name));
                let name = lineage.clone().find_map(name).unwrap_or_default();
                *self.others.entry(name.to_owned()).or_default() += sample.weight;
            }
            let is_seen = known(sample.pid).is_some_and(|it| time <= it.seen);
            let stage = &mut self.all[stage];
            if is_seen {
                stage.weight_seen += sample.weight;
            } else {
                stage.weight_unseen += sample.weight;
            }
            stage.chains.add(sample.chain, sample.weight);
        }
        self.forget_ended();
    }

    /// Forgets the processes that have ended.
    pub fn forget_ended(&mut self) {
        self.known.retain(|_, it| it.seen >= self.looked);
    }
}

/// The ancestors of a process are searched so far: numbers may be reused, so that there may be
/// a loop.
const MAX_LINEAGE: usize = 1000;

impl Stage {
    /// Takes note of the names of a process.
    fn add(&mut self, proc: &Proc, process: &Process, is_new_name: bool) {
        let pid = process.id.pid;
        if *self.first.get_or_insert(process.id) != process.id {
            let is_known = self.names.contains(&process.name) || process.name == self.name;
            if !is_known && self.names.len() < MAX_NAMES {
                self.names.push(process.name.clone());
            }
        } else if is_new_name || self.command.is_empty() {
            let command = proc.command_line(pid).unwrap_or_default();
            self.name = process.name.clone();
            // A shell's child has its command line until it executes a program.
            let inherited = proc.command_line(process.parent);
            self.command = if Some(&command) == inherited.as_ref() {
                String::new()
            } else {
                command
            };
        }
    }
}

fn now() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

/// What a stage waits for if its threads sleep in these kernel functions. If there
/// are several reasons, a pipe comes first and a child process or a signal last.
fn reason_of_stage(sleeping: &[String]) -> Option<String> {
    let rank = |function: &str| match reason_of_function(function) {
        Some(INPUT) => 0,
        Some(OUTPUT) => 1,
        Some(CHILD | SIGNAL) => 3,
        _ => 2,
    };
    let function = sleeping.iter().min_by_key(|function| rank(function))?;
    let plain = function.split('.').next().unwrap_or(function);
    Some(reason_of_function(function).unwrap_or(plain).to_owned())
}

/// The reason of waiting for the stage before.
pub const INPUT: &str = "input (pipe empty)";
/// The reason of waiting for the stage after.
pub const OUTPUT: &str = "room for output (pipe full)";
/// The reason of waiting for a child.
const CHILD: &str = "a child process";
/// The reason of waiting for a signal: often for that of a child.
const SIGNAL: &str = "a signal";

/// The reason for sleeping in a kernel function.
fn reason_of_function(function: &str) -> Option<&'static str> {
    Some(match asleep(function)? {
        Asleep::Input => INPUT,
        Asleep::Room => OUTPUT,
        Asleep::FifoPeer => "the other end of a FIFO",
        Asleep::Child => CHILD,
        Asleep::Poll => "poll or select",
        Asleep::Timer => "a timer (sleep)",
        Asleep::Signal => SIGNAL,
        Asleep::Futex => "another thread (futex)",
        Asleep::Disk => "a file's data (disk)",
        Asleep::TerminalOrSocket => "the terminal or a socket",
        Asleep::Stopped => "SIGCONT (it is stopped)",
        Asleep::Traced => "a debugger",
        Asleep::Frozen => "its frozen control group",
        Asleep::KernelLock => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_comes_before_a_shell_that_waits_for_its_child() {
        for (functions, reason) in [
            ("do_wait anon_pipe_read", Some(INPUT)),
            ("futex_wait_queue pipe_write", Some(OUTPUT)),
            ("do_wait unheard_of.isra.0", Some("unheard_of")),
            ("do_wait", Some(CHILD)),
            ("sigsuspend hrtimer_nanosleep", Some("a timer (sleep)")),
            ("", None),
        ] {
            let functions = functions.split_ascii_whitespace().map(str::to_owned);
            let functions: Vec<String> = functions.collect();
            assert_eq!(
                reason_of_stage(&functions).as_deref(),
                reason,
                "{functions:?}"
            );
        }
    }
}
