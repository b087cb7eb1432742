//! Conclusions from an observation: pure functions, but for what is read again of single processes (`examined`).

mod bottleneck;
mod deadlock;
mod examined;
mod habits;
mod mutual;
mod severity;
mod stages;
mod unread;
mod withheld;

use std::collections::BTreeSet;

use serde::Serialize;

pub(crate) use self::bottleneck::idle::locked_share;
pub use self::bottleneck::{
    ActiveStage, Bottleneck, Certainty, Delay, LargestUser, PausingStage, Room,
};
pub use self::deadlock::{Deadlock, DeadlockKind, DeadlockMember, PossibleEnd, WaitReason};
pub use self::examined::observe;
pub use self::habits::SmallPipeCause;
pub use self::mutual::{MutualWait, WaitingSide};
pub use self::severity::{Severity, verdict};
pub use self::stages::TooShort;
pub use self::unread::{IdleReader, Unread};
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::Observed;

/// A process in a conclusion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Who {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// A write end in the hands of a process that wrote nothing, for which a reader gets no end of
/// file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeakedWriteEnd {
    /// The pipe.
    pub pipe: LinkId,
    /// Its reader.
    pub reader: Who,
    /// The process that holds a write end.
    pub holder: Who,
    /// Its descriptor.
    pub fd: i32,
    /// The children that it waits for, which don't have this end.
    pub waits_for: Vec<Who>,
    /// Whether no other process writes, so that the reader waits for this one only.
    pub is_last: bool,
}

/// A process that moves few bytes a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SmallCalls {
    /// The process.
    pub process: Who,
    /// Whether it reads (`Input`) or writes.
    pub side: LinkSide,
    /// The mean number of bytes.
    pub bytes_per_call: f64,
    /// The number of calls.
    pub calls_per_s: f64,
    /// The reader that each of them wakes, if one does.
    pub wakes: Option<Who>,
}

/// A conclusion.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// Processes that wait for each other.
    Deadlock(Deadlock),
    /// A splice that holds a pipe's lock.
    Held {
        /// The pipe.
        pipe: LinkId,
        /// The process that splices, if known.
        holder: Option<Who>,
        /// Whether it did not move all the time.
        is_stuck: bool,
    },
    /// The bottleneck.
    Bottleneck(Box<Bottleneck>),
    /// Stages that wait for each other, or for processors, by turns.
    PingPong {
        /// The stages.
        stages: Vec<ActiveStage>,
        /// What keeps them from running, if they mainly wait for processors.
        delay: Option<Delay>,
    },
    /// No stage stands out, though one may hold up the others: at least one is busy, or all wait for input.
    Unclear {
        /// The stages, the busiest first.
        active: Vec<ActiveStage>,
        /// Those that wait for input in a call that a timer or another event may end, if all mostly
        /// wait for input.
        event_loops: Vec<Who>,
    },
    /// A reader gets no end of file because of a process that wrote nothing.
    LeakedWriteEnd(LeakedWriteEnd),
    /// A process that moves few bytes a call.
    SmallCalls(SmallCalls),
    /// A link in which data lies that nobody reads, while its writer waits for room.
    Unread(Unread),
    /// Two processes that wait for each other's message.
    MutualWait(MutualWait),
    /// A process waits until another one opens a FIFO.
    FifoPeer {
        /// The process.
        process: Who,
        /// The path, if known.
        path: Option<String>,
    },
    /// A process stood still on a pipe whose other end no known process has. A thread with descriptors of
    /// its own may have it, or a message between processes (SCM_RIGHTS in unix(7)).
    UnseenPeer {
        /// The process.
        process: Who,
        /// The pipe.
        pipe: LinkId,
        /// Whether it waits for data (`Input`) or for room.
        side: LinkSide,
    },
    /// A pipe that holds less than a new one usually does.
    SmallPipe {
        /// The pipe.
        pipe: LinkId,
        /// Its capacity.
        capacity: u64,
        /// Why it is small, as far as that is known.
        cause: SmallPipeCause,
        /// Its writers and readers.
        between: Vec<Who>,
    },
}

impl Finding {
    /// Whether somebody waited for the whole observation, and may do so for ever.
    pub fn is_standstill(&self) -> bool {
        match self {
            Finding::Unread(_) | Finding::LeakedWriteEnd(_) | Finding::MutualWait(_) => true,
            Finding::Bottleneck(bottleneck) => bottleneck.is_stopped,
            _ => false,
        }
    }

    /// The processes that it names.
    pub fn named(&self) -> Vec<&Who> {
        match self {
            Finding::Deadlock(deadlock) => {
                let members = deadlock.members.iter().map(|member| &member.who);
                members.chain(&deadlock.waiting).collect()
            }
            Finding::Held { holder, .. } => holder.iter().collect(),
            Finding::Bottleneck(bottleneck) => vec![&bottleneck.stage],
            Finding::PingPong { stages, .. } => stages.iter().map(|stage| &stage.who).collect(),
            Finding::Unclear { active, .. } => active.iter().map(|stage| &stage.who).collect(),
            Finding::LeakedWriteEnd(leaked) => {
                let ends = [&leaked.reader, &leaked.holder].into_iter();
                ends.chain(&leaked.waits_for).collect()
            }
            Finding::SmallCalls(calls) => vec![&calls.process],
            Finding::FifoPeer { process, .. } | Finding::UnseenPeer { process, .. } => {
                vec![process]
            }
            Finding::Unread(unread) => {
                let readers = unread.readers.iter().map(|reader| &reader.who);
                std::iter::once(&unread.writer).chain(readers).collect()
            }
            Finding::MutualWait(mutual) => mutual.sides.iter().map(|side| &side.who).collect(),
            Finding::SmallPipe { between, .. } => between.iter().collect(),
        }
    }

    /// Whether nothing moves without help.
    pub fn is_stuck(&self) -> bool {
        match self {
            Finding::Deadlock(_) => true,
            Finding::Held { is_stuck, .. } => *is_stuck,
            Finding::Unread(unread) => unread.has_lasted,
            _ => false,
        }
    }

    /// Whether nothing moves without help, and nobody outside could give it.
    pub fn is_certainly_stuck(&self) -> bool {
        let is_likely = match self {
            Finding::Deadlock(deadlock) => deadlock.certainty == Certainty::Likely,
            Finding::Unread(unread) => !unread.are_readers_idle,
            _ => false,
        };
        self.is_stuck() && !is_likely
    }

    /// Whether it is not stuck, or what nobody reads may be read by itself later.
    pub fn may_go_on(&self) -> bool {
        match self {
            Finding::Unread(unread) => !unread.has_lasted || !unread.are_readers_idle,
            _ => !self.is_stuck(),
        }
    }

    /// Notes that what nobody reads has been so for as long as may be waited: then it counts as stuck,
    /// and as certainly stuck only if its readers did nothing else for as long.
    pub fn has_lasted(&mut self, are_readers_idle: bool) {
        if let Finding::Unread(unread) = self
            && !unread.may_be_read
        {
            unread.has_lasted = true;
            unread.are_readers_idle &= are_readers_idle;
        }
    }

    /// The processes that have waited for the whole observation, and may do so for ever: those that
    /// don't move without help, and writers whose data nobody reads. Of the latter only those
    /// whose readers did nothing else, if `is_certain`.
    pub fn waiting(&self, is_certain: bool) -> Vec<&Who> {
        match self {
            Finding::Unread(unread) if unread.may_be_read => Vec::new(),
            Finding::Unread(unread) if is_certain && !unread.are_readers_idle => Vec::new(),
            Finding::Unread(unread) => vec![&unread.writer],
            _ => self.stuck(),
        }
    }

    /// Whether it holds only if all processes are known that have an end of a pipe.
    fn needs_all(&self) -> bool {
        let is_one_end = matches!(
            self,
            Finding::LeakedWriteEnd(_) | Finding::UnseenPeer { .. }
        );
        self.is_stuck() || is_one_end
    }

    /// The processes that don't move without help, and those that wait for them.
    fn tied(&self) -> Vec<&Who> {
        match self {
            Finding::Deadlock(deadlock) => {
                self.stuck().into_iter().chain(&deadlock.waiting).collect()
            }
            _ => self.stuck(),
        }
    }

    /// The processes that don't move without help.
    pub fn stuck(&self) -> Vec<&Who> {
        match self {
            Finding::Deadlock(deadlock) => {
                deadlock.members.iter().map(|member| &member.who).collect()
            }
            Finding::Held {
                holder,
                is_stuck: true,
                ..
            } => holder.iter().collect(),
            Finding::Unread(unread) if unread.has_lasted => vec![&unread.writer],
            _ => Vec::new(),
        }
    }
}

/// The conclusions, the worst first.
pub fn diagnose(observation: &Observation) -> Vec<Finding> {
    let (possible, deadlocks): (Vec<Deadlock>, Vec<Deadlock>) = deadlock::deadlocks(observation)
        .into_iter()
        .partition(|deadlock| deadlock::may_go_on(observation, deadlock));
    let held = habits::held(observation);
    let mut findings: Vec<Finding> = deadlocks.into_iter().map(Finding::Deadlock).collect();
    findings.extend(held);
    let tied = findings.iter().flat_map(Finding::tied);
    let tied: BTreeSet<i32> = tied.map(|who| who.pid).collect();
    findings.sort_by_key(|finding| !finding.is_stuck());
    let mut leaked = withheld::leaked_write_ends(observation, &tied);
    let mut unread = unread::find(observation, &tied);
    let unseen = withheld::unseen_peers(observation, &tied);
    let mut bottlenecks = bottleneck::bottlenecks(observation, &tied);
    // A stage that does not write or read at all is no bottleneck.
    bottlenecks.retain(|finding| match finding {
        Finding::Bottleneck(bottleneck) => {
            let (mut unread, mut leaked) = (unread.iter(), leaked.iter());
            let is_reader = unread.any(|unread| unread.is_reader(&bottleneck.stage));
            let is_last = leaked.any(|leaked| leaked.is_last && leaked.holder == bottleneck.stage);
            let is_unseen = unseen
                .iter()
                .any(|unseen| unseen.named().contains(&&bottleneck.stage));
            !is_reader && !is_last && !is_unseen
        }
        _ => true,
    });
    // What a reader waits for may come once it has read what it leaves.
    leaked.retain(|leaked| !unread.iter().any(|unread| unread.is_reader(&leaked.reader)));
    let possible = possible
        .iter()
        .map(|deadlock| MutualWait::from_deadlock(observation, deadlock));
    let mutual = mutual::find(observation, &tied, possible.collect());
    leaked.retain(|leaked| !mutual.iter().any(|mutual| mutual.is_side(&leaked.reader)));
    // Who takes turns goes on.
    bottlenecks.retain(|finding| match finding {
        Finding::Bottleneck(bottleneck) => !mutual
            .iter()
            .any(|mutual| mutual.is_side(&bottleneck.stage)),
        Finding::PingPong { stages, .. } => !unread.iter().any(|unread| {
            let mut stages = stages.iter().map(|stage| &stage.who);
            stages.any(|stage| *stage == unread.writer || unread.is_reader(stage))
        }),
        _ => true,
    });
    // A reader that has started others reads on as fast as those get rid of their output.
    unread.retain(|unread| {
        let mut found = bottlenecks.iter();
        let is_before = |finding: &Finding| match finding {
            Finding::Bottleneck(bottleneck) => {
                let mut before = bottleneck.before.iter();
                before.any(|(who, _)| unread.is_reader(who)) && bottleneck.awaited().is_none()
            }
            _ => false,
        };
        !unread.may_be_read || !found.any(is_before)
    });
    findings.extend(unread.into_iter().map(Finding::Unread));
    findings.extend(mutual.into_iter().map(Finding::MutualWait));
    findings.extend(unseen);
    if !observation.is_survey {
        findings.extend(habits::fifo_peers(observation, &tied));
    }
    findings.extend(bottlenecks);
    findings.extend(leaked.into_iter().map(Finding::LeakedWriteEnd));
    findings.extend(
        habits::small_calls(observation)
            .into_iter()
            .map(Finding::SmallCalls),
    );
    findings.extend(habits::small_pipes(observation));
    if observation.is_cut_short {
        findings.retain(|finding| !finding.needs_all());
    }
    without_explained(findings)
}

/// Whether a finding says of a process by itself that it waits, of which another one says why.
fn is_explained_alone(finding: &Finding, findings: &[Finding]) -> bool {
    let Finding::Bottleneck(bottleneck) = finding else {
        return false;
    };
    let mut others = findings.iter();
    bottleneck.is_alone()
        && others.any(|other| {
            !std::ptr::eq(other, finding)
                && other.verdict() > Severity::CantTell
                && other.named().contains(&&bottleneck.stage)
        })
}

/// Leaves out that no stage stands out where something else was found about one of them.
fn without_explained(findings: Vec<Finding>) -> Vec<Finding> {
    let explains = findings
        .iter()
        .filter(|finding| finding.verdict() > Severity::CantTell);
    let explained: BTreeSet<i32> = explains
        .flat_map(Finding::named)
        .map(|who| who.pid)
        .collect();
    let alone: Vec<bool> = findings
        .iter()
        .map(|finding| is_explained_alone(finding, &findings))
        .collect();
    let mut is_alone = alone.into_iter();
    let mut findings = findings;
    findings.retain(|_| !is_alone.next().unwrap_or_default());
    findings.retain(|finding| {
        let is_unclear = matches!(finding, Finding::Unclear { .. });
        let mut named = finding.named().into_iter();
        !is_unclear || !named.any(|who| explained.contains(&who.pid))
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        busy, child_of, frozen, observation, on_child, on_input, on_room, process, reads, writes,
    };

    use crate::proc::Io;
    use crate::sample::Children;
    use crate::wait::Outside;

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

    /// `find | xargs cat | gzip`: xargs reads on once its children have got rid of their output.
    #[test]
    fn reader_whose_children_wait_for_the_bottleneck_leaves_nothing_unread() {
        let is_unread = |runs: f64| {
            let find = frozen(process(1, "find", vec![writes(1, 7)]), on_room(7));
            let mut xargs = busy(
                process(2, "xargs", vec![reads(0, 7), writes(1, 8)]),
                0.02,
                0.0,
                0.0,
            );
            xargs.on.clear();
            xargs.threads = vec![on_child()];
            xargs.io = xargs.io.map(|io| Io { reads: 0, ..io });
            xargs.shares.elsewhere = 0.98;
            xargs.outside = [(Outside::Child, 0.98)].into();
            let blocked = busy(process(4, "cat", vec![writes(1, 8)]), 0.1, 0.9, 0.0);
            xargs.children = Some(Children {
                names: vec!["cat".to_owned()],
                awaited: Vec::new(),
                shares: blocked.shares,
                outside: blocked.outside.clone(),
                on: blocked.on.clone(),
                processors: 0.1,
                are_short: true,
            });
            let mut gzip = busy(process(3, "gzip", vec![reads(0, 8)]), runs, 0.0, 1.0 - runs);
            gzip.on.retain(|on| on.side == LinkSide::Input);
            let findings = diagnose(&observation(vec![find, xargs, gzip]));
            let unread = |finding: &Finding| matches!(finding, Finding::Unread(_));
            findings.iter().any(unread)
        };
        assert!(!is_unread(0.98));
        assert!(is_unread(0.02));
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

    /// `(seq | wc; echo) | tee`: what wc writes at its end goes to tee.
    #[test]
    fn output_of_one_pipeline_goes_on_to_its_reader() {
        let seq = process(1, "seq", vec![writes(1, 7), writes(2, 9)]);
        let wc = process(2, "wc", vec![reads(0, 7), writes(1, 9), writes(2, 9)]);
        let mut seq = busy(seq, 0.9, 0.1, 0.0);
        seq.on.retain(|on| on.pipe == LinkId::pipe(7));
        let tee = frozen(process(3, "tee", vec![reads(0, 9)]), on_input(9));
        let observation = observation(vec![seq, frozen(wc, on_input(7)), tee]);
        let pipelines = observation.pipelines();
        let pids = pipelines[0].iter().map(|stage| stage.process.id.pid);
        assert_eq!(pids.collect::<Vec<i32>>(), [1, 2, 3]);
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
            sides: vec![WaitingSide {
                who: who(),
                pipe,
                fd: Some(5),
                writers: vec![who()],
                has_timeout: false,
            }],
        };
        let turns = Finding::PingPong {
            stages: Vec::new(),
            delay: None,
        };
        let unclear = Finding::Unclear {
            active: Vec::new(),
            event_loops: Vec::new(),
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
            (unclear, "unclear active event_loops"),
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
