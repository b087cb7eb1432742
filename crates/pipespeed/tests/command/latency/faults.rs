//! `pipespeed latency` where something goes wrong: the naive exchange, killed
//! processes, signals. Nobody is left, and no name.

use crate::common::procs::eventually;
use crate::common::{
    Marked, Outcome, conditions, json, json_file, pipespeed, run_alone, says, skip,
};
use rustix::process::{Resource, Signal, kill_process};

fn start(args: &str) -> Marked {
    Marked::start(&format!("latency {args} --no-save --verbose"))
}

/// Sizes beyond what is held, and the functions that the kernel may sleep in.
#[test]
fn writing_first_above_the_capacity_is_detected_explained_and_ended() {
    let tcp = ["sk_stream_wait_memory", "wait_woken"];
    for (channel, size, functions) in [
        ("pipe", "128K", &["pipe_write"][..]),
        ("fifo", "128K", &["pipe_write"]),
        ("vmsplice", "128K", &["pipe_wait"]),
        ("socketpair", "4M", &["sock_alloc_send_pskb"]),
        ("tcp", "16M", &tcp),
    ] {
        let args =
            format!("{channel} --size {size} --naive=write-first --limit 0.3 --count 3 --rounds 6");
        let outcome = start(&args).finish().0;
        if outcome.err.contains("vmsplice is refused") {
            skip(outcome.err.trim());
            continue;
        }
        let outcome = outcome.failed(1, &["1 of 1 cases deadlocked"]);
        let text = outcome.unwrapped();
        says(
            &text,
            &[
                "write-first: deadlock after 0 round trips: the sender (process",
                "the echo (process",
                "state S",
                "Neither has moved a byte for 0.3 s",
                "Both were ended",
            ],
        );
        if text.contains("not readable") {
            skip("wait channels are not readable here")
        } else {
            // Kernels add to their names: anon_pipe_write.
            let sleeps = |place: &str| {
                let place = place.split(',').next().unwrap();
                functions.iter().any(|function| place.contains(function))
            };
            let places: Vec<&str> = text.split(" sleeps in ").skip(1).collect();
            assert_eq!(places.len(), 2, "{text}");
            assert!(places.into_iter().all(sleeps), "{functions:?}: {text}");
        }
    }
}

/// One byte too many deadlocks only after some round trips, since the rests of single
/// bytes add up; twice the capacity after one.
#[test]
fn short_reads_above_the_capacity_deadlock_after_some_round_trips() {
    let sizes = "pipe fifo --size 65537,128K --pipe-size 64K";
    let args = format!("{sizes} --naive=short-reads --limit 0.3 --count 1000000 --rounds 1");
    let outcome = start(&format!("{args} --json - -q")).finish().0;
    let outcome = outcome.failed(1, &["4 of 4 cases deadlocked"]);
    for case in json(&outcome.out)["cases"].as_array().unwrap() {
        let (size, deadlock) = (case["size"].as_u64().unwrap(), &case["deadlock"]);
        assert_eq!(case["mode"]["naive"], "short-reads");
        let trips = deadlock["round_trips"].as_u64().unwrap();
        if size == 128 << 10 {
            assert_eq!(trips, 1, "{case:#}");
        }
        let [sender, echo] = [0, 1].map(|at| {
            let process = &deadlock["processes"][at];
            assert!(process["is_writing"].as_bool().unwrap(), "{case:#}");
            assert_eq!(process["state"], "S", "{case:#}");
            ["written", "read"].map(|name| process[name].as_u64().unwrap())
        });
        assert_eq!(trips, sender[1] / size, "{case:#}");
        // Calls are counted when they return, so each end is in the middle of a write.
        assert!(sender[0] + size > echo[1], "{case:#}");
        assert!(echo[0] - sender[1] <= 64 << 10, "{case:#}");
        assert!(sender[0] > sender[1] && echo[1] > echo[0], "{case:#}");
    }
}

/// Without sizes the deadlocks are what is asked for.
#[test]
fn naive_alone_shows_both_deadlocks_and_succeeds() {
    let args = "--naive --pipe-size 64K --limit 0.3 --count 300 --rounds 1 --json - -q";
    let outcome = start(args).finish().0.succeeded();
    let record = json(&outcome.out);
    let cases = record["cases"].as_array().unwrap();
    let found: Vec<(u64, bool)> = cases
        .iter()
        .map(|case| (case["size"].as_u64().unwrap(), case["deadlock"].is_object()))
        .collect();
    let expected = [(65_536, false), (65_537, true)];
    assert_eq!(found, [expected, expected].concat());
    assert!(cases.iter().all(|case| case["channel"] == "pipe"));
}

#[test]
fn the_naive_exchanges_below_the_capacity_work() {
    let channels = "pipe fifo socketpair eventfd --size 8,32K,64K --pipe-size 64K";
    let args = format!("{channels} --naive --count 20 --rounds 1 --json - -q");
    let outcome = start(&args).finish().0.succeeded();
    for case in json(&outcome.out)["cases"].as_array().unwrap() {
        let samples = case["samples"].as_array().unwrap();
        let limited = case["channel"] == "eventfd" && case["size"] != 8;
        assert_eq!(samples.len(), usize::from(!limited), "{case:#}");
        // A larger message may be read while its writer waits for a processor in the middle.
        if case["mode"]["naive"] == "short-reads" && case["size"] == 8 {
            assert_eq!(samples[0]["short_reads"], 0, "{case:#}");
        }
    }
}

/// A ring with room for two never fills up.
#[test]
fn a_channel_that_never_blocks_does_not_deadlock() {
    let args = "ring ring_copy --size 1M --naive --count 20 --rounds 1 --json - -q";
    let outcome = start(args).finish().0.succeeded();
    for case in json(&outcome.out)["cases"].as_array().unwrap() {
        assert!(case["deadlock"].is_null(), "{case:#}");
        match case["not_run"]["reason"].as_str() {
            Some(reason) => skip(reason),
            None => assert_eq!(case["samples"][0]["count"], 20, "{case:#}"),
        }
    }
}

/// Kills a process of one trial of three and sees what comes of it. One that was
/// about to go, its work done, is no loss to anybody, and a busy machine refuses
/// too short a time: then once more with a longer one.
fn killed(channel: &str, role: &str) -> Outcome {
    for time_s in [0.6, 1.2, 2.4, 4.8, 9.6] {
        let args = format!("{channel} --size 8 --time {time_s} --rounds 3 --placement free");
        let mut run = start(&args);
        let found = eventually(|| {
            let pid = run.mark.instructed_endpoint(role);
            let killed = pid.and_then(|pid| kill_process(pid, Signal::KILL).ok());
            (killed.is_some() || run.running.has_ended()).then_some(())
        });
        assert!(found.is_some(), "no {role}");
        let (outcome, _) = run.finish();
        if !matches!(outcome.code, Some(0 | 2)) {
            return outcome;
        }
    }
    panic!("no {role} was killed at its work in five runs");
}

#[test]
fn a_killed_process_costs_its_trial_only() {
    // Both ends where the kernel tells the other one, and where it has to look; else one in turn.
    let channels: [(&str, &[&str]); 9] = [
        ("pipe", &["sender", "echo"]),
        ("vmsplice", &["sender"]),
        ("uring", &["echo"]),
        ("socketpair", &["sender"]),
        ("tcp", &["echo"]),
        ("mqueue", &["sender"]),
        ("ring", &["sender", "echo"]),
        ("ring_copy", &["sender"]),
        ("eventfd", &["echo"]),
    ];
    for (channel, roles) in channels {
        let tried = start(&format!("{channel} --size 8 --count 1 --rounds 1"))
            .finish()
            .0;
        if tried.err.contains("is refused (") {
            skip(tried.err.trim());
            continue;
        }
        for &role in roles {
            let outcome = killed(channel, role);
            assert_eq!(outcome.code, Some(1), "{channel}, {role}: {outcome:#?}");
            let lines: Vec<&str> = outcome.err.lines().collect();
            let expected = format!("{channel} of 8B: the {role} was killed by SIGKILL");
            assert_eq!(lines.len(), 2, "{outcome:#?}");
            assert!(lines[0].contains(&expected), "{outcome:#?}");
            assert!(
                lines[0].ends_with("the run continues with the other trials"),
                "{outcome:#?}"
            );
            assert!(lines[1].contains("8B: 1 trial failed: "), "{outcome:#?}");
            assert!(outcome.out.contains("Measured: "), "{outcome:#?}");
        }
    }
}

#[test]
fn each_round_is_saved_with_what_ended_the_run() {
    let args = "pipe --size 8 --count 9000 --rounds 600 --csv run.csv --json run.json";
    for (signal, interrupted) in [(Signal::KILL, "unfinished"), (Signal::TERM, "SIGTERM")] {
        let run = start(args).saved();
        run.running.send(signal);
        let (outcome, directory) = run.finish();
        let record = json_file(&directory.path().join("run.json"));
        let launches = record["cases"][0]["samples"].as_array().unwrap().len();
        assert!((1..600).contains(&launches));
        assert_eq!(record["interrupted"], interrupted);
        if signal == Signal::TERM {
            assert_eq!(outcome.code, Some(143), "{outcome:#?}");
            assert!(outcome.err.ends_with("pipespeed: interrupted by SIGTERM\n"));
            let shown = ["Measured: ", "interrupted: SIGTERM", "of 600 launches"];
            says(outcome.unwrapped(), &shown);
            let csv = std::fs::read_to_string(directory.path().join("run.csv")).unwrap();
            assert_eq!(csv.lines().count(), 1 + launches, "{csv}");
        }
    }
}

/// How much memory suffices is found by trying.
#[test]
fn missing_memory_is_reported_in_one_line() {
    const STEP: u64 = 512 << 10;
    let run = |limit: u64| {
        let args = "latency pipe --size 8M --count 1 --rounds 1 --placement free --no-save";
        let mut command = pipespeed(args);
        conditions::limit(&mut command, Resource::As, limit);
        run_alone(command)
    };
    let (mut too_little, mut enough) = (32 << 20, 128 << 20);
    assert_eq!(run(enough).code, Some(0));
    while enough - too_little > STEP {
        let limit = too_little.midpoint(enough);
        match run(limit).code {
            Some(0) => enough = limit,
            _ => too_little = limit,
        }
    }
    // First, the messages fit but not the results; then one message; then none.
    let limits = (1..4)
        .map(|at| enough - at * STEP)
        .chain([enough - (8 << 20)]);
    let mut failures = 0;
    for outcome in limits.map(run) {
        if outcome.code == Some(0) {
            continue;
        }
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        let lines: Vec<&str> = outcome.err.lines().collect();
        // One line for each end that failed, and one for the case.
        assert!((2..=3).contains(&lines.len()), "{outcome:#?}");
        let has = |words: &str| lines[0].matches(words).count() == 1;
        let buffer = "no memory for a buffer of 8388608 bytes: Cannot allocate memory";
        let results = "no memory for the results: 1MiB are needed";
        assert!(has(buffer) || has(results), "{outcome:#?}");
        failures += 1;
    }
    assert!(failures > 1);
}

#[test]
fn when_the_command_is_killed_its_processes_go_with_it() {
    let run = start("pipe eventfd --size 8 --time 60 --rounds 2");
    let exchanging = |role| run.mark.instructed_endpoint(role);
    eventually(|| exchanging("echo").and(exchanging("sender"))).unwrap();
    run.running.send(Signal::KILL);
    let (outcome, _) = run.finish();
    assert_eq!(outcome.signal, Some(9), "{outcome:#?}");
}
