//! What may wake or end processes that stand still.

use std::collections::BTreeSet;

use super::Observed;
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Signals by which others ask a program to do something, or that of a timer that it may have set.
const REQUESTS: &[i32] = &[
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGIO,
    libc::SIGURG,
    libc::SIGALRM,
];

/// Signals that have no other meaning than what a program gives them. The two before are used by the C
/// library for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// Whether another process that was asked for goes on: it may end these, as what a script has started as
/// `(sleep 60; kill $job) &`. In a survey only one above these, which is not asked for if it is the shell of a terminal,
/// or one below such a process.
pub(super) fn goes_on_beside(
    observation: &Observation,
    members: &[&Observed],
    waits: &BTreeSet<i32>,
) -> bool {
    let related: BTreeSet<i32> = members
        .iter()
        .flat_map(|member| std::iter::once(&member.process.id.pid).chain(&member.ancestors))
        .copied()
        .filter(|pid| {
            observation
                .find(*pid)
                .is_some_and(|process| process.is_asked)
        })
        .collect();
    let is_related = |process: &Observed| {
        let mut above = process
            .ancestors
            .iter()
            .chain(std::iter::once(&process.process.id.pid));
        !observation.is_survey || above.any(|pid| related.contains(pid))
    };
    let is_above = |process: &Observed| {
        let mut members = members.iter();
        members.any(|member| member.is_below(process.process.id.pid))
    };
    let is_member = |process: &Observed| {
        let mut members = members.iter();
        members.any(|member| member.process.id == process.process.id)
    };
    let is_known = |process: &Observed| {
        waits.contains(&process.process.id.pid) && !process.threads.iter().any(anybody_may_wake)
    };
    let mut others = observation
        .living()
        .filter(|other| other.is_asked && !is_member(other) && !is_known(other));
    others.any(|other| is_related(other) && may_act(observation, other, is_above(other)))
}

/// Whether anybody may end what a thread waits for: by opening a FIFO, or by SIGCONT.
pub(super) fn anybody_may_wake(state: &ThreadState) -> bool {
    matches!(
        state,
        ThreadState::Waiting(BlockedOn::FifoPeer { .. }) | ThreadState::Stopped
    )
}

/// Whether a process runs now and then, or what it waits for may come from outside, or after a time. One above those
/// that are stuck waits for the event of their end, or for a thread that does.
fn may_act(observation: &Observation, process: &Observed, is_above: bool) -> bool {
    // A shell waits for the signal of a child's end.
    let mut others = observation.living();
    let has_children = others.any(|other| other.is_below(process.process.id.pid));
    let may_come = |outside: Outside| match outside {
        Outside::Child => false,
        Outside::Signal => !has_children || process.threads.len() > 1,
        Outside::Event | Outside::Lock => !is_above,
        _ => true,
    };
    let is_awaited = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Outside(outside)) => may_come(*outside),
        ThreadState::Waiting(BlockedOn::Pipes { or: Some(or), .. }) => may_come(*or),
        ThreadState::Working | ThreadState::Disk => true,
        state => anybody_may_wake(state),
    };
    !process.is_frozen
        || process.threads.iter().any(is_awaited)
        || waits_outside(observation, process)
        || may_have_alarm(process)
}

/// Whether a process handles a signal by which others ask a program to do something.
pub(super) fn handles_requests(process: &Observed) -> bool {
    let mut requests = REQUESTS.iter().copied().chain(REAL_TIME);
    requests.any(|signal| process.handles(signal))
}

/// Whether a process may have set a timer, whose signal lets it send. Who handles SIGVTALRM too handles all
/// signals that end a process, as sort(1) and programs in Go do.
pub(super) fn may_have_alarm(observed: &Observed) -> bool {
    let has_handler = observed.handles(libc::SIGALRM) && !observed.handles(libc::SIGVTALRM);
    has_handler || observed.has_timers
}

/// Whether a process waits for a person, another machine, anybody who writes to a FIFO, or a link to whom was not asked
/// for.
pub(super) fn waits_outside(observation: &Observation, process: &Observed) -> bool {
    let is_outside = |link: LinkId, side: LinkSide| {
        let mut others = observation.holders(link, side.other());
        observation.own_links.contains(&link)
            || link.is_fifo() && side == LinkSide::Input
            || !others.any(|other| other.is_asked && other.process.id != process.process.id)
    };
    let mut outside = process.outside.keys();
    outside.any(|outside| {
        matches!(
            outside,
            Outside::Socket
                | Outside::SocketOrTimer
                | Outside::Terminal
                | Outside::FifoPeer
                | Outside::Other
        )
    }) || process.on.iter().any(|on| is_outside(on.pipe, on.side))
}
