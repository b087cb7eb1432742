//! Observation of pipelines for some seconds: how often each process worked or waited, for
//! what, and what it moved.

mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use self::tally::Tally;
use crate::find::{Process, ProcessId, Scope, Snapshot};
use crate::look::{Look, Looker};
use crate::proc::{Io, PipeId, Proc};
use crate::wait::{Outside, Side, State, is_splicing};

/// The shortest time between two samples.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time between two samples, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(50);
/// Samples may take this share of one processor.
const BUDGET: f64 = 0.01;
/// Time between two looks at all pipes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The neighbours of the processes asked for are sampled only so rarely: what counts is
/// whether they can still move at the end.
const NEIGHBOUR_SAMPLES: u32 = 8;
/// At most this many processes are held by a descriptor, far below the usual limit of 1024.
const MAX_PIDFDS: usize = 256;
/// Time before the first search for new processes; later ones are rarer, up to
/// [`MAX_SEARCH_INTERVAL`], since most start at the beginning.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_millis(25);
/// Maximum time between two searches for new processes.
const MAX_SEARCH_INTERVAL: Duration = Duration::from_millis(400);

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
}

/// What was observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Observation {
    /// How long.
    pub seconds: f64,
    /// The number of samples.
    pub samples: u32,
    /// Processor time of the observer, as a share of one processor.
    pub cost: f64,
    /// The processes, by number.
    pub processes: Vec<Observed>,
    /// The pipes between them.
    pub pipes: Vec<Pipe>,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
    /// Whether all processes of a user or of the system were asked for.
    pub is_survey: bool,
}

/// A process during the observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    /// The process, with its pipes at the end.
    #[serde(flatten)]
    pub process: Process,
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
    /// Whether no thread of it ran during the whole observation.
    pub is_frozen: bool,
    /// The states of its threads at the end.
    pub threads: Vec<State>,
    /// The time over which the counts below were taken.
    pub counted_s: f64,
    /// Processor time.
    pub ran_s: f64,
    /// Time that its threads waited for a processor.
    pub delayed_s: f64,
    /// Bytes and calls; `None` if not known.
    pub io: Option<Io>,
    /// Whether it was seen to move data by calls that don't count as bytes.
    pub splices: bool,
    /// The signals that it handles, as a bit mask.
    pub handled_signals: u64,
}

/// Shares of the samples of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shares {
    /// A thread ran or was runnable.
    pub working: f64,
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
    /// Whether its lock was held for long, and by which process if known.
    pub is_held: bool,
    /// The process that holds the lock, if known.
    pub held_by: Option<i32>,
}

/// What was seen of a pipe so far.
#[derive(Debug, Default)]
struct Seen {
    capacity: Option<u64>,
    fills: Vec<f64>,
    is_held: bool,
    held_by: Option<i32>,
}

/// A running observation.
struct Observer<'a> {
    proc: &'a Proc,
    plan: &'a Plan,
    looker: Option<&'a mut Looker>,
    snapshot: Snapshot,
    asked: BTreeSet<ProcessId>,
    tallies: BTreeMap<ProcessId, Tally>,
    pipes: BTreeMap<PipeId, Seen>,
}

/// Observes pipelines. `pause` waits for that long at most, and returns false to end the
/// observation early. Without a looker no pipe is opened.
pub fn observe(
    proc: &Proc,
    plan: &Plan,
    looker: Option<&mut Looker>,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Observation {
    let start = Instant::now();
    let cost_before = own_time();
    let mut observer = Observer {
        proc,
        plan,
        looker,
        snapshot: Snapshot::default(),
        asked: BTreeSet::new(),
        tallies: BTreeMap::new(),
        pipes: BTreeMap::new(),
    };
    observer.search_all(true);
    observer.sample(true);
    observer.follow(true);
    let mut samples = 1;
    let mut search_interval = MIN_SEARCH_INTERVAL;
    let (mut next_look, mut next_search) = (Instant::now(), Instant::now() + search_interval);
    loop {
        let before = own_time();
        observer.sample(samples % NEIGHBOUR_SAMPLES == 0);
        samples += 1;
        let cost = own_time().saturating_sub(before);
        if Instant::now() >= next_look {
            observer.look();
            next_look = Instant::now() + LOOK_INTERVAL;
        }
        if Instant::now() >= next_search {
            observer.search_new();
            search_interval = (2 * search_interval).min(MAX_SEARCH_INTERVAL);
            next_search = Instant::now() + search_interval;
        }
        let left = plan.window.saturating_sub(start.elapsed());
        let interval = cost.div_f64(BUDGET).clamp(MIN_INTERVAL, MAX_INTERVAL);
        if left.is_zero() || !pause(interval.min(left)) {
            break;
        }
    }
    // The last states and the pipes belong together: processes that did not run since have
    // both.
    observer.search_all(false);
    observer.sample(true);
    observer.follow(false);
    let wall = start.elapsed();
    let spent = own_time().saturating_sub(cost_before);
    observer.finish(samples + 1, wall, spent)
}

/// Processor time of this thread.
fn own_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Observer<'_> {
    fn excluded(&self) -> Vec<i32> {
        let helpers = self.looker.iter().flat_map(|looker| looker.pids());
        let excluded = self.plan.excluded.iter().copied();
        excluded.chain(helpers).collect()
    }

    /// Reads all processes.
    fn search_all(&mut self, is_start: bool) {
        self.snapshot = Snapshot::read(self.proc, &self.excluded());
        self.adopt(is_start);
    }

    /// Reads the known processes, and those that they have started.
    fn search_new(&mut self) {
        let mut pids: BTreeSet<i32> = self.asked.iter().map(|id| id.pid).collect();
        if let Some(root) = self.plan.scope.root() {
            pids.extend(self.proc.tree(root));
        }
        for excluded in self.excluded() {
            pids.remove(&excluded);
        }
        self.snapshot.update(self.proc, &pids);
        self.adopt(false);
        for tally in self.tallies.values_mut() {
            let id = tally.process.id;
            if self.asked.contains(&id) && self.snapshot.is_running(id) {
                tally.update(self.proc);
            }
        }
    }

    /// Begins to sample the processes asked for.
    fn adopt(&mut self, is_start: bool) {
        let asked = self.snapshot.asked(self.proc, &self.plan.scope);
        let is_survey = self.plan.scope.root().is_none();
        for pid in asked {
            let process = &self.snapshot.processes[&pid];
            // A parent that waits for a child may have no pipe itself.
            if !is_survey || !process.ends.is_empty() {
                self.asked.insert(process.id);
                self.add(pid, is_start);
            }
        }
        let known: Vec<i32> = self.tallies.keys().map(|id| id.pid).collect();
        for pid in known {
            self.add(pid, is_start);
        }
    }

    fn tally(&self, process: Process, is_start: bool) -> Tally {
        let may_hold = self.tallies.len() < MAX_PIDFDS;
        Tally::new(self.proc, process, is_start, may_hold)
    }

    fn add(&mut self, pid: i32, is_start: bool) {
        if let Some(process) = self.snapshot.processes.get(&pid) {
            match self.tallies.get_mut(&process.id) {
                Some(tally) => tally.process = process.clone(),
                None => {
                    let tally = self.tally(process.clone(), is_start);
                    self.tallies.insert(process.id, tally);
                }
            }
        }
    }

    /// Begins to sample the processes that could wake those that wait, directly or through
    /// others. If one process was asked for, its neighbours belong to it.
    fn follow(&mut self, is_start: bool) {
        let mut open: Vec<ProcessId> = self.tallies.keys().copied().collect();
        while let Some(tally) = open.pop().and_then(|id| self.tallies.get(&id)) {
            let pid = tally.process.id.pid;
            let mut pids = self.snapshot.wakers(pid, &tally.threads);
            if self.asked.len() == 1 && self.asked.contains(&tally.process.id) {
                pids.extend(self.snapshot.neighbours(pid));
            }
            for process in pids
                .iter()
                .filter_map(|pid| self.snapshot.processes.get(pid))
            {
                let id = process.id;
                if !self.tallies.contains_key(&id) {
                    let mut tally = self.tally(process.clone(), is_start);
                    tally.sample(self.proc);
                    self.tallies.insert(id, tally);
                    open.push(id);
                }
            }
        }
    }

    /// Samples the processes asked for, and their neighbours if requested.
    fn sample(&mut self, with_neighbours: bool) {
        let with_neighbours = with_neighbours || self.asked.len() == 1;
        for tally in self.tallies.values_mut() {
            let is_due = with_neighbours || self.asked.contains(&tally.process.id);
            if is_due && self.snapshot.is_running(tally.process.id) {
                tally.sample(self.proc);
            }
        }
    }

    /// Looks into each pipe by one of its read ends.
    fn look(&mut self) {
        let Some(looker) = &mut self.looker else {
            return;
        };
        let mut ends: BTreeMap<PipeId, (i32, i32)> = BTreeMap::new();
        for tally in self.tallies.values() {
            if self.asked.len() > 1 && !self.asked.contains(&tally.process.id) {
                continue;
            }
            let pid = tally.process.id.pid;
            let user = || self.proc.user(pid);
            if self.plan.only_user.is_some_and(|only| user() != Some(only)) {
                continue;
            }
            for end in tally.process.ends.iter().filter(|end| end.reads) {
                ends.entry(end.pipe).or_insert((pid, end.fd));
            }
        }
        for (pipe, (pid, fd)) in ends {
            let seen = self.pipes.entry(pipe).or_default();
            if seen.is_held {
                continue;
            }
            match looker.look(self.proc, pid, fd, pipe) {
                Look::Seen { capacity, unread } => {
                    seen.capacity = Some(capacity);
                    seen.fills.push(unread as f64 / capacity.max(1) as f64);
                }
                Look::Held => {
                    seen.is_held = true;
                    let holders = self.tallies.values().map(|tally| &tally.process);
                    let mut holders = holders.filter(|it| it.pipes().contains(&pipe));
                    seen.held_by = holders
                        .find(|it| splices(self.proc, it))
                        .map(|it| it.id.pid);
                }
                Look::Unknown => {}
            }
        }
    }

    fn finish(mut self, samples: u32, wall: Duration, spent: Duration) -> Observation {
        let (proc, asked) = (self.proc, self.asked);
        let processes: Vec<Observed> = std::mem::take(&mut self.tallies)
            .into_values()
            .map(|tally| {
                let now = self.snapshot.processes.get(&tally.process.id.pid);
                tally.finish(proc, now.cloned(), &asked)
            })
            .collect();
        let mut pipes: BTreeMap<PipeId, Option<String>> = BTreeMap::new();
        for observed in processes.iter().filter(|it| it.is_asked) {
            for end in &observed.process.ends {
                pipes.entry(end.pipe).or_insert_with(|| end.path.clone());
            }
        }
        let pipe = |(id, path): (PipeId, Option<String>)| {
            let seen = self.pipes.remove(&id).unwrap_or_default();
            let count = seen.fills.len() as f64;
            Pipe {
                id,
                path,
                capacity: seen.capacity,
                fill: (count > 0.0).then(|| seen.fills.iter().sum::<f64>() / count),
                is_held: seen.is_held,
                held_by: seen.held_by,
            }
        };
        Observation {
            seconds: wall.as_secs_f64(),
            samples,
            cost: spent.as_secs_f64() / wall.as_secs_f64(),
            pipes: pipes.into_iter().map(pipe).collect(),
            processes,
            hidden: self.snapshot.hidden,
            is_survey: self.plan.scope.root().is_none(),
        }
    }
}

/// Whether a thread of a process is in a splice or a similar call.
fn splices(proc: &Proc, process: &Process) -> bool {
    let pid = process.id.pid;
    let mut threads = proc.threads(pid).into_iter();
    threads.any(|tid| is_splicing(proc, pid, tid))
}
