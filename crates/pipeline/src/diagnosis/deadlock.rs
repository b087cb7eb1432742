//! Deadlocks: processes that wait for each other, so that none can go on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::wakes::{goes_on_beside, handles_requests, may_have_alarm};
use super::{Certainty, Observed, Who};
use crate::graph::{LinkSide, Unseen};
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::wait::{BlockedOn, LinkWait, Outside, ThreadState};

/// Processes that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deadlock {
    /// Its kind.
    pub kind: DeadlockKind,
    /// Whether anything might wake or end a member.
    pub certainty: Certainty,
    /// What might.
    pub doubts: Vec<PossibleEnd>,
    /// The processes that wait for each other, and what for.
    pub members: Vec<DeadlockMember>,
    /// Processes that wait for the members.
    pub waiting: Vec<Who>,
}

/// Kinds of deadlocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlockKind {
    /// All write, and none reads.
    AllWrite,
    /// All read, and none writes.
    AllRead,
    /// One writes to a pipe while its reader waits for something else of it.
    OtherPipe,
    /// A process waits for the end of a child, whose output it does not read.
    UnreadOutput,
    /// A process waits for the end of a child, which waits for the end of its input.
    MissingEnd,
    /// A process waits for the end of its input, which it keeps open itself.
    OwnEnd,
    /// A process waits for room in a pipe that only it reads itself.
    OwnOutput,
    /// A process waits for somebody to open the other end of a FIFO.
    NoPeer,
    /// A process is stopped.
    Stopped,
}

impl DeadlockKind {
    /// Whether a process that has nothing to do with the members may end it.
    pub fn may_be_ended_by_anybody(self) -> bool {
        matches!(self, DeadlockKind::NoPeer | DeadlockKind::Stopped)
    }
}

/// What might wake or end a process in a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PossibleEnd {
    /// A process that can't be examined, which may have an end of these links.
    HiddenProcess,
    /// A handler of a signal, which may read or write.
    SignalHandler,
    /// timeout(1), as part of what was asked for.
    Timeout,
    /// Another process that was asked for, and goes on, or has a timer.
    OtherProcess,
    /// Anybody: who opens a FIFO, or continues a stopped process.
    Anybody,
}

/// A process in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadlockMember {
    /// The process.
    pub who: Who,
    /// What it waits for: any of these would do.
    pub reasons: Vec<WaitReason>,
}

/// What a process in a deadlock waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A pipe: data in it, or room.
    Pipe {
        /// The pipe, with the descriptor if known, and the side.
        #[serde(flatten)]
        on: LinkWait,
        /// The processes that hold the other side.
        others: Vec<Who>,
    },
    /// The end of a child process.
    Child {
        /// The children.
        others: Vec<Who>,
    },
    /// Somebody who opens the other end of a FIFO.
    FifoPeer {
        /// Its path, if known.
        path: Option<String>,
    },
    /// SIGCONT.
    Continue,
}

impl WaitReason {
    fn others(&self) -> &[Who] {
        match self {
            WaitReason::Pipe { others, .. } | WaitReason::Child { others } => others,
            WaitReason::FifoPeer { .. } | WaitReason::Continue => &[],
        }
    }
}

/// The name of timeout(1).
pub(super) const TIMEOUT: &str = "timeout";

/// The deadlocks that concern a process that was asked for.
///
/// Begins with all processes that did not run for the whole observation and whose possible
/// wakers are all known, and removes those with a waker that is not among them, until none
/// is left. What remains can't go on by itself. A pipe on both sides of which somebody waits is
/// about to move: it can't be both full and empty.
pub(super) fn deadlocks(observation: &Observation) -> Vec<Deadlock> {
    let mut waits: BTreeMap<i32, Vec<WaitReason>> = observation
        .living()
        .filter_map(|process| Some((process.process.id.pid, reasons(observation, process)?)))
        .collect();
    let waited_on: BTreeSet<(LinkId, LinkSide)> =
        waits.values().flatten().filter_map(known).collect();
    waits.retain(|_, reasons| {
        let mut known = reasons.iter().filter_map(known);
        !known.any(|(pipe, side)| waited_on.contains(&(pipe, side.other())))
    });
    loop {
        let before = waits.len();
        let known: BTreeSet<i32> = waits.keys().copied().collect();
        waits.retain(|pid, reasons| {
            let others = reasons
                .iter()
                .flat_map(WaitReason::others)
                .map(|who| who.pid);
            let mut others = others.chain(signalling(observation, *pid, reasons));
            others.all(|pid| known.contains(&pid))
        });
        if waits.len() == before {
            break;
        }
    }
    let reached: BTreeMap<i32, BTreeSet<i32>> = waits
        .keys()
        .map(|pid| (*pid, reach(*pid, &waits)))
        .collect();
    let mut done: BTreeSet<i32> = BTreeSet::new();
    let mut deadlocks = Vec::new();
    for pid in waits.keys() {
        let mut core = BTreeSet::from([*pid]);
        core.extend(
            reached[pid]
                .iter()
                .filter(|other| reached[other].contains(pid)),
        );
        let is_root = waits[pid].iter().all(|reason| reason.others().is_empty());
        let is_core = core.len() > 1 || reached[pid].contains(pid) || is_root;
        if !is_core || !core.iter().all(|pid| done.insert(*pid)) {
            continue;
        }
        deadlocks.extend(deadlock(observation, &waits, &reached, &core));
    }
    deadlocks
}

/// Whether the members wait for each other's message, and one may have set a timer to send its own.
pub(super) fn may_go_on(observation: &Observation, deadlock: &Deadlock) -> bool {
    let mut members = deadlock.members.iter();
    deadlock.kind == DeadlockKind::AllRead
        && members.any(|member| observation.find(member.who.pid).is_some_and(may_have_alarm))
}

/// The side of the pipe for which a process waits, unless it may be another one.
fn known(reason: &WaitReason) -> Option<(LinkId, LinkSide)> {
    match reason {
        WaitReason::Pipe { on, .. } => on.fd.map(|_| (on.pipe, on.side)),
        _ => None,
    }
}

/// The processes that one waits for, directly or through others.
fn reach(pid: i32, waits: &BTreeMap<i32, Vec<WaitReason>>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        for who in waits[&pid].iter().flat_map(WaitReason::others) {
            if found.insert(who.pid) {
                open.push(who.pid);
            }
        }
    }
    found
}

/// The children for which a process waits, and those for which these wait.
fn awaited_children(pid: i32, waits: &BTreeMap<i32, Vec<WaitReason>>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        let reasons = waits.get(&pid).into_iter().flatten();
        let children = reasons.filter(|reason| matches!(reason, WaitReason::Child { .. }));
        let children = children.flat_map(WaitReason::others);
        open.extend(children.map(|who| who.pid).filter(|pid| found.insert(*pid)));
    }
    found
}

/// Makes a deadlock of its core. `None` if it may be meant that way, or concerns only others.
fn deadlock(
    observation: &Observation,
    waits: &BTreeMap<i32, Vec<WaitReason>>,
    reached: &BTreeMap<i32, BTreeSet<i32>>,
    core: &BTreeSet<i32>,
) -> Option<Deadlock> {
    let observed: Vec<&Observed> = core
        .iter()
        .filter_map(|pid| observation.find(*pid))
        .collect();
    let waiting: Vec<&Observed> = reached
        .iter()
        .filter(|(pid, reached)| !core.contains(pid) && !reached.is_disjoint(core))
        .filter_map(|(pid, _)| observation.find(*pid))
        .collect();
    let kind = kind(waits, core);
    let reasons = || core.iter().flat_map(|pid| &waits[pid]);
    let is_fifo =
        |reason: &WaitReason| matches!(reason, WaitReason::Pipe { on, .. } if on.pipe.is_fifo());
    let is_of_fifo = reasons().any(is_fifo);
    // What the observer has an end of, too, it may have from somebody who can't be seen: make's jobs in a container.
    let is_inherited = |reason: &WaitReason| matches!(reason, WaitReason::Pipe { on, .. } if observation.own_links.contains(&on.pipe));
    if reasons().any(is_inherited) {
        return None;
    }
    if !observed
        .iter()
        .chain(&waiting)
        .any(|process| process.is_asked)
    {
        return None;
    }
    let is_meant = match kind {
        // Job control stops whole pipelines.
        DeadlockKind::Stopped => observation.is_survey && waiting.is_empty(),
        // Servers wait at FIFOs, and what still runs may open one later.
        DeadlockKind::NoPeer => {
            let mut asked = observation.living().filter(|process| process.is_asked);
            let goes_on = |process: &Observed| !waits.contains_key(&process.process.id.pid);
            observation.is_survey || asked.any(goes_on)
        }
        // A server may hold a FIFO open for writers to come.
        DeadlockKind::MissingEnd => observation.is_survey && is_of_fifo,
        // A signal handler may use the process's own pipe, and anybody a FIFO.
        DeadlockKind::OwnEnd | DeadlockKind::OwnOutput => observed.iter().any(|process| {
            let is_fifo = process.process.ends.iter().any(|end| end.pipe.is_fifo());
            is_fifo || process.handles_signals()
        }),
        _ => false,
    };
    // One that could help a member may be stopped, or wait for anybody.
    let helpers = core.iter().flat_map(|pid| &reached[pid]);
    let may_help =
        |reason: &WaitReason| matches!(reason, WaitReason::Continue | WaitReason::FifoPeer { .. });
    let is_of_anybody = is_of_fifo
        || kind.may_be_ended_by_anybody()
        || helpers.flat_map(|pid| &waits[pid]).any(may_help);
    let doubts = doubts(
        observation,
        &waits.keys().copied().collect(),
        [&observed, &waiting],
        is_of_fifo,
        is_of_anybody,
    );
    (!is_meant).then(|| Deadlock {
        kind,
        certainty: if doubts.is_empty() {
            Certainty::Clear
        } else {
            Certainty::Likely
        },
        doubts,
        members: observed
            .iter()
            .map(|process| DeadlockMember {
                who: process.who(),
                reasons: waits[&process.process.id.pid].clone(),
            })
            .collect(),
        waiting: waiting.into_iter().map(Observed::who).collect(),
    })
}

/// What might end a deadlock of these processes, for which others are waiting.
fn doubts(
    observation: &Observation,
    waits: &BTreeSet<i32>,
    [observed, waiting]: [&[&Observed]; 2],
    is_of_fifo: bool,
    is_of_anybody: bool,
) -> Vec<PossibleEnd> {
    let hides_any = observation.hidden > 0 || !observation.silent.is_empty();
    let is_hidden = observation.hides_processes
        || observed.iter().any(|process| process.unseen != Unseen::None)
        // Anybody may have opened it.
        || hides_any && is_of_fifo;
    let may_handle = |process: &&Observed| handles_requests(process);
    let is_limited = |process: &&Observed| has_timeout(observation, process);
    let has_alarm =
        |process: &&Observed| process.process.name != TIMEOUT && may_have_alarm(process);
    let doubts = [
        (PossibleEnd::HiddenProcess, is_hidden),
        (PossibleEnd::SignalHandler, observed.iter().any(may_handle)),
        (PossibleEnd::Timeout, observed.iter().any(is_limited)),
        (
            PossibleEnd::OtherProcess,
            goes_on_beside(observation, observed, waits) || waiting.iter().any(has_alarm),
        ),
        (PossibleEnd::Anybody, is_of_anybody),
    ];
    let doubts = doubts.into_iter().filter(|(_, holds)| *holds);
    doubts.map(|(doubt, _)| doubt).collect()
}

fn kind(waits: &BTreeMap<i32, Vec<WaitReason>>, core: &BTreeSet<i32>) -> DeadlockKind {
    let reasons = || core.iter().flat_map(|pid| &waits[pid]);
    let on_side = |wanted: LinkSide| move |reason: &WaitReason| matches!(reason, WaitReason::Pipe { on, .. } if on.side == wanted);
    // A process waits for its child, which waits on this side of a pipe for that process, or
    // waits for a child of its own that does: a shell that only waits has no part in it.
    let is_parents_fault = |side: LinkSide| {
        core.iter().any(|parent| {
            let mut theirs = awaited_children(*parent, waits)
                .into_iter()
                .flat_map(|child| waits.get(&child).into_iter().flatten())
                .filter(|reason| on_side(side)(reason));
            theirs.any(|reason| reason.others().iter().any(|who| who.pid == *parent))
        })
    };
    if reasons().any(|reason| matches!(reason, WaitReason::Continue)) {
        return DeadlockKind::Stopped;
    }
    if reasons().any(|reason| matches!(reason, WaitReason::FifoPeer { .. })) {
        return DeadlockKind::NoPeer;
    }
    let (input, room) = (
        reasons().any(on_side(LinkSide::Input)),
        reasons().any(on_side(LinkSide::Room)),
    );
    match (input, room) {
        (true, true) => DeadlockKind::OtherPipe,
        (false, _) if is_parents_fault(LinkSide::Room) => DeadlockKind::UnreadOutput,
        (false, _) if core.len() == 1 => DeadlockKind::OwnOutput,
        (false, _) => DeadlockKind::AllWrite,
        (true, _) if is_parents_fault(LinkSide::Input) => DeadlockKind::MissingEnd,
        (true, _) if core.len() == 1 => DeadlockKind::OwnEnd,
        (true, _) => DeadlockKind::AllRead,
    }
}

/// Whether timeout(1) was started as part of what was asked for, and will end this process.
fn has_timeout(observation: &Observation, observed: &Observed) -> bool {
    let ancestors = observed.ancestors.iter();
    let mut above = ancestors.filter_map(|pid| observation.find(*pid));
    above.any(|process| process.is_asked && process.process.name == TIMEOUT)
}

/// What a process waits for, if it did not run at all and all that could wake it is known.
/// `None` if something outside could.
fn reasons(observation: &Observation, observed: &Observed) -> Option<Vec<WaitReason>> {
    // A relative of it that can't be examined may have its pipes.
    let is_known = observed.unseen != Unseen::Relatives;
    if !observed.is_frozen || !is_known || observed.process.others.has_uring {
        return None;
    }
    let mut reasons = Vec::new();
    for state in &observed.threads {
        match state {
            ThreadState::Working | ThreadState::Disk => return None,
            ThreadState::Stopped => reasons.push(WaitReason::Continue),
            ThreadState::Waiting(wait) => reasons.extend(of_wait(observation, observed, wait)?),
        }
    }
    // A process whose threads wait only for each other is none of a pipeline's.
    (!reasons.is_empty()).then_some(reasons)
}

fn of_wait(
    observation: &Observation,
    observed: &Observed,
    wait: &BlockedOn,
) -> Option<Vec<WaitReason>> {
    match wait {
        // It waits for the signal of its child's end, or of its timer: see `has_timeout`.
        BlockedOn::Outside(Outside::Signal) if observed.process.name == TIMEOUT => {
            of_wait(observation, observed, &BlockedOn::Child(None))
        }
        // Anybody may open a terminal by its name, and who does may write to it.
        BlockedOn::Pipes { any_of, .. } if any_of.iter().any(|on| on.pipe.is_terminal()) => None,
        BlockedOn::Outside(_) | BlockedOn::PipeLock | BlockedOn::Pipes { or: Some(_), .. } => None,
        BlockedOn::Thread => Some(Vec::new()),
        BlockedOn::FifoPeer { path } => Some(vec![WaitReason::FifoPeer { path: path.clone() }]),
        BlockedOn::Child(pid) => {
            let own = observed.process.id.pid;
            let children: Vec<&Observed> = children(observation, own).collect();
            let named = children
                .iter()
                .find(|process| Some(process.process.id.pid) == *pid);
            let others: Vec<Who> = match named {
                Some(child) => vec![child.who()],
                // It waits for the observer.
                None if observation.own_parent == Some(own) => return None,
                // In another namespace the child has another number.
                None => children.into_iter().map(Observed::who).collect(),
            };
            (!others.is_empty()).then(|| vec![WaitReason::Child { others }])
        }
        BlockedOn::Pipes { any_of, or: None } => any_of
            .iter()
            .map(|on| {
                let others = others(observation, on.pipe, on.side)?;
                Some(WaitReason::Pipe { on: *on, others })
            })
            .collect(),
    }
}

fn children(observation: &Observation, parent: i32) -> impl Iterator<Item = &Observed> {
    let living = observation.living();
    living.filter(move |process| process.process.parent == parent)
}

/// Children whose end wakes a process from its wait for a pipe, by a signal: make waits so for
/// a job's end or a free slot.
fn signalling(observation: &Observation, pid: i32, reasons: &[WaitReason]) -> Vec<i32> {
    let waits_for_pipe = || {
        reasons
            .iter()
            .any(|reason| matches!(reason, WaitReason::Pipe { .. }))
    };
    let handles_end = |process: &Observed| process.handles(libc::SIGCHLD) && waits_for_pipe();
    if !observation.find(pid).is_some_and(handles_end) {
        return Vec::new();
    }
    let children = children(observation, pid).map(|process| process.process.id.pid);
    let is_parent = observation.own_parent == Some(pid);
    // The observer, which is in no deadlock.
    children.chain(is_parent.then_some(0)).collect()
}

/// The processes that could end a wait on a pipe. `None` if there may be others: if none is
/// seen, or if it is a FIFO that somebody holds open for both, for any future process.
fn others(observation: &Observation, pipe: LinkId, side: LinkSide) -> Option<Vec<Who>> {
    let mut ends = observation
        .living()
        .flat_map(|process| &process.process.ends);
    let is_kept_open = |end: &crate::proc::LinkFd| end.pipe == pipe && end.reads && end.writes;
    if pipe.is_fifo() && ends.any(is_kept_open) {
        return None;
    }
    let living = observation.living();
    let others: Vec<Who> = living
        .filter(|process| process.process.holds(pipe, side.other()))
        .map(Observed::who)
        .collect();
    (!others.is_empty()).then_some(others)
}

#[cfg(test)]
mod tests;
