//! Pipelines at one moment, and what their stages did until then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::history::{History, StageWindow};
use crate::diagnosis::{Bottleneck, Deadlock, Finding, Unread, diagnose, locked_share};
use crate::graph::{LinkSide, Process};
use crate::observe::{Observation, ObservedLink, registered};
use crate::proc::silent::SilentProcess;
use crate::proc::{LinkFd, LinkId, ProcessId};
use crate::processors::Load;
use crate::sample::Observed;
use crate::sample::slice::Slice;
use crate::sample::tally::{Tally, age};
use crate::wait::Outside;

/// The bottleneck is found from slices of this time: short enough to follow a change.
const BOTTLENECK_TIME: Duration = Duration::from_secs(5);

/// What is known about pipelines at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Time since the beginning.
    pub seconds: f64,
    /// Time since the moment before: that is what is called the last second. It is longer where there are
    /// hundreds of pipelines.
    pub since_s: f64,
    /// Samples of the process with the most of them since then.
    pub samples: u32,
    /// Processor time of the observer and its helper in the last minute, as a share of one
    /// processor, without the first reading of all processes.
    pub cost: f64,
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// The number of processes with pipes between them of which too few samples were taken to show them,
    /// though they have been there for a second.
    #[serde(skip)]
    pub undersampled: usize,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
    /// The processes that were left out because they do not answer.
    pub silent: Vec<SilentProcess>,
    /// Whether some processes were not examined, since too many helper processes are blocked.
    #[serde(skip)]
    pub lacks_helpers: bool,
    /// Whether there may be processes that are not even listed.
    pub hides_processes: bool,
    /// The number of stages whose system calls may not be read.
    pub hidden_calls: usize,
}

/// Processes with pipes between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pipeline {
    /// The bottleneck, from the last seconds.
    pub bottleneck: Option<Bottleneck>,
    /// Processes of it that wait for each other, so that none can go on.
    pub stuck: Option<Deadlock>,
    /// A writer that waits for a reader that does not read, all of the last seconds.
    pub unread: Option<Unread>,
    /// Whether no stage stands out, but stages wait for each other by turns.
    pub is_by_turns: bool,
    /// Whether no stage stands out, but stages wait for processors.
    pub lacks_processors: bool,
    /// Whether no stage stands out, though one may hold up the others.
    pub is_unclear: bool,
    /// For how long no stage has run.
    pub still_s: f64,
    /// The stages, in the order of the flow.
    pub stages: Vec<LiveStage>,
    /// The pipes between them.
    pub links: Vec<StageLink>,
}

impl Pipeline {
    /// Notes what was found, if it is about one of its stages.
    fn note(&mut self, finding: &Finding, stages: &[&LiveProcess<'_>]) {
        let has = |pid: i32| stages.iter().any(|member| member.process.id.pid == pid);
        let is_its = finding.named().iter().any(|who| has(who.pid));
        match finding {
            Finding::Bottleneck(bottleneck) if is_its && !bottleneck.is_alone() => {
                self.bottleneck = Some((**bottleneck).clone());
            }
            Finding::Unread(unread) if has(unread.writer.pid) && !unread.may_be_read => {
                let is_long = |member: &&LiveProcess<'_>| {
                    let is_writer = member.process.id.pid == unread.writer.pid;
                    is_writer && member.history.still >= BOTTLENECK_TIME
                };
                if stages.iter().any(is_long) {
                    self.unread.get_or_insert_with(|| unread.clone());
                }
            }
            Finding::PingPong { delay, .. } => {
                self.is_by_turns |= is_its && delay.is_none();
                self.lacks_processors |= is_its && delay.is_some();
            }
            Finding::Unclear { .. } => self.is_unclear |= is_its,
            _ => {}
        }
    }

    /// Whether a process of a deadlock is a stage.
    pub(super) fn has_member(&self, deadlock: &Deadlock) -> bool {
        let mut members = deadlock.members.iter().map(|member| member.who.pid);
        members.any(|pid| self.stages.iter().any(|stage| stage.pid == pid))
    }
}

/// A stage of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveStage {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// Its command line, if that was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether it has ended.
    pub has_ended: bool,
    /// The last second.
    pub second: StageWindow,
    /// The last minute.
    pub minute: StageWindow,
}

/// A pipe between two stages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageLink {
    /// The writer's number.
    pub from: i32,
    /// The reader's number.
    pub to: i32,
    /// The pipe; its fill is that of the last second.
    #[serde(flatten)]
    pub pipe: ObservedLink,
}

/// A process that is watched, with its history.
pub(super) struct LiveProcess<'a> {
    pub(super) process: &'a Process,
    /// The process with all its ends.
    pub(super) whole: &'a Process,
    pub(super) history: &'a History,
    pub(super) is_asked: bool,
    pub(super) ancestors: Vec<i32>,
    pub(super) tally: Option<&'a Tally>,
    pub(super) arguments: Option<String>,
}

impl LiveProcess<'_> {
    fn observed(&self, slice: &Slice) -> Observed {
        let observed = slice.observed(self.process.clone());
        Observed {
            is_asked: self.is_asked,
            has_ended: self.history.ended.is_some(),
            // Every process counts as if it had been there all the time.
            samples: 1,
            age_s: age(self.process.id).map_or(observed.age_s, |age| age.as_secs_f64()),
            ancestors: self.ancestors.clone(),
            threads: self.tally.map_or_else(Vec::new, Tally::threads),
            tried: self
                .tally
                .map_or_else(BTreeSet::new, |tally| tally.tried(observed.io)),
            ..observed
        }
    }

    /// `second` and `minute` are what it did then.
    fn stage(&self, second: &Observed, minute: &Observed) -> LiveStage {
        let window = |of: &Observed, slice: &Slice| StageWindow {
            shares: of.shares,
            waits_for: Outside::longest(&of.outside),
            ..slice.window()
        };
        LiveStage {
            pid: self.process.id.pid,
            start: self.process.id.start,
            name: self.process.name.clone(),
            arguments: self.arguments.clone(),
            has_ended: self.history.ended.is_some(),
            second: window(second, &self.history.second()),
            minute: window(minute, &self.history.minute),
        }
    }
}

/// Adds all ends of the links at which some wait for input, and others for a lock: these may wait for their
/// turn to read there, and were never seen to use the link.
fn add_shared_ends(observed: &mut [Observed], members: &[LiveProcess<'_>]) {
    let waits = observed.iter().flat_map(|process| &process.on);
    let waits = waits.filter(|on| on.side == LinkSide::Input && on.share > 0.0);
    let awaited: BTreeSet<LinkId> = waits.map(|on| on.pipe).collect();
    let locked = observed.iter().zip(members);
    let locked = locked.filter(|(process, _)| locked_share(process) > 0.0);
    let ends = locked.flat_map(|(_, member)| &member.whole.ends);
    let shared = ends.filter(|end| end.reads && awaited.contains(&end.pipe));
    let shared: BTreeSet<LinkId> = shared.map(|end| end.pipe).collect();
    for (process, member) in observed.iter_mut().zip(members) {
        let is_shared = |end: &&LinkFd| shared.contains(&end.pipe);
        let mut ends = process.process.ends.to_vec();
        ends.retain(|end| !is_shared(&end));
        ends.extend(member.whole.ends.iter().filter(is_shared).cloned());
        process.process.ends = ends.into();
    }
}

/// The processes without what their event loops only seem to wait for.
fn corrected(
    mut processes: Vec<Observed>,
    is_empty: impl Fn(LinkId) -> bool,
    holders: &dyn Fn(LinkId, LinkSide) -> BTreeSet<i32>,
) -> Vec<Observed> {
    registered::correct(&mut processes, is_empty);
    registered::leave_reapers(&mut processes);
    registered::leave_wakes(&mut processes, holders);
    processes
}

/// The pipelines among processes that are connected by pipes: several, where a process only
/// holds the ends of others' pipes.
pub(super) fn pipelines(
    members: &[LiveProcess<'_>],
    pipes: &BTreeMap<LinkId, ObservedLink>,
    load: &Load,
    is_survey: bool,
    holders: &dyn Fn(LinkId, LinkSide) -> BTreeSet<i32>,
) -> Vec<Pipeline> {
    let held: BTreeSet<LinkId> = members
        .iter()
        .flat_map(|member| member.process.pipes())
        .collect();
    let is_empty = |link: LinkId| {
        let pipe = pipes.get(&link);
        pipe.is_some_and(|pipe| pipe.unread == Some(0) && pipe.fill == Some(0.0))
    };
    let observation = |processes: Vec<Observed>| Observation {
        processes: corrected(processes, is_empty, holders),
        pipes: held.iter().map(|id| pipes[id].clone()).collect(),
        load: load.clone(),
        is_survey,
        ..Observation::default()
    };
    let of_minute = members
        .iter()
        .map(|member| member.observed(&member.history.minute));
    let minute = observation(of_minute.collect());
    let of_second = members
        .iter()
        .map(|member| member.observed(&member.history.second()));
    let second = observation(of_second.collect());
    let recent = |member: &LiveProcess<'_>| member.observed(&member.history.last(BOTTLENECK_TIME));
    let mut recent: Vec<Observed> = members.iter().map(recent).collect();
    add_shared_ends(&mut recent, members);
    let findings = diagnose(&observation(recent));
    let edges = minute.edges();
    let by_id = members.iter().map(|member| (member.process.id, member));
    let by_id: BTreeMap<ProcessId, &LiveProcess<'_>> = by_id.collect();
    let groups = minute.pipelines().into_iter();
    let positions = members.iter().map(|member| member.process.id).zip(0..);
    let positions: BTreeMap<ProcessId, usize> = positions.collect();
    let mut used = second.used_links();
    groups
        .map(|group| {
            let pids: BTreeSet<i32> = group.iter().map(|process| process.process.id.pid).collect();
            let has = |pid: i32| pids.contains(&pid);
            let stages = group
                .iter()
                .filter_map(|process| by_id.get(&process.process.id));
            let stages: Vec<&LiveProcess<'_>> = stages.copied().collect();
            let between = edges.iter().filter(|(from, to, _)| has(*from) && has(*to));
            let mut pipeline = Pipeline {
                stages: stages
                    .iter()
                    .map(|member| {
                        let at = positions[&member.process.id];
                        member.stage(&second.processes[at], &minute.processes[at])
                    })
                    .collect(),
                links: between
                    .map(|(from, to, pipe)| StageLink {
                        from: *from,
                        to: *to,
                        pipe: ObservedLink {
                            bytes_per_s: second.rate(*pipe, &mut used),
                            ..pipes[pipe].clone()
                        },
                    })
                    .collect(),
                ..Pipeline::default()
            };
            let still = stages.iter().map(|member| member.history.still).min();
            pipeline.still_s = still.unwrap_or_default().as_secs_f64();
            for finding in &findings {
                pipeline.note(finding, &stages);
            }
            pipeline
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        busy, frozen, observation, on_input, on_outside, process, reads, writes,
    };
    use crate::live::history::tests::{history, slice};
    use crate::sample::OnLink;

    /// The processes with their histories, below these ancestors.
    fn watched<'a>(
        processes: &'a [Process],
        histories: &'a [History],
        ancestors: &[i32],
    ) -> Vec<LiveProcess<'a>> {
        let members = processes.iter().zip(histories);
        members
            .map(|(process, history)| LiveProcess {
                process,
                whole: process,
                history,
                is_asked: true,
                ancestors: ancestors.to_vec(),
                tally: None,
                arguments: None,
            })
            .collect()
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
                        (LinkSide::Input, slice.counts.starved)
                    } else {
                        (LinkSide::Room, slice.counts.blocked)
                    };
                    slice.counts.on.insert((end.pipe, side), count);
                }
                slice
            };
            history(all.iter().map(waiting))
        });
        let histories: Vec<History> = histories.collect();
        let members = watched(&processes, &histories, &[]);
        let observed = processes
            .iter()
            .map(|process| busy(process.clone(), 0.0, 0.0, 0.0));
        let pipes = observation(observed.collect()).pipes;
        let pipes = pipes.into_iter().map(|pipe| (pipe.id, pipe));
        let nobody = |_: LinkId, _: LinkSide| BTreeSet::new();
        pipelines(&members, &pipes.collect(), &Load::default(), false, &nobody)
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
        let bottleneck = pipeline
            .bottleneck
            .as_ref()
            .expect("a stage is the bottleneck");
        assert_eq!(bottleneck.stage.pid, 2);
        let names: Vec<&str> = pipeline.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(names, ["s1", "s2", "s3"]);
        let links: Vec<(i32, i32)> = pipeline
            .links
            .iter()
            .map(|link| (link.from, link.to))
            .collect();
        assert_eq!(links, [(1, 2), (2, 3)]);
        assert_eq!(pipeline.still_s, 0.0);
    }

    #[test]
    fn stage_that_waits_for_a_socket_is_marked_with_it() {
        let found = chain(&[vec![slice(4, 0, 0); 9], vec![slice(3, 0, 97); 9]]);
        let bottleneck = found[0]
            .bottleneck
            .as_ref()
            .expect("a stage is the bottleneck");
        assert_eq!(
            (bottleneck.stage.pid, Outside::longest(&bottleneck.outside)),
            (1, Some(Outside::Socket))
        );
    }

    #[test]
    fn stages_that_wait_by_turns_are_not_blamed() {
        let found = chain(&[vec![slice(50, 50, 0); 9], vec![slice(50, 0, 50); 9]]);
        assert!(found[0].bottleneck.is_none() && found[0].is_by_turns);
    }

    /// A worker of PostgreSQL, which polls a pipe that only ends, beside an event.
    #[test]
    fn a_pipe_that_only_ends_is_none_that_a_stage_waits_for() {
        let worker = |slice: &Slice| {
            let mut slice = slice.clone();
            let death = LinkId::pipe(9);
            slice.counts.on = [((death, LinkSide::Input), slice.counts.starved)].into();
            slice.counts.polled_beside = [(death, Outside::Event)].into();
            slice
        };
        let waits = slice(0, 0, 100);
        let processes = [
            process(1, "postgres", vec![writes(1, 7), reads(5, 9)]),
            process(2, "cat", vec![reads(0, 7)]),
        ];
        let mut reader = waits.clone();
        reader.counts.on = [((LinkId::pipe(7), LinkSide::Input), 100)].into();
        let histories = [history(vec![worker(&waits); 9]), history(vec![reader; 9])];
        let members = watched(&processes, &histories, &[8]);
        let observed = processes
            .iter()
            .map(|process| busy(process.clone(), 0.0, 0.0, 0.0));
        let pipes = observation(observed.collect()).pipes;
        let pipes = pipes.into_iter().map(|pipe| (pipe.id, pipe)).collect();
        // Its first process keeps both ends.
        let holders = |link: LinkId, side: LinkSide| match (link, side) {
            (link, LinkSide::Input) if link == LinkId::pipe(9) => BTreeSet::from([1, 8]),
            (link, _) if link == LinkId::pipe(9) => BTreeSet::from([8]),
            _ => BTreeSet::new(),
        };
        let found = pipelines(&members, &pipes, &Load::default(), false, &holders);
        let stage = &found[0].stages[0];
        assert_eq!(
            (stage.second.shares.starved, stage.second.shares.elsewhere),
            (0.0, 1.0)
        );
        assert_eq!(stage.minute.waits_for, Some(Outside::Event));
        let bottleneck = found[0]
            .bottleneck
            .as_ref()
            .expect("a stage is the bottleneck");
        assert_eq!(bottleneck.stage.pid, 1);
    }

    /// An idle pool: the worker that waits for its turn was never seen at the pipe of the jobs.
    #[test]
    fn worker_that_waits_for_a_lock_has_the_end_that_others_use() {
        let input = OnLink {
            pipe: LinkId::pipe(7),
            side: LinkSide::Input,
            share: 1.0,
            thread_share: 1.0,
        };
        let has_end = |outside: Outside| {
            let whole = process(3, "worker", vec![reads(3, 7), writes(4, 8), writes(5, 9)]);
            let used = process(3, "worker", vec![writes(4, 8)]);
            let mut reader = frozen(process(2, "worker", vec![reads(3, 7)]), on_input(7));
            reader.on = vec![input];
            let mut observed = [reader.clone(), frozen(used, on_outside(outside))];
            let history = History::default();
            let members = [&reader.process, &whole].map(|whole| LiveProcess {
                process: whole,
                whole,
                history: &history,
                is_asked: true,
                ancestors: Vec::new(),
                tally: None,
                arguments: None,
            });
            add_shared_ends(&mut observed, &members);
            let ends = &observed[1].process;
            assert!(!ends.holds(LinkId::pipe(9), LinkSide::Room));
            ends.holds(LinkId::pipe(7), LinkSide::Input)
        };
        assert!(has_end(Outside::Lock));
        assert!(!has_end(Outside::Timer));
    }
}
