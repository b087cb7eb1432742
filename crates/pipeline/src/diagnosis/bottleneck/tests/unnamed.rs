//! Pipelines of which no stage is named.

use super::*;

#[test]
fn stages_that_wait_by_turns_are_not_blamed() {
    let findings = found(chain(&[(0.5, 0.5, 0.0), (0.5, 0.0, 0.5)]));
    assert!(
        matches!(findings[..], [Finding::PingPong { .. }]),
        "{findings:?}"
    );
}

#[test]
fn only_the_stages_at_the_pipe_at_which_they_wait_take_turns() {
    let findings = found(chain(&[(0.6, 0.3, 0.0), (0.7, 0.0, 0.3), (0.0, 0.0, 1.0)]));
    let [Finding::PingPong { stages, .. }] = &findings[..] else {
        panic!("{findings:?}");
    };
    let pids: Vec<i32> = stages.iter().map(|stage| stage.who.pid).collect();
    assert_eq!(pids, [1, 2]);
}

/// `python3 | wc`, which waits for its child ffmpeg, and has its errors.
#[test]
fn a_parent_does_nothing_besides_its_child_that_is_a_stage() {
    let mut stages = chain(&[(0.5, 0.0, 0.0), (0.5, 0.0, 0.0)]);
    stages[0].process.parent = 3;
    stages[0].process.ends.extend([writes(2, 9)]);
    let mut parent = frozen(process(3, "python3", vec![reads(3, 9)]), on_child());
    parent.children = Some(Children {
        names: vec!["s1".to_owned()],
        awaited: vec![1],
        shares: Shares {
            runs: 0.5,
            queued: 0.5,
            ..Shares::default()
        },
        outside: BTreeMap::new(),
        on: Vec::new(),
        processors: 0.5,
        are_short: false,
        are_descendants: false,
    });
    stages.push(parent);
    let findings = found_beside(stages, &[0.5, 0.5, 0.0], &[0.01, 0.0], 1.0);
    let [Finding::PingPong { stages, .. }] = &findings[..] else {
        panic!("{findings:?}");
    };
    let pids: Vec<i32> = stages.iter().map(|stage| stage.who.pid).collect();
    assert_eq!(pids, [1, 2]);
}

/// A client and a server by two pipes, and `cat` after the client.
#[test]
fn two_that_answer_each_other_take_turns() {
    let found = |client: f64, server: f64| {
        let talks = |pid, reads_from, writes_to, runs: f64| {
            let mut ends = vec![reads(3, reads_from), writes(4, writes_to)];
            if pid == 1 {
                ends.push(writes(1, 3));
            }
            busy(process(pid, "python3", ends), runs, 0.0, 1.0 - runs)
        };
        let cat = busy(process(3, "cat", vec![reads(0, 3)]), 0.01, 0.0, 0.99);
        found(vec![talks(1, 1, 2, client), talks(2, 2, 1, server), cat])
    };
    let findings = found(0.5, 0.49);
    let [
        Finding::PingPong {
            stages,
            delay: None,
        },
    ] = &findings[..]
    else {
        panic!("{findings:?}");
    };
    let pids: Vec<i32> = stages.iter().map(|stage| stage.who.pid).collect();
    assert_eq!(pids, [1, 2]);
    // A person at the client takes most of the time.
    let takes_turns = |finding: &Finding| matches!(finding, Finding::PingPong { .. });
    assert!(!found(0.1, 0.1).iter().any(takes_turns));
}

/// A connection whose network is slow: who sends waits for room, and who receives for data.
#[test]
fn stages_that_wait_at_once_take_no_turns() {
    let found = |link: LinkId, room: f64, input: f64| {
        let mut sends = process(1, "socat", vec![writes(5, 7)]);
        let mut receives = process(2, "socat", vec![reads(5, 7)]);
        for process in [&mut sends, &mut receives] {
            let mut ends: Vec<LinkFd> = process.ends.iter().cloned().collect();
            ends[0].pipe = link;
            process.ends = ends.into();
        }
        let stages = vec![
            busy(sends, 1.0 - room, room, 0.0),
            busy(receives, 1.0 - input, 0.0, input),
        ];
        let observation = observation(stages);
        let findings = bottlenecks(&observation, &BTreeSet::new());
        match &findings[..] {
            [Finding::PingPong { .. }] => true,
            [Finding::Unclear { active, .. }] => {
                let stages = active.iter().map(|stage| observation.find(stage.who.pid));
                let stages: Vec<&Observed> = stages.flatten().collect();
                let between = observation.slow_connection(&stages);
                let pids = between.map(|(writer, reader)| (writer.pid, reader.pid));
                assert_eq!(pids, Some((1, 2)));
                false
            }
            _ => panic!("{findings:?}"),
        }
    };
    let socket = LinkId::socket(7);
    assert!(!found(socket, 0.98, 0.96));
    assert!(found(socket, 0.6, 0.5));
    // Never of a pipe.
    assert!(found(LinkId::pipe(7), 0.7, 0.6));
}

/// A client and its server, each of which waits for the other one's acknowledgement (TCP_NODELAY in tcp(7)).
#[test]
fn two_that_hardly_do_anything_but_wait_for_each_other_are_told() {
    let found = |link: fn(u64) -> LinkId, share: f64| {
        let both = [(1, "client", 7, 8), (2, "server", 8, 7)].map(|(pid, name, input, room)| {
            let mut stage = process(pid, name, vec![reads(5, input), writes(5, room)]);
            let mut ends: Vec<LinkFd> = stage.ends.iter().cloned().collect();
            for end in &mut ends {
                end.pipe = link(end.pipe.inode());
            }
            stage.ends = ends.into();
            let mut stage = busy(stage, 1.0 - share, 0.0, share);
            stage.on.retain(|on| on.side == LinkSide::Input);
            stage
        });
        let observation = observation(both.into());
        let findings = bottlenecks(&observation, &BTreeSet::new());
        matches!(findings[..], [Finding::Unclear { .. }])
    };
    assert!(found(LinkId::socket, 0.98));
    assert!(!found(LinkId::socket, 0.7));
    assert!(!found(LinkId::pipe, 0.98));
}

/// Two filters that hold one lock by turns.
#[test]
fn stages_between_a_blocked_and_a_starved_one_hold_them_up() {
    let mut stages = chain(&[
        (0.0, 1.0, 0.0),
        (0.49, 0.0, 0.0),
        (0.48, 0.0, 0.0),
        (0.0, 0.0, 1.0),
    ]);
    for stage in &mut stages[1..3] {
        stage.shares.elsewhere = 0.5;
        stage.outside = [(Outside::FileLock, 0.5)].into();
    }
    let findings = found(stages);
    assert!(
        matches!(findings[..], [Finding::Unclear { .. }]),
        "{findings:?}"
    );
}

/// `diff <(sort a) <(sort b)` reads the first one to its end.
#[test]
fn a_writer_whose_turn_comes_later_takes_none_with_the_reader() {
    let sort = |pid, at, runs, blocked| {
        busy(
            process(pid, "sort", vec![writes(1, at)]),
            runs,
            blocked,
            0.0,
        )
    };
    let mut diff = busy(
        process(3, "diff", vec![reads(3, 1), reads(4, 2)]),
        0.48,
        0.0,
        0.52,
    );
    diff.on.retain(|on| on.pipe.inode() == 1);
    let findings = found(vec![sort(1, 1, 0.67, 0.0), sort(2, 2, 0.48, 0.52), diff]);
    let takes_turns = |finding: &Finding| matches!(finding, Finding::PingPong { .. });
    assert!(!findings.iter().any(takes_turns), "{findings:?}");
}

#[test]
fn stages_that_never_ran_do_not_take_turns() {
    let frozen = |process, thread| frozen(process, thread);
    let findings = found(vec![
        frozen(process(1, "tee", vec![writes(1, 1)]), on_room(9)),
        frozen(
            process(2, "sort", vec![reads(0, 1), writes(1, 2)]),
            on_input(1),
        ),
        frozen(process(3, "cmp", vec![reads(0, 2)]), on_input(2)),
    ]);
    let has_turns = findings
        .iter()
        .any(|finding| matches!(finding, Finding::PingPong { .. }));
    assert!(!has_turns, "{findings:?}");
}

#[test]
fn stages_beside_a_timer_do_not_only_take_turns() {
    let mut stages = chain(&[(0.5, 0.5, 0.0), (0.1, 0.0, 0.5)]);
    let has_turns = |stages: &[Observed]| {
        let findings = found(stages.to_vec());
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::PingPong { .. }))
    };
    assert!(has_turns(&stages));
    stages[1].shares.elsewhere = 0.4;
    assert!(!has_turns(&stages));
}

#[test]
fn pipelines_that_are_mostly_idle_are_not_unclear() {
    let found = |shares: &[(f64, f64, f64)], queued: &[f64], busy: f64| {
        found_beside(chain(shares), queued, &[0.5], busy)
    };
    // They keep up.
    let idle = [(0.2, 0.0, 0.35), (0.2, 0.0, 0.35)];
    assert_eq!(found(&idle, &[0.0, 0.0], 0.3), []);
    let is_unclear = |findings: &[Finding]| matches!(findings, [Finding::Unclear { .. }]);
    // One runs for most of the time, or the processors are full.
    let busy = [(0.65, 0.0, 0.0), (0.65, 0.0, 0.0)];
    assert!(is_unclear(&found(&busy, &[0.0, 0.0], 0.7)));
    assert!(is_unclear(&found(&idle, &[0.25, 0.25], 1.0)));
}

/// `cat <&3 | wc`, where 3 is a connection to a server that keeps it open: each waits for the other one's message, but
/// for a thread that waits for the next client.
#[test]
fn stages_that_wait_for_each_other_are_unclear() {
    let server = process(1, "server", vec![reads(4, 2), writes(4, 3)]);
    let mut server = frozen(server, on_input(2));
    server.threads.push(on_outside(Outside::SocketOrTimer));
    let client = process(2, "cat", vec![reads(0, 3), writes(0, 2), writes(1, 4)]);
    let client = frozen(client, on_input(3));
    let stages = vec![
        server,
        client,
        frozen(process(3, "wc", vec![reads(0, 4)]), on_input(4)),
    ];
    let findings = found(stages.clone());
    assert!(
        matches!(findings[..], [Finding::Unclear { .. }]),
        "{findings:?}"
    );
    let mut looks = stages.clone();
    looks[0].is_frozen = false;
    assert_eq!(found(looks.clone()).len(), 1);
    // They may be talking.
    looks[1].is_frozen = false;
    assert_eq!(found(looks), []);
    // The source is another one.
    assert_eq!(found(stages[1..].to_vec()), []);
}

/// `client | wc`: the server lets its client wait for a timer.
#[test]
fn stages_that_all_wait_for_input_are_unclear_if_a_timer_may_end_that() {
    let client = process(1, "client", vec![writes(5, 2), reads(6, 3), writes(1, 4)]);
    let mut client = busy(client, 0.02, 0.0, 0.97);
    client.on.retain(|on| on.pipe == LinkId::pipe(3));
    let server = busy(
        process(2, "server", vec![reads(4, 2), writes(4, 3)]),
        0.02,
        0.0,
        0.93,
    );
    let wc = busy(process(3, "wc", vec![reads(0, 4)]), 0.01, 0.0, 0.99);
    let mut stages = vec![client, server, wc];
    assert_eq!(found(stages.clone()), []);
    stages[1].polled = [(LinkId::pipe(2), LinkSide::Input)].into();
    let findings = found(stages.clone());
    let [Finding::Unclear { event_loops, .. }] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(event_loops[..], [stages[1].who()]);
    // Nobody asks for anything.
    stages[1].is_frozen = true;
    assert_eq!(found(stages), []);
}

/// Two shells whose children take turns by a lock, and a reader that waits for what they write.
#[test]
fn workers_of_which_each_is_busy_by_turns_are_busy_together() {
    let worker = |pid: i32, runs: f64| {
        let shares = Shares {
            runs,
            elsewhere: 1.0 - runs,
            ..Shares::default()
        };
        let mut worker = super::children::shell(shares, Vec::new());
        worker.process.id.pid = pid;
        worker.process.ends = vec![writes(1, 8)].into();
        worker.is_frozen = false;
        worker
    };
    let reader = || frozen(process(4, "md5sum", vec![reads(0, 8)]), on_input(8));
    let findings = |runs: f64| super::found(vec![worker(2, runs), worker(3, runs), reader()]);
    assert!(matches!(findings(0.45)[..], [Finding::Unclear { .. }]));
    assert_eq!(findings(0.1), []);
}

/// `cat | python3 | wc`: Python and a worker hand over to each other by semaphores.
#[test]
fn a_worker_for_which_its_parent_may_wait_by_a_lock_counts() {
    let findings = |parent_waits_for: Outside| {
        let cat = frozen(process(1, "cat", vec![writes(1, 7)]), on_room(7));
        let ends = vec![reads(0, 7), writes(1, 8)];
        let mut parent = frozen(process(2, "python3", ends), on_outside(parent_waits_for));
        (parent.is_frozen, parent.io) = (false, io(9, 9));
        let worker = child_of(2, process(3, "python3", vec![writes(1, 8)]));
        let mut worker = busy(worker, 0.92, 0.0, 0.0);
        (worker.shares.elsewhere, worker.io) = (0.08, io(0, 0));
        worker.outside = [(Outside::Lock, 0.08)].into();
        let wc = frozen(process(4, "wc", vec![reads(0, 8)]), on_input(8));
        super::found(vec![cat, parent, worker, wc])
    };
    let named = findings(Outside::Timer);
    let [Finding::Bottleneck(named)] = &named[..] else {
        panic!("{named:?}");
    };
    assert_eq!(named.stage.pid, 2);
    let unclear = findings(Outside::Lock);
    assert!(
        matches!(unclear[..], [Finding::Unclear { .. }]),
        "{unclear:?}"
    );
}

fn io(reads: u64, writes: u64) -> Option<Io> {
    Some(Io {
        reads,
        writes,
        read_bytes: 100 * reads,
        written_bytes: 100 * writes,
    })
}
