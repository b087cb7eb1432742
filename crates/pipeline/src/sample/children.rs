//! What the children do for which a process waits: those of a shell or of xargs(1) may be too
//! short-lived to be sampled by themselves.

mod awaited;
mod child_slice;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use self::awaited::{Awaited, foreground};
pub(crate) use self::child_slice::ChildSlice;
use super::counters::MIN_PENDING;
use super::counts::{SampledActivity, activity};
use crate::graph::{Feeders, HeldEnds, Process};
use crate::proc::ticks;
use crate::proc::{LinkId, Proc, Stat};
use crate::wait::{BlockedOn, Outside, ThreadState, examine};

/// Children of a process, and of one of them, that are examined in a sample.
const MAX_CHILDREN: usize = 8;
/// Threads of a child that are examined in a sample.
const MAX_THREADS: usize = 8;
/// A process that hardly looks like having children is asked for its first one after that many samples.
const MAX_UNASKED: u32 = 5;
/// Children of children are examined down to this depth, where they wait for each other.
const MAX_DEPTH: usize = 4;

/// Samples of the children for which a process waits.
#[derive(Debug, Default)]
pub(crate) struct ChildTally {
    slice: ChildSlice,
    /// The children that were seen, and of which it is not known that they have ended.
    living: BTreeMap<ChildId, ChildTime>,
    /// Ticks that children which have ended had used before they were first seen.
    earlier: u64,
    /// The children of the process that were examined in the last sample.
    examined: Vec<i32>,
    /// Those of all that were examined in the last sample, and when that was.
    schedules: BTreeMap<i32, ChildSchedule>,
    sampled_at: Option<Instant>,
    /// When they were sampled first, in ticks since boot.
    began: Option<u64>,
    /// Whether the process had no child when they were sampled last.
    has_none: bool,
    /// For how many samples a process without children was not asked for them since.
    unasked: u32,
    /// For which of them the process waits.
    awaited: Awaited,
    /// Those that were awake in the last sample in which one was.
    busy: Vec<i32>,
}

/// A process, and when it started, in ticks since boot.
type ChildId = (i32, u64);

/// Processor time of a child and of all below it, in ticks.
#[derive(Debug, Clone, Copy)]
struct ChildTime {
    /// When it was first seen.
    first: u64,
    now: u64,
}

/// How long a child has run, and waited for a processor.
#[derive(Debug, Clone, Copy, Default)]
struct ChildSchedule {
    ran: Duration,
    delayed: Duration,
    /// How much of a wait that has not ended was counted already: the kernel counts it when it ends.
    pending: Duration,
}

/// One child at one moment.
struct Child {
    pid: i32,
    /// The processes through which it was found, which wait for it, the first one first, and itself.
    line: Vec<i32>,
    name: String,
    threads: Vec<i32>,
    states: Vec<ThreadState>,
}

impl Child {
    /// Whether it waits on pipes that its parent does not have: for another child, mostly.
    fn waits_for_others(&self, ends: &HeldEnds) -> bool {
        let is_own = |pipe: LinkId| ends.of_link(pipe).next().is_none();
        let mut states = self.states.iter();
        states.any(|state| match state {
            ThreadState::Waiting(BlockedOn::Pipes { any_of, or: None }) => {
                any_of.iter().all(|on| is_own(on.pipe))
            }
            _ => false,
        }) && !self.states.contains(&ThreadState::Working)
    }

    fn waits_for_lock(&self) -> bool {
        self.states.contains(&FILE_LOCK)
    }

    /// Whether it waits for a file lock that another of these children has, or who waits for that one.
    fn waits_for_lock_of(&self, others: &[Child], locks: &BTreeMap<i32, i32>) -> bool {
        let holder = locks.get(&self.pid).filter(|_| self.waits_for_lock());
        holder.is_some_and(|holder| {
            let mut others = others.iter();
            others.any(|other| !other.waits_for_lock() && other.line.contains(holder))
        })
    }
}

const FILE_LOCK: ThreadState = ThreadState::Waiting(BlockedOn::Outside(Outside::FileLock));

impl ChildTally {
    /// Samples the children of a process with these threads, which waits in these states.
    pub(crate) fn sample(
        &mut self,
        proc: &Proc,
        parent: &Process,
        threads: &[i32],
        states: &[&ThreadState],
    ) {
        let awaited = self.awaited.children(proc, parent, threads, states);
        if self.awaited.take_learned() {
            self.restart();
        }
        let Some(mut children) = awaited else {
            return;
        };
        children.truncate(MAX_CHILDREN);
        self.has_none = children.is_empty();
        if self.has_none {
            return;
        }
        let is_first = self.began.is_none();
        let began = *self.began.get_or_insert_with(ticks_since_boot);
        let mut seen = Vec::new();
        let mut examined = Vec::new();
        for pid in &children {
            let Some(stat) = examine_child(proc, *pid, &parent.ends, &[], &mut seen) else {
                continue;
            };
            examined.push(*pid);
            let now = used(proc, *pid, &stat, 1);
            // A new one has used nothing before.
            let first = if stat.start >= began { 0 } else { now };
            let time = self.living.entry((*pid, stat.start));
            let time = time.or_insert(ChildTime { first, now });
            time.now = time.now.max(now);
        }
        self.count_schedules(proc, &seen, is_first);
        let before = std::mem::replace(&mut self.examined, examined);
        let locks = awaited_locks(proc, &seen);
        let waits_for_lock = |child: &Child| child.waits_for_lock_of(&seen, &locks);
        let others = seen.iter().filter(|child| !waits_for_lock(child));
        let mut all: Vec<&ThreadState> = others.flat_map(|child| &child.states).collect();
        if all.is_empty() {
            // It does not wait for those that are left as zombies.
            if children.iter().any(|pid| proc.stat(*pid).is_some()) {
                return;
            }
            // Those that were there have ended since, for which they had to run.
            all.push(&ThreadState::Working);
        }
        let slice = &mut self.slice;
        let is_new = |pid: &i32| !before.contains(pid);
        slice.replaced += u32::from(self.examined.iter().all(is_new));
        let together = slice.counts.add(&all);
        let does = |child: &Child| activity(&child.states.iter().collect::<Vec<_>>());
        slice.awaited.clone_from(&self.examined);
        // Children that are a pipeline wait for those of them that do something else.
        let waits_for_others =
            |child: &Child| child.waits_for_others(&parent.ends) || waits_for_lock(child);
        let is_pipeline = !seen.iter().all(waits_for_others);
        for child in &seen {
            if is_pipeline && waits_for_others(child) {
                continue;
            }
            let states: Vec<&ThreadState> = child.states.iter().collect();
            let named = slice.names.entry(child.name.clone()).or_default();
            named.each.add(&states);
            named.below += u32::from(child.line.len() > 1);
        }
        if let Some(child) = seen.iter().find(|child| does(child) == together) {
            slice.names.entry(child.name.clone()).or_default().decided += 1;
        }
        if together == SampledActivity::Awake {
            let is_awake = |child: &&Child| does(child) == SampledActivity::Awake;
            let awake = seen.iter().filter(is_awake);
            self.busy = awake.map(|child| child.pid).collect();
            slice.awake.0 += 1;
            slice.awake.1 += self.busy.len().max(1) as u32;
        }
    }

    /// Sets which children give the process data.
    pub(crate) fn set_feeders(&mut self, feeders: Feeders) {
        self.awaited.feeders = feeders;
    }

    /// The children that have ended since they were seen.
    pub(crate) fn ended(&self, proc: &Proc, parent: i32) -> Vec<ChildId> {
        let has_ended = |(pid, start): &ChildId| {
            let stat = proc.stat(*pid);
            stat.is_none_or(|stat| stat.parent != parent || stat.start != *start)
        };
        self.living.keys().copied().filter(has_ended).collect()
    }

    /// Forgets these, since their parent's counts have all that they used.
    pub(crate) fn forget(&mut self, ended: &[ChildId]) {
        for child in ended {
            self.earlier += self.living.remove(child).map_or(0, |time| time.first);
        }
    }

    /// Counts what each has run since the last sample. Which name it had meanwhile may have
    /// changed: it counts as the last one.
    fn count_schedules(&mut self, proc: &Proc, seen: &[Child], is_first: bool) {
        let now = Instant::now();
        let sampled_at = self.sampled_at.replace(now);
        let since = sampled_at.map_or(Duration::ZERO, |before| now.duration_since(before));
        let before = std::mem::take(&mut self.schedules);
        for child in seen {
            let threads = child.threads.iter();
            let of_threads = threads.filter_map(|tid| proc.schedule(child.pid, *tid));
            let mut now = of_threads.fold(ChildSchedule::default(), |sum, one| ChildSchedule {
                ran: sum.ran + one.0,
                delayed: sum.delayed + one.1,
                ..sum
            });
            let known = before.get(&child.pid);
            let new = if is_first {
                now
            } else {
                ChildSchedule::default()
            };
            let then = known.copied().unwrap_or(new);
            let named = self.slice.names.entry(child.name.clone()).or_default();
            let stands_still =
                known.is_some() && (now.ran, now.delayed) == (then.ran, then.delayed);
            if stands_still && child.states.contains(&ThreadState::Working) && since >= MIN_PENDING
            {
                now.pending = then.pending + since;
                named.delayed += since;
            }
            named.ran += now.ran.saturating_sub(then.ran);
            named.delayed += now.delayed.saturating_sub(then.delayed + then.pending);
            self.schedules.insert(child.pid, now);
        }
    }

    /// Whether the process has none, unless it has run since they were sampled last.
    pub(crate) fn has_none(&self) -> bool {
        self.has_none
    }

    /// Whether the process may have some, though it hardly looks like that: of one that had none this is asked
    /// rarely, since looking for them takes longer than a sample.
    pub(crate) fn may_exist(&mut self) -> bool {
        self.unasked = if self.has_none { self.unasked + 1 } else { 0 };
        let is_due = !self.has_none || self.unasked > MAX_UNASKED;
        if is_due {
            self.unasked = 0;
        }
        is_due
    }

    /// Those that work, or did last, if at least one was seen to in this share of the parent's samples.
    pub(crate) fn busy(&self, samples: u32, min_share: f64) -> &[i32] {
        let is_busy = f64::from(self.slice.counts.awake) > min_share * f64::from(samples);
        if is_busy { &self.busy } else { &[] }
    }

    /// Whether no child was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.slice.counts.samples == 0
    }

    /// What they did. `ended` is the processor time of those that ended.
    pub(crate) fn slice(&self, ended: Duration) -> ChildSlice {
        let living = self.living.values().map(|time| time.now - time.first);
        ChildSlice {
            ran: ended.saturating_sub(ticks(self.earlier)) + ticks(living.sum()),
            ..self.slice.clone()
        }
    }

    /// Counts anew from now on.
    pub(crate) fn restart(&mut self) {
        self.slice = ChildSlice::default();
        self.earlier = 0;
        for time in self.living.values_mut() {
            time.first = time.now;
        }
    }
}

/// The file locks for which these children wait, and who has each.
fn awaited_locks(proc: &Proc, seen: &[Child]) -> BTreeMap<i32, i32> {
    let mut seen = seen.iter();
    let waits = seen.any(Child::waits_for_lock);
    if waits {
        proc.awaited_locks()
    } else {
        BTreeMap::new()
    }
}

/// The time since boot in ticks, as the starts of processes are counted.
fn ticks_since_boot() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    (now.as_secs_f64() / ticks(1).as_secs_f64()) as u64
}

/// The threads of a process. Listing them takes as long as all else.
fn threads(proc: &Proc, pid: i32, stat: &Stat) -> Vec<i32> {
    if stat.threads == 1 {
        vec![pid]
    } else {
        proc.threads(pid)
    }
}

/// The processor time of a process and of all below it, in ticks.
fn used(proc: &Proc, pid: i32, stat: &Stat, depth: usize) -> u64 {
    let mut children = Vec::new();
    if depth < MAX_DEPTH {
        children = proc.children_of(pid, &threads(proc, pid, stat));
    }
    let children = children.into_iter().take(MAX_CHILDREN);
    let below = children.filter_map(|child| Some(used(proc, child, &proc.stat(child)?, depth + 1)));
    stat.ran_ticks + stat.children_ticks + below.sum::<u64>()
}

/// Examines a child, or its children if it waits for them. `None` if it has ended.
fn examine_child(
    proc: &Proc,
    pid: i32,
    ends: &HeldEnds,
    above: &[i32],
    seen: &mut Vec<Child>,
) -> Option<Stat> {
    let stat = proc.stat(pid).filter(|stat| stat.state != 'Z')?;
    let all = threads(proc, pid, &stat);
    // That of the program, and the latest: Java has one for each child, which waits for its end.
    let first = all.len().min(MAX_THREADS / 2);
    let last = first.max(all.len().saturating_sub(MAX_THREADS / 2));
    let threads = [&all[..first], &all[last..]].concat();
    let states = threads
        .iter()
        .filter_map(|tid| Some(examine(proc, pid, *tid, ends)?.0));
    let states: Vec<ThreadState> = states.collect();
    // By a pipe of its own it gives a child data, or takes them.
    let is_private = |pipe: LinkId| ends.of_link(pipe).next().is_none();
    let is_waiting = |state: &ThreadState| match state {
        // For that of a child's end, as timeout(1) and some shells, or for the event that it is in Node.js.
        ThreadState::Waiting(
            BlockedOn::Child(_) | BlockedOn::Outside(Outside::Signal | Outside::Event),
        ) => true,
        ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
            any_of.iter().all(|on| is_private(on.pipe))
        }
        _ => false,
    };
    let line = [above, &[pid]].concat();
    if line.len() < MAX_DEPTH && states.iter().any(is_waiting) {
        let before = seen.len();
        let (children, _) = foreground(proc, pid, &all);
        for child in children.into_iter().take(MAX_CHILDREN) {
            examine_child(proc, child, ends, &line, seen);
        }
        if seen.len() > before {
            return Some(stat);
        }
    }
    let name = proc.name(pid)?;
    seen.push(Child {
        pid,
        line,
        name,
        threads,
        states,
    });
    Some(stat)
}

#[cfg(test)]
mod tests;
