//! Sampling for real where it is allowed, and what is said where it is not.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{Outcome, pipespeed, run_alone, start};
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

/// Runs a profile; none, said aloud, where sampling is refused.
fn sampled(args: &str) -> Option<Outcome> {
    let outcome = run_alone(pipespeed(&format!("profile {args} --quiet")));
    let refused = [
        "sampling the kernel is refused",
        "hidden",
        "no names",
        "perf events",
    ];
    if outcome.code == Some(1) && refused.iter().any(|words| outcome.err.contains(words)) {
        eprintln!("skipped: {}", outcome.err);
        return None;
    }
    Some(outcome.succeeded())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn each_ends_costs_add_up_to_its_wall_time() {
    let Some(outcome) = sampled("write_read --time 0.2 --json -") else {
        return;
    };
    let profile: Value = serde_json::from_str(&outcome.out).unwrap();
    let ends = profile["cases"][0]["ends"].as_array().unwrap();
    assert_eq!(ends.len(), 2);
    for end in ends {
        let usage = &end["usage"];
        let wall = number(&usage["wall_s"]) * 1e9 * 4096.0 / number(&usage["bytes"]);
        let costs = end["costs"].as_array().unwrap();
        let sum: f64 = costs.iter().map(|cost| number(&cost["ns_per_page"])).sum();
        assert!((sum / wall - 1.0).abs() < 0.05, "{sum} of {wall}: {end:#}");
        assert!(end["samples"].as_u64().unwrap() > 0, "{end:#}");
    }
    // Whatever else: a writer copies.
    let copies = |cost: &Value| cost["group"] == "copy_to_kernel";
    assert!(ends[0]["costs"].as_array().unwrap().iter().any(copies));
}

#[test]
fn a_case_is_found_in_whatever_suite_it_is() {
    let Some(outcome) = sampled("gift_huge --time 0.2") else {
        return;
    };
    assert!(outcome.out.contains("gift_huge: "), "{outcome:#?}");
}

#[test]
fn the_files_are_what_they_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let args = format!(
        "vmsplice_splice --time 0.2 --folded {} --flame {} --chart {}",
        path("folded"),
        path("flame.svg"),
        path("chart.svg")
    );
    let Some(outcome) = sampled(&args) else {
        return;
    };
    for words in ["system-call entry and exit", "running time by call chains"] {
        assert!(outcome.out.contains(words), "{outcome:#?}");
    }
    let folded = fs::read_to_string(path("folded")).unwrap();
    assert!(folded.lines().count() > 5, "{folded}");
    for line in folded.lines() {
        let (chain, weight) = line.rsplit_once(' ').unwrap();
        assert!(chain.starts_with("vmsplice_splice;"), "{line}");
        assert!(weight.parse::<u64>().is_ok(), "{line}");
    }
    let chart = fs::read_to_string(path("chart.svg")).unwrap();
    assert!(roxmltree::Document::parse(&chart).is_ok());
    let flame = fs::read_to_string(path("flame.svg")).unwrap();
    assert!(flame.contains("<svg") && flame.contains("writer"));
}

#[test]
fn an_ordinary_user_hears_which_setting_refuses_him() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: Option<i64> = paranoid.ok().and_then(|text| text.trim().parse().ok());
    if paranoid.is_none_or(|level| level < 2) {
        eprintln!("skipped: ordinary users may sample the kernel here");
        return;
    }
    let Some(program) = ForAll::new() else { return };
    let words = [
        "/proc/sys/kernel/perf_event_paranoid",
        "CAP_PERFMON",
        "pipespeed costs",
    ];
    run_alone(program.pipespeed("profile write_read --quiet")).refused(1, &words);
}

#[test]
fn a_filter_that_refuses_the_call_is_named() {
    names_the_filter(pipespeed("profile write_read --quiet"));
}

/// Where a filter refuses the call, the command says so, and no more.
pub fn names_the_filter(mut command: Command) {
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let outcome = run_alone(command);
    // The level comes first where both refuse.
    if outcome.err.contains("perf_event_paranoid is") {
        eprintln!("skipped: refused without a filter too");
        return;
    }
    let words = ["a seccomp filter", "may be the cause", "pipespeed costs"];
    outcome.refused(1, &words);
}

#[test]
fn a_filter_that_lets_the_call_pass_is_not_named() {
    let args = "profile write_read --time 0.2 --quiet";
    let mut command = pipespeed(args);
    if !conditions::without_call(&mut command, libc::SYS_acct) {
        return;
    }
    let outcome = run_alone(command);
    assert!(!outcome.err.contains("seccomp"), "{outcome:#?}");
    let Some(program) = ForAll::new() else { return };
    let mut command = program.pipespeed(args);
    conditions::without_call(&mut command, libc::SYS_acct);
    let outcome = run_alone(command);
    assert!(!outcome.err.contains("seccomp"), "{outcome:#?}");
    // It may be the second to refuse where the level is the first.
    let mut command = program.pipespeed(args);
    conditions::without_call(&mut command, libc::SYS_perf_event_open);
    let outcome = run_alone(command);
    if outcome.err.contains("perf_event_paranoid is") {
        outcome.refused(1, &["CAP_PERFMON", "a seccomp filter", "too"]);
    }
}

#[test]
fn root_of_a_user_namespace_hears_that_its_capabilities_do_not_count() {
    let Some(command) = conditions::in_user_namespace("profile write_read --quiet") else {
        return;
    };
    let outcome = run_alone(command);
    if !outcome.err.contains("perf_event_paranoid is") {
        return eprintln!("skipped: ordinary users may sample the kernel here");
    }
    outcome.refused(1, &["within a user namespace", "pipespeed costs"]);
}

#[test]
fn a_signal_ends_a_profile_and_its_ends() {
    if sampled("write_read --time 0.2").is_none() {
        return;
    }
    for (signal, name) in [(Signal::QUIT, "SIGQUIT"), (Signal::TERM, "SIGTERM")] {
        let mut command = pipespeed("profile write_read --time 1000 --quiet");
        // A terminal sends it to all of them.
        command.process_group(0);
        let mark = Mark::on(&mut command);
        let running = start(command);
        eventually(|| mark.instructed_endpoint("reader")).unwrap();
        kill_process_group(running.pid(), signal).unwrap();
        let outcome = running.finish();
        mark.nobody_left();
        outcome.failed(128 + signal.as_raw(), &["interrupted by", name]);
    }
}

#[test]
fn the_ends_of_a_profile_that_is_killed_die_with_it() {
    if sampled("write_read --time 0.2").is_none() {
        return;
    }
    let mut command = pipespeed("profile write_read --time 1000 --quiet");
    let mark = Mark::on(&mut command);
    let running = start(command);
    eventually(|| mark.instructed_endpoint("reader")).unwrap();
    running.send(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    mark.nobody_left();
}

#[test]
fn what_makes_no_sense_is_bad_usage() {
    let ladder = ["no_such_case", "write_read", "--suite"];
    run_alone(pipespeed("profile no_such_case")).refused(2, &ladder);
    let volumes = ["volumes", "write_read", "volume_0.25g"];
    run_alone(pipespeed("profile --suite volumes write_read")).refused(2, &volumes);
    run_alone(pipespeed("profile")).refused(2, &["CASE"]);
    run_alone(pipespeed("profile --all write_read")).refused(2, &["--all"]);
    run_alone(pipespeed("profile write_read --json - --flame -")).refused(2, &["'-'"]);
    run_alone(pipespeed("profile write_read --json /nonexistent/a"))
        .refused(2, &["/nonexistent/a"]);
    run_alone(pipespeed("profile write_read --threshold 200")).refused(2, &["percentage"]);
}
