//! Profiles of a user's command, if sampling is allowed.

mod ends;
mod refusals;
mod stages;
mod times;

use super::number;
use crate::common::{Outcome, json, pipespeed, recorded, run_alone, skip};
use serde_json::Value;
use std::process::Command;

/// The command with options and a pipeline.
fn profile(options: &str, pipeline: &str) -> Command {
    let mut command = pipespeed(&format!("profile --quiet {options} --"));
    command.arg(pipeline);
    command
}

/// Whether this process may sample the kernel; a skip if not.
fn can_sample() -> bool {
    let outcome = run_alone(profile("--time 1 --json -", "true")).succeeded();
    let refusal = &json(&outcome.out)["settings"]["refusal"];
    if let Some(reason) = refusal.as_str() {
        skip(reason);
    }
    refusal.is_null()
}

/// The pipeline in the record of a profile.
#[track_caller]
fn profiled(options: &str, pipeline: &str) -> Value {
    recorded(profile(&format!("{options} --json -"), pipeline))["pipeline"].clone()
}

fn pipeline_of(outcome: &Outcome) -> Value {
    let profile: Value = serde_json::from_str(&outcome.out).unwrap();
    profile["pipeline"].clone()
}

/// Checks that each stage's costs add up to its wall time.
#[track_caller]
fn assert_adds_up(pipeline: &Value) {
    for stage in pipeline["stages"].as_array().unwrap() {
        let costs = stage["costs"].as_array().unwrap();
        let sum: f64 = costs.iter().map(|cost| number(&cost["seconds"])).sum();
        let wall = number(&stage["usage"]["wall_s"]);
        assert!(
            (sum / wall - 1.0).abs() < 0.05,
            "{sum} of {wall}: {stage:#}"
        );
    }
}

/// The commands of the stages.
fn commands(pipeline: &Value) -> Vec<&str> {
    let stages = pipeline["stages"].as_array().unwrap();
    let commands = stages.iter().map(|stage| stage["command"].as_str());
    commands.map(Option::unwrap).collect()
}

/// Checks how a stage ended, if the kernel tells (Linux 6.15).
#[track_caller]
fn assert_ended(stage: &Value, how: &str, number: i32) {
    let status = &stage["status"];
    assert!(
        status.is_null() || status[how] == number,
        "{how} {number}: {stage:#}"
    );
}

/// A pipeline whose first stage never sleeps.
const BUSY: &str = "(while :; do :; done) | cat";

/// A shell that counts for half a second or so, and then prints its own running time and time
/// waiting for a processor, in nanoseconds.
const COUNTS_ITSELF: &str = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; \
                             read ran waited rest < /proc/$$/schedstat; exit $((ran / 20000000))' | cat";

/// Checks that the first stage of [`COUNTS_ITSELF`] has the running time that it reported, in
/// units of 20 ms, as its exit status.
#[track_caller]
fn assert_own_times(pipeline: &Value) {
    assert_adds_up(pipeline);
    let stage = &pipeline["stages"][0];
    let Some(status) = stage["status"]["exited"].as_i64() else {
        return skip("no exit statuses before Linux 6.15");
    };
    let reported = status as f64 * 0.02;
    let cpu_s = number(&stage["cpu_s"]);
    assert!(
        (cpu_s - reported).abs() < 0.1 * reported + 0.04,
        "{cpu_s} of {reported}: {stage:#}"
    );
    let whole = number(&stage["usage"]["wall_s"]);
    assert_eq!(whole, number(&stage["wall_s"]), "{stage:#}");
    assert!(whole >= 0.9 * cpu_s, "{stage:#}");
    // All processes together, by getrusage(2).
    let all = number(&pipeline["cpu_s"]);
    assert!(all >= 0.9 * cpu_s - 0.02, "{all}: {pipeline:#}");
}
