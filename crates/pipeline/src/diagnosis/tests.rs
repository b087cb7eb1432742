//! Conclusions as a whole.

use super::*;
use crate::fixtures::{
    busy, child_of, frozen, observation, on_child, on_input, on_room, process, reads, writes,
};
use crate::graph::LinkSide;
use crate::proc::{Io, LinkFd, LinkId};
use crate::sample::Children;
use crate::wait::{Outside, ThreadState};

/// `cat | tee >(gzip) >(xz) | wc`: xz has inherited tee's descriptor for gzip.
#[test]
fn filter_that_never_holds_its_writer_up_is_a_stage() {
    let child = |pid: i32, name: &str, ends| child_of(2, process(pid, name, ends));
    let ends = vec![reads(0, 7), writes(1, 8), writes(63, 9), writes(62, 10)];
    let mut tee = busy(process(2, "tee", ends), 0.1, 0.9, 0.0);
    tee.on.retain(|on| on.pipe == LinkId::pipe(10));
    let mut xz = busy(
        child(5, "xz", vec![reads(0, 10), writes(63, 9)]),
        0.9,
        0.0,
        0.1,
    );
    xz.on.retain(|on| on.side == LinkSide::Input);
    xz.ancestors = vec![2];
    let observation = observation(vec![
        busy(process(1, "cat", vec![writes(1, 7)]), 0.1, 0.9, 0.0),
        tee,
        busy(process(3, "wc", vec![reads(0, 8)]), 0.1, 0.0, 0.9),
        busy(child(4, "gzip", vec![reads(0, 9)]), 0.2, 0.0, 0.8),
        xz,
    ]);
    assert_eq!(observation.pipelines()[0].len(), 5);
}

/// `find | xargs cat | gzip`: xargs reads on once its children have got rid of their output.
#[test]
fn reader_whose_children_wait_for_the_bottleneck_leaves_nothing_unread() {
    let is_unread = |runs: f64, is_lasting: bool| {
        let find = frozen(process(1, "find", vec![writes(1, 7)]), on_room(7));
        let mut xargs = busy(
            process(2, "xargs", vec![reads(0, 7), writes(1, 8)]),
            0.02,
            0.0,
            0.0,
        );
        xargs.on.clear();
        xargs.threads = vec![on_child()];
        xargs.io = xargs.io.map(|_| Io::default());
        xargs.shares.elsewhere = 0.98;
        xargs.outside = [(Outside::Child, 0.98)].into();
        let cat = child_of(2, process(4, "cat", vec![writes(1, 8)]));
        let blocked = busy(cat, 0.1, 0.9, 0.0);
        xargs.children = Some(Children {
            names: vec!["cat".to_owned()],
            awaited: Vec::new(),
            shares: blocked.shares,
            outside: blocked.outside.clone(),
            on: blocked.on.clone(),
            processors: 0.1,
            are_short: true,
            are_descendants: false,
        });
        let mut gzip = busy(process(3, "gzip", vec![reads(0, 8)]), runs, 0.0, 1.0 - runs);
        gzip.on.retain(|on| on.side == LinkSide::Input);
        let mut all = vec![find, xargs, gzip];
        if is_lasting {
            // Then it is a stage, and that has other stages before it.
            all[1].process.ends = vec![reads(0, 7)].into();
            all.push(blocked);
        }
        let findings = diagnose(&observation(all));
        let unread = |finding: &Finding| matches!(finding, Finding::Unread(_));
        findings.iter().any(unread)
    };
    for is_lasting in [false, true] {
        assert!(!is_unread(0.98, is_lasting));
    }
    assert!(is_unread(0.02, false));
}

/// `seq | client | tee`, with a server that works on each request: the client reads on once it has the answer.
#[test]
fn client_that_talks_to_its_server_leaves_nothing_unread() {
    let socket = LinkId::socket(8);
    let verdicts = |runs: f64| {
        let seq = frozen(process(1, "seq", vec![writes(1, 7)]), on_room(7));
        let at_socket = |end: LinkFd| LinkFd {
            pipe: socket,
            ..end
        };
        let ends = vec![reads(0, 7), writes(1, 9), at_socket(reads(5, 8))];
        let mut client = busy(process(2, "client", ends), 0.0, 0.0, 1.0);
        client.on.retain(|on| on.pipe == socket);
        client.io = client.io.map(|io| Io { reads: 0, ..io });
        client.threads = vec![ThreadState::Working; 2];
        let mut tee = busy(process(3, "tee", vec![reads(0, 9)]), 0.0, 0.0, 1.0);
        tee.io = client.io;
        let ends = vec![at_socket(writes(4, 8))];
        let mut server = busy(process(4, "server", ends), runs, 0.0, 0.0);
        server.shares.starved = 1.0 - runs;
        let mut observation = observation(vec![seq, client, tee, server]);
        for link in &mut observation.pipes {
            link.fill = Some(f64::from(link.id == LinkId::pipe(7)));
        }
        let findings = diagnose(&observation);
        findings.iter().map(Finding::verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(1.0), [Severity::Slow]);
    // None is known to hold it up, as if the network did.
    assert!(!verdicts(0.1).contains(&Severity::WaitingFor));
}

/// Pipelines whose last stages, and whose errors, go to the same reader.
#[test]
fn pipelines_are_joined_only_by_a_collector_they_write_to() {
    let pipeline = |first: i32, writes_much: bool| {
        let pipe = first as u64;
        let ends = vec![writes(1, pipe), writes(2, 99), writes(251, 99)];
        let seq = process(first, "seq", ends);
        let wc = process(first + 1, "wc", vec![reads(0, pipe), writes(1, 99)]);
        let mut wc = busy(wc, 0.9, 0.0, 0.1);
        wc.on.retain(|on| on.side == LinkSide::Input);
        if !writes_much {
            wc.io = wc.io.map(|io| Io { writes: 0, ..io });
        }
        let mut seq = busy(seq, 0.1, 0.9, 0.0);
        seq.on.retain(|on| on.pipe == LinkId::pipe(pipe));
        [seq, wc]
    };
    let all = |writes_much| {
        let both = [pipeline(1, writes_much), pipeline(11, writes_much)];
        let runner = frozen(process(30, "runner", vec![reads(7, 99)]), on_input(99));
        let all = both.into_iter().flatten().chain([runner]);
        let observation = observation(all.collect());
        let pipelines = observation.pipelines().into_iter();
        let pids =
            pipelines.map(|stages| stages.iter().map(|stage| stage.process.id.pid).collect());
        pids.collect::<Vec<Vec<i32>>>()
    };
    assert_eq!(all(false), [[1, 2], [11, 12]]);
    assert_eq!(all(true), [[1, 11, 2, 12, 30]]);
}

/// `(seq | wc; echo) | tee`: what wc writes at its end goes to tee.
#[test]
fn output_of_one_pipeline_goes_on_to_its_reader() {
    let seq = process(1, "seq", vec![writes(1, 7), writes(2, 9)]);
    let wc = process(2, "wc", vec![reads(0, 7), writes(1, 9), writes(2, 9)]);
    let mut seq = busy(seq, 0.9, 0.1, 0.0);
    seq.on.retain(|on| on.pipe == LinkId::pipe(7));
    let tee = frozen(process(3, "tee", vec![reads(0, 9)]), on_input(9));
    let observation = observation(vec![seq, frozen(wc, on_input(7)), tee]);
    let pipelines = observation.pipelines();
    let pids = pipelines[0].iter().map(|stage| stage.process.id.pid);
    assert_eq!(pids.collect::<Vec<i32>>(), [1, 2, 3]);
}

/// Programs rely on them: a change is one of the schema.
#[test]
fn each_finding_has_its_keys() {
    let who = || Who {
        pid: 1,
        name: "a".to_owned(),
    };
    let pipe = LinkId::pipe(7);
    let deadlock = Deadlock {
        kind: DeadlockKind::AllRead,
        certainty: Certainty::Clear,
        doubts: Vec::new(),
        members: Vec::new(),
        waiting: Vec::new(),
    };
    let held = Finding::Held {
        pipe,
        holder: None,
        is_stuck: true,
    };
    let leaked = LeakedWriteEnd {
        pipe,
        reader: who(),
        holder: who(),
        fd: 5,
        is_output: false,
        waits_for: Vec::new(),
        is_last: true,
    };
    let calls = SmallCalls {
        process: who(),
        side: LinkSide::Room,
        bytes_per_call: 1.0,
        calls_per_s: 1.0,
        wakes: None,
    };
    let small = Finding::SmallPipe {
        pipe,
        capacity: 8192,
        cause: SmallPipeCause::SoftLimit,
        between: Vec::new(),
    };
    let unread = Unread {
        pipe,
        writer: who(),
        fd: Some(2),
        may_be_read: false,
        are_readers_idle: true,
        has_lasted: false,
        readers: Vec::new(),
    };
    let mutual = MutualWait {
        sides: vec![WaitingSide {
            who: who(),
            pipe,
            fd: Some(5),
            writers: vec![who()],
            has_timeout: false,
        }],
    };
    let turns = Finding::PingPong {
        stages: Vec::new(),
        delay: None,
    };
    let unclear = Finding::Unclear {
        active: Vec::new(),
        event_loops: Vec::new(),
    };
    for (finding, expected) in [
        (
            Finding::Deadlock(deadlock),
            "deadlock certainty doubts kind members waiting",
        ),
        (held, "held holder is_stuck pipe"),
        (
            Finding::LeakedWriteEnd(leaked),
            "leaked_write_end fd holder is_last pipe reader waits_for",
        ),
        (
            Finding::SmallCalls(calls),
            "small_calls bytes_per_call calls_per_s process side wakes",
        ),
        (
            Finding::Unread(unread),
            "unread are_readers_idle fd has_lasted may_be_read pipe readers writer",
        ),
        (Finding::MutualWait(mutual), "mutual_wait sides"),
        (small, "small_pipe between capacity cause pipe"),
        (turns, "ping_pong delay stages"),
        (unclear, "unclear active event_loops"),
    ] {
        let value = serde_json::to_value(finding).unwrap();
        let keys = value.as_object().unwrap().keys().map(String::as_str);
        let mut keys: Vec<&str> = keys.filter(|key| *key != "finding").collect();
        keys.sort_unstable();
        keys.insert(0, value["finding"].as_str().unwrap());
        assert_eq!(keys.join(" "), expected);
    }
}

#[test]
fn process_that_waits_for_pipe_is_stage_also_with_children() {
    let cat = child_of(2, process(3, "cat", vec![reads(0, 7)]));
    let observation = observation(vec![
        busy(process(1, "yes", vec![writes(1, 7)]), 0.1, 0.9, 0.0),
        busy(process(2, "sh", vec![reads(0, 7)]), 0.5, 0.0, 0.5),
        busy(cat, 0.5, 0.0, 0.5),
    ]);
    assert_eq!(observation.users(LinkId::pipe(7), LinkSide::Input).len(), 2);
}
