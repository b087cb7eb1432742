//! `costs`, for real.

mod common;

use common::{json, json_file, pipespeed, run_alone};

#[test]
fn every_cost_has_a_figure_or_a_reason_and_the_record_has_every_sample() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 7 --quiet --json");
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
    let done = run_alone(pipespeed("costs --rounds 1 --json -")).succeeded();
    assert_eq!(json(&done.out)["rounds"], 1);
}

#[test]
fn what_makes_no_sense_is_said_in_one_line() {
    run_alone(pipespeed("costs --rounds 0")).refused(2, &["--rounds"]);
    let unwritable = pipespeed("costs --rounds 1 --quiet --json /no/such/directory/x");
    run_alone(unwritable).refused(1, &["/no/such/directory"]);
}
