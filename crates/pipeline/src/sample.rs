//! Samples of a process, and what they say: how often it worked or waited, for what, and what it
//! moved.

pub(crate) mod children;
mod counters;
pub(crate) mod counts;
pub(crate) mod limits;
pub(crate) mod slice;
pub(crate) mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pipespeed_host::CpuList;
use serde::Serialize;

use crate::graph::LinkSide;
use crate::graph::{Process, Unseen};
use crate::proc::{Io, Language, LinkId};
use crate::processors::Quota;
use crate::wait::{Outside, ThreadState};

/// Signals whose handlers don't make a program expect to be woken from a read: SIGINT, which
/// Python handles by default, SIGPIPE, and those of faults.
const ORDINARY_SIGNALS: &[i32] = &[
    libc::SIGINT,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
];

/// What waits for a processor for a smaller share of the time needs no explanation.
const MIN_DELAYED: f64 = 0.05;

/// A process during the observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    /// The process, with its pipes at the end.
    #[serde(flatten)]
    pub process: Process,
    /// Its command line, if that was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether it was asked for, not only found at the other end of a pipe.
    pub is_asked: bool,
    /// Whether it was gone at the end.
    pub has_ended: bool,
    /// The number of samples of it.
    pub samples: u32,
    /// How often it was in which state.
    pub shares: Shares,
    /// Shares of samples in which it waited for something outside of pipes.
    pub outside: BTreeMap<Outside, f64>,
    /// Shares of samples in which it waited on a pipe.
    pub on: Vec<OnLink>,
    /// What its children did while it waited for them.
    pub children: Option<Children>,
    /// Whether no thread of it ran during the whole observation.
    pub is_frozen: bool,
    /// How long ago it last ran, at the end, in seconds. Only known of processes that stand still, if
    /// the kernel tells.
    pub idle_s: Option<f64>,
    /// What its program is written in. Only known of processes for which others wait.
    pub language: Language,
    /// Whether it has its terminal open, and another process group is in the foreground there. Only known
    /// like the language.
    #[serde(skip)]
    pub is_in_background: bool,
    /// The states of its threads at the end.
    pub threads: Vec<ThreadState>,
    /// How long ago it started, at the end, in seconds.
    #[serde(skip)]
    pub age_s: f64,
    /// The time over which the counts below were taken.
    pub counted_s: f64,
    /// Processor time.
    pub ran_s: f64,
    /// The part of that in which the kernel worked for it: system calls and page faults.
    #[serde(skip)]
    pub in_kernel_s: f64,
    /// Time for which its threads were ready to run, and did not.
    pub delayed_s: f64,
    /// The processors that it may use, or the children for which it waits, if these work more, as last seen; `None` if
    /// it hardly ran and was hardly delayed, or had ended before they were read.
    pub allowed: Option<CpuList>,
    /// The CPU quota of its control groups, or those of such children, that stopped it.
    pub quota: Option<Quota>,
    /// Whether it has waited for children that have ended.
    pub has_reaped: bool,
    /// Whether it has done so since it was first seen: those before may be of a wrapper that has become this program.
    #[serde(skip)]
    pub has_reaped_late: bool,
    /// Processor time of its children: of those that have ended, and of those that were seen while
    /// it waited for them.
    pub children_ran_s: f64,
    /// Bytes and calls, without those of its children; `None` if not known.
    pub io: Option<Io>,
    /// What of that it read while it started.
    #[serde(skip)]
    pub start: Start,
    /// Whether it waited for a disk, and its control group limits the bytes that it reads or writes a second.
    #[serde(skip)]
    pub has_io_limit: bool,
    /// Whether it was seen to move data by calls that don't count as bytes.
    pub splices: bool,
    /// The ends for which a thread waited among several events, as in an event loop.
    #[serde(skip)]
    pub polled: BTreeSet<(LinkId, LinkSide)>,
    /// What else would have ended its waits for input from a link.
    #[serde(skip)]
    pub polled_beside: BTreeMap<LinkId, Outside>,
    /// Its non-blocking ends on which it moves little a call: it may ask again and again for input that is not
    /// there, or for room.
    #[serde(skip)]
    pub tried: BTreeSet<(LinkId, LinkSide)>,
    /// The processes above it, but for the shell of a terminal, if one of these has started others that were not
    /// observed; only if it waited for a processor.
    #[serde(skip)]
    pub starters: Vec<i32>,
    /// For how long it ran at least and at most, as shares of the time, if that is not known well: of several threads,
    /// how much they ran at once is estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_between: Option<[f64; 2]>,
    /// What the thread that moves its data waits for, if that hardly runs, and another one does.
    #[serde(skip)]
    pub mover: Option<IdleMover>,
    /// Whether it has a descriptor by which it learns of the files or processes of others; only if it stands still.
    #[serde(skip)]
    pub watches_others: bool,
    /// Whether it has timers of timer_create(2); only if it stands still.
    #[serde(skip)]
    pub has_timers: bool,
    /// The signals that it handles, as a bit mask.
    pub handled_signals: u64,
    /// Its ancestors as far as they can be seen, the nearest first.
    #[serde(skip)]
    pub ancestors: Vec<i32>,
    /// Whether its parent has ended.
    #[serde(skip)]
    pub is_orphan: bool,
    /// Whether processes that can't be examined may have its pipes; only if it is frozen.
    #[serde(skip)]
    pub unseen: Unseen,
}

impl Observed {
    /// Whether a process is among its ancestors.
    pub(crate) fn is_below(&self, pid: i32) -> bool {
        self.process.parent == pid || self.ancestors.contains(&pid)
    }

    /// Whether it waited for a processor for long enough to need an explanation.
    pub(crate) fn is_delayed(&self) -> bool {
        self.delayed_s >= MIN_DELAYED * self.counted_s
    }

    /// Whether it has a handler for a signal.
    pub(crate) fn handles(&self, signal: i32) -> bool {
        self.handled_signals >> (signal - 1) & 1 == 1
    }

    /// Whether it has a handler for a signal by which a program expects to be woken.
    pub(crate) fn handles_signals(&self) -> bool {
        // Real-time signals above SIGSYS are used by the C library for itself.
        let mut all = 1..=libc::SIGSYS;
        all.any(|signal| !ORDINARY_SIGNALS.contains(&signal) && self.handles(signal))
    }
}

/// The thread that moves nearly all bytes of a process, if it hardly runs while another one does that moves hardly any.
/// Which of both limits the rate is not known: it may wait for the other one or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleMover {
    /// What it waits for, most of the time.
    pub outside: Outside,
    /// The share of samples in which it waits for that.
    pub share: f64,
}

/// What a process read until it was first seen to wait on a pipe: its libraries and settings, and maybe
/// some input.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Start {
    /// How long that took, of the time over which its bytes were counted.
    pub time: Duration,
    /// Bytes.
    pub read_bytes: u64,
}

/// Shares of the time of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shares {
    /// A thread ran.
    pub runs: f64,
    /// A thread was ready to run, and waited for a processor.
    pub queued: f64,
    /// A thread waited for a file's data.
    pub disk: f64,
    /// A thread waited for room in a pipe.
    pub blocked: f64,
    /// A thread waited for data in a pipe.
    pub starved: f64,
    /// All waited for something else.
    pub elsewhere: f64,
    /// It was stopped.
    pub stopped: f64,
}

impl Shares {
    /// How much of the time is known.
    pub fn sum(&self) -> f64 {
        let awake = self.runs + self.queued;
        awake + self.disk + self.blocked + self.starved + self.elsewhere + self.stopped
    }
}

/// What the children of a process did while it waited for them: as shares of its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Children {
    /// Their usual names, those that did most first.
    pub names: Vec<String>,
    /// Their numbers, as seen last.
    #[serde(skip)]
    pub awaited: Vec<i32>,
    /// Their states. Of several children the one counts that is nearest to running.
    pub shares: Shares,
    /// What they waited for outside of pipes.
    pub outside: BTreeMap<Outside, f64>,
    /// The pipes on which they waited.
    pub on: Vec<OnLink>,
    /// Their processor time, in processors.
    pub processors: f64,
    /// Whether most of them lived no longer than from one sample to the next: what they do at their
    /// beginning and end was hardly seen, so that the shares are uncertain.
    pub are_short: bool,
    /// Whether one of these is not a child itself, but below one that waits for it.
    #[serde(skip)]
    pub are_descendants: bool,
}

impl Children {
    /// The share of the time in which one of them ran, was ready to, or waited for a file's data.
    pub(crate) fn awake(&self) -> f64 {
        self.shares.runs + self.shares.queued + self.shares.disk
    }

    /// Whether that was most of the time in which they were seen.
    pub(crate) fn are_mostly_awake(&self) -> bool {
        self.awake() > 0.0 && self.awake() >= self.shares.sum() / 2.0
    }
}

/// How often a process waited on a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnLink {
    /// The pipe.
    pub pipe: LinkId,
    /// The side.
    pub side: LinkSide,
    /// The share of samples.
    pub share: f64,
    /// The share of samples in which one of its threads did, whatever the others did.
    #[serde(skip)]
    pub thread_share: f64,
}
