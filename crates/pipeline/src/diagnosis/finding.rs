//! What is concluded from an observation.

use serde::Serialize;

use super::Who;
use super::bottleneck::{Bottleneck, Certainty, Delay};
use super::deadlock::Deadlock;
use super::habits::SmallPipeCause;
use super::mutual::MutualWait;
use super::unread::Unread;
use crate::graph::LinkSide;
use crate::proc::LinkId;

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
        stages: Vec<Who>,
        /// What keeps them from running, if they mainly wait for processors.
        delay: Option<Delay>,
    },
    /// A reader gets no end of file because of a process that wrote nothing.
    LeakedWriteEnd(LeakedWriteEnd),
    /// A process that moves few bytes a call.
    SmallCalls(SmallCalls),
    /// A link in which data lies that nobody reads, while its writer waits for room.
    Unread(Unread),
    /// Two processes that wait for each other's message.
    MutualWait(MutualWait),
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
            Finding::PingPong { stages, .. } => stages.iter().collect(),
            Finding::LeakedWriteEnd(leaked) => {
                let ends = [&leaked.reader, &leaked.holder].into_iter();
                ends.chain(&leaked.waits_for).collect()
            }
            Finding::SmallCalls(calls) => vec![&calls.process],
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
    pub(super) fn needs_all(&self) -> bool {
        self.is_stuck() || matches!(self, Finding::LeakedWriteEnd(_))
    }

    /// The processes that don't move without help, and those that wait for them.
    pub(super) fn tied(&self) -> Vec<&Who> {
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
