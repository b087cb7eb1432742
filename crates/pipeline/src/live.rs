//! Pipelines while they run: what each stage did in the last second and in the last minute.

mod history;
mod moment;
mod thread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pipespeed_base::thread::own_time;
use rustix::time::{ClockId, clock_gettime};

use self::history::{History, MINUTE};
use self::moment::{LiveProcess, pipelines};
use crate::diagnosis::{Deadlock, Finding, diagnose};
use crate::graph::{LinkSide, Process, connected, links, with_flow};
use crate::observe::{
    BATCH, Chores, MAX_SAMPLE, MIN_INTERVAL, ObservationPlan, ObservedLink, Observer, is_replaced,
};
use crate::proc::{LinkId, Proc, ProcessId};
use crate::processors::{Load, ProcessorTimes};
use crate::sample::limits::ProcessorLimits;

pub use self::history::{StageWindow, TICK};
pub use self::moment::{LiveStage, Moment, Pipeline, StageLink};
pub use self::thread::LiveThread;

/// The longest time between two moments, however much each costs.
const MAX_TICK: Duration = Duration::from_secs(10);
/// A moment that is taken later than due by this much follows a pause of this process (SIGTSTP, SIGSTOP).
const MAX_DELAY: Duration = Duration::from_secs(5);
/// The mean fill of a pipe is that of this many looks: of a second, unless there are many pipes.
const FILL_LOOKS: usize = 4;
/// Whether data piles up in it is seen from this many.
const CHANGE_LOOKS: usize = 4 * FILL_LOOKS;
/// Share of one processor that the whole process and its helper may take.
const BUDGET: f64 = 0.009;
/// Of these, moments and what is done with them may take this share. It is apart from that of
/// sampling, which would use up whatever is saved for a moment.
const MOMENT_BUDGET: f64 = BUDGET / 3.0;
/// The longest time between two samples, however much each costs.
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// A process is shown for this long after its end.
const SHOWN_AFTER_END: Duration = Duration::from_secs(3);
/// A pipeline whose stages have not run for this long may be stuck.
const MIN_STILL: Duration = Duration::from_secs(3);
/// Stages that don't run are sampled once in this many samples.
const IDLE_SAMPLES: usize = 8;

/// Processor time at the end of each second of the last minute, and at the beginning of the first.
#[derive(Debug)]
struct SpentTime(VecDeque<(Instant, Duration)>);

impl SpentTime {
    fn close(&mut self, now: Instant, spent: Duration) {
        self.0.push_front((now, spent));
        let mut ends = self.0.iter();
        if let Some(oldest) =
            ends.position(|(end, _)| now.saturating_duration_since(*end) >= MINUTE)
        {
            self.0.truncate(oldest + 1);
        }
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

/// The time between two moments of this cost.
fn tick(cost: Duration) -> Duration {
    cost.div_f64(MOMENT_BUDGET).clamp(TICK, MAX_TICK)
}

/// Observes pipelines until it is dropped.
#[allow(missing_debug_implementations)]
pub struct Live<'a> {
    observer: Observer<'a>,
    chores: Chores,
    account: SpentTime,
    start: Instant,
    steps: usize,
    /// The processes to sample, and whether each has run lately.
    stages: Vec<(ProcessId, bool)>,
    /// The one to begin with in the next sample.
    next_stage: usize,
    histories: BTreeMap<ProcessId, History>,
    next_moment: Instant,
    /// Whether the last moment was taken too late.
    was_late: bool,
    /// Processes that waited for each other at the last moment.
    deadlocks: Vec<Deadlock>,
    /// How busy the processors were in the last second.
    load: Load,
    /// Processor time at the beginning of the last moment, until its cost is known.
    spent_before: Option<Duration>,
}

impl<'a> Live<'a> {
    /// Finds the processes. Without a [pipe_probe](Proc::with_pipe_probe) no pipe is opened.
    pub fn new(proc: &'a Proc, plan: &'a ObservationPlan) -> Self {
        let mut observer = Observer::new(proc, plan);
        observer.begin();
        let start = Instant::now();
        let mut live = Live {
            observer,
            chores: Chores::new(start, TICK),
            account: SpentTime(VecDeque::new()),
            start,
            steps: 0,
            stages: Vec::new(),
            next_stage: 0,
            histories: BTreeMap::new(),
            next_moment: start + TICK,
            was_late: false,
            deadlocks: Vec::new(),
            load: Load::default(),
            spent_before: None,
        };
        live.close_slices(&connected(live.processes().values()), start, false);
        live.account.close(start, live.spent());
        live
    }

    /// Takes one sample, and does whatever else is due. Returns how long to wait before the
    /// next one.
    pub fn step(&mut self) -> Duration {
        if let Some(before) = self.spent_before.take() {
            let cost = self.spent().saturating_sub(before);
            self.next_moment = self.account.began() + tick(cost);
        }
        self.sample();
        self.observer.complete();
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
        let mut examined = 0;
        let mut batch = Vec::new();
        for nth in 0..count {
            let at = (self.next_stage + nth) % count;
            let (id, is_active) = self.stages[at];
            if !is_active && !(self.steps + at).is_multiple_of(IDLE_SAMPLES) {
                continue;
            }
            examined += self.observer.look_at(id, &mut batch);
            if examined >= BATCH {
                examined = 0;
                self.observer.count(&mut batch);
                if own_time() - start > MAX_SAMPLE {
                    self.next_stage = (at + 1) % count;
                    break;
                }
            }
        }
        self.observer.count(&mut batch);
    }

    /// When the next moment is due: a second after the last one, or later if that was
    /// expensive, as with hundreds of pipelines.
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
        Duration::new(own.tv_sec as u64, own.tv_nsec as u32) + self.observer.helper_time()
    }

    /// Ends the current second, and returns what is known now.
    pub fn moment(&mut self) -> Moment {
        let now = Instant::now();
        self.spent_before = Some(self.spent());
        let processes = self.processes();
        let groups = connected(processes.values());
        let deadlocks = self.find_deadlocks(&groups);
        let since = now.saturating_duration_since(self.account.began());
        // Where each is late, this process just gets too little processor time.
        let is_late = now.saturating_duration_since(self.next_moment) > MAX_DELAY;
        let is_pause = is_late && !std::mem::replace(&mut self.was_late, is_late);
        let samples = self.close_slices(&groups, now, is_pause);
        let stages = groups.iter().flatten().map(|id| &processes[id]);
        self.observer.wanted = Some(stages.flat_map(Process::pipes).collect());
        let pipes = self.close_pipes();
        let members = groups.iter().map(|group| self.members(group, &processes));
        let members: Vec<Vec<LiveProcess<'_>>> = members.collect();
        let is_survey = self.observer.plan.scope.root().is_none();
        let graph = &self.observer.scanner.graph;
        let holders = |link: LinkId, side: LinkSide| graph.holders(link, side).collect();
        let pipelines = members
            .iter()
            .map(|members| pipelines(members, &pipes, &self.load, is_survey, &holders));
        let mut pipelines: Vec<Pipeline> = pipelines.flatten().collect();
        for pipeline in &mut pipelines {
            let mut deadlocks = deadlocks.iter();
            pipeline.stuck = deadlocks
                .find(|deadlock| pipeline.has_member(deadlock))
                .cloned();
        }
        let tally = |member: &LiveProcess<'_>| self.observer.tallies.get(&member.process.id);
        let stages = members.iter().flatten().filter_map(tally);
        let hidden_calls = stages
            .filter(|tally| tally.hides_calls && !tally.has_ended)
            .count();
        let undersampled = groups.iter().flatten().filter(|id| {
            let is_settled = |history: &History| history.is_settled();
            let tally = self.observer.tallies.get(id);
            tally.is_some_and(|tally| !tally.has_ended && tally.created.elapsed() >= TICK)
                && !self.histories.get(id).is_some_and(is_settled)
        });
        let undersampled = undersampled.count();
        self.account.close(now, self.spent());
        self.next_moment = now + TICK;
        Moment {
            seconds: (now - self.start).as_secs_f64(),
            since_s: if is_pause { TICK } else { since }.as_secs_f64(),
            samples,
            cost: self.account.cost(),
            pipelines,
            undersampled,
            hidden: self.observer.scanner.graph.count_hidden(self.observer.proc),
            silent: self.observer.proc.left_out(),
            lacks_helpers: self.observer.proc.lacks_helpers(),
            hides_processes: self.observer.proc.hides_processes(),
            hidden_calls,
        }
    }

    /// Processes that wait for each other, found as by an observation, once some stages have not
    /// run for a while. A deadlock counts once it has been found twice.
    fn find_deadlocks(&mut self, groups: &[Vec<ProcessId>]) -> Vec<Deadlock> {
        let still = |id: &ProcessId| self.histories.get(id).map(|history| history.still);
        let is_still = |id: &ProcessId| still(id).is_some_and(|time| time >= MIN_STILL);
        if !groups.iter().any(|group| group.iter().all(is_still)) {
            self.deadlocks.clear();
            return Vec::new();
        }
        self.observer.follow(false);
        self.observer.sample_all();
        let observation = self.observer.observation();
        let found = diagnose(&observation).into_iter();
        let found = found.filter_map(|finding| match finding {
            Finding::Deadlock(deadlock) => Some(deadlock),
            _ => None,
        });
        let before = std::mem::replace(&mut self.deadlocks, found.collect());
        let again = self
            .deadlocks
            .iter()
            .filter(|deadlock| before.contains(deadlock));
        again.cloned().collect()
    }

    /// The processes with the pipes through which data flows.
    fn processes(&self) -> BTreeMap<ProcessId, Process> {
        let tallies = &self.observer.tallies;
        let current = tallies.iter().filter(|(id, _)| !is_replaced(tallies, **id));
        let processes = current.map(|(_, tally)| &tally.process);
        let links = links(processes.clone());
        let unused = BTreeMap::new();
        let with_flow = processes.filter_map(|process| {
            let history = self.histories.get(&process.id);
            let used = history.map_or(&unused, |history| &history.minute.counts.on);
            Some((process.id, with_flow(process, used, &links)?))
        });
        with_flow.collect()
    }

    /// Adds what each process did to its history, unless this process itself was stopped meanwhile: what the
    /// scheduler counted then is none of the last minute. Forgets those that ended a while ago. Returns the
    /// most samples of a process.
    fn close_slices(&mut self, groups: &[Vec<ProcessId>], now: Instant, is_pause: bool) -> u32 {
        let stages: BTreeSet<ProcessId> = groups.iter().flatten().copied().collect();
        let mut limits = self.close_limits(&stages);
        let graph = &self.observer.scanner.graph;
        let mut samples = 0;
        let mut gone = Vec::new();
        for (id, tally) in &mut self.observer.tallies {
            if !stages.contains(id) {
                if tally.has_ended || !graph.is_running(*id) {
                    gone.push(*id);
                } else {
                    // Whether it stands still is seen from now on.
                    tally.take(ProcessorLimits::default());
                }
                continue;
            }
            let slice = tally.take(limits.remove(id).unwrap_or_default());
            samples = samples.max(slice.counts.samples);
            let Some(history) = self.histories.get_mut(id) else {
                // It was not sampled so far.
                self.histories.insert(*id, History::default());
                continue;
            };
            if is_pause {
                history.note_still(&slice);
            } else if slice.counts.samples > 0 || !tally.has_ended {
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
        }
        let tallies = &self.observer.tallies;
        self.histories
            .retain(|id, _| tallies.contains_key(id) && stages.contains(id));
        let is_active = |history: &History| history.still < 2 * TICK;
        let stages = self.histories.iter();
        self.stages = stages
            .map(|(id, history)| (*id, is_active(history)))
            .collect();
        samples
    }

    /// What may have kept each stage from running since the last moment. Reads its counters, and
    /// begins to count anew.
    fn close_limits(
        &mut self,
        stages: &BTreeSet<ProcessId>,
    ) -> BTreeMap<ProcessId, ProcessorLimits> {
        let observer = &mut self.observer;
        for tally in observer.tallies.values_mut() {
            if !tally.has_ended {
                tally.update(observer.proc, &observer.fd_budget);
                tally.read_allowed(observer.proc);
                tally.read_groups(observer.proc, &mut observer.quotas);
            }
        }
        let now = ProcessorTimes::read(observer.proc);
        self.load = now.since(&observer.times);
        let tallies = observer.tallies.iter();
        let stages = tallies.filter(|(id, _)| stages.contains(id));
        let limits = stages.map(|(id, tally)| (*id, observer.limits(tally, &self.load)));
        let limits = limits.collect();
        observer.times = now;
        let tallies = observer.tallies.values();
        let groups = tallies
            .flat_map(|tally| tally.groups.iter().map(|groups| &**groups))
            .collect();
        observer.quotas.restart(observer.proc, &groups);
        limits
    }

    /// What was seen of each pipe. Forgets those that are gone.
    fn close_pipes(&mut self) -> BTreeMap<LinkId, ObservedLink> {
        let observer = &mut self.observer;
        let ends = observer
            .tallies
            .values()
            .flat_map(|tally| &tally.process.ends);
        let paths: BTreeMap<LinkId, Option<String>> =
            ends.map(|end| (end.pipe, end.path.clone())).collect();
        observer.pipes.retain(|id, _| paths.contains_key(id));
        for seen in observer.pipes.values_mut() {
            let old = seen.fills.len().saturating_sub(CHANGE_LOOKS);
            seen.fills.drain(..old);
        }
        let pipes = paths.into_iter();
        pipes
            .map(|(id, path)| (id, observer.pipe(id, path, FILL_LOOKS)))
            .collect()
    }

    fn members<'b>(
        &'b self,
        group: &[ProcessId],
        processes: &'b BTreeMap<ProcessId, Process>,
    ) -> Vec<LiveProcess<'b>> {
        let graph = &self.observer.scanner.graph;
        let members = group.iter().filter_map(|id| {
            Some(LiveProcess {
                process: processes.get(id)?,
                whole: &self.observer.tallies.get(id)?.process,
                history: self
                    .histories
                    .get(id)
                    .filter(|history| history.is_settled())?,
                is_asked: self.observer.asked.contains(id),
                ancestors: graph.ancestors(id.pid),
                tally: self.observer.tallies.get(id),
                arguments: self.observer.arguments(*id),
            })
        });
        members.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_pays_off_a_debt_and_saves_no_credit() {
        let start = Instant::now();
        let mut account = SpentTime(VecDeque::new());
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

    #[test]
    fn only_expensive_moments_are_rare() {
        let of = |ticks: f64| tick(TICK.mul_f64(ticks * MOMENT_BUDGET));
        assert_eq!((of(0.1), of(1.0)), (TICK, TICK));
        assert_eq!((of(3.0), of(1000.0)), (3 * TICK, MAX_TICK));
    }
}
