//! Processes outside of pipelines, and stages for which nobody waits.

use super::*;

/// Those that are named by themselves.
fn named(observation: &Observation) -> Vec<i32> {
    let findings = bottlenecks(observation, &BTreeSet::new()).into_iter();
    let bottlenecks = findings.filter_map(|finding| match finding {
        Finding::Bottleneck(bottleneck) => Some(*bottleneck),
        _ => None,
    });
    let alone = bottlenecks.filter(Bottleneck::is_alone);
    alone.map(|bottleneck| bottleneck.stage.pid).collect()
}

fn alone(pid: i32) -> Process {
    process(pid, "gzip", Vec::new())
}

#[test]
fn a_process_by_itself_is_named_if_it_is_held_up() {
    let shares = |runs, queued, disk| {
        let mut gzip = busy(alone(1), runs, 0.0, 0.0);
        gzip.shares.queued = queued;
        gzip.shares.disk = disk;
        gzip.shares.elsewhere = 1.0 - runs - queued - disk;
        gzip.outside = [(Outside::Timer, gzip.shares.elsewhere)].into();
        gzip
    };
    for (gzip, is_named) in [
        (shares(0.05, 0.95, 0.0), true),
        (shares(0.6, 0.4, 0.0), true),
        (shares(0.1, 0.0, 0.9), true),
        (shares(0.2, 0.0, 0.0), true),
        (shares(0.98, 0.02, 0.0), false),
        (shares(0.7, 0.1, 0.2), false),
    ] {
        let mut one = observation(vec![gzip]);
        let expected: &[i32] = if is_named { &[1] } else { &[] };
        assert_eq!(named(&one), expected, "{:?}", one.processes[0].shares);
        // Of all processes of a user, most wait for something to do.
        one.is_survey = true;
        assert!(named(&one).is_empty());
    }
    // Others use the processors, or its own threads do for a moment.
    for (busy, is_named) in [(1.0, true), (0.35, false)] {
        let mut gzip = shares(0.71, 0.29, 0.0);
        (gzip.ran_s, gzip.delayed_s) = (1.42, 0.58);
        let mut one = observation(vec![gzip]);
        let usage = ProcessorUsage {
            busy,
            ..ProcessorUsage::default()
        };
        one.load = Load([(0, usage), (1, usage)].into());
        let expected: &[i32] = if is_named { &[1] } else { &[] };
        assert_eq!(named(&one), expected, "{busy}");
    }
    // What a pipeline has beside it is not asked about.
    let mut all = chain(&[(1.0, 0.0, 0.0), (0.1, 0.0, 0.9)]);
    all.push(frozen(alone(9), on_outside(Outside::FileLock)));
    assert!(named(&observation(all)).is_empty());
}

/// `timeout 9 flock file true`
#[test]
fn who_waits_for_its_child_is_not_named_beside_it() {
    let timeout = frozen(alone(1), on_outside(Outside::Signal));
    let flock = Observed {
        ancestors: vec![1],
        ..frozen(child_of(1, alone(2)), on_outside(Outside::FileLock))
    };
    let shell = frozen(alone(1), on_child());
    assert_eq!(named(&observation(vec![timeout, flock.clone()])), [2]);
    assert_eq!(named(&observation(vec![shell, flock.clone()])), [2]);
    // It may wait for something else.
    let server = frozen(alone(1), on_outside(Outside::Socket));
    assert_eq!(named(&observation(vec![server, flock])), [2, 1]);
}

/// `make -j6`, a node program that has started gzip.
#[test]
fn who_waits_for_an_event_is_not_named_while_its_children_work() {
    let make = || frozen(alone(1), on_outside(Outside::Event));
    let cc1 = |queued: f64, outside: f64| {
        let mut cc1 = busy(child_of(1, alone(2)), 0.1, 0.0, 0.0);
        cc1.ancestors = vec![1];
        (cc1.shares.queued, cc1.shares.elsewhere) = (queued, outside);
        cc1.outside = [(Outside::Timer, outside)].into();
        cc1
    };
    assert_eq!(named(&observation(vec![make(), cc1(0.9, 0.0)])), [2]);
    assert_eq!(named(&observation(vec![make(), cc1(0.0, 0.9)])), [2, 1]);
    // Children that were too short-lived to be observed.
    let mut of_many = make();
    of_many.children_ran_s = 0.9 * of_many.counted_s;
    assert!(named(&observation(vec![of_many])).is_empty());
}

/// `for file in *; do gzip -t $file; done` beside load: of its children the last one was seen for a tenth of the time.
#[test]
fn who_starts_one_child_after_the_other_is_named_with_what_they_do() {
    let gzip = |samples: u32| {
        let mut gzip = busy(child_of(2, alone(3)), 0.3, 0.0, 0.0);
        (gzip.shares.queued, gzip.samples, gzip.ancestors) = (0.7, samples, vec![2]);
        gzip
    };
    let shares = Shares {
        runs: 0.3,
        queued: 0.7,
        ..Shares::default()
    };
    let loops = || Observed {
        process: process(2, "sh", Vec::new()),
        ..children::shell(shares, Vec::new())
    };
    assert_eq!(named(&observation(vec![loops(), gzip(10)])), [2]);
    assert_eq!(named(&observation(vec![loops(), gzip(90)])), [3]);
}

/// Two workers that wait for each other's lock, with pipes to each other that nobody waits for.
#[test]
fn stages_that_wait_outside_side_by_side_are_each_named_by_themselves() {
    let worker = |pid, ends| frozen(process(pid, "python3", ends), on_outside(Outside::Lock));
    let both = |first: Observed| {
        let second = worker(2, vec![reads(0, 1)]);
        named(&observation(vec![first, second]))
    };
    assert_eq!(both(worker(1, vec![writes(1, 1)])), [1, 2]);
    // One works, and the other one waits for it.
    let works = busy(process(1, "yes", vec![writes(1, 1)]), 1.0, 0.0, 0.0);
    let waits = busy(process(2, "wc", vec![reads(0, 1)]), 0.1, 0.0, 0.9);
    assert!(named(&observation(vec![works, waits])).is_empty());
}

/// `socat -u UNIX-CONNECT:s - | wc` of a command: the server is no part of it.
#[test]
fn the_server_of_a_stage_that_waits_for_its_socket_is_named() {
    let of_socket = |process: Process| {
        let ends = process.ends.iter().cloned().map(|end| LinkFd {
            pipe: if end.fd == 5 {
                LinkId::socket(5)
            } else {
                end.pipe
            },
            ..end
        });
        Process {
            ends: ends.collect::<Vec<LinkFd>>().into(),
            ..process.clone()
        }
    };
    let client = of_socket(process(1, "socat", vec![reads(5, 5), writes(1, 7)]));
    let server = |pid| Observed {
        is_asked: false,
        ..busy(
            of_socket(process(pid, "server", vec![writes(5, 5)])),
            1.0,
            0.0,
            0.0,
        )
    };
    let peer = |servers: Vec<Observed>| {
        let wc = busy(process(2, "wc", vec![reads(0, 7)]), 0.0, 0.0, 1.0);
        let mut all = vec![busy(client.clone(), 0.05, 0.0, 0.95), wc];
        all.extend(servers);
        let findings = bottlenecks(&observation(all), &BTreeSet::new());
        let [Finding::Bottleneck(found)] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(
            (found.stage.pid, found.awaited()),
            (1, Some(Outside::Socket))
        );
        assert_eq!(found.lacks_peer(), found.peer.is_none());
        found.peer.as_ref().map(|peer| peer.pid)
    };
    assert_eq!(peer(vec![server(3)]), Some(3));
    assert_eq!(peer(Vec::new()), None);
    // One of them may only have inherited it.
    assert_eq!(peer(vec![server(3), server(4)]), None);
}
