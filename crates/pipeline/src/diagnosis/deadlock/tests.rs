use super::*;
use crate::fixtures::{
    busy, child_of, frozen, observation, on_child, on_input, on_outside, on_room, process, reads,
    writes,
};
use crate::proc::LinkFd;
use crate::wait::Outside;

fn kinds(processes: Vec<Observed>) -> Vec<DeadlockKind> {
    let deadlocks = deadlocks(&observation(processes));
    deadlocks
        .into_iter()
        .map(|deadlock| deadlock.kind)
        .collect()
}

/// Two processes with a pipe each way: 1 from the first, 2 from the second.
fn pair(first: ThreadState, second: ThreadState) -> Vec<Observed> {
    vec![
        frozen(process(10, "a", vec![reads(0, 2), writes(1, 1)]), first),
        frozen(process(11, "b", vec![reads(0, 1), writes(1, 2)]), second),
    ]
}

/// A parent with a child, whose input it writes and whose output it reads.
fn parent_and_child(parent: ThreadState, child: ThreadState) -> Vec<Observed> {
    let ends = vec![writes(4, 1), reads(5, 2), reads(6, 3)];
    let own = child_of(
        10,
        process(11, "child", vec![reads(0, 1), writes(1, 2), writes(2, 3)]),
    );
    vec![
        frozen(process(10, "parent", ends), parent),
        frozen(own, child),
    ]
}

#[test]
fn each_kind_of_deadlock_is_named() {
    let own = || process(10, "a", vec![reads(3, 1), writes(4, 1)]);
    let peer = ThreadState::Waiting(BlockedOn::FifoPeer { path: None });
    let mut ran = pair(on_room(1), on_room(2));
    ran[1].is_frozen = false;
    // `exec 5> >(sort | uniq); wait`: a subshell waits for both.
    let child = |pid, name, ends| child_of(11, process(pid, name, ends));
    let grandchild = vec![
        frozen(process(10, "bash", vec![writes(5, 1)]), on_child()),
        frozen(child_of(10, process(11, "bash", vec![])), on_child()),
        frozen(
            child(12, "sort", vec![reads(0, 1), writes(1, 2)]),
            on_input(1),
        ),
        frozen(child(13, "uniq", vec![reads(0, 2)]), on_input(2)),
    ];
    let hidden_peer = process(10, "a", vec![reads(0, 1)]);
    for (processes, expected) in [
        (pair(on_room(1), on_room(2)), Some(DeadlockKind::AllWrite)),
        (pair(on_input(2), on_input(1)), Some(DeadlockKind::AllRead)),
        // The child's errors fill pipe 3, and the parent reads pipe 2.
        (
            parent_and_child(on_input(2), on_room(3)),
            Some(DeadlockKind::OtherPipe),
        ),
        (
            parent_and_child(on_child(), on_room(2)),
            Some(DeadlockKind::UnreadOutput),
        ),
        (
            parent_and_child(on_child(), on_input(1)),
            Some(DeadlockKind::MissingEnd),
        ),
        (grandchild, Some(DeadlockKind::MissingEnd)),
        (vec![frozen(own(), on_input(1))], Some(DeadlockKind::OwnEnd)),
        (
            vec![frozen(own(), on_room(1))],
            Some(DeadlockKind::OwnOutput),
        ),
        (
            vec![frozen(process(10, "a", vec![]), peer)],
            Some(DeadlockKind::NoPeer),
        ),
        (ran, None),
        (vec![frozen(hidden_peer, on_input(1))], None),
    ] {
        let found = kinds(processes);
        assert_eq!(found, Vec::from_iter(expected), "{expected:?}");
    }
}

#[test]
fn end_of_child_wakes_a_process_that_handles_its_signal() {
    // make waits for a slot of its job server or for the end of a compiler.
    let make = || Observed {
        handled_signals: 1 << (libc::SIGCHLD - 1),
        ..frozen(
            process(10, "make", vec![reads(3, 1), writes(4, 1)]),
            on_input(1),
        )
    };
    let compiler = |state| {
        let own = child_of(10, process(11, "cc", vec![]));
        frozen(own, state)
    };
    let disk = compiler(ThreadState::Disk);
    let parent = || {
        frozen(
            process(9, "make", vec![reads(3, 1), writes(4, 1)]),
            on_input(1),
        )
    };
    assert_eq!(kinds(vec![parent(), make(), disk]), []);
    let stuck = compiler(on_input(1));
    assert_eq!(kinds(vec![parent(), make(), stuck]).len(), 1);
}

#[test]
fn a_process_that_something_outside_can_wake_is_not_stuck() {
    for outside in [Outside::Socket, Outside::Terminal, Outside::Timer] {
        let wait = on_outside(outside);
        assert_eq!(kinds(pair(on_input(2), wait)), []);
    }
    let polling = ThreadState::Waiting(BlockedOn::Pipes {
        any_of: vec![LinkWait {
            pipe: LinkId::pipe(2),
            fd: Some(0),
            side: LinkSide::Input,
        }],
        or: Some(Outside::Timer),
    });
    assert_eq!(kinds(pair(polling, on_input(1))), []);
}

#[test]
fn all_alternatives_of_a_poll_must_be_in_the_deadlock() {
    let both = ThreadState::Waiting(BlockedOn::Pipes {
        any_of: [(1, LinkSide::Room), (2, LinkSide::Input)]
            .map(|(inode, side)| LinkWait {
                pipe: LinkId::pipe(inode),
                fd: None,
                side,
            })
            .to_vec(),
        or: None,
    });
    assert_eq!(kinds(pair(both.clone(), on_input(1))).len(), 1);
    let mut third = pair(both, on_input(1));
    third.push(busy(process(12, "c", vec![writes(1, 2)]), 0.1, 0.0, 0.0));
    assert_eq!(kinds(third), []);
}

#[test]
fn a_pipe_is_not_both_full_and_empty() {
    let on = |side| {
        let pipe = LinkId::pipe(1);
        let wait = LinkWait {
            pipe,
            fd: Some(1),
            side,
        };
        ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![wait],
            or: None,
        })
    };
    let moving = || {
        vec![
            frozen(process(10, "a", vec![writes(1, 1)]), on(LinkSide::Room)),
            frozen(process(11, "b", vec![reads(1, 1)]), on(LinkSide::Input)),
        ]
    };
    assert_eq!(kinds(moving()), []);
    // Which pipe is not known.
    let mut unknown = moving();
    unknown[1].threads = vec![on_input(1)];
    assert_eq!(kinds(unknown), [DeadlockKind::OtherPipe]);
}

#[test]
fn hidden_relatives_and_signal_handlers_may_wake_a_process() {
    let certainties = |unseen, change: fn(&mut Observation)| {
        let mut processes = pair(on_room(1), on_room(2));
        processes[1].unseen = unseen;
        let mut observation = observation(processes);
        change(&mut observation);
        let deadlocks = deadlocks(&observation).into_iter();
        deadlocks
            .map(|deadlock| deadlock.certainty)
            .collect::<Vec<Certainty>>()
    };
    let same = |_: &mut Observation| {};
    assert_eq!(certainties(Unseen::None, same), [Certainty::Clear]);
    assert_eq!(certainties(Unseen::Strangers, same), [Certainty::Likely]);
    assert_eq!(certainties(Unseen::Relatives, same), []);
    let unlisted = certainties(Unseen::None, |observation| {
        observation.hides_processes = true
    });
    assert_eq!(unlisted, [Certainty::Likely]);
    let handling = |signal: i32| {
        let mut processes = pair(on_room(1), on_room(2));
        processes[1].handled_signals = 1 << (signal - 1);
        deadlocks(&observation(processes))[0].certainty
    };
    for signal in [libc::SIGUSR1, libc::SIGHUP, libc::SIGURG, 34, 64] {
        assert_eq!(handling(signal), Certainty::Likely, "{signal}");
    }
    // The last one is used by the C library.
    for signal in [libc::SIGCHLD, libc::SIGTERM, 33] {
        assert_eq!(handling(signal), Certainty::Clear, "{signal}");
    }
    // A program's timer may let it send, unless it handles all signals.
    for (signals, expected) in [
        (&[libc::SIGALRM][..], true),
        (&[libc::SIGALRM, libc::SIGVTALRM], false),
        (&[libc::SIGUSR1], false),
    ] {
        let mut processes = pair(on_input(2), on_input(1));
        let bits = signals.iter().map(|signal| 1 << (signal - 1));
        processes[1].handled_signals = bits.sum();
        let observation = observation(processes);
        let found = deadlocks(&observation);
        assert_eq!(found[0].certainty, Certainty::Likely);
        assert_eq!(may_go_on(&observation, &found[0]), expected, "{signals:?}");
    }
    // Calls by io_uring go on while all threads wait.
    let mut processes = pair(on_room(1), on_room(2));
    processes[1].process.others.has_uring = true;
    assert_eq!(deadlocks(&observation(processes)), []);
}

#[test]
fn a_requested_timeout_ends_what_runs_under_it() {
    let certainty = |name, is_asked| {
        let sleeps = on_outside(Outside::Signal);
        let mut above = frozen(process(9, name, Vec::new()), sleeps);
        above.is_asked = is_asked;
        let mut processes = pair(on_room(1), on_room(2));
        processes[1].ancestors = vec![9, 1];
        processes.push(above);
        deadlocks(&observation(processes))[0].certainty
    };
    assert_eq!(certainty("timeout", true), Certainty::Likely);
    assert_eq!(certainty("timeout", false), Certainty::Clear);
    assert_eq!(certainty("sh", true), Certainty::Clear);
}

#[test]
fn the_end_of_the_observer_wakes_its_parent() {
    let stuck = |parent, wait: BlockedOn| {
        let mut observation =
            observation(parent_and_child(ThreadState::Waiting(wait), on_input(1)));
        observation.own_parent = parent;
        !deadlocks(&observation).is_empty()
    };
    for wait in [None, Some(12)] {
        assert!(!stuck(Some(10), BlockedOn::Child(wait)));
        // In another namespace the child has another number.
        assert!(stuck(None, BlockedOn::Child(wait)));
    }
    assert!(stuck(Some(10), BlockedOn::Child(Some(11))));
}

#[test]
fn a_signal_handler_may_write_to_its_own_pipe() {
    let own = process(10, "a", vec![reads(3, 1), writes(4, 1)]);
    let mut observed = frozen(own, on_input(1));
    observed.handled_signals = 1 << (libc::SIGTERM - 1);
    assert_eq!(kinds(vec![observed.clone()]), []);
    observed.handled_signals = 1 << (libc::SIGINT - 1);
    assert_eq!(kinds(vec![observed]), [DeadlockKind::OwnEnd]);
}

/// make's jobs wait for a token in a pipe of which each has both ends, and so have those that can't be seen.
#[test]
fn whoever_waits_on_what_the_observer_has_too_may_be_woken_from_outside() {
    let own = process(10, "a", vec![reads(3, 1), writes(4, 1)]);
    let mut observation = observation(vec![frozen(own, on_input(1))]);
    assert_eq!(deadlocks(&observation).len(), 1);
    observation.own_links = [LinkId::pipe(1)].into();
    assert_eq!(deadlocks(&observation), []);
}

#[test]
fn stopped_stage_is_a_deadlock_if_another_waits_for_it() {
    let stopped = || frozen(process(10, "a", vec![writes(1, 1)]), ThreadState::Stopped);
    let reader = frozen(process(11, "b", vec![reads(0, 1)]), on_input(1));
    let found = kinds(vec![stopped(), reader]);
    assert_eq!(found, [DeadlockKind::Stopped]);
    let mut everything = observation(vec![stopped()]);
    everything.is_survey = true;
    assert_eq!(deadlocks(&everything), []);
}

#[test]
fn a_thread_that_waits_for_another_one_changes_nothing() {
    let mut processes = pair(on_room(1), on_room(2));
    processes[0]
        .threads
        .push(ThreadState::Waiting(BlockedOn::Thread));
    assert_eq!(kinds(processes), [DeadlockKind::AllWrite]);
    let alone = frozen(
        process(10, "a", vec![]),
        ThreadState::Waiting(BlockedOn::Thread),
    );
    assert_eq!(kinds(vec![alone]), []);
}

/// `subprocess.run(..., timeout=60)`, and a script that goes on while a job of it is stuck.
#[test]
fn what_has_started_them_may_end_them() {
    let doubts = |above: Observed| {
        let mut both = pair(on_room(1), on_room(2));
        both[1].ancestors = vec![9, 1];
        both.push(above);
        deadlocks(&observation(both)).remove(0).doubts
    };
    let above = |thread: ThreadState| frozen(process(9, "above", vec![reads(7, 3)]), thread);
    let with_timeout = above(on_outside(Outside::Timer));
    assert_eq!(doubts(with_timeout), [PossibleEnd::OtherProcess]);
    assert_eq!(doubts(above(on_outside(Outside::Event))), []);
    let mut runs = above(on_outside(Outside::Event));
    runs.is_frozen = false;
    assert_eq!(doubts(runs.clone()), [PossibleEnd::OtherProcess]);
    runs.is_asked = false;
    assert_eq!(doubts(runs), []);
    // `(sleep 6; kill $job) & wait $job`
    let script = |sleep: Observed| {
        let mut all = pair(on_room(1), on_room(2));
        all[1].ancestors = vec![9, 1];
        all.extend([above(on_child()), sleep]);
        deadlocks(&observation(all)).remove(0).doubts
    };
    let sleep = |waits: ThreadState| frozen(child_of(9, process(12, "sleep", vec![])), waits);
    let timed = sleep(on_outside(Outside::Timer));
    assert_eq!(script(timed), [PossibleEnd::OtherProcess]);
    // It may wait for anybody outside.
    let watches = sleep(on_outside(Outside::Event));
    assert_eq!(script(watches), [PossibleEnd::OtherProcess]);
    let joins = sleep(ThreadState::Waiting(BlockedOn::Thread));
    assert_eq!(script(joins), []);
    let mut own = pair(on_room(1), on_room(2));
    let below = child_of(11, process(12, "sh", vec![]));
    own.push(frozen(below, on_outside(Outside::Timer)));
    let found = deadlocks(&observation(own)).remove(0);
    assert_eq!(found.doubts, [PossibleEnd::OtherProcess]);
}

#[test]
fn a_stopped_process_that_could_help_may_be_continued() {
    let mut all = pair(on_room(1), on_room(2));
    all.push(frozen(
        process(12, "c", vec![reads(5, 1)]),
        ThreadState::Stopped,
    ));
    let found = deadlocks(&observation(all));
    let found = found.iter().find(|found| found.members.len() == 2);
    assert!(found.unwrap().doubts.contains(&PossibleEnd::Anybody));
}

/// A coprocess that reads a FIFO, whose write end the shell keeps for others.
#[test]
fn anybody_may_end_a_wait_at_a_fifo() {
    let doubts = |is_fifo: bool| {
        let mut both = pair(on_input(2), on_input(1));
        let fifo = |pipe: &mut LinkId| {
            if is_fifo && *pipe == LinkId::pipe(1) {
                *pipe = LinkId::Fifo {
                    device: 1,
                    inode: 1,
                };
            }
        };
        for process in &mut both {
            let mut ends: Vec<LinkFd> = process.process.ends.iter().cloned().collect();
            ends.iter_mut().for_each(|end| fifo(&mut end.pipe));
            process.process.ends = ends.into();
            process.on.iter_mut().for_each(|on| fifo(&mut on.pipe));
            for state in &mut process.threads {
                if let ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) = state {
                    any_of.iter_mut().for_each(|on| fifo(&mut on.pipe));
                }
            }
        }
        deadlocks(&observation(both)).remove(0).doubts
    };
    assert_eq!(doubts(false), []);
    assert_eq!(doubts(true), [PossibleEnd::Anybody]);
}
