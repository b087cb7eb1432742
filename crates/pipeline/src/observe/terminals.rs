//! Pseudo-terminals in an observation.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::LinkSide;
use crate::proc::LinkId;
use crate::proc::terminals::TerminalId;
use crate::sample::{Children, Observed, OnLink, Shares};
use crate::wait::{BlockedOn, Outside, ThreadState};

/// A process that waited for this share of the time waited all the time.
const MIN_WAITING: f64 = 0.95;
/// The children of a terminal's holder print if they are awake, or wait for room, for this share of the
/// time in which it waits for them.
const MIN_BUSY: f64 = 0.5;
/// A program at a terminal that was awake for this share may be about to write.
const MAX_AWAKE: f64 = 0.05;

/// Leaves out the terminals where something moves or a person may sit: those of terminal emulators,
/// whose holders wait for other things, too. What waits for these waits for something outside.
pub(super) fn leave_attended(processes: &mut [Observed]) {
    let still = still(processes);
    let passed_on = passed_on(processes);
    let is_left = |link: LinkId| {
        let terminal = link.terminal();
        terminal.is_some_and(|terminal| !still.contains(&terminal)) && !passed_on.contains(&link)
    };
    for process in processes {
        // The holder of its master waits for a program, not for a person.
        let children = process.children.as_ref();
        let awaited = if children.is_some_and(are_busy) {
            Outside::Child
        } else {
            Outside::Other
        };
        leave_waits(
            &is_left,
            awaited,
            &mut process.on,
            &mut process.shares,
            &mut process.outside,
        );
        if let Some(children) = &mut process.children {
            leave_waits(
                &is_left,
                Outside::Other,
                &mut children.on,
                &mut children.shares,
                &mut children.outside,
            );
        }
        process.process.ends.retain(|end| !is_left(end.pipe));
    }
}

/// The terminals at which nothing moved: a writer waited for room all the time and nobody for its
/// output, or the holder of the master waited for that and nothing else.
fn still(processes: &[Observed]) -> BTreeSet<TerminalId> {
    let living = || processes.iter().filter(|process| !process.has_ended);
    let waits = living().flat_map(|process| process.on.iter().map(move |on| (process, on)));
    let waits: Vec<(&Observed, &OnLink)> = waits.filter(|(_, on)| on.pipe.is_terminal()).collect();
    // Waited for on both sides, the output was stopped by Ctrl-S.
    let is_stopped = |link: LinkId| {
        let mut sides = waits.iter().filter(|(_, on)| on.pipe == link);
        sides.clone().any(|(_, on)| on.side == LinkSide::Input)
            && sides.any(|(_, on)| on.side == LinkSide::Room)
    };
    let is_awake = |process: &Observed| {
        let Shares {
            runs, queued, disk, ..
        } = process.shares;
        runs + queued + disk > MAX_AWAKE
    };
    let is_silent = |link: LinkId| {
        let mut writers = living().filter(|process| process.process.holds(link, LinkSide::Room));
        !writers.any(is_awake)
    };
    waits
        .iter()
        .filter(|(_, on)| on.share >= MIN_WAITING && !is_stopped(on.pipe))
        .filter(|(process, on)| match on.side {
            LinkSide::Room => process.is_frozen,
            LinkSide::Input => waits_only_for(process, on.pipe) && is_silent(on.pipe),
        })
        .filter_map(|(_, on)| on.pipe.terminal())
        .collect()
}

/// What is written to terminals whose masters are read by processes that were asked for, as by script(1), and where
/// who writes waits for these. If it is stopped by Ctrl-S, both wait at the same time.
fn passed_on(processes: &[Observed]) -> BTreeSet<LinkId> {
    /// Who waits for room for a smaller share is not held up.
    const MIN_BLOCKED: f64 = 0.1;
    /// What the waits may add up to if they are by turns. The kernel passes on later what is written: of a fast
    /// writer and reader they add up to 1.25.
    const MAX_BY_TURNS: f64 = 1.5;
    let living = || processes.iter().filter(|process| !process.has_ended);
    let waits = living().flat_map(|process| process.on.iter().map(move |on| (process, on)));
    let blocked = waits.filter(|(_, on)| {
        on.pipe.is_terminal() && on.side == LinkSide::Room && on.share >= MIN_BLOCKED
    });
    let is_read = |writer: &Observed, room: &OnLink| {
        living().any(|reader| {
            let waited: f64 = reader
                .on
                .iter()
                .filter_map(|on| {
                    ((on.pipe, on.side) == (room.pipe, LinkSide::Input)).then_some(on.share)
                })
                .sum();
            reader.is_asked
                && reader.process.id != writer.process.id
                && reader.process.holds(room.pipe, LinkSide::Input)
                && room.share + waited <= MAX_BY_TURNS
        })
    };
    blocked
        .filter(|(writer, room)| is_read(writer, room))
        .map(|(_, room)| room.pipe)
        .collect()
}

/// Whether all that the threads of a process wait for is this link, besides each other and time.
fn waits_only_for(process: &Observed, link: LinkId) -> bool {
    process.threads.iter().all(|state| match state {
        ThreadState::Waiting(BlockedOn::Pipes { any_of, or }) => {
            matches!(or, None | Some(Outside::Timer)) && any_of.iter().all(|on| on.pipe == link)
        }
        ThreadState::Waiting(BlockedOn::Thread | BlockedOn::Child(_)) => true,
        ThreadState::Waiting(BlockedOn::Outside(outside)) => {
            matches!(outside, Outside::Lock | Outside::LockOrTimer)
        }
        _ => false,
    })
}

/// Whether children work or print for most of the time in which their parent waits.
fn are_busy(children: &Children) -> bool {
    let Shares {
        runs,
        queued,
        disk,
        blocked,
        ..
    } = children.shares;
    runs + queued + disk + blocked >= MIN_BUSY * children.shares.sum()
}

/// Moves the shares of waits on links that are left out.
fn leave_waits(
    is_left: &dyn Fn(LinkId) -> bool,
    awaited: Outside,
    on: &mut Vec<OnLink>,
    shares: &mut Shares,
    outside_shares: &mut BTreeMap<Outside, f64>,
) {
    let (left, rest): (Vec<OnLink>, Vec<OnLink>) = on.iter().partition(|on| is_left(on.pipe));
    for wait in &left {
        let same_side = rest.iter().filter(|other| other.side == wait.side);
        let real = same_side.map(|other| other.share).fold(0.0, f64::max);
        let (share, outside) = match wait.side {
            LinkSide::Input => (&mut shares.starved, awaited),
            LinkSide::Room => (&mut shares.blocked, Outside::Terminal),
        };
        let moved = wait.share.min(*share - real).max(0.0);
        *share -= moved;
        shares.elsewhere += moved;
        if moved > 0.0 {
            *outside_shares.entry(outside).or_default() += moved;
        }
    }
    *on = rest;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{busy, frozen, on_outside, process};
    use crate::proc::terminals::TerminalFd;
    use crate::wait::LinkWait;

    const TERMINAL: TerminalId = TerminalId {
        device: 26,
        number: 3,
    };

    fn output() -> LinkId {
        LinkId::Terminal {
            device: TERMINAL.device,
            number: TERMINAL.number,
            is_output: true,
        }
    }

    fn on(side: LinkSide, or: Option<Outside>) -> ThreadState {
        ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: output(),
                fd: None,
                side,
            }],
            or,
        })
    }

    fn at_terminal(fd: i32, is_master: bool, thread: ThreadState) -> Observed {
        let end = TerminalFd {
            fd,
            terminal: TERMINAL,
            is_master,
        };
        frozen(process(fd, "x", end.ends().collect()), thread)
    }

    #[test]
    fn who_reads_what_its_busy_child_prints_waits_for_that() {
        let awaited = |runs: f64, elsewhere: f64| {
            let mut holder = at_terminal(5, true, on(LinkSide::Input, Some(Outside::Event)));
            holder.children = Some(Children {
                names: vec!["perl".to_owned()],
                awaited: Vec::new(),
                shares: Shares {
                    runs,
                    elsewhere,
                    ..Shares::default()
                },
                outside: BTreeMap::new(),
                on: Vec::new(),
                processors: runs,
                are_short: false,
                are_descendants: false,
            });
            leave_attended(std::slice::from_mut(&mut holder));
            assert_eq!(holder.shares.elsewhere, 1.0);
            holder.mainly()
        };
        assert_eq!(awaited(0.97, 0.0), Some(Outside::Child));
        assert_eq!(awaited(0.1, 0.9), Some(Outside::Other));
        // It works itself for the rest of the time.
        assert_eq!(awaited(0.3, 0.0), Some(Outside::Child));
    }

    #[test]
    fn only_terminals_that_stand_still_and_have_no_person_are_kept() {
        let writes = || at_terminal(1, false, on(LinkSide::Room, None));
        let reads = || at_terminal(1, false, on_outside(Outside::Terminal));
        let works = || Observed {
            shares: busy(process(1, "x", Vec::new()), 0.9, 0.0, 0.0).shares,
            ..at_terminal(1, false, ThreadState::Working)
        };
        let holder = |thread| at_terminal(5, true, thread);
        let waits = |or| holder(on(LinkSide::Input, or));
        for (case, program, holder, is_kept) in [
            ("unread", writes(), holder(on_outside(Outside::Child)), true),
            ("Ctrl-S", writes(), waits(None), false),
            ("both wait", reads(), waits(None), true),
            ("expect", reads(), waits(Some(Outside::Timer)), true),
            ("script", reads(), waits(Some(Outside::Terminal)), false),
            ("sshd", reads(), waits(Some(Outside::Socket)), false),
            ("busy", works(), waits(None), false),
        ] {
            let mut all = [program, holder];
            leave_attended(&mut all);
            let ends = all.iter().map(|process| process.process.ends.len());
            assert_eq!(ends.sum::<usize>() > 0, is_kept, "{case}");
            let waited = all.iter().map(|process| process.on.len()).sum::<usize>();
            assert_eq!(waited > 0, is_kept, "{case}");
            let [_, holder] = &all;
            if case == "script" {
                assert_eq!(holder.shares.elsewhere, 1.0);
                assert_eq!(holder.outside[&Outside::Other], 1.0);
            }
        }
    }

    /// `script -c "cat | tr" | gzip`.
    #[test]
    fn who_waits_for_a_reader_of_its_terminal_waits_for_that_one() {
        let kept = |room: f64, input: f64, is_asked: bool| {
            let mut writer = at_terminal(1, false, on(LinkSide::Room, None));
            writer.is_frozen = false;
            writer.on[0].share = room;
            writer.shares.blocked = room;
            let mut script = at_terminal(5, true, on(LinkSide::Input, Some(Outside::Terminal)));
            script.is_asked = is_asked;
            script.on[0].share = input;
            let mut all = [writer, script];
            leave_attended(&mut all);
            // Only what is written there is kept, not what is typed.
            let links = all.iter().flat_map(|process| process.process.ends.iter());
            assert!(links.clone().all(|end| end.pipe == output()));
            let waited = all[0].shares.blocked > 0.0;
            assert_eq!(waited, !all[0].outside.contains_key(&Outside::Terminal));
            (links.count() == 2 && waited, all[1].on.len())
        };
        assert_eq!(kept(0.5, 0.5, true), (true, 1));
        // Ctrl-S, and somebody else's terminal.
        assert_eq!(kept(0.9, 1.0, true), (false, 0));
        assert_eq!(kept(0.5, 0.5, false), (false, 0));
    }
}
