//! Pipelines while they run: what each stage did in the last second and in the last minute.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::tally::Slice;
use super::{Chores, MAX_SAMPLE, MIN_INTERVAL, Observation, Observed, Observer, Pipe, Plan};
use super::{Shares, own_time};
use crate::diagnosis::{Finding, Pace, diagnose};
use crate::find::{Process, ProcessId};
use crate::look::Looker;
use crate::proc::{End, PipeId, Proc};
use crate::wait::{Outside, Side};

/// Time between two moments.
pub const TICK: Duration = Duration::from_secs(1);
/// The longest time between two moments, however much each costs.
const MAX_TICK: Duration = Duration::from_secs(10);
/// Slices, of a second each, that are kept.
const MINUTE: usize = 60;
/// The stage that sets the pace is found from this many slices: few enough to follow a change.
const PACE_SLICES: usize = 5;
/// The mean fill of a pipe is that of this many looks: of a second, unless there are many pipes.
const FILL_LOOKS: usize = 4;
/// Share of one processor that the whole process and its helper may take.
const BUDGET: f64 = 0.009;
/// The longest time between two samples, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// A process is shown for this long after its end.
const SHOWN_AFTER_END: Duration = Duration::from_secs(3);
/// Stages that don't run are sampled once in this many samples.
const IDLE_SAMPLES: usize = 8;
/// Processes sampled between two readings of the clock, which cost about as much as one of them.
const BATCH: usize = 16;
/// A process with fewer samples has just started, and is not shown yet.
const MIN_SAMPLES: u32 = 5;

/// What is known about pipelines at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Time since the beginning.
    pub seconds: f64,
    /// Samples of the process with the most of them in the last second.
    pub samples: u32,
    /// Processor time of the observer and its helper in the last minute, as a share of one
    /// processor, without the first reading of all processes.
    pub cost: f64,
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
    /// Whether there may be processes that are not even listed.
    pub hides_processes: bool,
    /// The number of stages whose system calls may not be read.
    pub hidden_calls: usize,
}

/// Processes with pipes between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pipeline {
    /// The stage that sets the pace, from the last seconds.
    pub pace: Option<Pace>,
    /// Whether no stage stands out, but stages wait for each other by turns.
    pub is_by_turns: bool,
    /// For how long no stage has run.
    pub still_s: f64,
    /// The stages, in the order of the flow.
    pub stages: Vec<Stage>,
    /// The pipes between them.
    pub links: Vec<Link>,
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
    /// The pipe; its fill is that of the last second.
    #[serde(flatten)]
    pub pipe: Pipe,
}

impl Slice {
    fn window(&self) -> Window {
        let seconds = self.counted.as_secs_f64();
        let is_counted = seconds > 0.0;
        let io = self.io.filter(|_| !self.counts.splices && is_counted);
        let outside = self.counts.outside.iter();
        Window {
            samples: self.counts.samples,
            shares: self.counts.shares(),
            waits_for: outside.max_by_key(|(_, count)| **count).map(|it| *it.0),
            processor: if is_counted {
                self.ran.as_secs_f64() / seconds
            } else {
                0.0
            },
            read_per_s: io.map(|io| io.read_bytes as f64 / seconds),
            written_per_s: io.map(|io| io.written_bytes as f64 / seconds),
        }
    }
}

/// A process over the last minute.
#[derive(Debug, Default)]
struct History {
    slices: VecDeque<Slice>,
    /// Their sum.
    minute: Slice,
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
        self.slices.truncate(MINUTE - 1);
        self.slices.push_front(slice);
        self.minute = self.last(MINUTE);
    }

    /// The sum of the last slices.
    fn last(&self, count: usize) -> Slice {
        let mut sum = Slice::default();
        for slice in self.slices.iter().take(count) {
            sum.add(slice);
        }
        sum
    }

    /// Whether it was there for long enough to be shown.
    fn is_settled(&self) -> bool {
        self.minute.counts.samples >= MIN_SAMPLES
    }
}

/// A process of a pipeline.
struct Member<'a> {
    process: &'a Process,
    history: &'a History,
    is_asked: bool,
    ancestors: Vec<i32>,
}

impl Member<'_> {
    fn observed(&self, slice: &Slice) -> Observed {
        Observed {
            is_asked: self.is_asked,
            has_ended: self.history.ended.is_some(),
            // Every process counts as if it had been there all the time.
            samples: 1,
            ancestors: self.ancestors.clone(),
            ..slice.observed(self.process.clone())
        }
    }

    fn stage(&self) -> Stage {
        Stage {
            pid: self.process.id.pid,
            start: self.process.id.start,
            name: self.process.name.clone(),
            has_ended: self.history.ended.is_some(),
            second: self.history.last(1).window(),
            minute: self.history.minute.window(),
        }
    }
}

/// The pipelines among processes that are connected by pipes: several, where a process only
/// holds the ends of others' pipes.
fn pipelines(
    members: &[Member<'_>],
    pipes: &BTreeMap<PipeId, Pipe>,
    is_survey: bool,
) -> Vec<Pipeline> {
    let held: BTreeSet<PipeId> = members.iter().flat_map(|it| it.process.pipes()).collect();
    let observation = |processes: Vec<Observed>| Observation {
        processes,
        pipes: held.iter().map(|id| pipes[id].clone()).collect(),
        is_survey,
        ..Observation::default()
    };
    let of_minute = members.iter().map(|it| it.observed(&it.history.minute));
    let minute = observation(of_minute.collect());
    let recent = |it: &Member<'_>| it.observed(&it.history.last(PACE_SLICES));
    let findings = diagnose(&observation(members.iter().map(recent).collect()));
    let edges = minute.edges();
    let groups = minute.pipelines().into_iter();
    groups
        .map(|group| {
            let has = |pid: i32| group.iter().any(|it| it.process.id.pid == pid);
            let find = |it: &&Observed| members.iter().find(|m| m.process.id == it.process.id);
            let stages: Vec<&Member<'_>> = group.iter().filter_map(find).collect();
            let between = edges.iter().filter(|(from, to, _)| has(*from) && has(*to));
            let mut pipeline = Pipeline {
                stages: stages.iter().map(|it| it.stage()).collect(),
                links: between
                    .map(|(from, to, pipe)| Link {
                        from: *from,
                        to: *to,
                        pipe: pipes[pipe].clone(),
                    })
                    .collect(),
                ..Pipeline::default()
            };
            let still = stages.iter().map(|it| it.history.still).min();
            pipeline.still_s = still.unwrap_or_default().as_secs_f64();
            for finding in &findings {
                match finding {
                    Finding::Pace(pace) if has(pace.stage.pid) => {
                        pipeline.pace = Some(pace.clone());
                    }
                    Finding::Turns { stages } => {
                        pipeline.is_by_turns |= stages.iter().any(|it| has(it.pid));
                    }
                    _ => {}
                }
            }
            pipeline
        })
        .collect()
}

/// The processes that hold each pipe.
fn holders<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeMap<PipeId, Vec<&'a Process>> {
    let mut holders: BTreeMap<PipeId, Vec<&Process>> = BTreeMap::new();
    for process in processes {
        for pipe in process.pipes() {
            holders.entry(pipe).or_default().push(process);
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
    holders: &BTreeMap<PipeId, Vec<&Process>>,
) -> Option<Process> {
    let flows = |end: &End, side: Side, standard: i32| {
        let is_own = || {
            let mut all = holders[&end.pipe]
                .iter()
                .filter(|it| it.holds(end.pipe, side));
            end.fd > 2 && all.nth(1).is_none()
        };
        end.fd == standard || used.contains_key(&(end.pipe, side)) || is_own()
    };
    let ends = process.ends.iter().filter_map(|end| {
        let mut end = end.clone();
        end.reads &= flows(&end, Side::Input, 0);
        end.writes &= flows(&end, Side::Room, 1);
        (end.reads || end.writes).then_some(end)
    });
    let ends: Vec<End> = ends.collect();
    let name = || process.name.clone();
    (!ends.is_empty()).then(|| Process {
        ends,
        name: name(),
        ..*process
    })
}

/// Groups of processes that are connected by pipes: one writes and another one reads. Where
/// all do both, as with the tokens of make, nothing flows.
fn connected<'a>(processes: impl Iterator<Item = &'a Process> + Clone) -> Vec<Vec<ProcessId>> {
    let mut holders = holders(processes.clone());
    holders.retain(|pipe, all| {
        let reads = |it: &&Process| it.holds(*pipe, Side::Input);
        let writes = |it: &&Process| it.holds(*pipe, Side::Room);
        all.iter().any(reads)
            && all.iter().any(writes)
            && all.iter().any(|it| reads(it) != writes(it))
    });
    let mut left: BTreeMap<ProcessId, &Process> = processes.map(|it| (it.id, it)).collect();
    let mut groups = Vec::new();
    while let Some((id, first)) = left.pop_first() {
        let mut group = vec![id];
        let mut open = first.pipes();
        while let Some(pipe) = open.pop_first() {
            for process in holders.remove(&pipe).unwrap_or_default() {
                if left.remove(&process.id).is_some() {
                    group.push(process.id);
                    open.extend(process.pipes());
                }
            }
        }
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

/// Processor time at the end of each of the last seconds, and at the beginning of the first.
#[derive(Debug)]
struct Account(VecDeque<(Instant, Duration)>);

impl Account {
    fn close(&mut self, now: Instant, spent: Duration) {
        self.0.truncate(MINUTE);
        self.0.push_front((now, spent));
    }

    /// When the current second began.
    fn began(&self) -> Instant {
        self.0[0].0
    }

    /// How long to wait until the budget is kept since the beginning of each second: so no
    /// debt is forgotten for a minute, and no credit saved.
    fn due(&self, now: Instant, spent: Duration) -> Duration {
        let due = self.0.iter().map(|(began, before)| {
            let due = spent.saturating_sub(*before).div_f64(BUDGET);
            due.saturating_sub(now.saturating_duration_since(*began))
        });
        due.max().unwrap_or_default()
    }

    /// The share of one processor that was spent in the last minute.
    fn cost(&self) -> f64 {
        let ((now, spent), (began, before)) = (self.0[0], self.0[self.0.len() - 1]);
        let spent = spent.saturating_sub(before);
        spent.as_secs_f64() / (now - began).as_secs_f64().max(f64::MIN_POSITIVE)
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
    next_moment: Instant,
}

impl<'a> Live<'a> {
    /// Finds the processes. Without a looker no pipe is opened.
    pub fn new(proc: &'a Proc, plan: &'a Plan, looker: Option<&'a mut Looker>) -> Self {
        let mut observer = Observer::new(proc, plan, looker);
        observer.begin();
        let start = Instant::now();
        let mut live = Live {
            observer,
            chores: Chores::new(start, TICK),
            account: Account(VecDeque::new()),
            start,
            steps: 0,
            stages: Vec::new(),
            next_stage: 0,
            histories: BTreeMap::new(),
            next_moment: start + TICK,
        };
        live.close_slices(&connected(live.processes().values()), start);
        live.account.close(start, live.spent());
        live
    }

    /// Takes one sample, and does whatever else is due. Returns how long to wait before the
    /// next one.
    pub fn step(&mut self) -> Duration {
        self.sample();
        self.chores.run(&mut self.observer);
        let now = Instant::now();
        let due = self.account.due(now, self.spent());
        let earliest = now + due.saturating_sub(TICK);
        let began = self.account.began();
        self.next_moment = earliest.clamp(began + TICK, began + MAX_TICK);
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

    /// When the next moment is due: a second after the last one, or later if more than the
    /// budget of a second is owed, as with hundreds of pipelines.
    pub fn next_moment(&self) -> Instant {
        self.next_moment
    }

    /// Whether a process asked for still runs.
    pub fn has_processes(&self) -> bool {
        let asked = self.observer.asked.iter();
        let mut tallies = asked.filter_map(|id| self.observer.tallies.get(id));
        tallies.any(|tally| !tally.has_ended)
    }

    /// Processor time of this process and its helper.
    fn spent(&self) -> Duration {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(own.tv_sec as u64, own.tv_nsec as u32) + self.observer.helper_time
    }

    /// Ends the current second, and returns what is known now.
    pub fn moment(&mut self) -> Moment {
        let now = Instant::now();
        let processes = self.processes();
        let groups = connected(processes.values());
        let samples = self.close_slices(&groups, now);
        let stages = groups.iter().flatten().map(|id| &processes[id]);
        self.observer.wanted = Some(stages.flat_map(Process::pipes).collect());
        let pipes = self.close_pipes();
        let members = groups.iter().map(|group| self.members(group, &processes));
        let members: Vec<Vec<Member<'_>>> = members.collect();
        let is_survey = self.observer.plan.scope.root().is_none();
        let pipelines = members.iter().map(|it| pipelines(it, &pipes, is_survey));
        let pipelines = pipelines.flatten().collect();
        let tally = |it: &Member<'_>| self.observer.tallies.get(&it.process.id);
        let stages = members.iter().flatten().filter_map(tally);
        let hidden_calls = stages.filter(|it| it.hides_calls && !it.has_ended).count();
        self.account.close(now, self.spent());
        self.next_moment = now + TICK;
        Moment {
            seconds: (now - self.start).as_secs_f64(),
            samples,
            cost: self.account.cost(),
            pipelines,
            hidden: self.observer.scanner.snapshot.hidden,
            hides_processes: self.observer.proc.hides_processes(),
            hidden_calls,
        }
    }

    /// The processes with the pipes through which data flows.
    fn processes(&self) -> BTreeMap<ProcessId, Process> {
        let tallies = self.observer.tallies.values();
        let processes = tallies.map(|tally| &tally.process);
        let holders = holders(processes.clone());
        let unused = BTreeMap::new();
        let with_flow = processes.filter_map(|process| {
            let history = self.histories.get(&process.id);
            let used = history.map_or(&unused, |it| &it.minute.counts.on);
            Some((process.id, with_flow(process, used, &holders)?))
        });
        with_flow.collect()
    }

    /// Adds what each process did to its history. Forgets those that ended a while ago.
    /// Returns the most samples of a process.
    fn close_slices(&mut self, groups: &[Vec<ProcessId>], now: Instant) -> u32 {
        let stages: BTreeSet<ProcessId> = groups.iter().flatten().copied().collect();
        let snapshot = &self.observer.scanner.snapshot;
        let mut samples = 0;
        let mut gone = Vec::new();
        for (id, tally) in &mut self.observer.tallies {
            if !stages.contains(id) {
                if tally.has_ended || !snapshot.is_running(*id) {
                    gone.push(*id);
                }
                continue;
            }
            let slice = tally.take(self.observer.proc, &self.observer.allowance);
            samples = samples.max(slice.counts.samples);
            let Some(history) = self.histories.get_mut(id) else {
                // It was not sampled so far.
                self.histories.insert(*id, History::default());
                continue;
            };
            if slice.counts.samples > 0 || !tally.has_ended {
                history.push(slice);
            }
            if tally.has_ended {
                let ended = *history.ended.get_or_insert(now);
                if now - ended > SHOWN_AFTER_END || !history.is_settled() {
                    gone.push(*id);
                }
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

    /// What was seen of each pipe. Forgets those that are gone.
    fn close_pipes(&mut self) -> BTreeMap<PipeId, Pipe> {
        let observer = &mut self.observer;
        let ends = observer.tallies.values().flat_map(|it| &it.process.ends);
        let paths: BTreeMap<PipeId, Option<String>> =
            ends.map(|end| (end.pipe, end.path.clone())).collect();
        observer.pipes.retain(|id, _| paths.contains_key(id));
        for seen in observer.pipes.values_mut() {
            let old = seen.fills.len().saturating_sub(FILL_LOOKS);
            seen.fills.drain(..old);
        }
        let pipes = paths.into_iter();
        pipes
            .map(|(id, path)| (id, observer.pipe(id, path)))
            .collect()
    }

    fn members<'b>(
        &'b self,
        group: &[ProcessId],
        processes: &'b BTreeMap<ProcessId, Process>,
    ) -> Vec<Member<'b>> {
        let snapshot = &self.observer.scanner.snapshot;
        let members = group.iter().filter_map(|id| {
            Some(Member {
                process: processes.get(id)?,
                history: self.histories.get(id).filter(|it| it.is_settled())?,
                is_asked: self.observer.asked.contains(id),
                ancestors: snapshot.ancestors(id.pid),
            })
        });
        members.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Counts;
    use super::*;
    use crate::fixtures::{busy, observation, process, reads, writes};
    use crate::proc::Io;

    /// A second of a process, in percent of its samples.
    fn slice(working: u32, blocked: u32, starved: u32) -> Slice {
        let outside = 100 - working - blocked - starved;
        Slice {
            counts: Counts {
                samples: 100,
                working,
                blocked,
                starved,
                outside: [(Outside::Socket, outside)].into(),
                ..Counts::default()
            },
            counted: TICK,
            ran: TICK.mul_f64(f64::from(working) / 100.0),
            io: Some(Io {
                written_bytes: 1000,
                ..Io::default()
            }),
            delayed: Duration::ZERO,
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
        let mut splices = slice(50, 50, 0);
        splices.counts.splices = true;
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
    fn a_debt_is_paid_off_by_waiting_and_credit_is_not_saved() {
        let start = Instant::now();
        let mut account = Account(VecDeque::new());
        let ms = Duration::from_millis;
        account.close(start, ms(7));
        assert_eq!(account.due(start, ms(7)), ms(0));
        let spent = |ticks: f64| ms(7) + TICK.mul_f64(ticks * BUDGET);
        assert_eq!(account.due(start, spent(2.0)), 2 * TICK);
        account.close(start + TICK, spent(2.0));
        assert_eq!(account.due(start + TICK, spent(2.0)), TICK);
        // A cheap minute does not permit an expensive one.
        account.close(start + 50 * TICK, spent(2.0));
        let later = account.due(start + 50 * TICK, spent(4.0));
        assert_eq!(later, 2 * TICK);
        assert!((account.cost() - 2.0 * BUDGET / 50.0).abs() < 1e-9);
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
                let mut slice = slice.clone();
                for end in &process.ends {
                    let (side, count) = if end.reads {
                        (Side::Input, slice.counts.starved)
                    } else {
                        (Side::Room, slice.counts.blocked)
                    };
                    slice.counts.on.insert((end.pipe, side), count);
                }
                slice
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
        let observed = processes.iter().map(|it| busy(it.clone(), 0.0, 0.0, 0.0));
        let pipes = observation(observed.collect()).pipes;
        let pipes = pipes.into_iter().map(|pipe| (pipe.id, pipe));
        pipelines(&members, &pipes.collect(), false)
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
        let pace = pipeline.pace.as_ref().expect("a stage sets the pace");
        assert_eq!(pace.stage.pid, 2);
        let names: Vec<&str> = pipeline.stages.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["s1", "s2", "s3"]);
        let links: Vec<(i32, i32)> = pipeline.links.iter().map(|it| (it.from, it.to)).collect();
        assert_eq!(links, [(1, 2), (2, 3)]);
        assert_eq!(pipeline.still_s, 0.0);
    }

    #[test]
    fn a_stage_that_waits_for_a_socket_is_marked_with_it() {
        let found = chain(&[vec![slice(4, 0, 0); 9], vec![slice(3, 0, 97); 9]]);
        let pace = found[0].pace.as_ref().expect("a stage sets the pace");
        assert_eq!((pace.stage.pid, pace.outside), (1, Some(Outside::Socket)));
    }

    #[test]
    fn stages_that_wait_by_turns_are_not_blamed() {
        let found = chain(&[vec![slice(50, 50, 0); 9], vec![slice(50, 0, 50); 9]]);
        assert!(found[0].pace.is_none() && found[0].is_by_turns);
    }

    #[test]
    fn inherited_ends_and_standard_error_connect_nothing_unless_they_are_used() {
        let stage = |pid| process(pid, "a", vec![writes(1, 7), writes(2, 9), writes(251, 8)]);
        let all = [stage(1), stage(2), process(3, "b", vec![reads(5, 8)])];
        let holders = holders(all.iter());
        let unused = BTreeMap::new();
        let flowing = with_flow(&all[0], &unused, &holders).unwrap();
        assert_eq!(flowing.ends, [writes(1, 7)]);
        assert_eq!(with_flow(&all[2], &unused, &holders), Some(all[2].clone()));
        let inherits = process(4, "c", vec![writes(2, 9)]);
        assert_eq!(with_flow(&inherits, &unused, &holders), None);
        let used = [9, 8].map(|inode| ((PipeId::pipe(inode), Side::Room), 1));
        let flowing = with_flow(&all[0], &used.into(), &holders);
        assert_eq!(flowing, Some(all[0].clone()));
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
