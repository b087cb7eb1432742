//! Observation of pipelines for some seconds: how often each process worked or waited, for
//! what, and what it moved.

mod chores;
mod idle;
mod inherited;
mod looks;
mod observer;
mod rate;
pub(crate) mod registered;
mod renewed;
mod terminals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Serialize;

pub(crate) use self::chores::Chores;
pub(crate) use self::observer::{BATCH, MAX_SAMPLE, Observer, is_replaced};
use crate::graph::{Holders, Scope};
use crate::others::OtherProcesses;
use crate::proc::silent::SilentProcess;
use crate::proc::{LinkId, Proc};
use crate::processors::{Load, ProcessorUser, UsedTimes};
use crate::sample::Observed;
use pipespeed_base::thread::own_time;

/// The shortest time between two samples.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time between two samples of a short observation, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(100);
/// The same of a long one, which has enough samples all the same.
const MAX_LONG_INTERVAL: Duration = Duration::from_millis(200);
/// Sampling, searches and looks may take this share of one processor.
const BUDGET: f64 = 0.01;
/// A short observation may take this share where that brings [`ENOUGH_SAMPLES`].
const SHORT_BUDGET: f64 = 0.03;
/// An observation of less than this is short.
const SHORT: Duration = Duration::from_secs(60);
/// More samples are taken only within [`BUDGET`].
const ENOUGH_SAMPLES: u32 = 40;
/// The longest sample of a short observation: what [`SHORT_BUDGET`] allows in 50 ms.
const MAX_SHORT_SAMPLE: Duration = Duration::from_micros(1500);
/// The neighbours of the processes asked for are sampled only so rarely: what counts is
/// whether they can still move at the end.
const NEIGHBOUR_SAMPLES: u32 = 8;
/// Maximum time between two searches for new processes.
const MAX_SEARCH_INTERVAL: Duration = Duration::from_millis(400);

/// What to observe.
#[derive(Debug, Clone)]
pub struct ObservationPlan {
    /// The processes.
    pub scope: Scope,
    /// How long.
    pub window: Duration,
    /// Processes to leave out: those that observe.
    pub excluded: Vec<i32>,
    /// Those of the scope that were not asked for; they may be neighbours.
    pub others: OtherProcesses,
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
    pub pipes: Vec<ObservedLink>,
    /// How busy the processors were.
    pub load: Load,
    /// The processes that used most of the processors, the busiest first, where one that was observed waited for a
    /// processor.
    #[serde(skip)]
    pub(crate) users: Vec<ProcessorUser>,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
    /// The number of these in a survey among the processes asked for.
    #[serde(skip)]
    pub hidden_asked: usize,
    /// Whether descriptors of any process could be read.
    #[serde(skip)]
    pub reads_any: bool,
    /// The processes that were left out because they do not answer.
    pub silent: Vec<SilentProcess>,
    /// Whether there may be processes that are not even listed.
    pub hides_processes: bool,
    /// The number of processes asked for whose system calls may not be read.
    pub hidden_calls: usize,
    /// The processes asked for with sockets in another network namespace that was not looked into.
    pub other_networks: Vec<i32>,
    /// Whether all processes of a user or of the system were asked for.
    pub is_survey: bool,
    /// The process that was asked for, with its descendants and its process group, if one was.
    #[serde(skip)]
    pub asked: Option<i32>,
    /// What this user's pipes are made like; `None` unless one of the pipes is small.
    pub new_pipe: Option<NewPipe>,
    /// The parent of the observer, which may wait for its end.
    #[serde(skip)]
    pub own_parent: Option<i32>,
    /// What the observer itself has a write end of: who reads there may wait for its report.
    #[serde(skip)]
    pub own_output: BTreeSet<LinkId>,
    /// What the observer itself has an end of, as what it has started does: whoever it got that from may use it.
    #[serde(skip)]
    pub own_links: BTreeSet<LinkId>,
    /// Whether it has an eventfd(2), by which somebody outside may wake what it has started.
    #[serde(skip)]
    pub has_eventfd: bool,
    /// Whether a signal arrived before all processes were read.
    #[serde(skip)]
    pub is_cut_short: bool,
    /// Why sockets could not be listed, where a process asked for has one.
    #[serde(skip)]
    pub unlisted_sockets: Option<String>,
    /// Whether some processes were not examined, since too many helper processes are blocked.
    #[serde(skip)]
    pub lacks_helpers: bool,
    /// Where to find what belongs to a link.
    #[serde(skip)]
    pub(crate) index: CachedIndex,
}

/// What belongs to each link of an observation.
#[derive(Debug, Clone)]
pub(crate) struct LinkIndex {
    pub(crate) holders: Holders,
    /// Its position among the links.
    pub(crate) links: BTreeMap<LinkId, usize>,
}

/// The index of an observation, made when it is first needed. It is no part of what was observed.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedIndex(pub(crate) OnceLock<LinkIndex>);

impl PartialEq for CachedIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A pipe during the observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedLink {
    /// Its identity.
    #[serde(flatten)]
    pub id: LinkId,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// Its capacity in bytes; `None` if it could not be opened.
    pub capacity: Option<u64>,
    /// The mean share of its capacity that was filled.
    pub fill: Option<f64>,
    /// The unread bytes in it at the last look; of datagrams those of the first one only.
    pub unread: Option<u64>,
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
    /// Whether there was more at each look of the last quarter than at any of the first: not only by turns.
    #[serde(skip)]
    pub is_steady_growth: bool,
    /// The least that was found, in at least four looks.
    #[serde(skip)]
    pub least: u64,
}

impl FillChange {
    /// `latest` is the number of looks that say whether it changes now.
    fn new(looks: &[FillSample], latest: usize) -> Option<Self> {
        let ([first, ..], [.., last]) = (looks, looks) else {
            return None;
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let halves = looks.split_at(looks.len() / 2);
        let mean = |looks: &[FillSample]| {
            let sum: u64 = looks.iter().map(|look| look.bytes).sum();
            sum as f64 / looks.len() as f64
        };
        let quarter = looks.len() / 4;
        let bytes =
            |looks: &[FillSample]| looks.iter().map(|look| look.bytes).collect::<Vec<u64>>();
        let most_at_first = bytes(&looks[..quarter]).into_iter().max();
        let least_at_last = bytes(&looks[looks.len() - quarter..]).into_iter().min();
        (looks.len() > 1 && seconds > 0.0).then(|| FillChange {
            is_steady_growth: most_at_first < least_at_last,
            least: bytes(if quarter > 0 { looks } else { &[] })
                .into_iter()
                .min()
                .unwrap_or(0),
            is_constant: looks
                .iter()
                .rev()
                .take(latest)
                .all(|look| look.bytes == last.bytes),
            // The middles of the halves are half of the time apart.
            bytes_per_s: (mean(halves.1) - mean(halves.0)) / (seconds / 2.0),
        })
    }
}

/// What a look found in a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FillSample {
    at: Instant,
    bytes: u64,
    /// The share of the capacity; `None` of a socket, whose capacity is memory, not bytes.
    share: Option<f64>,
}

/// What was seen of a pipe so far.
#[derive(Debug, Default)]
pub(crate) struct PipeSamples {
    capacity: Option<u64>,
    owner: Option<u32>,
    pub(crate) fills: Vec<FillSample>,
    /// When its lock was last found held: since then nobody looked into it.
    held: Option<Instant>,
    held_by: Option<i32>,
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

/// Observes pipelines. `pause` waits for that long at most, and returns false to end the
/// observation early. `needs_all` says whether what an observation shows holds only if all
/// processes are known that have an end of a pipe: then these are read again. Without a
/// [probe](Proc::with_pipe_probe) no pipe is opened.
pub fn observe(
    proc: &Proc,
    plan: &ObservationPlan,
    needs_all: fn(&Observation) -> bool,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Observation {
    let start = Instant::now();
    let cost_before = own_time();
    let used_before = UsedTimes::read(proc);
    let mut observer = Observer::new(proc, plan);
    observer.scanner.follows_terminals = true;
    observer.begin();
    let began = Instant::now();
    let scanned = observer.spent() - cost_before;
    let sampled = || Instant::now().saturating_duration_since(began);
    let mut chores = Chores::new(began, MAX_SEARCH_INTERVAL);
    let is_short = plan.window < SHORT;
    let (budget, max_sample, max_interval) = if is_short {
        (SHORT_BUDGET, MAX_SHORT_SAMPLE, MAX_INTERVAL)
    } else {
        (BUDGET, MAX_SAMPLE, MAX_LONG_INTERVAL)
    };
    let mut count = 1;
    let mut spent = Duration::ZERO;
    loop {
        // Where a search or a look took more than its share, samples take what is left.
        let allowed = (sampled() + max_interval).mul_f64(budget);
        observer.max_sample = allowed.saturating_sub(spent).min(max_sample);
        observer.sample(count % NEIGHBOUR_SAMPLES == 0);
        count += 1;
        chores.run(&mut observer);
        let left = plan.window.saturating_sub(start.elapsed());
        spent = observer.spent() - cost_before - scanned;
        let due = |budget: f64| spent.div_f64(budget).saturating_sub(sampled());
        let enough = plan.window / ENOUGH_SAMPLES;
        let interval = if is_short && due(BUDGET) > enough {
            due(SHORT_BUDGET).max(enough)
        } else {
            due(BUDGET)
        };
        let interval = interval.clamp(MIN_INTERVAL, max_interval);
        if left.is_zero() || !pause(interval.min(left)) {
            break;
        }
    }
    // Where this process hardly gets a processor, most of it is the first search.
    let (spent, wall) = (observer.spent() - cost_before, start.elapsed());
    // The last states and the pipes belong together: processes that did not run since have
    // both.
    let changed = observer.changed();
    let excluded = observer.excluded();
    observer.scanner.read_changed(proc, &excluded, &changed);
    let mut observation = observer.conclude();
    if needs_all(&observation) {
        observer.scanner.read_all(proc, &excluded);
        observation = observer.conclude();
    }
    if observation.processes.iter().any(Observed::is_delayed) {
        observation.users = UsedTimes::read(proc).since(proc, &used_before);
    }
    let all = observer.spent() - cost_before;
    Observation {
        seconds: start.elapsed().as_secs_f64(),
        cost: (spent - scanned).as_secs_f64() / wall.as_secs_f64(),
        scan_s: (scanned + all - spent).as_secs_f64(),
        ..observation
    }
}

/// Capacity of a new pipe in bytes (PIPE_DEF_BUFFERS in include/linux/pipe_fs_i.h).
pub fn default_capacity() -> u64 {
    16 * fastpipe::pipe::page_size() as u64
}

/// Data that grows or shrinks at this share of the rate at which it is read piles up or runs out.
const MIN_CHANGE: f64 = 0.25;

/// A reader need not wait while there is enough for this time, in seconds.
const MIN_RESERVE_S: f64 = 0.1;

impl ObservedLink {
    /// Whether there was data in it, as far as it is known.
    pub(crate) fn has_data(&self) -> bool {
        self.unread.is_some_and(|bytes| bytes > 0) || self.fill.is_some_and(|fill| fill > 0.0)
    }

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

    /// Whether data piles up in it. `read_per_s` is the rate of its readers, in bytes per second: they are slower than
    /// everything before it.
    pub(crate) fn piles_up(&self, read_per_s: f64) -> bool {
        self.fill_change.is_some_and(|change| {
            change.is_steady_growth && change.bytes_per_s >= MIN_CHANGE * read_per_s
        })
    }

    /// Whether its readers, at a rate of `read_per_s` bytes per second, always had enough to read.
    pub(crate) fn has_reserve(&self, read_per_s: f64) -> bool {
        self.fill_change.is_some_and(|change| {
            let enough = MIN_RESERVE_S * read_per_s;
            !change.is_constant && change.least > 0 && change.least as f64 >= enough
        })
    }

    /// Whether it holds less than a new pipe usually does.
    pub fn is_small(&self) -> bool {
        self.capacity
            .is_some_and(|capacity| capacity < default_capacity())
    }
}
