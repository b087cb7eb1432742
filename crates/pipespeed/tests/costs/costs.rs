//! `costs`, for real.

use std::os::unix::process::CommandExt;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{json, json_file, pipespeed, run_alone, start};
use rustix::process::{Resource, Signal, kill_process_group};

#[test]
fn every_cost_has_a_figure_or_a_reason_and_the_record_has_every_sample() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 7 --no-model --quiet --json");
    command.arg(&path);
    let done = run_alone(command).succeeded();
    assert_eq!(done.err, "");
    for word in [
        "ns a call",
        "copying through a pipe",
        "handing pages over",
        "ns a wake-up",
    ] {
        assert!(done.out.contains(word), "{word}: {}", done.out);
    }
    let record = json_file(&path);
    let costs = record["costs"].as_array().unwrap();
    let names: Vec<_> = costs
        .iter()
        .map(|cost| cost["name"].as_str().unwrap())
        .collect();
    for name in [
        "empty_call",
        "would_block",
        "write",
        "read",
        "vmsplice_base",
        "tee",
        "splice",
        "fault_base",
        "read_memory",
        "wake_up_same",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for cost in costs {
        match cost["median"].as_f64() {
            Some(median) => {
                let [low, high] = ["low", "high"].map(|end| cost[end].as_f64().unwrap());
                assert!(0.0 <= low && low <= median && median <= high, "{cost}");
                assert_eq!(cost["samples"].as_array().unwrap().len(), 7);
            }
            None => assert!(cost["refused"].is_string(), "{cost}"),
        }
    }
    // These are certain, whatever the machine: a call costs something.
    assert!(costs[0]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_record_can_go_to_standard_output() {
    let done = run_alone(pipespeed("costs --rounds 1 --no-model --json -")).succeeded();
    assert_eq!(json(&done.out)["rounds"], 1);
}

#[test]
fn what_makes_no_sense_is_said_in_one_line() {
    run_alone(pipespeed("costs --rounds 0")).refused(2, &["--rounds"]);
    run_alone(pipespeed("costs --piece 1000")).refused(2, &["--piece", "whole pages"]);
    run_alone(pipespeed("costs --piece 1G")).refused(2, &["--piece", "up to 4MiB"]);
    run_alone(pipespeed("costs --check --no-model")).refused(2, &["--check", "--no-model"]);
    let unwritable = pipespeed("costs --rounds 1 --no-model --quiet --json /no/such/directory/x");
    run_alone(unwritable).refused(1, &["/no/such/directory"]);
}

#[test]
fn rungs_are_predicted_and_measured_and_promises_put_to_the_test() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 1 --check --quiet --json");
    command.arg(&path);
    let done = run_alone(command).succeeded();
    for words in ["of what was measured", "what would help most here"] {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
    let record = json_file(&path);
    let predictions = record["predictions"].as_array().unwrap();
    assert!(predictions.len() >= 21, "{predictions:?}");
    for prediction in predictions {
        // A rung that can't run says why; all others have both figures.
        match prediction["refused"].is_string() {
            true => assert!(prediction["measured"].is_null(), "{prediction}"),
            false => {
                assert!(
                    prediction["measured"].as_f64().unwrap() > 0.0,
                    "{prediction}"
                );
                assert!(
                    prediction["predicted"].as_f64().unwrap() > 0.0,
                    "{prediction}"
                );
                // Of one round, whose number it bears.
                let trials = prediction["trials"].as_array().unwrap();
                assert_eq!(trials.len(), 1, "{prediction}");
                assert_eq!(trials[0][0], 0);
                assert_eq!(trials[0][1], prediction["measured"]);
            }
        }
    }
    for advice in record["advice"].as_array().unwrap() {
        for promise in advice["promises"].as_array().unwrap() {
            let checked = &promise["checked"];
            let gain = checked["gain"].as_f64();
            assert!(
                gain.is_some() || checked["refused"].is_string(),
                "{promise}"
            );
        }
    }
}

#[test]
fn on_one_processor_there_is_less_to_say_and_it_is_said() {
    let mut command = pipespeed("costs --rounds 1 --quiet");
    conditions::one_processor(&mut command);
    let done = run_alone(command).succeeded();
    assert!(
        done.out.contains("the ladder on one processor"),
        "{}",
        done.out
    );
    assert!(!done.out.contains("on two processors"), "{}", done.out);
    assert!(!done.out.contains("spinning instead"), "{}", done.out);
}

#[test]
fn where_vmsplice_is_forbidden_the_rest_is_measured() {
    let mut command = pipespeed("costs --rounds 1 --quiet");
    if !conditions::no_vmsplice(&mut command) {
        eprintln!("skipped: no filter of system calls here");
        return;
    }
    let done = run_alone(command).succeeded();
    assert!(done.out.contains("a plain write | read"), "{}", done.out);
    assert!(done.out.contains("Operation not permitted"), "{}", done.out);
    assert!(!done.out.contains("vmsplice | splice,"), "{}", done.out);
}

#[test]
fn without_huge_pages_or_many_descriptors_the_rest_is_measured() {
    let mut command = pipespeed("costs --rounds 1 --quiet");
    conditions::no_huge_pages(&mut command);
    let done = run_alone(command).succeeded();
    assert!(done.out.contains("grants no huge pages"), "{}", done.out);
    assert!(
        done.out.contains("transparent huge pages were not"),
        "{}",
        done.out
    );
    // What nobody has written to shows no huge pages: that is no figure.
    let untouched = done
        .out
        .lines()
        .find(|line| line.contains("huge pages nobody wrote to"));
    assert!(
        untouched.unwrap().contains("grants no huge pages"),
        "{}",
        done.out
    );

    // The soft limit is raised.
    let mut command = pipespeed("costs --rounds 1 --no-model --quiet");
    conditions::soft_limit(&mut command, Resource::Nofile, 64);
    run_alone(command).succeeded();
}

#[test]
fn an_ordinary_user_gets_the_same() {
    let Some(program) = ForAll::new() else {
        eprintln!("skipped: not root, so all other tests are this one");
        return;
    };
    let done = run_alone(program.pipespeed("costs --rounds 1 --quiet")).succeeded();
    for words in [
        "the ladder on",
        "what would help most here",
        "through a pipe",
    ] {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
}

#[test]
fn who_may_start_no_thread_is_told_so() {
    let Some(program) = ForAll::new() else {
        eprintln!("skipped: not root, whom no limit of processes keeps from making more");
        return;
    };
    let mut command = program.pipespeed("costs --rounds 1 --no-model --quiet");
    conditions::limit(&mut command, Resource::Nproc, 0);
    let done = run_alone(command).succeeded();
    assert!(
        done.out.contains("Resource temporarily unavailable"),
        "{}",
        done.out
    );
    assert!(done.out.contains("copying through a pipe"), "{}", done.out);
}

#[test]
fn a_terminal_s_signals_are_no_failure_and_nobody_is_left() {
    for (signal, status) in [
        (Signal::INT, Some(130)),
        (Signal::QUIT, Some(131)),
        (Signal::KILL, None),
    ] {
        let mut command = pipespeed("costs --quiet");
        command.process_group(0);
        let mark = Mark::on(&mut command);
        let running = start(command);
        // Until the probes are there, one of which is a process.
        let echo = || (mark.processes().len() > 1).then_some(());
        assert!(eventually(echo).is_some());
        match status {
            Some(_) => kill_process_group(running.pid(), signal).unwrap(),
            // Nobody kills a whole group of them.
            None => running.send(signal),
        }
        let done = running.finish();
        assert_eq!(done.code, status, "{}", done.err);
        mark.nobody_left();
    }
}
