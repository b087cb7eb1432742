//! The processes of a running command, as seen in /proc.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pipespeed_pipeline::graph::{Process, Scanner};
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::proc::pipe_probe::PipeProbe;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::member::{Member, now};
use super::status;
use crate::profile::attribution::{Owners, StackSample};

/// A new process has its standard input and output by then.
const SETTLING_TIME: Duration = Duration::from_millis(100);
/// Of more processes at a time it is not known how they end.
const MAX_PIDFDS: usize = 64;
/// Of more processes that have ended, those with the shortest life count as their parents.
const MAX_ENDED: usize = 256;
/// The ancestors of a process are searched so far: numbers may be reused, so that there may be
/// a loop.
const MAX_LINEAGE: usize = 1000;

/// All processes of a command.
#[derive(Debug, Default)]
pub struct Members {
    proc: Proc,
    /// Descendants of this process that are none of them.
    outsiders: OtherProcesses,
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
    /// Whether the last phase was sampled.
    was_sampled: bool,
    /// Whether the command's time is over.
    is_over: bool,
}

impl Members {
    /// The descendants of this process but these.
    pub fn new(pipe_probe: PipeProbe, outsiders: OtherProcesses) -> Self {
        let began = now();
        Members {
            proc: Proc::with_pipe_probe(pipe_probe),
            outsiders,
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

    /// As [`look`](Self::look), once the command's time is over: what its processes did since does not count.
    pub fn look_after_end(&mut self) {
        self.is_over = true;
        self.look();
    }

    /// Finds new processes, and examines all.
    pub fn look(&mut self) {
        let began = now();
        let mut tree = self.outsiders.command_tree(&self.proc);
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
        for member in self.living.values_mut().chain(&mut self.ended) {
            member.take_back(self.was_sampled);
        }
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
    /// seen: which of several moved it is not known. One may have been reaped during the look before, when it
    /// was still found alive.
    fn note_missed(&mut self, tree: &[i32], ended: Vec<i32>) {
        for pid in ended {
            let parent = self.living[&pid]
                .ancestors
                .iter()
                .find(|pid| tree.contains(pid));
            let parent = parent.and_then(|parent| self.living.get(parent));
            let missed = parent.map_or([0; 2], |parent| {
                let unseen = parent.unseen();
                [0, 1].map(|side| unseen[side].saturating_sub(parent.unseen_before[1][side]))
            });
            if let Some(member) = self.living.get_mut(&pid) {
                member.missed = missed;
                if !self.is_over {
                    member.missed_time = now().saturating_sub(member.seen);
                }
            }
        }
        for member in self.living.values_mut() {
            member.unseen_before = [member.unseen(), member.unseen_before[0]];
        }
    }

    /// Adds what processes have moved that are no longer in the tree to their parents' account
    /// of ended children. Returns those processes.
    fn note_ended(&mut self, tree: &[i32]) -> Vec<i32> {
        let alive: BTreeSet<i32> = tree.iter().copied().collect();
        let mut ended = Vec::new();
        for (pid, member) in &mut self.living {
            if !member.has_ended && !alive.contains(pid) && !member.was_missed(&self.proc, *pid) {
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
        self.was_sampled = is_sampled;
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
