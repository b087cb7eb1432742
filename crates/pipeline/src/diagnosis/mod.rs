//! Conclusions from an observation: pure functions.

mod bottleneck;
mod deadlock;
mod finding;
mod habits;
mod mutual;
mod unread;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

pub use self::bottleneck::{Bottleneck, Certainty, Delay, Room};
pub use self::deadlock::{Deadlock, DeadlockKind, DeadlockMember, Doubt, WaitReason};
pub use self::finding::{Finding, LeakedWriteEnd, SmallCalls};
pub use self::habits::SmallPipeCause;
pub use self::mutual::{MutualWait, WaitingSide};
pub use self::unread::{IdleReader, Unread};
pub use self::verdict::{Verdict, verdict};
use crate::graph::{Edge, LinkSide, Node, Process, Stages, pipelines};
use crate::observe::{self, Observation, ObservationPlan, ObservedLink};
use crate::proc::{LinkId, Proc};
use crate::sample::{Observed, OnLink};
use crate::wait::{Outside, ThreadState};

/// A process with fewer samples, as a share of those of others, is too short-lived to judge.
const MIN_PRESENT: f64 = 0.25;

/// A process that waits for its children for this share only waits for them.
const MIN_ONLY_WAITS: f64 = 0.9;

/// With fewer samples it can't be said which stage is the bottleneck.
const MIN_SAMPLES: u32 = 4;

/// A process in a conclusion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Who {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

impl Observed {
    /// The process, for a conclusion.
    pub fn who(&self) -> Who {
        Who {
            pid: self.process.id.pid,
            name: self.process.name.clone(),
        }
    }

    /// What it waited for most, outside of pipes.
    pub fn mainly(&self) -> Option<Outside> {
        let shares = self.outside.iter();
        let most = shares.max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(*most.0)
    }

    /// Whether it was there for long enough: see [`Observation::min_samples`].
    fn is_lasting(&self, min_samples: f64) -> bool {
        self.samples > 0 && f64::from(self.samples) >= min_samples
    }

    /// The share of the time in which it waited on a pipe.
    fn share_on(&self, pipe: LinkId, side: LinkSide) -> f64 {
        let on = self.on.iter();
        on.filter(|on| on.pipe == pipe && on.side == side)
            .map(|on| on.share)
            .sum()
    }

    /// The share of the time in which it waits for a child or for a signal: timeout(1), and `wait` in
    /// some shells, wait for their signal.
    fn waits_for_children(&self) -> f64 {
        let share = |outside: Outside| self.outside.get(&outside).copied().unwrap_or(0.0);
        share(Outside::Child) + share(Outside::Signal)
    }

    /// How often the children for which it waits wait on its pipes.
    fn children_on(&self) -> impl Iterator<Item = &OnLink> {
        let children = self.children.iter().flat_map(|children| &children.on);
        children.filter(|on| self.process.holds(on.pipe, on.side))
    }
}

impl Node for Observed {
    fn process(&self) -> &Process {
        &self.process
    }

    fn ancestors(&self) -> &[i32] {
        &self.ancestors
    }

    fn waited_on(&self, link: LinkId, side: LinkSide) -> bool {
        self.share_on(link, side) > 0.0
    }

    fn only_waits_for_children(&self) -> bool {
        self.waits_for_children() >= MIN_ONLY_WAITS
    }

    fn is_idle(&self, side: LinkSide) -> bool {
        let has_none = self.io.is_some_and(|io| match side {
            LinkSide::Input => io.reads == 0,
            LinkSide::Room => io.writes == 0,
        });
        !self.splices && (self.is_frozen || has_none)
    }

    fn is_frozen(&self) -> bool {
        self.is_frozen
    }
}

impl Observation {
    /// The processes that still ran at the end.
    pub fn living(&self) -> impl Iterator<Item = &Observed> {
        self.processes.iter().filter(|process| !process.has_ended)
    }

    /// The processes that held an end of a pipe, also those that have ended.
    pub(crate) fn holders(&self, pipe: LinkId, side: LinkSide) -> impl Iterator<Item = &Observed> {
        self.processes
            .iter()
            .filter(move |process| process.process.holds(pipe, side))
    }

    /// Whether a process descends from another one.
    fn descends(&self, child: &Observed, from: i32) -> bool {
        child.process.parent == from || child.ancestors.contains(&from)
    }

    fn stages(&self) -> Stages<'_, Observed, impl Fn(&Observed, LinkId) -> bool> {
        let min = self.min_samples();
        Stages {
            nodes: &self.processes,
            is_lasting: move |process: &Observed, _| process.is_lasting(min),
        }
    }

    /// The processes that use an end of a pipe for most of the time.
    pub fn users(&self, pipe: LinkId, side: LinkSide) -> Vec<&Observed> {
        self.stages().users(pipe, side)
    }

    /// A process with fewer samples was not there for long enough to judge it.
    fn min_samples(&self) -> f64 {
        let most = self.processes.iter().map(|process| process.samples).max();
        MIN_PRESENT * f64::from(most.unwrap_or(0))
    }

    /// The number of pipes that were seen between short-lived processes, as in a loop of short
    /// pipelines.
    pub fn short_lived_pipes(&self) -> usize {
        let min = self.min_samples();
        let is_short = |process: &&Observed| process.is_asked && !process.is_lasting(min);
        let between = |pipe: &&ObservedLink| {
            let mut readers = self.holders(pipe.id, LinkSide::Input).filter(is_short);
            readers.any(|reader| {
                let mut writers = self.holders(pipe.id, LinkSide::Room).filter(is_short);
                writers.any(|writer| writer.process.id != reader.process.id)
            })
        };
        self.pipes.iter().filter(between).count()
    }

    /// Whether there were too few samples to say which stage is the bottleneck.
    pub fn is_too_short(&self) -> bool {
        self.samples < MIN_SAMPLES
    }

    /// Whether nothing worked in the last sample, so that a longer observation may show
    /// that nothing will.
    pub fn is_still(&self) -> bool {
        let mut states = self.living().flat_map(|process| &process.threads);
        states.all(|state| !matches!(state, ThreadState::Working | ThreadState::Disk))
    }

    /// Pairs of a writer and a reader that were asked for, with the pipe between them. If only
    /// one process was asked for, its neighbours belong to it.
    pub fn edges(&self) -> Vec<Edge> {
        let asked = self.processes.iter().filter(|process| process.is_asked);
        let asked: BTreeSet<i32> = asked.map(|process| process.process.id.pid).collect();
        let mut edges = self.stages().edges(self.pipes.iter().map(|pipe| pipe.id));
        edges.retain(|(from, to, _)| {
            let (from, to) = (asked.contains(from), asked.contains(to));
            from && to || asked.len() == 1 && (from || to)
        });
        edges
    }

    /// The pipelines: groups of processes with pipes between them, each in the order of the
    /// flow.
    pub fn pipelines(&self) -> Vec<Vec<&Observed>> {
        self.in_order(&self.edges())
    }

    /// The groups of processes that are connected by edges, each in the order of the flow.
    fn in_order(&self, edges: &[Edge]) -> Vec<Vec<&Observed>> {
        let min = self.min_samples();
        let lasting = self
            .processes
            .iter()
            .filter(|process| process.is_lasting(min));
        let by_number: BTreeMap<i32, &Observed> =
            lasting.map(|process| (process.number(), process)).collect();
        let groups = pipelines(by_number.keys().copied(), edges).into_iter();
        let members = |group: Vec<i32>| group.iter().map(|number| by_number[number]).collect();
        groups.map(members).collect()
    }

    /// A process by its number.
    pub fn find(&self, pid: i32) -> Option<&Observed> {
        self.living().find(|process| process.process.id.pid == pid)
    }
}

/// Observes pipelines (see [`observe::observe`]): who has the ends of each pipe is read again where
/// a finding depends on it.
pub fn observe(
    proc: &Proc,
    plan: &ObservationPlan,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Observation {
    let needs_all =
        |observation: &Observation| diagnose(observation).iter().any(Finding::needs_all);
    let mut observation = observe::observe(proc, plan, needs_all, pause);
    let findings = diagnose(&observation).into_iter();
    let still = findings.filter(|finding| finding.is_stuck() || finding.is_standstill());
    let mut pids: BTreeSet<i32> = BTreeSet::new();
    for finding in still {
        pids.extend(finding.named().into_iter().map(|who| who.pid));
    }
    for observed in &mut observation.processes {
        let pid = observed.process.id.pid;
        if pids.contains(&pid) && !observed.has_ended {
            observed.language = proc.language(pid);
            let idle = proc.idle_time(pid).filter(|_| observed.is_frozen);
            observed.idle_s = idle.map(|idle| idle.as_secs_f64());
        }
    }
    observation
}

/// The conclusions, the worst first.
pub fn diagnose(observation: &Observation) -> Vec<Finding> {
    let deadlocks = deadlock::deadlocks(observation);
    let held = habits::held(observation);
    let mut findings: Vec<Finding> = deadlocks.into_iter().map(Finding::Deadlock).collect();
    findings.extend(held);
    let tied = findings.iter().flat_map(Finding::tied);
    let tied: BTreeSet<i32> = tied.map(|who| who.pid).collect();
    findings.sort_by_key(|finding| !finding.is_stuck());
    let mut leaked = habits::leaked_write_ends(observation, &tied);
    let unread = unread::find(observation, &tied);
    let mut bottlenecks = bottleneck::bottlenecks(observation, &tied);
    // A stage that does not write or read at all is no bottleneck.
    bottlenecks.retain(|finding| match finding {
        Finding::Bottleneck(bottleneck) => {
            let (mut unread, mut leaked) = (unread.iter(), leaked.iter());
            let is_reader = unread.any(|unread| unread.is_reader(&bottleneck.stage));
            let is_last = leaked.any(|leaked| leaked.is_last && leaked.holder == bottleneck.stage);
            !is_reader && !is_last
        }
        _ => true,
    });
    // What a reader waits for may come once it has read what it leaves.
    leaked.retain(|leaked| !unread.iter().any(|unread| unread.is_reader(&leaked.reader)));
    let mutual = mutual::find(observation, &tied);
    leaked.retain(|leaked| !mutual.iter().any(|mutual| mutual.is_side(&leaked.reader)));
    // Who takes turns goes on.
    bottlenecks.retain(|finding| match finding {
        Finding::PingPong { stages, .. } => !unread.iter().any(|unread| {
            let mut stages = stages.iter();
            stages.any(|stage| *stage == unread.writer || unread.is_reader(stage))
        }),
        _ => true,
    });
    findings.extend(unread.into_iter().map(Finding::Unread));
    findings.extend(mutual.into_iter().map(Finding::MutualWait));
    findings.extend(bottlenecks);
    findings.extend(leaked.into_iter().map(Finding::LeakedWriteEnd));
    findings.extend(
        habits::small_calls(observation)
            .into_iter()
            .map(Finding::SmallCalls),
    );
    findings.extend(habits::small_pipes(observation));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{busy, child_of, frozen, observation, on_input, process, reads, writes};

    use crate::proc::Io;

    /// `cat | tee >(gzip) >(xz) | wc`: xz has inherited tee's descriptor for gzip.
    #[test]
    fn filter_that_never_holds_its_writer_up_is_a_stage() {
        let child = |pid: i32, name: &str, ends| child_of(2, process(pid, name, ends));
        let ends = vec![reads(0, 7), writes(1, 8), writes(63, 9), writes(62, 10)];
        let mut tee = busy(process(2, "tee", ends), 0.1, 0.9, 0.0);
        tee.on.retain(|on| on.pipe == LinkId::pipe(10));
        let mut xz = busy(
            child(5, "xz", vec![reads(0, 10), writes(63, 9)]),
            0.9,
            0.0,
            0.1,
        );
        xz.on.retain(|on| on.side == LinkSide::Input);
        xz.ancestors = vec![2];
        let observation = observation(vec![
            busy(process(1, "cat", vec![writes(1, 7)]), 0.1, 0.9, 0.0),
            tee,
            busy(process(3, "wc", vec![reads(0, 8)]), 0.1, 0.0, 0.9),
            busy(child(4, "gzip", vec![reads(0, 9)]), 0.2, 0.0, 0.8),
            xz,
        ]);
        assert_eq!(observation.pipelines()[0].len(), 5);
    }

    /// Pipelines whose last stages, and whose errors, go to the same reader.
    #[test]
    fn pipelines_are_joined_only_by_a_collector_they_write_to() {
        let pipeline = |first: i32, writes_much: bool| {
            let pipe = first as u64;
            let ends = vec![writes(1, pipe), writes(2, 99), writes(251, 99)];
            let seq = process(first, "seq", ends);
            let wc = process(first + 1, "wc", vec![reads(0, pipe), writes(1, 99)]);
            let mut wc = busy(wc, 0.9, 0.0, 0.1);
            wc.on.retain(|on| on.side == LinkSide::Input);
            if !writes_much {
                wc.io = wc.io.map(|io| Io { writes: 0, ..io });
            }
            let mut seq = busy(seq, 0.1, 0.9, 0.0);
            seq.on.retain(|on| on.pipe == LinkId::pipe(pipe));
            [seq, wc]
        };
        let all = |writes_much| {
            let both = [pipeline(1, writes_much), pipeline(11, writes_much)];
            let runner = frozen(process(30, "runner", vec![reads(7, 99)]), on_input(99));
            let all = both.into_iter().flatten().chain([runner]);
            let observation = observation(all.collect());
            let pipelines = observation.pipelines().into_iter();
            let pids =
                pipelines.map(|stages| stages.iter().map(|stage| stage.process.id.pid).collect());
            pids.collect::<Vec<Vec<i32>>>()
        };
        assert_eq!(all(false), [[1, 2], [11, 12]]);
        assert_eq!(all(true), [[1, 11, 2, 12, 30]]);
    }

    /// Programs rely on them: a change is one of the schema.
    #[test]
    fn each_finding_has_its_keys() {
        let who = || Who {
            pid: 1,
            name: "a".to_owned(),
        };
        let pipe = LinkId::pipe(7);
        let deadlock = Deadlock {
            kind: DeadlockKind::AllRead,
            certainty: Certainty::Clear,
            doubts: Vec::new(),
            members: Vec::new(),
            waiting: Vec::new(),
        };
        let held = Finding::Held {
            pipe,
            holder: None,
            is_stuck: true,
        };
        let leaked = LeakedWriteEnd {
            pipe,
            reader: who(),
            holder: who(),
            fd: 5,
            waits_for: Vec::new(),
            is_last: true,
        };
        let calls = SmallCalls {
            process: who(),
            side: LinkSide::Room,
            bytes_per_call: 1.0,
            calls_per_s: 1.0,
            wakes: None,
        };
        let small = Finding::SmallPipe {
            pipe,
            capacity: 8192,
            cause: SmallPipeCause::SoftLimit,
            between: Vec::new(),
        };
        let unread = Unread {
            pipe,
            writer: who(),
            fd: Some(2),
            may_be_read: false,
            are_readers_idle: true,
            has_lasted: false,
            readers: Vec::new(),
        };
        let mutual = MutualWait {
            sides: [5, 6].map(|fd| WaitingSide {
                who: who(),
                pipe,
                fd: Some(fd),
            }),
        };
        let turns = Finding::PingPong {
            stages: Vec::new(),
            delay: None,
        };
        for (finding, expected) in [
            (
                Finding::Deadlock(deadlock),
                "deadlock certainty doubts kind members waiting",
            ),
            (held, "held holder is_stuck pipe"),
            (
                Finding::LeakedWriteEnd(leaked),
                "leaked_write_end fd holder is_last pipe reader waits_for",
            ),
            (
                Finding::SmallCalls(calls),
                "small_calls bytes_per_call calls_per_s process side wakes",
            ),
            (
                Finding::Unread(unread),
                "unread are_readers_idle fd has_lasted may_be_read pipe readers writer",
            ),
            (Finding::MutualWait(mutual), "mutual_wait sides"),
            (small, "small_pipe between capacity cause pipe"),
            (turns, "ping_pong delay stages"),
        ] {
            let value = serde_json::to_value(finding).unwrap();
            let keys = value.as_object().unwrap().keys().map(String::as_str);
            let mut keys: Vec<&str> = keys.filter(|key| *key != "finding").collect();
            keys.sort_unstable();
            keys.insert(0, value["finding"].as_str().unwrap());
            assert_eq!(keys.join(" "), expected);
        }
    }

    #[test]
    fn process_that_waits_for_pipe_is_stage_also_with_children() {
        let cat = child_of(2, process(3, "cat", vec![reads(0, 7)]));
        let observation = observation(vec![
            busy(process(1, "yes", vec![writes(1, 7)]), 0.1, 0.9, 0.0),
            busy(process(2, "sh", vec![reads(0, 7)]), 0.5, 0.0, 0.5),
            busy(cat, 0.5, 0.0, 0.5),
        ]);
        assert_eq!(observation.users(LinkId::pipe(7), LinkSide::Input).len(), 2);
    }
}
