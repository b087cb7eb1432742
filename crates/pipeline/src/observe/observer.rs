//! A running observation: the processes and what was seen of them so far.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use pipespeed_base::thread::own_time;
use rustix::process::{getpid, getppid};

use super::renewed::FormerConnections;
use super::{
    NewPipe, Observation, ObservationPlan, ObservedLink, PipeSamples, registered, terminals,
};
use crate::graph::{Process, Scanner, Scope};
use crate::proc::files::FdBudget;
use crate::proc::{LinkFd, LinkId, Proc, ProcessId};
use crate::processors::{Load, ProcessorTimes, Quotas};
use crate::sample::Observed;
use crate::sample::limits::ProcessorLimits;
use crate::sample::tally::Tally;

/// A sample of many processes that takes longer is continued at the next one.
pub(crate) const MAX_SAMPLE: Duration = Duration::from_micros(250);
/// Threads sampled between two readings of the clock, which cost about as much as one of them.
pub(crate) const BATCH: usize = 16;
/// Of more processes that have ended, those with the fewest samples are forgotten.
const MAX_ENDED: usize = 256;

/// A running observation.
pub(crate) struct Observer<'a> {
    pub(crate) proc: &'a Proc,
    pub(crate) plan: &'a ObservationPlan,
    pub(crate) fd_budget: FdBudget,
    pub(crate) scanner: Scanner,
    pub(super) connections: FormerConnections,
    pub(crate) users: BTreeMap<ProcessId, Option<u32>>,
    /// The arguments of each process, with the name that it had when they were read.
    pub(crate) arguments: BTreeMap<ProcessId, (String, Option<String>)>,
    pub(crate) asked: BTreeSet<ProcessId>,
    pub(crate) tallies: BTreeMap<ProcessId, Tally>,
    /// The process sampled last, if it was not the last one of all.
    pub(crate) sampled: Option<ProcessId>,
    pub(crate) pipes: BTreeMap<LinkId, PipeSamples>,
    /// The pipes to look into. `None`: all.
    pub(crate) wanted: Option<BTreeSet<LinkId>>,
    /// The pipe looked into last.
    pub(super) looked: Option<LinkId>,
    pub(crate) began: Instant,
    pub(crate) times: ProcessorTimes,
    pub(crate) quotas: Quotas,
    /// A sample that takes longer is continued at the next one.
    pub(crate) max_sample: Duration,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(proc: &'a Proc, plan: &'a ObservationPlan) -> Self {
        Observer {
            proc,
            plan,
            fd_budget: FdBudget::beside_left_behind(proc),
            scanner: Scanner::interruptible(),
            connections: FormerConnections::default(),
            users: BTreeMap::new(),
            arguments: BTreeMap::new(),
            asked: BTreeSet::new(),
            tallies: BTreeMap::new(),
            sampled: None,
            pipes: BTreeMap::new(),
            wanted: None,
            looked: None,
            began: Instant::now(),
            times: ProcessorTimes::read(proc),
            quotas: Quotas::default(),
            max_sample: MAX_SAMPLE,
        }
    }

    /// Finds the processes, and takes the first sample and the first look.
    pub(crate) fn begin(&mut self) {
        self.scanner.read_all(self.proc, &self.excluded());
        self.adopt(true);
        self.sample_all();
        self.follow(true);
        self.look();
    }
}

impl Observer<'_> {
    pub(crate) fn excluded(&self) -> Vec<i32> {
        let pipe_probe = self.proc.pipe_probe().into_iter();
        let helpers = pipe_probe.flat_map(|pipe_probe| pipe_probe.pids(self.proc));
        let excluded = self.plan.excluded.iter().copied();
        excluded.chain(helpers).collect()
    }

    /// Processor time of this thread and its helper.
    pub(crate) fn spent(&self) -> Duration {
        own_time() + self.helper_time()
    }

    /// Processor time of all helpers so far.
    pub(crate) fn helper_time(&self) -> Duration {
        let pipe_probe = self.proc.pipe_probe();
        pipe_probe.map_or(Duration::ZERO, |pipe_probe| pipe_probe.spent(self.proc))
    }

    /// The processes that may have other descriptors by now.
    pub(crate) fn changed(&self) -> BTreeSet<i32> {
        let changed = self.tallies.values().filter(|tally| tally.may_have_changed);
        changed.map(|tally| tally.process.id.pid).collect()
    }

    /// Finds new processes, and reads again those that may have changed.
    pub(super) fn search_new(&mut self) {
        let mut changed = self.changed();
        // Those with many descriptors are only read again if there are more or fewer of them.
        changed.retain(|pid| !self.scanner.has_many_descriptors(*pid));
        let excluded = self.excluded();
        match self.plan.scope.root() {
            Some(root) => {
                let asked: BTreeSet<i32> = self.asked.iter().map(|id| id.pid).collect();
                let mut pids = asked.clone();
                let processes = &self.scanner.graph.processes;
                let parent = |pid: i32| processes.get(&pid).map(|process| process.parent);
                let is_top = |pid: &i32| parent(*pid).is_none_or(|above| !asked.contains(&above));
                for pid in asked.iter().copied().filter(is_top).chain([root]) {
                    pids.extend(self.proc.tree(pid));
                }
                pids.retain(|pid| !excluded.contains(pid));
                let hidden = &mut self.scanner.graph.hidden;
                hidden.retain(|pid, _| pids.contains(pid) || self.proc.is_listed(*pid));
                self.scanner.search_some(self.proc, &pids, &changed);
            }
            None => self.scanner.search(self.proc, &excluded, &changed),
        }
        self.adopt(false);
        for tally in self.tallies.values_mut() {
            let id = tally.process.id;
            let is_due = self.asked.contains(&id) && !tally.has_many_threads();
            if is_due && self.scanner.graph.is_running(id) {
                tally.read_all(self.proc, &self.fd_budget, &mut self.quotas);
            }
        }
        self.quotas.update(self.proc);
        self.forget();
    }

    /// Forgets short-lived processes, if there are many.
    fn forget(&mut self) {
        let ended = self.tallies.values().filter(|tally| tally.has_ended);
        let mut ended: Vec<(u32, ProcessId)> = ended
            .map(|tally| (tally.counts.samples, tally.process.id))
            .collect();
        ended.sort_unstable();
        let count = ended.len().saturating_sub(MAX_ENDED);
        for (_, id) in &ended[..count] {
            self.tallies.remove(id);
            self.asked.remove(id);
        }
        let graph = &self.scanner.graph;
        self.users.retain(|id, _| graph.is_running(*id));
        self.arguments.retain(|id, _| self.tallies.contains_key(id));
    }

    /// The processes of the scope.
    fn in_scope(&mut self) -> BTreeSet<i32> {
        let Scope::User(user) = self.plan.scope else {
            let mut pids = self.scanner.graph.asked(self.proc, &self.plan.scope);
            pids.retain(|pid| !self.plan.others.contains(*pid));
            return pids;
        };
        let ids: Vec<ProcessId> = self.scanner.graph.ids().collect();
        let own = ids.into_iter().filter(|id| self.user(*id) == Some(user));
        own.map(|id| id.pid).collect()
    }

    /// The user of a process.
    pub(super) fn user(&mut self, id: ProcessId) -> Option<u32> {
        let read = || self.proc.user(id.pid);
        *self.users.entry(id).or_insert_with(read)
    }

    /// Begins to sample the processes asked for.
    fn adopt(&mut self, is_start: bool) {
        let is_survey = self.plan.scope.root().is_none();
        let pids = self.in_scope();
        self.scanner.find_networks(self.proc, &pids);
        for pid in pids {
            let process = &self.scanner.graph.processes[&pid];
            // A parent that waits for a child may have no pipe itself.
            if !is_survey || !process.ends.is_empty() {
                self.asked.insert(process.id);
                self.add(pid, is_start);
            }
        }
        let all = self.tallies.keys().map(|id| id.pid);
        let mut feeders = self.scanner.graph.feeders(all);
        for tally in self.tallies.values_mut() {
            let id = tally.process.id;
            if let Some(process) = self.scanner.graph.processes.get(&id.pid)
                && process.id == id
            {
                let feeders = feeders.remove(&id.pid);
                tally.children.set_feeders(feeders.unwrap_or_default());
                if !tally.process.ends.iter().eq(process.ends.iter()) {
                    tally.reexamine();
                }
                tally.process = process.clone();
                tally.ancestors = self.scanner.graph.family(id.pid);
                tally.may_have_changed = false;
                self.connections.remember(process, &self.scanner.sockets);
            }
        }
        if self.plan.with_arguments {
            self.read_arguments();
        }
    }

    /// Reads the arguments of each process once, and again if it has become another program.
    fn read_arguments(&mut self) {
        for tally in self.tallies.values().filter(|tally| !tally.has_ended) {
            let Process { id, name, .. } = &tally.process;
            let known = self.arguments.get(id);
            if known.is_none_or(|(before, _)| before != name) {
                let line = self.proc.command_line(id.pid);
                self.arguments.insert(*id, (name.clone(), line));
            }
        }
    }

    /// The arguments of a process, if they were read.
    pub(crate) fn arguments(&self, id: ProcessId) -> Option<String> {
        self.arguments.get(&id)?.1.clone()
    }

    fn tally(&mut self, process: Process, is_start: bool) -> Tally {
        let ancestors = self.scanner.graph.family(process.id.pid);
        let mut tally = if is_start {
            Tally::new(self.proc, process, true, &self.fd_budget)
        } else {
            Tally::new_since(self.proc, process, self.began, &self.fd_budget)
        };
        tally.ancestors = ancestors;
        for groups in &tally.groups {
            self.quotas.add(self.proc, groups);
        }
        tally
    }

    /// What may have kept a process from running since the times of the processors were read.
    pub(crate) fn limits(&self, tally: &Tally, load: &Load) -> ProcessorLimits {
        let proc = self.proc;
        let quota = self.quotas.used_up_most(proc, &tally.groups);
        let allowed = tally.allowed();
        let contention = if quota.is_some() {
            1.0
        } else {
            load.max_contention(allowed.as_ref())
        };
        let count = allowed
            .as_ref()
            .map_or(load.0.len(), |allowed| allowed.len());
        ProcessorLimits {
            contention,
            allowed,
            processors: count,
            quota,
        }
    }

    fn add(&mut self, pid: i32, is_start: bool) {
        let process = self.scanner.graph.processes.get(&pid).cloned();
        if let Some(process) = process.filter(|process| !self.tallies.contains_key(&process.id)) {
            let id = process.id;
            let tally = self.tally(process, is_start);
            self.tallies.insert(id, tally);
        }
    }

    /// Begins to sample the processes that could wake those that wait, directly or through
    /// others.
    pub(crate) fn follow(&mut self, is_start: bool) {
        let mut open: Vec<ProcessId> = self.tallies.keys().copied().collect();
        while let Some(tally) = open.pop().and_then(|id| self.tallies.get(&id)) {
            let pid = tally.process.id.pid;
            let pids = self.scanner.graph.wakers(pid, &tally.threads());
            let processes = &self.scanner.graph.processes;
            let found = pids.iter().filter_map(|pid| processes.get(pid).cloned());
            for process in found.collect::<Vec<Process>>() {
                let id = process.id;
                if !self.tallies.contains_key(&id) {
                    let mut tally = self.tally(process, is_start);
                    tally.sample(self.proc, &self.fd_budget);
                    tally.complete(self.proc, &self.fd_budget);
                    self.tallies.insert(id, tally);
                    open.push(id);
                }
            }
        }
    }

    /// Samples all processes.
    pub(crate) fn sample_all(&mut self) {
        for tally in self.tallies.values_mut() {
            if self.scanner.graph.is_running(tally.process.id) {
                tally.look(self.proc, &self.fd_budget);
            }
        }
        for tally in self.tallies.values_mut() {
            tally.sample_children(self.proc);
        }
        for tally in self.tallies.values_mut() {
            tally.count(self.proc, &self.fd_budget);
        }
        self.complete();
    }

    /// Examines the threads of a process, which is to be counted with the others of this batch. Returns
    /// how many.
    pub(crate) fn look_at(&mut self, id: ProcessId, batch: &mut Vec<ProcessId>) -> usize {
        let Some(tally) = self.tallies.get_mut(&id) else {
            return 0;
        };
        batch.push(id);
        tally.look(self.proc, &self.fd_budget)
    }

    /// Counts what was seen of these processes, and samples the children that they wait for.
    pub(crate) fn count(&mut self, batch: &mut Vec<ProcessId>) {
        for id in batch.iter() {
            if let Some(tally) = self.tallies.get_mut(id) {
                tally.sample_children(self.proc);
            }
        }
        for id in batch.drain(..) {
            if let Some(tally) = self.tallies.get_mut(&id) {
                tally.count(self.proc, &self.fd_budget);
            }
        }
    }

    /// Does what is due after samples.
    pub(crate) fn complete(&mut self) {
        for tally in self.tallies.values_mut() {
            tally.complete(self.proc, &self.fd_budget);
        }
    }

    /// Samples the processes asked for, and their neighbours if requested: as many as
    /// [`MAX_SAMPLE`] permits, with what is due afterwards, beginning where the last sample ended.
    pub(crate) fn sample(&mut self, with_neighbours: bool) {
        let start = own_time();
        let after = self
            .sampled
            .take()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.tallies.range((after, Bound::Unbounded));
        let rest: Vec<ProcessId> = rest.map(|(id, _)| *id).collect();
        let mut examined = 0;
        let mut batch = Vec::new();
        for id in rest {
            let is_due = with_neighbours || self.asked.contains(&id);
            examined += 1;
            if is_due && self.scanner.graph.is_running(id) {
                examined += self.look_at(id, &mut batch);
            }
            if examined >= BATCH {
                examined = 0;
                self.count(&mut batch);
                if own_time() - start > self.max_sample {
                    self.sampled = Some(id);
                    break;
                }
            }
        }
        self.count(&mut batch);
        self.complete();
    }

    /// Samples the last states, and those of the processes that could change them, and makes
    /// an observation of all.
    pub(crate) fn conclude(&mut self) -> Observation {
        self.adopt(false);
        self.sample_all();
        self.follow(false);
        self.observation()
    }

    /// Leaves out what processes only seem to wait for.
    fn correct_waits(&self, processes: &mut [Observed]) {
        for process in processes.iter_mut() {
            self.connections.join(process);
        }
        terminals::leave_attended(processes);
        let is_empty = |link: LinkId| {
            let fills = self.pipes.get(&link).map(|seen| &*seen.fills);
            fills.is_some_and(|fills| !fills.is_empty() && fills.iter().all(|look| look.bytes == 0))
        };
        registered::correct(processes, is_empty);
        registered::leave_reapers(processes);
        let graph = &self.scanner.graph;
        registered::leave_wakes(processes, |link, side| graph.holders(link, side).collect());
    }

    /// The ancestors of a process, or those that it had, without those that observe.
    fn ancestors(&self, tally: &Tally) -> Vec<i32> {
        let (id, graph) = (tally.process.id, &self.scanner.graph);
        let mut ancestors = if graph.is_running(id) {
            graph.family(id.pid)
        } else {
            tally.ancestors.clone()
        };
        ancestors.retain(|pid| !self.plan.excluded.contains(pid));
        ancestors
    }

    pub(crate) fn observation(&mut self) -> Observation {
        let mut replaced: BTreeSet<ProcessId> = self.tallies.keys().copied().collect();
        replaced.retain(|id| is_replaced(&self.tallies, *id));
        let graph = &self.scanner.graph;
        for tally in self.tallies.values_mut() {
            if graph.is_running(tally.process.id) {
                tally.read_all(self.proc, &self.fd_budget, &mut self.quotas);
            }
        }
        let load = ProcessorTimes::read(self.proc).since(&self.times);
        let tallies = self.tallies.values();
        let mut processes: Vec<Observed> = tallies
            .map(|tally| {
                let id = tally.process.id;
                let now = graph.processes.get(&id.pid).cloned();
                let ancestors = self.ancestors(tally);
                let is_asked = self.asked.contains(&id);
                let limits = self.limits(tally, &load);
                Observed {
                    arguments: self.arguments(id),
                    ..tally.observed(self.proc, limits, now, ancestors, is_asked)
                }
            })
            .collect();
        // Conclusions name processes by their numbers.
        for observed in &mut processes {
            observed.is_orphan = graph.is_orphan(&observed.process);
            if observed.is_frozen {
                observed.unseen = graph.unseen(&observed.process, &self.plan.excluded);
            }
            if replaced.contains(&observed.process.id) {
                observed.process.ends.clear();
            }
        }
        self.correct_waits(&mut processes);
        let mut pipes: BTreeMap<LinkId, Option<String>> = BTreeMap::new();
        let of_asked = processes.iter().filter(|observed| observed.is_asked);
        for end in of_asked.flat_map(|observed| &observed.process.ends) {
            pipes.entry(end.pipe).or_insert_with(|| end.path.clone());
        }
        self.leave_idle(&mut processes, &mut pipes);
        let tallies = self.tallies.values();
        let asked = tallies.filter(|tally| self.asked.contains(&tally.process.id));
        let mut with_sockets = asked.clone();
        let has_sockets = with_sockets.any(|tally| !tally.process.sockets.is_empty());
        let samples = self.tallies.values().map(|tally| tally.counts.samples);
        let mut observation = Observation {
            samples: samples.max().unwrap_or(0),
            pipes: pipes
                .into_iter()
                .map(|(id, path)| self.pipe(id, path, usize::MAX))
                .collect(),
            processes,
            load,
            hidden: graph.count_hidden(self.proc),
            hidden_asked: graph.count_hidden_asked(self.proc, &self.plan.scope),
            reads_any: self.scanner.reads_any(),
            silent: self.proc.left_out(),
            lacks_helpers: self.proc.lacks_helpers(),
            hides_processes: self.proc.hides_processes(),
            hidden_calls: asked
                .filter(|tally| tally.hides_calls && !tally.has_ended)
                .count(),
            other_networks: self.scanner.other_networks.clone(),
            is_survey: self.plan.scope.root().is_none(),
            asked: match self.plan.scope {
                Scope::Pid(pid) => Some(pid),
                _ => None,
            },
            is_cut_short: self.scanner.is_cut_short,
            unlisted_sockets: self.scanner.unlisted.clone().filter(|_| has_sockets),
            own_parent: getppid().map(|pid| pid.as_raw_pid()),
            own_output: own_links(self.proc, |end| end.writes),
            own_links: own_links(self.proc, |_| true),
            has_eventfd: has_eventfd(),
            ..Observation::default()
        };
        observation.leave_inherited_inputs();
        observation.set_rates();
        if observation.pipes.iter().any(ObservedLink::is_small) {
            observation.new_pipe = NewPipe::read(self.proc);
        }
        observation
    }
}

/// What this process has a write end of.
fn own_links(proc: &Proc, is_meant: impl Fn(&LinkFd) -> bool) -> BTreeSet<LinkId> {
    let ends = proc.ends(getpid().as_raw_pid()).into_iter().flatten();
    ends.filter(is_meant).map(|end| end.pipe).collect()
}

fn has_eventfd() -> bool {
    let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let mut targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| target.as_os_str() == "anon_inode:[eventfd]")
}

/// Whether the number of a process belongs to a later one by now.
pub(crate) fn is_replaced<T>(all: &BTreeMap<ProcessId, T>, id: ProcessId) -> bool {
    let mut later = all.range((Bound::Excluded(id), Bound::Unbounded));
    later.next().is_some_and(|(next, _)| next.pid == id.pid)
}
