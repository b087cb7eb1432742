//! Sampling for real where it is allowed, and what is said where it is not.

use std::fs;

use crate::common::conditions::{self, ForAll};
use crate::common::{Outcome, pipespeed, run_alone};
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
    let mut command = pipespeed("profile write_read --quiet");
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let outcome = run_alone(command);
    // The level comes first where both refuse.
    if outcome.err.contains("perf_event_paranoid is") {
        eprintln!("skipped: refused without a filter too");
        return;
    }
    outcome.refused(1, &["seccomp", "pipespeed costs"]);
}

#[test]
fn what_makes_no_sense_is_bad_usage() {
    run_alone(pipespeed("profile no_such_case")).refused(2, &["no_such_case", "write_read"]);
    run_alone(pipespeed("profile")).refused(2, &["CASE"]);
    run_alone(pipespeed("profile --all write_read")).refused(2, &["--all"]);
    run_alone(pipespeed("profile write_read --json - --flame -")).refused(2, &["'-'"]);
    run_alone(pipespeed("profile write_read --json /nonexistent/a"))
        .refused(2, &["/nonexistent/a"]);
    run_alone(pipespeed("profile write_read --threshold 200")).refused(2, &["percentage"]);
}
