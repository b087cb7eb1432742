//! Conclusions from an observation: pure functions, but for what is read again of single processes (`examined`).

mod bottleneck;
mod deadlock;
mod examined;
mod habits;
mod mutual;
mod severity;
mod stages;
mod unread;
mod wakes;
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
    /// Whether that is its standard output, so that it may be a stage that has not written yet.
    #[serde(skip)]
    pub is_output: bool,
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

    /// Whether it is not stuck, or anybody may end it, or what nobody reads may be read by itself later.
    pub fn may_go_on(&self) -> bool {
        match self {
            Finding::Deadlock(deadlock) => deadlock.doubts.contains(&PossibleEnd::Anybody),
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

    /// Whether a look at all processes may show for which one it waits.
    fn lacks_peer(&self) -> bool {
        matches!(self, Finding::Bottleneck(bottleneck) if bottleneck.lacks_peer())
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
                before.any(|(who, _)| unread.is_reader_or_its_child(observation, who))
                    && bottleneck.awaited().is_none()
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
mod tests;
