//! Processes that wait for each other's message, where it can't be proven that neither will come.

use std::collections::BTreeSet;

use serde::Serialize;

use super::deadlock::{Deadlock, WaitReason};
use super::unread::descriptor;
use super::{Observed, Who};
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::wait::{BlockedOn, LinkWait, Outside, ThreadState};

/// A process that waited for input for this share of the time waited all the time.
const MIN_STARVED: f64 = 0.95;

/// Processes that waited for each other's message during the whole observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MutualWait {
    /// At least two, in the order in which they were started.
    pub sides: Vec<WaitingSide>,
}

impl MutualWait {
    /// Whether a process is one of them.
    pub fn is_side(&self, who: &Who) -> bool {
        self.sides.iter().any(|side| side.who == *who)
    }

    /// Whether one of them waits with a timeout.
    pub fn has_timeout(&self) -> bool {
        self.sides.iter().any(|side| side.has_timeout)
    }

    /// The members of a deadlock that wait for input, where one of them may send by itself.
    pub(super) fn from_deadlock(observation: &Observation, deadlock: &Deadlock) -> Self {
        let mut sides: Vec<WaitingSide> = Vec::new();
        for member in &deadlock.members {
            sides.extend(member.reasons.iter().filter_map(|reason| match reason {
                WaitReason::Pipe { on, others } => Some(WaitingSide {
                    who: member.who.clone(),
                    pipe: on.pipe,
                    fd: on.fd,
                    writers: others.clone(),
                    has_timeout: has_timeout(observation.find(member.who.pid), on.pipe),
                }),
                _ => None,
            }));
        }
        let start = |side: &WaitingSide| {
            let process = observation.find(side.who.pid);
            process.map(|process| process.process.id.start)
        };
        sides.sort_by_key(start);
        Self { sides }
    }
}

/// A process that waits for another one's message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingSide {
    /// The process.
    pub who: Who,
    /// The link on which it waits.
    pub pipe: LinkId,
    /// Its descriptor for that.
    pub fd: Option<i32>,
    /// Who else can write there.
    pub writers: Vec<Who>,
    /// Whether its wait has a timeout, as of an event loop with a timer: it may send after that.
    pub has_timeout: bool,
}

/// Adds the pairs of processes each of which waits for nothing but the other one's message to what is
/// known. Those in `tied` are left out.
pub(super) fn find(
    observation: &Observation,
    tied: &BTreeSet<i32>,
    known: Vec<MutualWait>,
) -> Vec<MutualWait> {
    let waiting: Vec<(&Observed, LinkId, &Observed)> = observation
        .living()
        .filter(|process| !tied.contains(&process.process.id.pid))
        .filter_map(|process| {
            let mut links = inputs(process);
            links.extend(terminal_input(process));
            let mut writers = links
                .iter()
                .map(|link| only_writer(observation, process, *link));
            let writer = writers.next()??;
            let is_same = |other: Option<&Observed>| {
                other.is_some_and(|other| other.process.id == writer.process.id)
            };
            writers.all(is_same).then(|| (process, links[0], writer))
        })
        .collect();
    let mut found = known;
    for (first, link, writer) in &waiting {
        let pid = |process: &Observed| process.process.id.pid;
        let mut others = waiting
            .iter()
            .filter(|(second, ..)| pid(second) == pid(writer));
        let Some((second, other, back)) = others.next() else {
            continue;
        };
        let is_asked = first.is_asked || second.is_asked;
        let is_pair = pid(back) == pid(first) && first.process.id.start <= second.process.id.start;
        // What is received from a socket is not counted: who ran may have received something.
        let may_talk = link.is_socket() && !first.is_frozen && !second.is_frozen;
        if !is_asked || !is_pair || may_talk || pid(first) == pid(second) {
            continue;
        }
        let side = |process: &Observed, link: LinkId, writer: &Observed| WaitingSide {
            who: process.who(),
            pipe: link,
            fd: descriptor(process, link, LinkSide::Input),
            writers: vec![writer.who()],
            has_timeout: has_timeout(Some(process), link),
        };
        let sides = vec![side(first, *link, writer), side(second, *other, back)];
        let both = [first.who(), second.who()];
        let is_known = |known: &MutualWait| both.iter().all(|who| known.is_side(who));
        if !found.iter().any(is_known) {
            found.push(MutualWait { sides });
        }
    }
    found
}

/// Whether the wait of a process on a link has a timeout.
fn has_timeout(process: Option<&Observed>, link: LinkId) -> bool {
    let mut threads = process.iter().flat_map(|process| &process.threads);
    threads.any(|state| match state {
        ThreadState::Waiting(BlockedOn::Pipes {
            any_of,
            or: Some(or),
        }) => or.may_be_timer() && any_of.iter().any(|on| on.pipe == link),
        _ => false,
    })
}

/// The links for whose data a process waited all the time, if its threads wait for no other ones and
/// it read nothing. What else they wait for may be their own events, and locks.
fn inputs(process: &Observed) -> Vec<LinkId> {
    let waits = process.threads.iter().flat_map(|state| match state {
        ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => &any_of[..],
        _ => &[],
    });
    let waits: Vec<&LinkWait> = waits.collect();
    let is_input = |wait: &&LinkWait| {
        wait.side == LinkSide::Input && process.share_on(wait.pipe, wait.side) >= MIN_STARVED
    };
    // A server may get another client, a shell a command, and a thread that pauses may send. Runtimes that
    // poll have timers of their own.
    let may_hear_others = process.threads.iter().any(|state| {
        matches!(
            state,
            ThreadState::Waiting(
                BlockedOn::Pipes { or: Some(what), .. } | BlockedOn::Outside(what)
            ) if matches!(what, Outside::Socket | Outside::SocketOrTimer | Outside::Terminal)
        ) || matches!(
            state,
            ThreadState::Waiting(BlockedOn::Outside(Outside::Timer | Outside::FileLock))
        )
    });
    let reads_nothing = process.io.is_none_or(|io| io.reads == 0);
    if may_hear_others || !reads_nothing || !waits.iter().all(is_input) {
        return Vec::new();
    }
    waits.iter().map(|wait| wait.pipe).collect()
}

/// What is typed at the only terminal of a process, if it waited for nothing else all the time.
fn terminal_input(process: &Observed) -> Option<LinkId> {
    let waited = process.outside.get(&Outside::Terminal)?;
    let waits_only = process.threads.iter().all(|state| {
        matches!(
            state,
            ThreadState::Waiting(
                BlockedOn::Thread | BlockedOn::Outside(Outside::Terminal | Outside::Lock)
            )
        )
    });
    let reads_nothing = process.io.is_none_or(|io| io.reads == 0);
    let mut ends = process.process.ends.iter();
    let typed = ends.find(|end| {
        matches!(end.pipe, LinkId::Terminal { is_output, .. } if !is_output) && end.reads
    })?;
    let mut terminals = process.process.terminals.iter();
    let is_only =
        terminals.all(|own| !own.is_master && Some(own.terminal) == typed.pipe.terminal());
    (*waited >= MIN_STARVED && waits_only && reads_nothing && is_only).then_some(typed.pipe)
}

/// The only other process that can write to an empty link.
fn only_writer<'a>(
    observation: &'a Observation,
    reader: &Observed,
    link: LinkId,
) -> Option<&'a Observed> {
    let mut links = observation.pipes.iter();
    let has_data = links.any(|seen| seen.id == link && seen.unread.is_some_and(|bytes| bytes > 0));
    let mut writers = observation.holders(link, LinkSide::Room);
    let writers = writers
        .by_ref()
        .filter(|writer| writer.process.id != reader.process.id);
    let writers: Vec<&Observed> = writers.filter(|writer| !writer.has_ended).collect();
    match writers[..] {
        [only] if !has_data => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, diagnose};
    use super::*;
    use crate::fixtures::{frozen, observation, on_input, on_outside, process, reads, writes};

    /// A server and its client, joined by two pipes, with what else the threads of the server do.
    fn found(others: Vec<ThreadState>, change: fn(&mut Observation)) -> Vec<(i32, i32)> {
        let mut server = frozen(
            process(1, "java", vec![writes(4, 7), reads(5, 8)]),
            on_input(8),
        );
        server.threads.extend(others);
        let client = process(2, "cat", vec![reads(0, 7), writes(1, 8)]);
        let mut observation = observation(vec![server, frozen(client, on_input(7))]);
        change(&mut observation);
        let found = find(&observation, &BTreeSet::new(), Vec::new()).into_iter();
        found
            .map(|mutual| (mutual.sides[0].who.pid, mutual.sides[1].who.pid))
            .collect()
    }

    #[test]
    fn only_two_that_wait_for_nothing_but_each_other_are_named() {
        let locks = vec![on_outside(Outside::LockOrTimer)];
        assert_eq!(found(locks, |_| {}), [(1, 2)]);
        assert_eq!(found(vec![on_input(9)], |_| {}), []);
        for other in [Outside::Socket, Outside::Timer] {
            assert_eq!(found(vec![on_outside(other)], |_| {}), []);
        }
        let has_data = |observation: &mut Observation| observation.pipes[1].unread = Some(5);
        assert_eq!(found(Vec::new(), has_data), []);
        let talks = |observation: &mut Observation| {
            let io = observation.processes[1].io.as_mut();
            io.unwrap().reads = 1;
        };
        assert_eq!(found(Vec::new(), talks), []);
    }

    /// `setInterval` of node.
    #[test]
    fn who_waits_with_a_timeout_is_said_to() {
        let found = |or: Option<Outside>| {
            let on = |link| {
                ThreadState::Waiting(BlockedOn::Pipes {
                    any_of: vec![LinkWait {
                        pipe: LinkId::pipe(link),
                        fd: Some(3),
                        side: LinkSide::Input,
                    }],
                    or: or.filter(|_| link == 7),
                })
            };
            let one = frozen(process(1, "node", vec![reads(3, 7), writes(4, 8)]), on(7));
            let other = frozen(process(2, "node", vec![reads(3, 8), writes(4, 7)]), on(8));
            let found = find(&observation(vec![one, other]), &BTreeSet::new(), Vec::new());
            let sides = found[0].sides.iter().map(|side| side.has_timeout);
            sides.collect::<Vec<_>>()
        };
        assert_eq!(found(Some(Outside::EventOrTimer)), [true, false]);
        assert_eq!(found(Some(Outside::Event)), [false, false]);
        assert_eq!(found(None), [false, false]);
    }

    /// A timer of one of them may let it send; the shell that waits for a child sends nothing.
    #[test]
    fn all_that_wait_for_each_other_are_named_if_one_has_a_timer() {
        let python = frozen(
            process(1, "python3", vec![writes(4, 7), reads(5, 9)]),
            on_input(9),
        );
        let tac = frozen(
            process(2, "tac", vec![reads(0, 7), writes(1, 8)]),
            on_input(7),
        );
        let uniq = frozen(
            process(3, "uniq", vec![reads(0, 8), writes(1, 9)]),
            on_input(8),
        );
        let mut observation = observation(vec![python, tac, uniq]);
        let pids = |observation: &Observation| {
            let mut found: Vec<Vec<i32>> = Vec::new();
            for finding in diagnose(observation) {
                if let Finding::MutualWait(mutual) = finding {
                    found.push(mutual.sides.iter().map(|side| side.who.pid).collect());
                }
            }
            found
        };
        assert!(pids(&observation).is_empty());
        observation.processes[0].handled_signals = 1 << (libc::SIGALRM - 1);
        assert_eq!(pids(&observation), [[1, 2, 3]]);
    }

    /// Where both ran, each may have received something from a socket: that is not counted.
    #[test]
    fn two_that_run_may_talk_by_sockets() {
        let found = |of: fn(u64) -> LinkId, runs: [bool; 2]| {
            let on = |inode: u64| {
                ThreadState::Waiting(BlockedOn::Pipes {
                    any_of: vec![LinkWait {
                        pipe: of(inode),
                        fd: Some(3),
                        side: LinkSide::Input,
                    }],
                    or: None,
                })
            };
            let side = |pid: i32, own: u64, other: u64, runs: bool| {
                let mut ends = vec![reads(3, own), writes(3, other)];
                for end in &mut ends {
                    end.pipe = of(if end.reads { own } else { other });
                }
                let mut side = frozen(process(pid, "python3", ends), on(own));
                side.is_frozen = !runs;
                side
            };
            let both = vec![side(1, 7, 8, runs[0]), side(2, 8, 7, runs[1])];
            find(&observation(both), &BTreeSet::new(), Vec::new()).len()
        };
        let socket = |inode| LinkId::Socket { inode };
        assert_eq!(found(LinkId::pipe, [true, true]), 1);
        assert_eq!(found(socket, [false, true]), 1);
        assert_eq!(found(socket, [true, true]), 0);
    }
}
