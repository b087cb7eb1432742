//! An observation, with what is read of single processes once findings depend on it.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::net::sockopt::Timeout;
use rustix::process::getpid;

use super::{Observed, diagnose, unread};
use crate::graph::LinkSide;
use crate::observe::{self, Observation, ObservationPlan};
use crate::proc::Proc;
use crate::proc::sockets::has_timeout;
use crate::wait::{BlockedOn, LinkWait, Outside, ThreadState};

/// Observes pipelines (see [`observe::observe`]): who has the ends of each pipe is read again where
/// a finding depends on it.
pub fn observe(
    proc: &Proc,
    plan: &ObservationPlan,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Observation {
    let needs_all = |observation: &Observation| {
        let findings = diagnose(observation);
        let mut findings = findings.iter();
        findings.any(|finding| finding.needs_all() || finding.lacks_peer())
    };
    let mut observation = observe::observe(proc, plan, needs_all, pause);
    let findings = diagnose(&observation).into_iter();
    let still = findings.filter(|finding| finding.is_stuck() || finding.is_standstill());
    let mut pids: BTreeSet<i32> = BTreeSet::new();
    for finding in still {
        pids.extend(finding.named().into_iter().map(|who| who.pid));
    }
    pids.extend(unread::parents_of_blocked(&observation));
    let observed = observation.processes.iter();
    let mut known: BTreeSet<i32> = observed.map(|observed| observed.process.id.pid).collect();
    let observer = getpid().as_raw_pid();
    known.extend(std::iter::once(observer).chain(proc.ancestors(observer)));
    for observed in &mut observation.processes {
        if observed.is_delayed() {
            observed.starters = starters(proc, observed, &known);
        }
    }
    let asked = observation.living().filter(|process| process.is_asked);
    let asked: BTreeSet<i32> = asked.map(|process| process.process.id.pid).collect();
    for observed in &mut observation.processes {
        let pid = observed.process.id.pid;
        if pids.contains(&pid) && !observed.has_ended {
            note_timeouts(proc, observed);
            note_traced(proc, observed);
            observed.language = proc.language(pid);
            observed.watches_others = proc.watches_others(pid, &asked, observed.language);
            observed.is_in_background = proc.stat(pid).is_some_and(|stat| {
                let has_terminal = !observed.process.terminals.is_empty();
                has_terminal && stat.foreground > 0 && stat.foreground != stat.group
            });
            let idle = proc.idle_time(pid).filter(|_| observed.is_frozen);
            observed.idle_s = idle.map(|idle| idle.as_secs_f64());
        }
    }
    observation
}

/// Notes that waits on links may end by a timeout of the socket, or by a timer.
fn note_timeouts(proc: &Proc, observed: &mut Observed) {
    let pid = observed.process.id.pid;
    observed.has_timers = proc.has_timers(pid);
    for state in &mut observed.threads {
        let ThreadState::Waiting(BlockedOn::Pipes { any_of, or }) = state else {
            continue;
        };
        let may_time_out = |on: &LinkWait| {
            let timeout = match on.side {
                LinkSide::Input => Timeout::Recv,
                LinkSide::Room => Timeout::Send,
            };
            on.pipe.is_socket() && on.fd.is_some_and(|fd| has_timeout(pid, fd, timeout))
        };
        if or.is_none() && (observed.has_timers || any_of.iter().any(may_time_out)) {
            *or = Some(Outside::Timer);
        }
    }
}

/// The processes above this one, but for the shell of a terminal, if one of them has started others than these.
fn starters(proc: &Proc, observed: &Observed, known: &BTreeSet<i32>) -> Vec<i32> {
    let own = observed.process.id.pid;
    let session = proc.stat(own).map(|stat| stat.session);
    let is_shell =
        |pid: i32| session == Some(pid) && proc.stat(pid).is_some_and(|stat| stat.foreground >= 0);
    let parent = std::iter::once(observed.process.parent);
    let mut above: Vec<i32> = parent.chain(observed.ancestors.iter().copied()).collect();
    above.dedup();
    let above = above
        .into_iter()
        .take_while(|pid| *pid > 1 && !is_shell(*pid));
    let above: Vec<i32> = above.collect();
    let mut children = above.iter().flat_map(|pid| proc.children(*pid));
    let is_other = |child: i32| child != own && !above.contains(&child) && !known.contains(&child);
    if children.any(is_other) {
        above
    } else {
        Vec::new()
    }
}

/// Notes that a debugger waits for the processes that it traces, as for its children.
fn note_traced(proc: &Proc, observed: &mut Observed) {
    let is_on_child =
        |state: &ThreadState| matches!(state, ThreadState::Waiting(BlockedOn::Child(_)));
    if observed.threads.iter().any(is_on_child) && proc.is_tracer(observed.process.id.pid) {
        let waits = observed
            .threads
            .iter_mut()
            .filter(|state| is_on_child(state));
        for state in waits {
            *state = ThreadState::Waiting(BlockedOn::Outside(Outside::Other));
        }
    }
}
