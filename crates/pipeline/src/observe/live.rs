//! Pipelines while they run: what each stage did in the last second and in the last minute.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::{Chores, MAX_SAMPLE, MIN_INTERVAL, Observation, Observed, Observer, OnPipe, Pipe};
use super::{Plan, Shares, own_time};
use crate::diagnosis::{Certainty, Finding, diagnose};
use crate::find::{Process, ProcessId};
use crate::look::Looker;
use crate::proc::{End, Io, PipeId, Proc};
use crate::wait::{Outside, Side, State};

/// Time between two moments.
pub const TICK: Duration = Duration::from_secs(1);
/// Slices, of a second each, that are kept.
const MINUTE: usize = 60;
/// The stage that sets the pace is found from so many slices: few enough to follow a change.
const PACE_SLICES: usize = 5;
/// Share of one processor that everything may take, with showing it.
const BUDGET: f64 = 0.009;
/// The longest time between two samples, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// A process is shown for so long after its end.
const SHOWN_AFTER_END: Duration = Duration::from_secs(3);
/// Stages that don't run are sampled only so rarely.
const IDLE_SAMPLES: usize = 8;
/// Between two looks at the clock, which cost about as much as a sample of a process.
const BATCH: usize = 16;
/// A process with fewer samples has just started, and is not shown yet.
const MIN_SAMPLES: u32 = 5;

/// What is known about pipelines at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Time since the beginning.
    pub seconds: f64,
    /// Samples of each process in the last second.
    pub samples: u32,
    /// Processor time of the observer in the last minute, with its helper, as a share of one
    /// processor.
    pub cost: f64,
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
}

/// Processes with pipes between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pipeline {
    /// The stage that sets the pace.
    pub pace: Option<PaceSetter>,
    /// Whether no stage stands out, but stages wait for each other by turns.
    pub is_by_turns: bool,
    /// For how long no stage has run.
    pub still_s: f64,
    /// The stages, in the order of the flow.
    pub stages: Vec<Stage>,
    /// The pipes between them.
    pub links: Vec<Link>,
}

impl Pipeline {
    /// Whether a stage sets the pace.
    pub fn sets_pace(&self, stage: &Stage) -> bool {
        self.pace.is_some_and(|pace| pace.pid == stage.pid)
    }
}

/// The stage that sets the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PaceSetter {
    /// Its number.
    pub pid: i32,
    /// How certain that is.
    pub certainty: Certainty,
    /// What it waits for, if it mostly waits for something outside of pipes.
    pub waits_for: Option<Outside>,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stage {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// Whether it has ended.
    pub has_ended: bool,
    /// The last second.
    pub second: Window,
    /// The last minute.
    pub minute: Window,
}

/// What a process did during some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Window {
    /// The number of samples.
    pub samples: u32,
    /// How often it was in which state.
    pub shares: Shares,
    /// What it waited for outside of pipes, most of the time.
    pub waits_for: Option<Outside>,
    /// Processor time as a share of one processor.
    pub processor: f64,
    /// Bytes read per second, by any call that the kernel counts; `None` if not known.
    pub read_per_s: Option<f64>,
    /// Bytes written per second.
    pub written_per_s: Option<f64>,
}

/// A pipe between two stages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// The writer's number.
    pub from: i32,
    /// The reader's number.
    pub to: i32,
    /// The pipe.
    #[serde(flatten)]
    pub pipe: PipeId,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// Its capacity in bytes; `None` if it could not be opened.
    pub capacity: Option<u64>,
    /// The mean share of its capacity that was filled in the last second.
    pub fill: Option<f64>,
    /// The same in the last minute.
    pub fill_minute: Option<f64>,
    /// Whether its lock was held for long.
    pub is_held: bool,
}

/// What a process did during a second, or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Slice {
    pub(super) samples: u32,
    pub(super) working: u32,
    pub(super) disk: u32,
    pub(super) blocked: u32,
    pub(super) starved: u32,
    pub(super) stopped: u32,
    pub(super) outside: BTreeMap<Outside, u32>,
    pub(super) on: BTreeMap<(PipeId, Side), u32>,
    pub(super) splices: bool,
    pub(super) counted: Duration,
    pub(super) ran: Duration,
    pub(super) delayed: Duration,
    pub(super) io: Option<Io>,
}

impl Slice {
    /// The sum of several slices.
    fn sum<'a>(slices: impl Iterator<Item = &'a Slice>) -> Slice {
        let mut all = Slice::default();
        for slice in slices {
            all.samples += slice.samples;
            all.working += slice.working;
            all.disk += slice.disk;
            all.blocked += slice.blocked;
            all.starved += slice.starved;
            all.stopped += slice.stopped;
            for (outside, count) in &slice.outside {
                *all.outside.entry(*outside).or_default() += count;
            }
            for (on, count) in &slice.on {
                *all.on.entry(*on).or_default() += count;
            }
            all.splices |= slice.splices;
            all.counted += slice.counted;
            all.ran += slice.ran;
            all.delayed += slice.delayed;
            // They can't be read any more in the second in which the process ended.
            if let Some(io) = slice.io {
                let sum = all.io.get_or_insert_default();
                sum.read_bytes += io.read_bytes;
                sum.written_bytes += io.written_bytes;
                sum.reads += io.reads;
                sum.writes += io.writes;
            }
        }
        all
    }

    fn share(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.samples.max(1))
    }

    fn shares(&self) -> Shares {
        Shares {
            working: self.share(self.working),
            disk: self.share(self.disk),
            blocked: self.share(self.blocked),
            starved: self.share(self.starved),
            elsewhere: self.share(self.outside.values().sum()),
            stopped: self.share(self.stopped),
        }
    }

    /// Whether the process ran.
    fn has_run(&self) -> bool {
        self.working > 0 || self.disk > 0 || !self.ran.is_zero()
    }

    fn window(&self) -> Window {
        let seconds = self.counted.as_secs_f64();
        let per_s = |count: u64| count as f64 / seconds;
        let io = self.io.filter(|_| !self.splices && seconds > 0.0);
        let most = self.outside.iter().max_by_key(|(_, count)| **count);
        Window {
            samples: self.samples,
            shares: self.shares(),
            waits_for: most.map(|(outside, _)| *outside),
            processor: if seconds > 0.0 {
                self.ran.as_secs_f64() / seconds
            } else {
                0.0
            },
            read_per_s: io.map(|io| per_s(io.read_bytes)),
            written_per_s: io.map(|io| per_s(io.written_bytes)),
        }
    }
}

/// A process over the last minute.
#[derive(Debug, Default)]
struct History {
    slices: VecDeque<Slice>,
    /// How long the process has not run.
    still: Duration,
    ended: Option<Instant>,
}

impl History {
    fn push(&mut self, slice: Slice) {
        self.still = if slice.has_run() {
            Duration::ZERO
        } else {
            self.still + slice.counted
        };
        if self.slices.len() == MINUTE {
            self.slices.pop_front();
        }
        self.slices.push_back(slice);
    }

    /// The last so many slices.
    fn last(&self, count: usize) -> Slice {
        Slice::sum(self.slices.iter().rev().take(count))
    }
}

/// How full a pipe was: sums and numbers of looks, a second each.
#[derive(Debug, Default)]
struct Fills(VecDeque<(f64, usize)>);

impl Fills {
    fn push(&mut self, fills: &[f64]) {
        if self.0.len() == MINUTE {
            self.0.pop_front();
        }
        self.0.push_back((fills.iter().sum(), fills.len()));
    }

    /// The mean over the last so many seconds.
    fn mean(&self, seconds: usize) -> Option<f64> {
        let last = self.0.iter().rev().take(seconds);
        let (sum, count) = last.fold((0.0, 0), |(sum, count), one| (sum + one.0, count + one.1));
        (count > 0).then(|| sum / count as f64)
    }
}

/// A process, with all that is known about it.
#[derive(Debug)]
struct Member<'a> {
    process: &'a Process,
    history: &'a History,
    is_asked: bool,
    ancestors: Vec<i32>,
}

impl Member<'_> {
    /// What it did in the last so many seconds. Every process counts as if it had been there
    /// all the time.
    fn observed(&self, slices: usize) -> Observed {
        let slice = self.history.last(slices);
        let share = |count: u32| slice.share(count);
        let outside = slice.outside.iter();
        let on = slice.on.iter();
        Observed {
            process: self.process.clone(),
            is_asked: self.is_asked,
            has_ended: self.history.ended.is_some(),
            samples: 1,
            shares: slice.shares(),
            outside: outside.map(|(key, count)| (*key, share(*count))).collect(),
            on: on
                .map(|((pipe, side), count)| OnPipe {
                    pipe: *pipe,
                    side: *side,
                    share: share(*count),
                })
                .collect(),
            is_frozen: !slice.has_run(),
            threads: Vec::<State>::new(),
            counted_s: slice.counted.as_secs_f64(),
            ran_s: slice.ran.as_secs_f64(),
            delayed_s: slice.delayed.as_secs_f64(),
            io: slice.io,
            splices: slice.splices,
            handled_signals: 0,
            ancestors: self.ancestors.clone(),
        }
    }

    fn stage(&self) -> Stage {
        Stage {
            pid: self.process.id.pid,
            start: self.process.id.start,
            name: self.process.name.clone(),
            has_ended: self.history.ended.is_some(),
            second: self.history.last(1).window(),
            minute: self.history.last(MINUTE).window(),
        }
    }
}

/// The pipelines that some processes form, which are connected by pipes.
fn pipelines(
    members: &[Member<'_>],
    links: &BTreeMap<PipeId, Link>,
    is_survey: bool,
) -> Vec<Pipeline> {
    let observation = |slices: usize| {
        let pipe = |link: &Link| Pipe {
            id: link.pipe,
            path: link.path.clone(),
            capacity: link.capacity,
            fill: link.fill,
            is_held: link.is_held,
            held_by: None,
        };
        let held: BTreeSet<PipeId> = members.iter().flat_map(|it| it.process.pipes()).collect();
        Observation {
            processes: members.iter().map(|it| it.observed(slices)).collect(),
            pipes: held
                .iter()
                .filter_map(|id| links.get(id))
                .map(pipe)
                .collect(),
            is_survey,
            ..Observation::default()
        }
    };
    let (minute, recent) = (observation(MINUTE), observation(PACE_SLICES));
    let edges = minute.edges();
    let findings = diagnose(&recent);
    let find = |id: ProcessId| members.iter().find(|it| it.process.id == id);
    let groups = minute.pipelines().into_iter();
    groups
        .map(|group| {
            let stages = group.iter().filter_map(|it| find(it.process.id));
            let stages: Vec<&Member<'_>> = stages.collect();
            let has = |pid: i32| stages.iter().any(|it| it.process.id.pid == pid);
            let mut pace = None;
            let mut is_by_turns = false;
            for finding in &findings {
                match finding {
                    Finding::Pace(found) if has(found.stage.pid) => {
                        let shares = &found.shares;
                        let is_outside = shares.elsewhere > shares.working.max(shares.disk);
                        pace = Some(PaceSetter {
                            pid: found.stage.pid,
                            certainty: found.certainty,
                            waits_for: found.outside.filter(|_| is_outside),
                        });
                    }
                    Finding::Turns { stages } => is_by_turns |= stages.iter().any(|it| has(it.pid)),
                    _ => {}
                }
            }
            let own = edges.iter().filter(|(from, to, _)| has(*from) && has(*to));
            let own = own.filter_map(|(from, to, pipe)| {
                Some(Link {
                    from: *from,
                    to: *to,
                    ..links.get(pipe)?.clone()
                })
            });
            let still = stages.iter().map(|it| it.history.still).min();
            Pipeline {
                pace,
                is_by_turns,
                still_s: still.unwrap_or_default().as_secs_f64(),
                stages: stages.iter().map(|it| it.stage()).collect(),
                links: own.collect(),
            }
        })
        .collect()
}

/// How many processes have which side of a pipe.
fn holders<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeMap<(PipeId, Side), usize> {
    let mut holders = BTreeMap::new();
    for process in processes {
        for pipe in process.pipes() {
            for side in [Side::Input, Side::Room] {
                *holders.entry((pipe, side)).or_default() += usize::from(process.holds(pipe, side));
            }
        }
    }
    holders
}

/// A process with those of its pipes through which data probably flows: standard input and
/// output, pipes on which it waited, and pipes that no other process has. Others are mostly
/// inherited by accident, and standard error is often collected from all stages.
fn with_flow(
    process: &Process,
    used: &BTreeMap<(PipeId, Side), u32>,
    holders: &BTreeMap<(PipeId, Side), usize>,
) -> Process {
    let flows = |end: &End, side: Side, standard: i32| {
        let key = (end.pipe, side);
        let is_own = || end.fd > 2 && holders.get(&key) == Some(&1);
        end.fd == standard || used.contains_key(&key) || is_own()
    };
    let mut process = process.clone();
    for end in &mut process.ends {
        end.reads &= flows(end, Side::Input, 0);
        end.writes &= flows(end, Side::Room, 1);
    }
    process.ends.retain(|end| end.reads || end.writes);
    process
}

/// Groups of processes that are connected by pipes: one writes and another one reads. Where
/// all do both, as with the tokens of make, nothing flows.
fn connected<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<Vec<ProcessId>> {
    let mut holders: BTreeMap<PipeId, Vec<(ProcessId, bool, bool)>> = BTreeMap::new();
    let mut pipes: BTreeMap<ProcessId, BTreeSet<PipeId>> = BTreeMap::new();
    for process in processes {
        pipes.insert(process.id, process.pipes());
        for pipe in process.pipes() {
            let (reads, writes) = (
                process.holds(pipe, Side::Input),
                process.holds(pipe, Side::Room),
            );
            holders
                .entry(pipe)
                .or_default()
                .push((process.id, reads, writes));
        }
    }
    holders.retain(|_, all| {
        let (mut reader, mut writer, mut both) = (false, false, 0);
        for (_, reads, writes) in all.iter() {
            reader |= reads & !writes;
            writer |= writes & !reads;
            both += usize::from(*reads && *writes);
        }
        reader && writer || both > 0 && (reader || writer)
    });
    let mut groups = Vec::new();
    while let Some((first, own)) = pipes.pop_first() {
        let mut group = vec![first];
        let mut open: Vec<PipeId> = own.into_iter().collect();
        while let Some(pipe) = open.pop() {
            for (id, ..) in holders.remove(&pipe).unwrap_or_default() {
                if let Some(own) = pipes.remove(&id) {
                    group.push(id);
                    open.extend(own);
                }
            }
        }
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

/// Processor time of this process.
fn process_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Processor time spent within the budget: a debt is paid off by waiting.
#[derive(Debug)]
struct Account {
    began: Instant,
    spent_before: Duration,
    debt: Duration,
    /// Time and processor time of the last minute, a second each.
    last: VecDeque<(Duration, Duration)>,
}

impl Account {
    fn new(now: Instant, spent: Duration) -> Self {
        Account {
            began: now,
            spent_before: spent,
            debt: Duration::ZERO,
            last: VecDeque::new(),
        }
    }

    /// How long to wait until what was spent is within the budget.
    fn due(&self, now: Instant, spent: Duration) -> Duration {
        let owed = self.debt + spent.saturating_sub(self.spent_before);
        let due = owed.div_f64(BUDGET);
        due.saturating_sub(now.saturating_duration_since(self.began))
    }

    /// Ends a second. Only debts are carried over, since a credit would be spent at once.
    fn close(&mut self, now: Instant, spent: Duration) {
        let wall = now.saturating_duration_since(self.began);
        let cost = spent.saturating_sub(self.spent_before);
        self.debt = (self.debt + cost).saturating_sub(wall.mul_f64(BUDGET));
        if self.last.len() == MINUTE {
            self.last.pop_front();
        }
        self.last.push_back((wall, cost));
        (self.began, self.spent_before) = (now, spent);
    }

    /// The share of one processor that was spent in the last minute.
    fn cost(&self) -> f64 {
        let wall: Duration = self.last.iter().map(|one| one.0).sum();
        let spent: Duration = self.last.iter().map(|one| one.1).sum();
        spent.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Observes pipelines until it is dropped.
#[allow(missing_debug_implementations)]
pub struct Live<'a> {
    observer: Observer<'a>,
    chores: Chores,
    account: Account,
    start: Instant,
    steps: usize,
    /// The processes to sample, and whether each has run lately.
    stages: Vec<(ProcessId, bool)>,
    /// The one to begin with in the next sample.
    next_stage: usize,
    histories: BTreeMap<ProcessId, History>,
    fills: BTreeMap<PipeId, Fills>,
}

impl<'a> Live<'a> {
    /// Finds the processes. Without a looker no pipe is opened.
    pub fn new(proc: &'a Proc, plan: &'a Plan, looker: Option<&'a mut Looker>) -> Self {
        let mut observer = Observer::new(proc, plan, looker);
        observer.begin();
        let now = Instant::now();
        let account = Account::new(now, process_time() + observer.helper_time);
        let mut live = Live {
            observer,
            chores: Chores::new(now),
            account,
            start: now,
            steps: 0,
            stages: Vec::new(),
            next_stage: 0,
            histories: BTreeMap::new(),
            fills: BTreeMap::new(),
        };
        let groups = connected(live.processes().values());
        live.close_slices(&groups, now);
        live
    }

    /// Takes one sample, and does whatever else is due. Returns how long to wait before the
    /// next one.
    pub fn step(&mut self) -> Duration {
        self.sample();
        self.chores.run(&mut self.observer);
        let due = self.account.due(Instant::now(), self.spent());
        due.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// Samples the stages, those that don't run only now and then: as many as [`MAX_SAMPLE`]
    /// permits, beginning where the last sample ended.
    fn sample(&mut self) {
        let count = self.stages.len();
        let start = own_time();
        self.steps = self.steps.wrapping_add(1);
        for nth in 0..count {
            let at = (self.next_stage + nth) % count;
            let (id, is_active) = self.stages[at];
            if !is_active && !(self.steps + at).is_multiple_of(IDLE_SAMPLES) {
                continue;
            }
            if let Some(tally) = self.observer.tallies.get_mut(&id) {
                tally.sample(self.observer.proc, &self.observer.allowance);
            }
            if nth % BATCH == BATCH - 1 && own_time() - start > MAX_SAMPLE {
                self.next_stage = (at + 1) % count;
                return;
            }
        }
    }

    /// The processes with the pipes that connect stages.
    fn processes(&self) -> BTreeMap<ProcessId, Process> {
        let tallies = &self.observer.tallies;
        let holders = holders(tallies.values().map(|tally| &tally.process));
        tallies
            .iter()
            .map(|(id, tally)| {
                let history = self.histories.get(id);
                let used = history.map(|it| it.last(MINUTE).on).unwrap_or_default();
                (*id, with_flow(&tally.process, &used, &holders))
            })
            .collect()
    }

    /// When the next moment is due.
    pub fn next_moment(&self) -> Instant {
        self.account.began + TICK
    }

    /// Whether a process asked for still runs.
    pub fn has_processes(&self) -> bool {
        let mut asked = self.observer.asked.iter();
        asked.any(|id| {
            self.observer
                .tallies
                .get(id)
                .is_some_and(|it| !it.has_ended)
        })
    }

    fn spent(&self) -> Duration {
        process_time() + self.observer.helper_time
    }

    /// Ends the current second, and returns what is known now.
    pub fn moment(&mut self) -> Moment {
        let now = Instant::now();
        let processes = self.processes();
        let groups = connected(processes.values());
        let samples = self.close_slices(&groups, now);
        let links = self.close_fills();
        let pipelines = groups
            .iter()
            .flat_map(|group| self.pipelines(group, &processes, &links))
            .collect();
        self.account.close(now, self.spent());
        Moment {
            seconds: (now - self.start).as_secs_f64(),
            samples,
            cost: self.account.cost(),
            pipelines,
            hidden: self.observer.scanner.snapshot.hidden,
        }
    }

    /// Adds what each process did to its history. Forgets those that ended a while ago.
    /// Returns the most samples of a process.
    fn close_slices(&mut self, groups: &[Vec<ProcessId>], now: Instant) -> u32 {
        let stages: BTreeSet<ProcessId> = groups.iter().flatten().copied().collect();
        let mut samples = 0;
        let mut gone = Vec::new();
        for (id, tally) in &mut self.observer.tallies {
            if !stages.contains(id) {
                if tally.has_ended || !self.observer.scanner.snapshot.is_running(*id) {
                    gone.push(*id);
                }
                continue;
            }
            let slice = tally.take(self.observer.proc, &self.observer.allowance);
            samples = samples.max(slice.samples);
            let Some(history) = self.histories.get_mut(id) else {
                // It was not sampled so far.
                self.histories.insert(*id, History::default());
                continue;
            };
            if tally.has_ended {
                let ended = *history.ended.get_or_insert(now);
                if now - ended > SHOWN_AFTER_END || history.last(MINUTE).samples < MIN_SAMPLES {
                    gone.push(*id);
                }
            }
            if slice.samples > 0 || !tally.has_ended {
                history.push(slice);
            }
        }
        for id in gone {
            self.observer.tallies.remove(&id);
            self.observer.asked.remove(&id);
            self.observer.users.remove(&id);
        }
        let tallies = &self.observer.tallies;
        self.histories
            .retain(|id, _| tallies.contains_key(id) && stages.contains(id));
        let is_active = |it: &History| it.still < 2 * TICK;
        let stages = self.histories.iter();
        self.stages = stages.map(|(id, it)| (*id, is_active(it))).collect();
        samples
    }

    /// Adds what was seen of each pipe to its history. Returns all pipes, without writers and
    /// readers.
    fn close_fills(&mut self) -> BTreeMap<PipeId, Link> {
        let mut links = BTreeMap::new();
        let tallies = self.observer.tallies.values();
        let ends = tallies.flat_map(|tally| &tally.process.ends);
        for end in ends {
            links.entry(end.pipe).or_insert_with(|| Link {
                from: 0,
                to: 0,
                pipe: end.pipe,
                path: end.path.clone(),
                capacity: None,
                fill: None,
                fill_minute: None,
                is_held: false,
            });
        }
        self.observer.pipes.retain(|id, _| links.contains_key(id));
        self.fills.retain(|id, _| links.contains_key(id));
        for (id, seen) in &mut self.observer.pipes {
            let fills = self.fills.entry(*id).or_default();
            fills.push(&std::mem::take(&mut seen.fills));
            if let Some(link) = links.get_mut(id) {
                link.capacity = seen.capacity;
                // Pipes are looked into less often if there are many.
                link.fill = (1..=MINUTE).find_map(|seconds| fills.mean(seconds));
                link.fill_minute = fills.mean(MINUTE);
                link.is_held = seen.is_held;
            }
        }
        links
    }

    fn pipelines(
        &self,
        group: &[ProcessId],
        processes: &BTreeMap<ProcessId, Process>,
        links: &BTreeMap<PipeId, Link>,
    ) -> Vec<Pipeline> {
        let members = group.iter().filter_map(|id| {
            let history = self.histories.get(id)?;
            let is_settled = history.last(MINUTE).samples >= MIN_SAMPLES;
            Some(Member {
                process: processes.get(id)?,
                history,
                is_asked: self.observer.asked.contains(id),
                ancestors: self.observer.scanner.snapshot.ancestors(id.pid),
            })
            .filter(|_| is_settled)
        });
        let members: Vec<Member<'_>> = members.collect();
        let is_survey = self.observer.plan.scope.root().is_none();
        pipelines(&members, links, is_survey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads, writes};

    /// A second of a process, in percent of its samples.
    fn slice(working: u32, blocked: u32, starved: u32) -> Slice {
        let outside = 100 - working - blocked - starved;
        Slice {
            samples: 100,
            working,
            blocked,
            starved,
            outside: [(Outside::Socket, outside)].into(),
            counted: TICK,
            ran: TICK.mul_f64(f64::from(working) / 100.0),
            io: Some(Io {
                written_bytes: 1000,
                ..Io::default()
            }),
            ..Slice::default()
        }
    }

    fn history(slices: impl IntoIterator<Item = Slice>) -> History {
        let mut history = History::default();
        for slice in slices {
            history.push(slice);
        }
        history
    }

    #[test]
    fn the_last_second_and_the_last_minute_are_counted_apart() {
        let many = (0..70).map(|at| {
            if at < 20 {
                slice(0, 0, 100)
            } else {
                slice(100, 0, 0)
            }
        });
        let history = history(many.chain([slice(0, 100, 0)]));
        let (second, minute) = (history.last(1).window(), history.last(MINUTE).window());
        assert_eq!((second.shares.blocked, second.processor), (1.0, 0.0));
        assert_eq!((minute.samples, minute.written_per_s), (6000, Some(1000.0)));
        let expected = Shares {
            working: 50.0 / 60.0,
            blocked: 1.0 / 60.0,
            starved: 9.0 / 60.0,
            ..Shares::default()
        };
        assert_eq!(minute.shares, expected);
    }

    #[test]
    fn bytes_are_unknown_if_the_stage_splices_or_hides_them() {
        let splices = Slice {
            splices: true,
            ..slice(50, 50, 0)
        };
        let hidden = Slice {
            io: None,
            ..slice(50, 50, 0)
        };
        for unknown in [splices, hidden] {
            assert_eq!(history([unknown]).last(1).window().written_per_s, None);
        }
        assert_eq!(Slice::default().window().written_per_s, None);
    }

    #[test]
    fn a_process_is_still_since_it_ran_last() {
        let mut history = history([slice(1, 99, 0), slice(0, 100, 0), slice(0, 100, 0)]);
        assert_eq!(history.still, 2 * TICK);
        history.push(slice(1, 99, 0));
        assert_eq!(history.still, Duration::ZERO);
    }

    #[test]
    fn the_fill_is_the_mean_of_the_looks_in_that_time() {
        let mut fills = Fills::default();
        fills.push(&[0.0, 0.5]);
        fills.push(&[1.0]);
        fills.push(&[]);
        let means = [1, 2, 3].map(|seconds| fills.mean(seconds));
        assert_eq!(means, [None, Some(1.0), Some(0.5)]);
    }

    #[test]
    fn a_debt_is_paid_off_by_waiting_and_credit_is_not_saved() {
        let start = Instant::now();
        let mut account = Account::new(start, Duration::ZERO);
        let ms = Duration::from_millis;
        assert_eq!(account.due(start, ms(0)), ms(0));
        let twice = TICK.mul_f64(2.0 * BUDGET);
        assert_eq!(account.due(start, twice), 2 * TICK);
        account.close(start + TICK, twice);
        assert_eq!(account.due(start + TICK, twice), TICK);
        // A cheap minute does not permit an expensive one.
        account.close(start + 60 * TICK, twice);
        let later = account.due(start + 60 * TICK, 2 * twice);
        assert_eq!(later, 2 * TICK);
        assert!((account.cost() - 2.0 * BUDGET / 60.0).abs() < 1e-9);
    }

    /// The pipelines of a chain of processes with these seconds.
    fn chain(stages: &[Vec<Slice>]) -> Vec<Pipeline> {
        let last = stages.len() - 1;
        let processes: Vec<Process> = (0..=last)
            .map(|at| {
                let input = (at > 0).then(|| reads(0, at as u64));
                let output = (at < last).then(|| writes(1, at as u64 + 1));
                let ends = input.into_iter().chain(output).collect();
                process(at as i32 + 1, &format!("s{}", at + 1), ends)
            })
            .collect();
        let histories = processes.iter().zip(stages).map(|(process, all)| {
            let waiting = |slice: &Slice| {
                let ends = process.ends.iter();
                let on = ends.map(|end| {
                    if end.reads {
                        ((end.pipe, Side::Input), slice.starved)
                    } else {
                        ((end.pipe, Side::Room), slice.blocked)
                    }
                });
                Slice {
                    on: on.collect(),
                    ..slice.clone()
                }
            };
            history(all.iter().map(waiting))
        });
        let histories: Vec<History> = histories.collect();
        let members = processes.iter().zip(&histories);
        let members: Vec<Member<'_>> = members
            .map(|(process, history)| Member {
                process,
                history,
                is_asked: true,
                ancestors: Vec::new(),
            })
            .collect();
        let link = |inode: u64| Link {
            from: 0,
            to: 0,
            pipe: PipeId::pipe(inode),
            path: None,
            capacity: Some(65536),
            fill: Some(0.5),
            fill_minute: Some(0.5),
            is_held: false,
        };
        let links = (1..=last as u64).map(|at| (PipeId::pipe(at), link(at)));
        pipelines(&members, &links.collect(), false)
    }

    #[test]
    fn the_pace_setter_of_the_last_seconds_is_marked() {
        let before = |working| vec![slice(working, 100 - working, 0); 50];
        let after = |working| vec![slice(working, 0, 100 - working); 10];
        let found = chain(&[
            [before(100), vec![slice(5, 95, 0); 10]].concat(),
            [before(5), vec![slice(98, 1, 1); 10]].concat(),
            after(5),
        ]);
        let [pipeline] = &found[..] else {
            panic!("{found:?}");
        };
        let pace = pipeline.pace.expect("a stage sets the pace");
        assert_eq!((pace.pid, pace.waits_for), (2, None));
        let names: Vec<&str> = pipeline.stages.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["s1", "s2", "s3"]);
        let links: Vec<(i32, i32)> = pipeline.links.iter().map(|it| (it.from, it.to)).collect();
        assert_eq!(links, [(1, 2), (2, 3)]);
        assert_eq!(pipeline.still_s, 0.0);
    }

    #[test]
    fn a_stage_that_waits_for_a_socket_is_marked_with_it() {
        let found = chain(&[vec![slice(4, 0, 0); 9], vec![slice(3, 0, 97); 9]]);
        let pace = found[0].pace.expect("a stage sets the pace");
        assert_eq!((pace.pid, pace.waits_for), (1, Some(Outside::Socket)));
    }

    #[test]
    fn stages_that_wait_by_turns_are_not_blamed() {
        let found = chain(&[vec![slice(50, 50, 0); 9], vec![slice(50, 0, 50); 9]]);
        assert_eq!((found[0].pace, found[0].is_by_turns), (None, true));
    }

    #[test]
    fn inherited_ends_and_standard_error_connect_nothing_unless_they_are_used() {
        let stage = |pid| process(pid, "a", vec![writes(1, 7), writes(2, 9), writes(251, 8)]);
        let all = [stage(1), stage(2), process(3, "b", vec![reads(5, 8)])];
        let holders = holders(all.iter());
        let unused = BTreeMap::new();
        assert_eq!(with_flow(&all[0], &unused, &holders).ends, [writes(1, 7)]);
        assert_eq!(with_flow(&all[2], &unused, &holders), all[2]);
        let used = [9, 8].map(|inode| ((PipeId::pipe(inode), Side::Room), 1));
        assert_eq!(with_flow(&all[0], &used.into(), &holders), all[0]);
    }

    #[test]
    fn processes_are_connected_by_pipes_with_a_writer_and_another_reader() {
        let processes = [
            process(1, "a", vec![writes(1, 7)]),
            process(2, "b", vec![reads(0, 7), writes(1, 8)]),
            process(3, "c", vec![reads(0, 8)]),
            // Wakes itself.
            process(4, "d", vec![reads(3, 9), writes(4, 9)]),
            // Tokens.
            process(7, "make", vec![reads(3, 11), writes(4, 11)]),
            process(8, "sh", vec![reads(3, 11), writes(4, 11)]),
            // Two writers without a reader.
            process(5, "e", vec![writes(1, 10)]),
            process(6, "f", vec![writes(1, 10)]),
        ];
        let groups = connected(processes.iter());
        let pids = |group: &Vec<ProcessId>| group.iter().map(|id| id.pid).collect();
        let groups: Vec<Vec<i32>> = groups.iter().map(pids).collect();
        assert_eq!(groups, [[1, 2, 3]]);
    }
}
