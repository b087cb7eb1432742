//! Observation of pipelines for some seconds: how often each process worked or waited, for
//! what, and what it moved.

mod children;
mod flow;
mod history;
mod live;
mod moment;
mod rate;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use pipespeed_host::CpuList;
use rustix::process::getppid;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

pub use self::history::Window;
pub use self::live::{Live, TICK};
pub use self::moment::{Link, Moment, Pipeline, Stage};
use self::tally::{Limits, Tally};
use crate::diagnosis::{Finding, diagnose};
use crate::files::Allowance;
use crate::find::{Process, ProcessId, Scanner, Scope, Unseen};
use crate::look::Look;
use crate::proc::{Io, PipeId, Proc};
use crate::processors::{Load, ProcessorTimes, Quota, Quotas};
use crate::wait::{Outside, Side, State, is_moving};

/// The shortest time between two samples.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time between two samples, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(50);
/// Sampling, searches and looks may take this share of one processor.
const BUDGET: f64 = 0.01;
/// A short observation may take this share where that brings [`ENOUGH_SAMPLES`].
const SHORT_BUDGET: f64 = 0.03;
/// An observation of less than this is short.
const SHORT: Duration = Duration::from_secs(60);
/// More samples are taken only within [`BUDGET`].
const ENOUGH_SAMPLES: u32 = 40;
/// Of the budget, searches and looks may take this share of one processor each.
const RARE_BUDGET: f64 = BUDGET / 4.0;
/// A sample of many processes that takes longer is continued at the next one.
const MAX_SAMPLE: Duration = Duration::from_micros(250);
/// The same in a short observation: what [`SHORT_BUDGET`] allows in [`MAX_INTERVAL`].
const MAX_SHORT_SAMPLE: Duration = Duration::from_micros(1500);
/// The processors that a process may use are looked up once it was delayed for this share.
const MIN_DELAY: f64 = 0.03;
/// Threads sampled between two readings of the clock, which cost about as much as one of them.
const BATCH: usize = 16;
/// Time between two looks at all pipes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The neighbours of the processes asked for are sampled only so rarely: what counts is
/// whether they can still move at the end.
const NEIGHBOUR_SAMPLES: u32 = 8;
/// Time before the first search for new processes; later ones are rarer, up to
/// [`MAX_SEARCH_INTERVAL`], since most start at the beginning.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_millis(25);
/// Maximum time between two searches for new processes.
const MAX_SEARCH_INTERVAL: Duration = Duration::from_millis(400);
/// Of more processes that have ended, those with the fewest samples are forgotten.
const MAX_ENDED: usize = 256;

/// What to observe.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The processes.
    pub scope: Scope,
    /// How long.
    pub window: Duration,
    /// Processes to leave out: those that observe.
    pub excluded: Vec<i32>,
    /// Only look into pipes of this user's processes.
    pub only_user: Option<u32>,
    /// Whether pipes are opened, by the helper process.
    pub opens_pipes: bool,
    /// Whether the arguments of the processes are read.
    pub with_arguments: bool,
}

/// What was observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Observation {
    /// How long.
    pub seconds: f64,
    /// The number of samples of the process with the most of them.
    pub samples: u32,
    /// Processor time of the observer, as a share of one processor, between the beginning and
    /// the end.
    pub cost: f64,
    /// Processor time for reading all processes at the beginning and the end, and for
    /// starting the helper, in seconds.
    pub scan_s: f64,
    /// The processes, by number.
    pub processes: Vec<Observed>,
    /// The pipes between them.
    pub pipes: Vec<Pipe>,
    /// How busy the processors were.
    pub load: Load,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
    /// Whether there may be processes that are not even listed.
    pub hides_processes: bool,
    /// The number of processes asked for whose system calls may not be read.
    pub hidden_calls: usize,
    /// Whether all processes of a user or of the system were asked for.
    pub is_survey: bool,
    /// What this user's pipes are made like; `None` unless one of the pipes is small.
    pub new_pipe: Option<NewPipe>,
    /// The parent of the observer, which may wait for its end.
    #[serde(skip)]
    pub own_parent: Option<i32>,
}

/// A process during the observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    /// The process, with its pipes at the end.
    #[serde(flatten)]
    pub process: Process,
    /// Its command line, if that was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether it was asked for, not only found at the other end of a pipe.
    pub is_asked: bool,
    /// Whether it was gone at the end.
    pub has_ended: bool,
    /// The number of samples of it.
    pub samples: u32,
    /// How often it was in which state.
    pub shares: Shares,
    /// Shares of samples in which it waited for something outside of pipes.
    pub outside: BTreeMap<Outside, f64>,
    /// Shares of samples in which it waited on a pipe.
    pub on: Vec<OnPipe>,
    /// What its children did while it waited for them.
    pub children: Option<Children>,
    /// Whether no thread of it ran during the whole observation.
    pub is_frozen: bool,
    /// The states of its threads at the end.
    pub threads: Vec<State>,
    /// The time over which the counts below were taken.
    pub counted_s: f64,
    /// Processor time.
    pub ran_s: f64,
    /// Time for which its threads were ready to run, and did not.
    pub delayed_s: f64,
    /// The processors that it may use; `None` if it was hardly delayed.
    pub allowed: Option<CpuList>,
    /// The CPU quota of its control groups that stopped it.
    pub quota: Option<Quota>,
    /// Whether it has waited for children that have ended.
    pub has_reaped: bool,
    /// Processor time of its children: of those that have ended, and of those that were seen while
    /// it waited for them.
    pub children_ran_s: f64,
    /// Bytes and calls, without those of its children; `None` if not known.
    pub io: Option<Io>,
    /// Whether it was seen to move data by calls that don't count as bytes.
    pub splices: bool,
    /// The signals that it handles, as a bit mask.
    pub handled_signals: u64,
    /// Its ancestors as far as they can be seen, the nearest first.
    #[serde(skip)]
    pub ancestors: Vec<i32>,
    /// Whether processes that can't be examined may have its pipes; only if it is frozen.
    #[serde(skip)]
    pub unseen: Unseen,
}

/// Shares of the time of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shares {
    /// A thread ran.
    pub runs: f64,
    /// A thread was ready to run, and waited for a processor.
    pub queued: f64,
    /// A thread waited for a file's data.
    pub disk: f64,
    /// A thread waited for room in a pipe.
    pub blocked: f64,
    /// A thread waited for data in a pipe.
    pub starved: f64,
    /// All waited for something else.
    pub elsewhere: f64,
    /// It was stopped.
    pub stopped: f64,
}

impl Shares {
    /// How much of the time is known.
    pub(crate) fn sum(&self) -> f64 {
        let awake = self.runs + self.queued;
        awake + self.disk + self.blocked + self.starved + self.elsewhere + self.stopped
    }
}

/// What the children of a process did while it waited for them: as shares of its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Children {
    /// Their usual names, those that did most first.
    pub names: Vec<String>,
    /// Their states. Of several children the one counts that is nearest to running.
    pub shares: Shares,
    /// What they waited for outside of pipes.
    pub outside: BTreeMap<Outside, f64>,
    /// The pipes on which they waited.
    pub on: Vec<OnPipe>,
    /// Their processor time, in processors.
    pub processors: f64,
    /// Whether most of them lived no longer than from one sample to the next: what they do at their
    /// beginning and end was hardly seen, so that the shares are uncertain.
    pub are_short: bool,
}

/// How often a process waited on a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnPipe {
    /// The pipe.
    pub pipe: PipeId,
    /// The side.
    pub side: Side,
    /// The share of samples.
    pub share: f64,
}

/// A pipe during the observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pipe {
    /// Its identity.
    #[serde(flatten)]
    pub id: PipeId,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// Its capacity in bytes; `None` if it could not be opened.
    pub capacity: Option<u64>,
    /// The mean share of its capacity that was filled.
    pub fill: Option<f64>,
    /// How that changed; `None` with fewer than two looks.
    pub fill_change: Option<FillChange>,
    /// Bytes that went through it per second; `None` if not known.
    pub bytes_per_s: Option<f64>,
    /// The user who made it; `None` if it could not be opened.
    pub owner: Option<u32>,
    /// Whether its lock was held for long, and by which process if known.
    pub is_held: bool,
    /// The process that holds the lock, if known.
    pub held_by: Option<i32>,
}

/// How the data in a pipe changed from look to look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FillChange {
    /// Whether each look found as many bytes.
    pub is_constant: bool,
    /// By how many bytes a second it grew, from the first half of the looks to the second; negative
    /// if it shrank.
    pub bytes_per_s: f64,
}

impl FillChange {
    fn new(looks: &[FillSample]) -> Option<Self> {
        let ([first, ..], [.., last]) = (looks, looks) else {
            return None;
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let halves = looks.split_at(looks.len() / 2);
        let mean = |looks: &[FillSample]| {
            let sum: u64 = looks.iter().map(|look| look.bytes).sum();
            sum as f64 / looks.len() as f64
        };
        (looks.len() > 1 && seconds > 0.0).then(|| FillChange {
            is_constant: looks.iter().all(|look| look.bytes == first.bytes),
            // The middles of the halves are half of the time apart.
            bytes_per_s: (mean(halves.1) - mean(halves.0)) / (seconds / 2.0),
        })
    }
}

/// What a look found in a pipe.
#[derive(Debug, Clone, Copy)]
struct FillSample {
    at: Instant,
    bytes: u64,
    /// The share of the capacity.
    share: f64,
}

/// What a new pipe of this user is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NewPipe {
    /// Its user.
    pub user: u32,
    /// Whether the user's privileges exempt it from limits.
    pub is_privileged: bool,
    /// Its capacity in bytes.
    pub capacity: u64,
    /// The largest capacity allowed without privileges (/proc/sys/fs/pipe-max-size).
    pub max: Option<u64>,
}

impl NewPipe {
    fn read(proc: &Proc) -> Option<Self> {
        let (reader, _writer) = std::io::pipe().ok()?;
        Some(NewPipe {
            user: rustix::process::geteuid().as_raw(),
            is_privileged: proc.may_exceed_pipe_limits(),
            capacity: fastpipe::pipe::capacity(&reader).ok()? as u64,
            max: proc.root().number("proc/sys/fs/pipe-max-size"),
        })
    }
}

/// What was seen of a pipe so far.
#[derive(Debug, Default)]
struct PipeSamples {
    capacity: Option<u64>,
    owner: Option<u32>,
    fills: Vec<FillSample>,
    is_held: bool,
    held_by: Option<i32>,
}

/// A running observation.
struct Observer<'a> {
    proc: &'a Proc,
    plan: &'a Plan,
    allowance: Allowance,
    scanner: Scanner,
    users: BTreeMap<ProcessId, Option<u32>>,
    /// The arguments of each process, with the name that it had when they were read.
    arguments: BTreeMap<ProcessId, (String, Option<String>)>,
    asked: BTreeSet<ProcessId>,
    tallies: BTreeMap<ProcessId, Tally>,
    /// The process sampled last, if it was not the last one of all.
    sampled: Option<ProcessId>,
    pipes: BTreeMap<PipeId, PipeSamples>,
    /// The pipes to look into. `None`: all.
    wanted: Option<BTreeSet<PipeId>>,
    began: Instant,
    times: ProcessorTimes,
    quotas: Quotas,
    max_sample: Duration,
}

/// Observes pipelines. `pause` waits for that long at most, and returns false to end the
/// observation early. Without a [looker](Proc::with_looker) no pipe is opened.
pub fn observe(proc: &Proc, plan: &Plan, pause: &mut dyn FnMut(Duration) -> bool) -> Observation {
    let start = Instant::now();
    let cost_before = own_time();
    let mut observer = Observer::new(proc, plan);
    observer.begin();
    let began = Instant::now();
    let scanned = observer.spent() - cost_before;
    let sampled = || Instant::now().saturating_duration_since(began);
    let mut chores = Chores::new(began, MAX_SEARCH_INTERVAL);
    let is_short = plan.window < SHORT;
    if is_short {
        observer.max_sample = MAX_SHORT_SAMPLE;
    }
    let mut count = 1;
    loop {
        observer.sample(count % NEIGHBOUR_SAMPLES == 0);
        count += 1;
        chores.run(&mut observer);
        let left = plan.window.saturating_sub(start.elapsed());
        let spent = observer.spent() - cost_before - scanned;
        let due = |budget: f64| spent.div_f64(budget).saturating_sub(sampled());
        let enough = plan.window / ENOUGH_SAMPLES;
        let interval = if is_short && due(BUDGET) > enough {
            due(SHORT_BUDGET).max(enough)
        } else {
            due(BUDGET)
        };
        let interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        if left.is_zero() || !pause(interval.min(left)) {
            break;
        }
    }
    // Where this process hardly gets a processor, most of it is the first search.
    let (spent, wall) = (observer.spent() - cost_before, start.elapsed());
    // The last states and the pipes belong together: processes that did not run since have
    // both.
    let changed = observer.tallies.values().filter(|it| it.may_have_changed);
    let changed = changed.map(|it| it.process.id.pid).collect();
    let excluded = observer.excluded();
    observer.scanner.read_changed(proc, &excluded, &changed);
    let mut observation = observer.conclude();
    if diagnose(&observation).iter().any(needs_all) {
        observer.scanner.read_all(proc, &excluded);
        observation = observer.conclude();
    }
    let all = observer.spent() - cost_before;
    Observation {
        seconds: start.elapsed().as_secs_f64(),
        cost: (spent - scanned).as_secs_f64() / wall.as_secs_f64(),
        scan_s: (scanned + all - spent).as_secs_f64(),
        ..observation
    }
}

/// Whether a finding holds only if all processes are known that have an end of a pipe.
fn needs_all(finding: &Finding) -> bool {
    finding.is_stuck() || matches!(finding, Finding::SpareEnd { .. })
}

/// Processor time of this thread.
fn own_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// What is done less often than sampling: looks into pipes, and searches for new processes.
struct Chores {
    search_interval: Duration,
    max_search_interval: Duration,
    next_look: Instant,
    next_search: Instant,
}

impl Chores {
    fn new(now: Instant, max_search_interval: Duration) -> Self {
        Chores {
            search_interval: MIN_SEARCH_INTERVAL,
            max_search_interval,
            next_look: now + LOOK_INTERVAL,
            next_search: now + MIN_SEARCH_INTERVAL,
        }
    }

    /// Does what is due.
    fn run(&mut self, observer: &mut Observer<'_>) {
        if Instant::now() >= self.next_look {
            let before = observer.spent();
            observer.look();
            let least = (observer.spent() - before).div_f64(RARE_BUDGET);
            self.next_look = Instant::now() + LOOK_INTERVAL.max(least);
        }
        if Instant::now() >= self.next_search {
            let before = observer.spent();
            observer.search_new();
            let least = (observer.spent() - before).div_f64(RARE_BUDGET);
            self.search_interval = (2 * self.search_interval).min(self.max_search_interval);
            self.next_search = Instant::now() + self.search_interval.max(least);
        }
    }
}

impl<'a> Observer<'a> {
    fn new(proc: &'a Proc, plan: &'a Plan) -> Self {
        Observer {
            proc,
            plan,
            allowance: Allowance::new(),
            scanner: Scanner::default(),
            users: BTreeMap::new(),
            arguments: BTreeMap::new(),
            asked: BTreeSet::new(),
            tallies: BTreeMap::new(),
            sampled: None,
            pipes: BTreeMap::new(),
            wanted: None,
            began: Instant::now(),
            times: ProcessorTimes::read(proc),
            quotas: Quotas::default(),
            max_sample: MAX_SAMPLE,
        }
    }

    /// Finds the processes, and takes the first sample and the first look.
    fn begin(&mut self) {
        self.scanner.read_all(self.proc, &self.excluded());
        self.adopt(true);
        self.sample_all();
        self.follow(true);
        self.look();
    }
}

impl Observer<'_> {
    fn excluded(&self) -> Vec<i32> {
        let looker = self.proc.looker().into_iter();
        let helpers = looker.flat_map(|looker| looker.pids(self.proc));
        let excluded = self.plan.excluded.iter().copied();
        excluded.chain(helpers).collect()
    }

    /// Processor time of this thread and its helper.
    fn spent(&self) -> Duration {
        own_time() + self.helper_time()
    }

    /// Processor time of all helpers so far.
    fn helper_time(&self) -> Duration {
        let looker = self.proc.looker();
        looker.map_or(Duration::ZERO, |looker| looker.spent(self.proc))
    }

    /// Finds new processes, and reads again those that may have changed.
    fn search_new(&mut self) {
        let changed = self.tallies.values().filter(|it| it.may_have_changed);
        let changed = changed.map(|it| it.process.id.pid);
        // Those with many descriptors are only read again if there are more or fewer of them.
        let changed = changed.filter(|pid| !self.scanner.has_many_descriptors(*pid));
        let changed: BTreeSet<i32> = changed.collect();
        let excluded = self.excluded();
        match self.plan.scope.root() {
            Some(root) => {
                let mut pids: BTreeSet<i32> = self.asked.iter().map(|id| id.pid).collect();
                pids.extend(self.proc.tree(root));
                pids.retain(|pid| !excluded.contains(pid));
                self.scanner.read_some(self.proc, &pids, &changed);
            }
            None => self.scanner.read_changed(self.proc, &excluded, &changed),
        }
        self.adopt(false);
        for tally in self.tallies.values_mut() {
            let id = tally.process.id;
            let is_due = self.asked.contains(&id) && !tally.has_many_threads();
            if is_due && self.scanner.snapshot.is_running(id) {
                tally.update(self.proc, &self.allowance);
            }
        }
        self.forget();
    }

    /// Forgets short-lived processes, if there are many.
    fn forget(&mut self) {
        let ended = self.tallies.values().filter(|tally| tally.has_ended);
        let mut ended: Vec<(u32, ProcessId)> =
            ended.map(|it| (it.counts.samples, it.process.id)).collect();
        ended.sort_unstable();
        let count = ended.len().saturating_sub(MAX_ENDED);
        for (_, id) in &ended[..count] {
            self.tallies.remove(id);
            self.asked.remove(id);
        }
        let snapshot = &self.scanner.snapshot;
        self.users.retain(|id, _| snapshot.is_running(*id));
        self.arguments.retain(|id, _| self.tallies.contains_key(id));
    }

    /// The processes of the scope.
    fn in_scope(&mut self) -> BTreeSet<i32> {
        let Scope::User(user) = self.plan.scope else {
            return self.scanner.snapshot.asked(self.proc, &self.plan.scope);
        };
        let ids: Vec<ProcessId> = self.scanner.snapshot.ids().collect();
        let own = ids.into_iter().filter(|id| self.user(*id) == Some(user));
        own.map(|id| id.pid).collect()
    }

    /// The user of a process.
    fn user(&mut self, id: ProcessId) -> Option<u32> {
        let read = || self.proc.user(id.pid);
        *self.users.entry(id).or_insert_with(read)
    }

    /// Begins to sample the processes asked for.
    fn adopt(&mut self, is_start: bool) {
        let is_survey = self.plan.scope.root().is_none();
        for pid in self.in_scope() {
            let process = &self.scanner.snapshot.processes[&pid];
            // A parent that waits for a child may have no pipe itself.
            if !is_survey || !process.ends.is_empty() {
                self.asked.insert(process.id);
                self.add(pid, is_start);
            }
        }
        for tally in self.tallies.values_mut() {
            let id = tally.process.id;
            if let Some(process) = self.scanner.snapshot.processes.get(&id.pid)
                && process.id == id
            {
                tally.process = process.clone();
                tally.may_have_changed = false;
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
    fn arguments(&self, id: ProcessId) -> Option<String> {
        self.arguments.get(&id)?.1.clone()
    }

    fn tally(&mut self, process: Process, is_start: bool) -> Tally {
        let tally = if is_start {
            Tally::new(self.proc, process, true, &self.allowance)
        } else {
            Tally::new_since(self.proc, process, self.began, &self.allowance)
        };
        if let Some(groups) = &tally.groups {
            self.quotas.add(self.proc, groups);
        }
        tally
    }

    /// What may have kept a process from running since the times of the processors were read.
    fn limits(&self, tally: &Tally, load: &Load) -> Limits {
        let proc = self.proc;
        let groups = tally.groups.as_ref();
        let quota = groups.and_then(|groups| self.quotas.used_up(proc, groups));
        let is_delayed = tally.delay_share() >= MIN_DELAY;
        let waits_for_children = !tally.children.is_empty();
        let allowed = (is_delayed || waits_for_children)
            .then(|| proc.allowed_processors(tally.process.id.pid))
            .flatten();
        let contention = if quota.is_some() {
            1.0
        } else {
            load.max_contention(allowed.as_ref())
        };
        Limits {
            contention,
            allowed,
            quota,
        }
    }

    fn add(&mut self, pid: i32, is_start: bool) {
        let process = self.scanner.snapshot.processes.get(&pid).cloned();
        if let Some(process) = process.filter(|it| !self.tallies.contains_key(&it.id)) {
            let id = process.id;
            let tally = self.tally(process, is_start);
            self.tallies.insert(id, tally);
        }
    }

    /// Begins to sample the processes that could wake those that wait, directly or through
    /// others. If one process was asked for, its neighbours belong to it.
    fn follow(&mut self, is_start: bool) {
        let mut open: Vec<ProcessId> = self.tallies.keys().copied().collect();
        while let Some(tally) = open.pop().and_then(|id| self.tallies.get(&id)) {
            let pid = tally.process.id.pid;
            let mut pids = self.scanner.snapshot.wakers(pid, &tally.threads());
            if self.asked.len() == 1 && self.asked.contains(&tally.process.id) {
                pids.extend(self.scanner.snapshot.neighbours(pid));
            }
            let processes = &self.scanner.snapshot.processes;
            let found = pids.iter().filter_map(|pid| processes.get(pid).cloned());
            for process in found.collect::<Vec<Process>>() {
                let id = process.id;
                if !self.tallies.contains_key(&id) {
                    let mut tally = self.tally(process, is_start);
                    tally.sample(self.proc, &self.allowance);
                    self.tallies.insert(id, tally);
                    open.push(id);
                }
            }
        }
    }

    /// Samples all processes.
    fn sample_all(&mut self) {
        for tally in self.tallies.values_mut() {
            if self.scanner.snapshot.is_running(tally.process.id) {
                tally.sample(self.proc, &self.allowance);
            }
        }
    }

    /// Samples the processes asked for, and their neighbours if requested: as many as
    /// [`MAX_SAMPLE`] permits, beginning where the last sample ended.
    fn sample(&mut self, with_neighbours: bool) {
        let with_neighbours = with_neighbours || self.asked.len() == 1;
        let start = own_time();
        let after = self
            .sampled
            .take()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.tallies.range_mut((after, Bound::Unbounded));
        let mut examined = 0;
        for (id, tally) in rest {
            let is_due = with_neighbours || self.asked.contains(id);
            examined += 1;
            if is_due && self.scanner.snapshot.is_running(*id) {
                examined += tally.sample(self.proc, &self.allowance);
            }
            if examined >= BATCH {
                examined = 0;
                if own_time() - start > self.max_sample {
                    self.sampled = Some(*id);
                    break;
                }
            }
        }
    }

    /// Samples the last states, and those of the processes that could change them, and makes
    /// an observation of all.
    fn conclude(&mut self) -> Observation {
        self.adopt(false);
        self.sample_all();
        self.follow(false);
        self.observation()
    }

    /// Looks into each pipe by one of its read ends.
    fn look(&mut self) {
        let Some(looker) = self.proc.looker().filter(|_| self.plan.opens_pipes) else {
            return;
        };
        let mut ends: BTreeMap<PipeId, (i32, i32)> = BTreeMap::new();
        let is_alone = self.asked.len() == 1;
        let wanted = self.tallies.keys().copied();
        let wanted: Vec<ProcessId> = wanted
            .filter(|id| is_alone || self.asked.contains(id))
            .collect();
        for id in wanted {
            let only = self.plan.only_user;
            if only.is_some_and(|only| self.user(id) != Some(only)) {
                continue;
            }
            let is_wanted = |pipe| self.wanted.as_ref().is_none_or(|all| all.contains(pipe));
            let reads = self.tallies[&id].process.ends.iter();
            for end in reads.filter(|end| end.reads && is_wanted(&end.pipe)) {
                ends.entry(end.pipe).or_insert((id.pid, end.fd));
            }
        }
        for (pipe, (pid, fd)) in ends {
            let seen = self.pipes.entry(pipe).or_default();
            if seen.is_held {
                continue;
            }
            match looker.look(self.proc, pid, fd, pipe) {
                Look::Seen {
                    capacity,
                    unread,
                    owner,
                } => {
                    seen.capacity = Some(capacity);
                    seen.owner = Some(owner);
                    seen.fills.push(FillSample {
                        at: Instant::now(),
                        bytes: unread,
                        share: unread as f64 / capacity.max(1) as f64,
                    });
                }
                Look::Held => {
                    seen.is_held = true;
                    let holders = self.tallies.values().map(|tally| &tally.process);
                    let mut holders = holders.filter(|it| it.pipes().contains(&pipe));
                    seen.held_by = holders
                        .find(|it| is_moving(self.proc, it.id.pid, pipe))
                        .map(|it| it.id.pid);
                }
                Look::Unknown => {}
            }
        }
    }

    /// What was seen of a pipe.
    fn pipe(&self, id: PipeId, path: Option<String>) -> Pipe {
        let unseen = PipeSamples::default();
        let seen = self.pipes.get(&id).unwrap_or(&unseen);
        let sum: f64 = seen.fills.iter().map(|look| look.share).sum();
        Pipe {
            id,
            path,
            capacity: seen.capacity,
            fill: (!seen.fills.is_empty()).then(|| sum / seen.fills.len() as f64),
            fill_change: FillChange::new(&seen.fills),
            bytes_per_s: None,
            owner: seen.owner,
            is_held: seen.is_held,
            held_by: seen.held_by,
        }
    }

    fn observation(&mut self) -> Observation {
        let ids = self.tallies.keys().copied();
        let replaced = ids.filter(|id| is_replaced(&self.tallies, *id));
        let replaced: BTreeSet<ProcessId> = replaced.collect();
        let snapshot = &self.scanner.snapshot;
        for tally in self.tallies.values_mut() {
            if snapshot.is_running(tally.process.id) {
                tally.update(self.proc, &self.allowance);
            }
        }
        let load = ProcessorTimes::read(self.proc).since(&self.times);
        let tallies = self.tallies.values();
        let mut processes: Vec<Observed> = tallies
            .map(|tally| {
                let id = tally.process.id;
                let now = snapshot.processes.get(&id.pid).cloned();
                let mut ancestors = snapshot.ancestors(id.pid);
                ancestors.retain(|pid| !self.plan.excluded.contains(pid));
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
            if observed.is_frozen {
                observed.unseen = snapshot.unseen(&observed.process, &self.plan.excluded);
            }
            if replaced.contains(&observed.process.id) {
                observed.process.ends.clear();
            }
        }
        let mut pipes: BTreeMap<PipeId, Option<String>> = BTreeMap::new();
        for observed in processes.iter().filter(|it| it.is_asked) {
            for end in &observed.process.ends {
                pipes.entry(end.pipe).or_insert_with(|| end.path.clone());
            }
        }
        let pipes = pipes.into_iter();
        let asked = self
            .tallies
            .values()
            .filter(|it| self.asked.contains(&it.process.id));
        let mut observation = Observation {
            samples: self
                .tallies
                .values()
                .map(|it| it.counts.samples)
                .max()
                .unwrap_or(0),
            pipes: pipes.map(|(id, path)| self.pipe(id, path)).collect(),
            processes,
            load,
            hidden: snapshot.hidden.len(),
            hides_processes: self.proc.hides_processes(),
            hidden_calls: asked.filter(|it| it.hides_calls && !it.has_ended).count(),
            is_survey: self.plan.scope.root().is_none(),
            own_parent: getppid().map(|pid| pid.as_raw_pid()),
            ..Observation::default()
        };
        observation.set_rates();
        if observation.pipes.iter().any(Pipe::is_small) {
            observation.new_pipe = NewPipe::read(self.proc);
        }
        observation
    }
}

/// Capacity of a new pipe in bytes (PIPE_DEF_BUFFERS in include/linux/pipe_fs_i.h).
pub fn default_capacity() -> u64 {
    16 * fastpipe::pipe::page_size() as u64
}

/// Data that grows or shrinks at this share of the rate at which it is read piles up or runs out.
const MIN_CHANGE: f64 = 0.25;

impl Pipe {
    /// How full the pipe seems, from 0 to 1: if data piles up in it, the reader is too slow, however
    /// little there is so far; if data runs out, the writer is.
    pub(crate) fn pressure(&self) -> Option<f64> {
        let fill = self.fill?;
        let change = self.fill_change.zip(self.bytes_per_s);
        Some(match change {
            Some((change, rate)) if change.is_constant || rate == 0.0 => fill,
            Some((change, rate)) if change.bytes_per_s >= MIN_CHANGE * rate => 1.0,
            Some((change, rate)) if change.bytes_per_s <= -MIN_CHANGE * rate => 0.0,
            _ => fill,
        })
    }

    /// Whether it holds less than a new pipe usually does.
    pub fn is_small(&self) -> bool {
        self.capacity
            .is_some_and(|capacity| capacity < default_capacity())
    }
}

/// Whether the number of a process belongs to a later one by now.
fn is_replaced<T>(all: &BTreeMap<ProcessId, T>, id: ProcessId) -> bool {
    let mut later = all.range((Bound::Excluded(id), Bound::Unbounded));
    later.next().is_some_and(|(next, _)| next.pid == id.pid)
}
