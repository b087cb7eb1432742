//! What is refused, and what is shown where sampling is.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::common::conditions::{self, ForAll};
use crate::common::{Outcome, PIPESPEED, recorded, run_alone, skip};
use crate::profile::is_only_for_root;

#[test]
fn too_few_descriptors_are_reported_at_once() {
    if !can_sample() {
        return;
    }
    // The time that it would wait for processes that can't be ended.
    let wait_time = Duration::from_secs(5);
    let run = |limit: u32| {
        let mut command = Command::new("sh");
        let script = format!(
            "ulimit -n {limit}; exec \"$0\" profile --quiet -- 'true | true | true | true'"
        );
        command.args(["-c", &script, PIPESPEED]);
        let began = Instant::now();
        (run_alone(command), began.elapsed())
    };
    // How many it needs depends on the machine: a ring for each processor.
    for limit in 10..16 {
        // A busy machine may be that slow, but not each time.
        let at_once = (0..10).any(|_| {
            let (outcome, elapsed) = run(limit);
            if limit == 10 || outcome.code != Some(0) {
                outcome.refused(1, &["ulimit -n"]);
            }
            elapsed < wait_time
        });
        assert!(at_once, "{limit}");
    }
}

#[test]
fn options_after_quoted_pipeline_are_refused_with_the_way_out() {
    for pipeline in ["yes | head -1", "yes|head"] {
        let mut command = profile("", pipeline);
        command.args(["--time", "3"]);
        let words = [pipeline, "such as --time, go before '--'"];
        run_alone(command).refused(2, &words);
    }
}

#[test]
fn empty_command_is_bad_usage_and_the_shell_judges_others() {
    run_alone(profile("", " ")).refused(2, &["command is missing"]);
    if !can_sample() {
        return;
    }
    let outcome = run_alone(profile("", "a 'b | c")).succeeded();
    assert!(
        outcome.out.contains("exited with status 2."),
        "{outcome:#?}"
    );
}

/// Checks that a profile without samples has all that the scheduler knows, and names the reason.
#[track_caller]
fn assert_not_divided(outcome: Outcome, words: &[&str]) {
    let text = outcome.succeeded().unwrapped();
    let rows = [
        "1: sh ",
        "2: cat",
        "running (not divided)",
        "asleep, waiting for: ",
    ];
    let refused = "The running time is not divided into costs: sampling the kernel is refused";
    let verdict = [
        "The pipeline is as fast as 1: sh",
        "Processor time is short",
    ];
    for row in rows.iter().chain([&refused]).chain(words) {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert!(verdict.iter().any(|words| text.contains(words)), "{text}");
    for row in ["user code", "call chains", "samples"] {
        assert!(!text.contains(row), "{row}: {text}");
    }
}

#[test]
fn ordinary_user_sees_the_stages_and_the_setting_that_refuses() {
    if !is_only_for_root() {
        return;
    }
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let profile = |options: &str, text: &str| {
        let mut command = program.command(&format!("profile --quiet {options} --"));
        command.arg(text);
        command
    };
    let words = ["/proc/sys/kernel/perf_event_paranoid", "CAP_PERFMON"];
    let outcome = run_alone(profile("--no-save --time 2", BUSY));
    assert_not_divided(outcome, &words);
    // The times are the same as in a sampled profile.
    let record = recorded(profile("--json -", COUNTS_ITSELF));
    assert_eq!(record["settings"]["event"], Value::Null);
    assert_own_times(&record["pipeline"]);
    // These files need samples.
    for option in ["--folded -", "--flame -"] {
        run_alone(profile(option, "echo it ran >&2 | cat")).refused(1, &words);
    }
}

#[test]
fn filter_that_refuses_the_call_is_named_with_the_stages() {
    let mut command = profile("--no-save --time 2", BUSY);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let outcome = run_alone(command);
    // If both refuse, the level is named.
    if outcome.unwrapped().contains("perf_event_paranoid is") {
        return skip("refused without a filter too");
    }
    assert_not_divided(outcome, &["a seccomp filter", "may be the cause"]);
}
