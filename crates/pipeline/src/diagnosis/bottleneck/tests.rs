mod alone;
mod beside;
mod children;
mod idle;
mod looks_after;
mod pausing;
mod processors;
mod room;
mod unnamed;

use super::*;
use pipespeed_host::CpuList;

use crate::fixtures::{
    busy, child_of, frozen, observation, on_child, on_input, on_outside, on_room, process, reads,
    writes,
};
use crate::graph::Process;
use crate::observe::FillChange;
use crate::proc::{Io, LinkFd};
use crate::processors::Quota;
use crate::processors::{Load, ProcessorUsage};
use crate::sample::OnLink;
use crate::wait::{BlockedOn, Outside, ThreadState};

/// A chain of stages, with their shares of running, blocked and starved.
fn chain(shares: &[(f64, f64, f64)]) -> Vec<Observed> {
    let last = shares.len() - 1;
    let stages = shares.iter().enumerate();
    stages
        .map(|(at, (working, blocked, starved))| {
            let input = (at > 0).then(|| reads(0, at as u64));
            let output = (at < last).then(|| writes(1, at as u64 + 1));
            let ends = input.into_iter().chain(output).collect();
            let process = process(at as i32 + 1, &format!("s{}", at + 1), ends);
            busy(process, *working, *blocked, *starved)
        })
        .collect()
}

fn found(stages: Vec<Observed>) -> Vec<Finding> {
    bottlenecks(&observation(stages), &BTreeSet::new())
}

/// A writer that tries to write to a full pipe again and again, as `python3 | gzip -9 | cat`, and a reader of an
/// empty one.
#[test]
fn who_asks_in_vain_is_no_bottleneck_beside_one_that_works() {
    let named = |shares: &[(f64, f64, f64)], fill: f64, tried: Option<(usize, LinkSide)>| {
        let mut stages = chain(shares);
        if let Some((at, side)) = tried {
            stages[at].tried = [(LinkId::pipe(1), side)].into();
        }
        let mut observation = observation(stages);
        observation.pipes[0].fill = Some(fill);
        let findings = bottlenecks(&observation, &BTreeSet::new());
        findings.iter().find_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
            _ => None,
        })
    };
    let (runs, gzip, starved) = ((0.99, 0.0, 0.0), (0.93, 0.0, 0.07), (0.0, 0.0, 1.0));
    let writer = Some((0, LinkSide::Room));
    assert_eq!(named(&[runs, gzip, starved], 0.3, None), Some(1));
    assert_eq!(named(&[runs, gzip, starved], 0.3, writer), None);
    assert_eq!(named(&[runs, gzip, starved], 0.0, writer), None);
    assert_eq!(
        named(&[runs, (0.66, 0.0, 0.34), starved], 0.0, writer),
        None
    );
    for fill in [0.6, 1.0] {
        assert_eq!(named(&[runs, gzip, starved], fill, writer), Some(2));
    }
    // It writes little at a time, and its reader waits for it.
    let wc = (0.2, 0.0, 0.8);
    assert_eq!(named(&[runs, wc, starved], 0.01, writer), Some(1));
    let reader = Some((1, LinkSide::Input));
    assert_eq!(named(&[(0.93, 0.0, 0.0), runs], 0.9, reader), None);
    assert_eq!(named(&[(0.93, 0.0, 0.0), runs], 0.0, reader), Some(1));
    assert_eq!(named(&[(0.1, 0.9, 0.0), runs], 0.9, reader), Some(2));
}

/// `(while :; do echo; sleep 1; done) | filter | cat`, where the filter polls without waiting, or works on what it
/// has read.
#[test]
fn who_may_poll_in_vain_is_no_bottleneck() {
    let named = |change: fn(&mut Observation)| {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (0.98, 0.0, 0.0), (0.0, 0.0, 1.0)]);
        stages[0].shares.elsewhere = 1.0;
        stages[0].outside = [(Outside::Timer, 1.0)].into();
        stages[1].in_kernel_s = 0.3 * stages[1].ran_s;
        stages[1].io = Some(Io {
            read_bytes: 8,
            written_bytes: 8,
            reads: 4,
            writes: 4,
        });
        let mut observation = observation(stages);
        observation.pipes[0].fill = Some(0.0);
        observation.pipes[0].unread = Some(0);
        observation.pipes[1].fill = Some(0.0);
        change(&mut observation);
        let findings = bottlenecks(&observation, &BTreeSet::new());
        match &findings[..] {
            [Finding::Bottleneck(bottleneck)] => Some(bottleneck.stage.pid),
            [Finding::Unclear { .. }] => None,
            _ => panic!("{findings:?}"),
        }
    };
    assert_eq!(named(|_| {}), None);
    // It computes, it has data, it reads much, or it has read all.
    assert_eq!(named(|seen| seen.processes[1].in_kernel_s = 0.01), Some(2));
    assert_eq!(named(|seen| seen.pipes[0].unread = Some(6)), Some(2));
    let reads_much = |seen: &mut Observation| {
        let io = seen.processes[1].io.as_mut();
        io.unwrap().reads = 9000;
    };
    assert_eq!(named(reads_much), Some(2));
    assert_eq!(named(|seen| seen.processes[0].has_ended = true), Some(2));
}

#[test]
fn the_busy_stage_between_blocked_and_starved_ones_is_named() {
    for slow in 0..4 {
        let shares: Vec<(f64, f64, f64)> = (0..4)
            .map(|at| match at {
                _ if at < slow => (0.1, 0.85, 0.05),
                _ if at > slow => (0.1, 0.05, 0.85),
                _ => (0.95, 0.0, 0.05),
            })
            .collect();
        let findings = found(chain(&shares));
        let bottleneck = only_pace(&findings);
        assert_eq!(bottleneck.stage.pid, slow + 1);
        assert_eq!(bottleneck.certainty, Certainty::Clear);
        assert_eq!(bottleneck.before.len(), slow as usize);
    }
}

/// The bottleneck of a chain with these fills of its pipes, if any does.
fn paced(shares: &[(f64, f64, f64)], fills: &[Option<f64>]) -> Option<(i32, Certainty)> {
    let mut observation = observation(chain(shares));
    for (pipe, fill) in observation.pipes.iter_mut().zip(fills) {
        pipe.fill = *fill;
    }
    let findings = bottlenecks(&observation, &BTreeSet::new());
    findings.into_iter().find_map(|finding| match finding {
        Finding::Bottleneck(bottleneck) => Some((bottleneck.stage.pid, bottleneck.certainty)),
        _ => None,
    })
}

/// `cat | (sleep 1; cat) | gzip`.
#[test]
fn who_ended_while_others_went_on_is_not_the_bottleneck() {
    let named = |has_ended: bool, samples: u32| {
        let blocked_then_busy = [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.4, 0.0, 0.6)];
        let mut stages = chain(&blocked_then_busy);
        (stages[1].has_ended, stages[1].samples) = (has_ended, samples);
        let findings = bottlenecks(&observation(stages), &BTreeSet::new());
        let is_named = |finding: &Finding| matches!(finding, Finding::Bottleneck(_));
        findings.iter().any(is_named)
    };
    let all = chain(&[(1.0, 0.0, 0.0)])[0].samples;
    assert!(named(false, all) && named(true, all));
    assert!(!named(true, all / 2));
}

/// `cat | pv -L 3m | filter | md5sum` and `cat | filter | pv -L 3m | md5sum`, of a filter with a thread that
/// computes something else.
#[test]
fn a_stage_whose_data_another_thread_waits_for_is_not_the_bottleneck() {
    let found =
        |shares: &[(f64, f64, f64)], pauses: usize, link: usize, fill: f64, has_threads: bool| {
            let mut stages = chain(shares);
            stages[pauses].shares.elsewhere = 1.0;
            stages[pauses].outside = [(Outside::Timer, 1.0)].into();
            let filter = 3 - pauses;
            let second = stages[filter].threads.first().cloned();
            stages[filter]
                .threads
                .extend(second.filter(|_| has_threads));
            for on in &mut stages[filter].on {
                on.thread_share = if on.pipe == LinkId::pipe(link as u64) {
                    0.98
                } else {
                    0.0
                };
            }
            let mut observation = observation(stages);
            observation.pipes[link - 1].fill = Some(fill);
            only_pace(&bottlenecks(&observation, &BTreeSet::new()))
                .stage
                .pid
        };
    let named = |shares: &[_], pauses, link, fill| found(shares, pauses, link, fill, true);
    let (blocked, starved) = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0));
    let (busy, pausing) = ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0));
    assert_eq!(named(&[blocked, pausing, busy, starved], 1, 2, 0.0), 2);
    assert_eq!(named(&[blocked, busy, pausing, starved], 2, 2, 1.0), 3);
    // The samples of a single thread agree with its other shares.
    let shares = [blocked, pausing, busy, starved];
    assert_eq!(found(&shares, 1, 2, 0.0, false), 3);
    // A thread of a runtime polls all that its program has.
    assert_eq!(named(&[blocked, pausing, busy, starved], 1, 2, 0.9), 3);
}

/// `gzip | copy | wc`, where `copy` uses io_uring, and `copy | wc`.
#[test]
fn what_a_stage_waits_for_by_io_uring_is_not_known() {
    let mut stages = chain(&[(0.9, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)]);
    stages[1].shares.elsewhere = 1.0;
    stages[1].outside = [(Outside::Other, 1.0)].into();
    stages[1].process.others.has_uring = true;
    assert_eq!(only_pace(&found(stages.clone())).stage.pid, 1);
    let findings = found(stages.split_off(1));
    assert!(
        matches!(findings[..], [Finding::Unclear { .. }]),
        "{findings:?}"
    );
}

#[test]
fn the_fill_decides_between_busy_stages() {
    use Certainty::{Clear, Likely};
    let (blocked, busy, starved) = ((0.02, 0.98, 0.0), (1.0, 0.0, 0.0), (0.02, 0.0, 0.98));
    let nearly = (0.95, 0.0, 0.05);
    let (full, half, empty) = (Some(0.97), Some(0.5), Some(0.01));
    for (shares, fills, expected) in [
        // The pipe before the first and after the last stage is a file.
        (&[busy, nearly][..], &[empty][..], Some((1, Likely))),
        (&[busy, busy], &[full], Some((2, Likely))),
        (&[busy, busy], &[half], None),
        (&[busy, busy], &[None], None),
        (&[blocked, busy, nearly], &[full, empty], Some((2, Likely))),
        (&[blocked, nearly, busy], &[full, full], Some((3, Likely))),
        (&[busy, nearly, starved], &[empty, empty], Some((1, Likely))),
        (&[blocked, busy, busy], &[full, half], None),
        // Two places where data piles up.
        (&[busy, busy, busy, busy], &[full, empty, full], None),
        // A long chain: the waiting says it, too.
        (
            &[blocked, busy, nearly, starved, starved, starved],
            &[full, empty, empty, empty, empty],
            Some((2, Clear)),
        ),
        // Records of a few bytes fill the slots of a pipe, but not its bytes.
        (&[blocked, busy], &[empty], Some((2, Clear))),
        // Few looks don't overrule the waiting.
        (&[(0.5, 0.5, 0.0), (0.5, 0.0, 0.5)], &[full], None),
        (&[(0.6, 0.4, 0.0), (0.6, 0.0, 0.4)], &[empty], None),
    ] {
        assert_eq!(paced(shares, fills), expected, "{shares:?} {fills:?}");
    }
}

/// `tail -F log | cut | while read x; do curl ...; done | tee`.
#[test]
fn a_stage_after_which_data_piles_up_is_not_the_bottleneck() {
    let named = |is_steady_growth: bool, least: u64, slow_waits: f64| {
        let tail = frozen(
            process(1, "tail", vec![writes(1, 1)]),
            on_outside(Outside::Event),
        );
        let cut = busy(
            process(2, "cut", vec![reads(0, 1), writes(1, 2)]),
            0.0,
            0.0,
            1.0,
        );
        let slow = frozen(
            process(3, "bash", vec![reads(0, 2), writes(1, 3)]),
            on_outside(Outside::SocketOrTimer),
        );
        let slow = Observed {
            on: vec![OnLink {
                pipe: LinkId::pipe(2),
                side: LinkSide::Input,
                share: slow_waits,
                thread_share: slow_waits,
            }],
            ..slow
        };
        let tee = busy(process(4, "tee", vec![reads(0, 3)]), 0.0, 0.0, 1.0);
        let mut observation = observation(vec![tail, cut, slow, tee]);
        for pipe in &mut observation.pipes {
            (pipe.fill, pipe.bytes_per_s) = (Some(0.0), Some(90.0));
        }
        observation.pipes[1].fill_change = Some(FillChange {
            is_constant: false,
            bytes_per_s: 110.0,
            is_steady_growth,
            least,
        });
        let findings = bottlenecks(&observation, &BTreeSet::new());
        findings.iter().find_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
            _ => None,
        })
    };
    assert_eq!(named(true, 0, 0.0), Some(3));
    // A burst, for which it had waited.
    assert_ne!(named(true, 0, 0.9), Some(3));
    // It reads large blocks now and then, as Python.
    assert_eq!(named(false, 500, 0.0), Some(3));
    assert_ne!(named(false, 500, 0.1), Some(3));
    // A line or two, of many.
    assert_eq!(named(false, 4, 0.0), None);
    assert_eq!(named(false, 0, 0.0), None);
}

/// `curl -T file` to a server that reads and sleeps by turns: 64 KiB or more lie in its socket all the time.
#[test]
fn a_server_with_unread_data_is_the_bottleneck_of_its_client() {
    let ends = |input: u64, room: u64| {
        [reads(5, input), writes(5, room)].map(|end| LinkFd {
            pipe: LinkId::socket(end.pipe.inode()),
            ..end
        })
    };
    let wait = |inode: u64, side| OnLink {
        pipe: LinkId::socket(inode),
        side,
        share: 1.0,
        thread_share: 1.0,
    };
    let curl = busy(process(1, "curl", ends(8, 7).into()), 0.0, 1.0, 0.0);
    let curl = Observed {
        on: vec![wait(7, LinkSide::Room), wait(8, LinkSide::Input)],
        ..curl
    };
    let mut server = frozen(
        process(2, "python3", ends(7, 8).into()),
        on_outside(Outside::Timer),
    );
    server.is_frozen = false;
    let mut observation = observation(vec![curl, server]);
    for link in &mut observation.pipes {
        let has_data = link.id == LinkId::socket(7);
        link.fill = None;
        link.unread = Some(if has_data { 95_232 } else { 0 });
        link.fill_change = Some(FillChange {
            is_constant: !has_data,
            bytes_per_s: 0.0,
            is_steady_growth: false,
            least: if has_data { 60_000 } else { 0 },
        });
    }
    let findings = bottlenecks(&observation, &BTreeSet::new());
    assert_eq!(only_pace(&findings).stage.pid, 2);
}

/// `yes | tee >(gzip | wc) | cat`.
#[test]
fn a_stage_fed_otherwise_is_not_after_the_slow_one() {
    let tee = process(2, "tee", vec![reads(0, 7), writes(1, 10), writes(63, 8)]);
    let mut tee = busy(tee, 0.1, 0.9, 0.0);
    tee.on.retain(|on| on.pipe == LinkId::pipe(8));
    let wc = process(4, "wc", vec![reads(0, 9), writes(1, 10)]);
    let findings = found(vec![
        busy(process(1, "yes", vec![writes(1, 7)]), 0.0, 1.0, 0.0),
        tee,
        busy(
            process(3, "gzip", vec![reads(0, 8), writes(1, 9)]),
            1.0,
            0.0,
            0.0,
        ),
        busy(wc, 0.0, 0.0, 1.0),
        busy(process(5, "cat", vec![reads(0, 10)]), 0.1, 0.0, 0.9),
    ]);
    let bottleneck = only_pace(&findings);
    let names = |stages: &[(Who, f64)]| {
        let names = stages.iter().map(|(who, _)| who.name.clone());
        names.collect::<Vec<String>>().join(" ")
    };
    let found = [
        &*bottleneck.stage.name,
        &names(&bottleneck.before),
        &names(&bottleneck.after),
    ];
    assert_eq!(found, ["gzip", "yes tee", "wc"]);
}

fn only_pace(findings: &[Finding]) -> &Bottleneck {
    let [Finding::Bottleneck(bottleneck)] = findings else {
        panic!("{findings:?}");
    };
    bottleneck
}

/// `cat | sh -c 'sleep 20 & exec pv' | cat`, and what a shell writes itself beside such a sleep.
#[test]
fn what_only_keeps_an_end_of_a_busy_stage_is_none() {
    let sleep = |ends| frozen(process(9, "sleep", ends), on_outside(Outside::Timer));
    let mut pv = busy(
        process(2, "pv", vec![reads(0, 7), writes(1, 8)]),
        0.02,
        0.0,
        0.0,
    );
    pv.shares.elsewhere = 0.98;
    pv.outside = [(Outside::Timer, 0.98)].into();
    pv.on.clear();
    let all = observation(vec![
        busy(process(1, "cat", vec![writes(1, 7)]), 0.02, 0.98, 0.0),
        pv,
        busy(process(3, "cat", vec![reads(0, 8)]), 0.02, 0.0, 0.98),
        sleep(vec![reads(0, 7), writes(1, 8)]),
    ]);
    let stages = |observation: &Observation| -> Vec<i32> {
        let pipelines = observation.pipelines();
        pipelines[0]
            .iter()
            .map(|stage| stage.process.id.pid)
            .collect()
    };
    assert_eq!(stages(&all), [1, 2, 3]);

    let mut shell = busy(process(1, "sh", vec![writes(1, 7)]), 0.02, 0.0, 0.0);
    shell.shares.elsewhere = 0.98;
    shell.outside = [(Outside::Child, 0.98)].into();
    shell.on.clear();
    let reader = busy(process(2, "md5sum", vec![reads(0, 7)]), 0.02, 0.0, 0.98);
    let all = observation(vec![shell, reader, sleep(vec![writes(1, 7)])]);
    assert_eq!(stages(&all), [1, 2]);
}

/// `(xz | wc; echo) | tee`, but for the reader of two such groups.
#[test]
fn stage_that_waits_for_another_pipeline_is_not_its_own_bottleneck() {
    let tee = frozen(
        process(5, "tee", vec![reads(0, 9), writes(1, 8)]),
        on_input(9),
    );
    let cat = frozen(process(6, "cat", vec![reads(0, 8)]), on_input(8));
    let silent = |pid: i32, pipe: u64| {
        let writer = process(pid, "xz", vec![writes(1, pipe)]);
        let ends = vec![reads(0, pipe), writes(1, 9)];
        [
            busy(writer, 0.9, 0.0, 0.0),
            frozen(process(pid + 1, "wc", ends), on_input(pipe)),
        ]
    };
    let stages = [silent(1, 1), silent(3, 3)].into_iter().flatten();
    let findings = found(stages.chain([tee, cat]).collect());
    let named = findings.iter().flat_map(|finding| finding.named());
    let named: Vec<i32> = named.map(|who| who.pid).collect();
    assert_eq!(named, [1, 3], "{findings:?}");
}

#[test]
fn stage_that_was_replaced_in_a_loop_is_one_stage() {
    let mut stages = chain(&[(0.05, 0.95, 0.0), (0.96, 0.0, 0.04), (0.02, 0.0, 0.98)]);
    let mut earlier = Observed {
        has_ended: true,
        samples: 50,
        ..stages[1].clone()
    };
    earlier.process.id.pid = 7;
    stages.push(earlier);
    let findings = found(stages);
    assert_eq!(only_pace(&findings).stage.pid, 2);
}

#[test]
fn of_stages_that_ended_one_after_the_other_the_longest_stays() {
    let named = |ended_s: f64| {
        let mut stages = chain(&[(0.96, 0.0, 0.0), (0.02, 0.0, 0.98)]);
        let mut later = stages[0].clone();
        (later.process.id.pid, later.samples) = (7, 60);
        (later.has_ended, later.age_s, later.counted_s) = (true, 1.0, 0.9);
        let first = &mut stages[0];
        (first.has_ended, first.samples) = (true, 50);
        (first.age_s, first.counted_s) = (1.8, 1.8 - ended_s);
        stages.push(later);
        let mut observation = observation(stages);
        observation.seconds = 2.0;
        let findings = bottlenecks(&observation, &BTreeSet::new());
        let findings = findings.iter();
        let named = findings.filter_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
            _ => None,
        });
        named.collect::<Vec<i32>>()
    };
    assert_eq!(named(1.0), [7]);
    // Both ran for half a second.
    assert!(named(0.5).is_empty());
}

#[test]
fn a_pipe_from_which_nobody_reads_does_not_make_its_writer_the_bottleneck() {
    let sleeps = ThreadState::Waiting(BlockedOn::Outside(Outside::Timer));
    let pace = |reads_input: bool, runs: f64| {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (runs, 0.0, 0.0), (0.02, 0.0, 0.98)]);
        stages[0] = frozen(stages[0].process.clone(), sleeps.clone());
        stages[1].io = Some(Io {
            reads: u64::from(reads_input),
            ..Io::default()
        });
        let mut observation = observation(stages);
        for pipe in &mut observation.pipes {
            pipe.fill = Some(0.0);
        }
        let findings = bottlenecks(&observation, &BTreeSet::new());
        only_pace(&findings).stage.pid
    };
    assert_eq!((pace(true, 0.9), pace(false, 0.9)), (1, 2));
    // It always has something to do.
    assert_eq!(pace(true, 1.0), 2);
}

#[test]
fn a_cycle_of_pipes_ends_the_search() {
    found(vec![
        frozen(process(1, "a", vec![reads(0, 1), writes(1, 2)]), on_room(2)),
        frozen(
            process(2, "b", vec![reads(0, 2), writes(1, 1)]),
            on_input(2),
        ),
    ]);
}

/// `seq | paste - <(awk)`: awk has inherited the input of paste.
#[test]
fn a_process_that_reads_nothing_beside_one_that_reads_is_no_stage_there() {
    let mut awk = busy(
        process(3, "awk", vec![reads(0, 1), writes(1, 2)]),
        0.9,
        0.0,
        0.0,
    );
    awk.io = awk.io.map(|io| crate::proc::Io { reads: 0, ..io });
    let paste = process(2, "paste", vec![reads(0, 1), reads(63, 2)]);
    let observation = observation(vec![
        busy(process(1, "seq", vec![writes(1, 1)]), 0.1, 0.9, 0.0),
        busy(paste, 0.1, 0.0, 0.9),
        awk,
    ]);
    let edges = observation.edges().into_iter();
    let edges: Vec<(i32, i32)> = edges.map(|(from, to, _)| (from, to)).collect();
    assert_eq!(edges, [(1, 2), (3, 2)]);
}

/// `cat | socat - UNIX-CONNECT:socket | md5sum` before a server that computes, line by line.
#[test]
fn server_that_always_has_a_request_is_the_bottleneck() {
    let link = |from: LinkFd, share: f64| OnLink {
        pipe: from.pipe,
        side: if from.reads {
            LinkSide::Input
        } else {
            LinkSide::Room
        },
        share,
        thread_share: 0.0,
    };
    let socat = process(
        2,
        "socat",
        vec![reads(0, 1), writes(5, 2), reads(6, 3), writes(1, 4)],
    );
    let socat = Observed {
        on: vec![link(writes(5, 2), 0.05), link(reads(6, 3), 0.03)],
        ..busy(socat, 0.68, 0.05, 0.03)
    };
    let stages = vec![
        busy(process(1, "cat", vec![writes(1, 1)]), 0.01, 0.99, 0.0),
        socat,
        busy(
            process(3, "server", vec![reads(4, 2), writes(4, 3)]),
            0.95,
            0.0,
            0.0,
        ),
        busy(process(4, "md5sum", vec![reads(0, 4)]), 0.23, 0.0, 0.71),
    ];
    let findings = found_beside(
        stages,
        &[0.0, 0.24, 0.05, 0.06],
        &[0.9, 0.0, 0.0, 0.0],
        0.98,
    );
    assert_eq!(only_pace(&findings).stage.pid, 3);
}

/// A pool of two threads behind a slow producer, which may run at once: the pool's true share lies between 40 and 90 %.
#[test]
fn estimated_shares_name_no_bottleneck_unless_others_wait_for_it() {
    let named = |blocked: f64, is_estimated: bool| {
        let mut stages = chain(&[
            (0.95 - blocked, blocked, 0.0),
            (0.8, 0.0, 0.2),
            (0.02, 0.0, 0.98),
        ]);
        stages[1].runs_between = is_estimated.then_some([0.4, 0.9]);
        let findings = found(stages).into_iter();
        let mut named = findings.filter_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some((bottleneck.stage.pid, bottleneck.certainty)),
            _ => None,
        });
        named.next()
    };
    let (clear, likely) = (Certainty::Clear, Certainty::Likely);
    assert_eq!(named(0.55, false), Some((2, likely)));
    assert_eq!(named(0.55, true), None);
    assert_eq!(named(0.95, false), Some((2, clear)));
    assert_eq!(named(0.95, true), Some((2, likely)));
}

/// Findings on stages with these queues, whose processors were busy for these shares.
fn found_beside(stages: Vec<Observed>, queued: &[f64], fills: &[f64], busy: f64) -> Vec<Finding> {
    bottlenecks(&loaded(stages, queued, fills, busy), &BTreeSet::new())
}

/// The observation of these.
fn loaded(stages: Vec<Observed>, queued: &[f64], fills: &[f64], busy: f64) -> Observation {
    let mut observation = observation(stages);
    for (stage, queued) in observation.processes.iter_mut().zip(queued) {
        stage.shares.queued = *queued;
    }
    for (pipe, fill) in observation.pipes.iter_mut().zip(fills) {
        pipe.fill = Some(*fill);
    }
    let usage = ProcessorUsage {
        busy,
        ..ProcessorUsage::default()
    };
    observation.load = Load([(0, usage), (1, usage)].into());
    observation
}
