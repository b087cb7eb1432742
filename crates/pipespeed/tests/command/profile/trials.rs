//! Sampling for real where it is allowed, and what is said where it is not.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{Outcome, PIPESPEED, json, pipespeed, run_alone, skip, start};
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

/// Runs a profile. `None`, with a skip, if sampling is refused.
fn sampled(args: &str) -> Option<Outcome> {
    let outcome = run_alone(pipespeed(&format!("profile {args} --quiet")));
    let refused = [
        "sampling the kernel is refused",
        "hidden",
        "no names",
        "perf events",
    ];
    let is_refused =
        outcome.code == Some(1) && refused.iter().any(|words| outcome.err.contains(words));
    if is_refused || is_counted(&outcome) {
        skip(format_args!("{}{}", outcome.err, outcome.out));
        return None;
    }
    Some(outcome.succeeded())
}

/// Whether it shows or saved an account in place of samples.
fn is_counted(outcome: &Outcome) -> bool {
    outcome.out.contains("counted, not sampled") || outcome.out.contains("profile_counted")
}

/// Checks that a case is accounted for, with these words of the refusal, which
/// may go over several lines.
#[track_caller]
fn assert_counted(outcome: Outcome, words: &[&str]) {
    let outcome = outcome.succeeded();
    assert!(is_counted(&outcome), "{outcome:#?}");
    for row in ["pages of 4 KiB", "unexplained", "wall time"] {
        assert_eq!(outcome.out.matches(row).count(), 2, "{row}: {outcome:#?}");
    }
    let text = outcome.unwrapped();
    for word in words {
        assert!(text.contains(word), "{word}: {outcome:#?}");
    }
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
fn an_ordinary_user_gets_an_account_and_hears_which_setting_refuses() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: Option<i64> = paranoid.ok().and_then(|text| text.trim().parse().ok());
    if paranoid.is_none_or(|level| level < 2) {
        skip("ordinary users may sample the kernel here");
        return;
    }
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let words = [
        "/proc/sys/kernel/perf_event_paranoid",
        "CAP_PERFMON",
        "pipespeed costs",
    ];
    let profile = |options: &str| program.command(&format!("profile {options} --quiet"));
    assert_counted(run_alone(profile("write_read --time 0.2")), &words);
    // These take samples.
    run_alone(profile("write_read --folded -")).refused(1, &words);
    run_alone(profile("-- true")).refused(1, &words);
}

#[test]
fn an_account_adds_up_to_the_wall_time_and_is_saved_with_its_costs() {
    let mut command = pipespeed(SAVED);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let account = json(&run_alone(command).succeeded().out);
    assert_eq!(account["kind"], "profile_counted");
    assert!(number(&account["costs_ns"]["write"]["estimate"]["median"]) > 0.0);
    let ends = account["cases"][0]["ends"].as_array().unwrap();
    assert_eq!(ends.len(), 2);
    for end in ends {
        let rows = end["rows"].as_array().unwrap();
        let pages = rows.iter().find(|row| row["item"] == "pages").unwrap();
        assert_eq!(
            number(&pages["count"]) * 4096.0,
            number(&end["counters"]["bytes"])
        );
        let sum: f64 = rows.iter().map(|row| number(&row["seconds"])).sum();
        let wall = number(&end["counters"]["seconds"]);
        assert!((sum / wall - 1.0).abs() < 1e-6, "{sum} of {wall}: {end:#}");
    }
}

#[test]
fn a_case_without_a_known_cost_of_pages_is_accounted_for_too() {
    let mut command = pipespeed("profile unix_64k --time 0.2 --quiet");
    if conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        assert_counted(run_alone(command), &["unknown"]);
    }
}

const SAVED: &str = "profile write_read --time 0.2 --quiet --json -";

/// Why nothing was sampled; none where something was.
fn refusal(command: Command) -> Option<String> {
    let record = json(&run_alone(command).succeeded().out);
    record["refusal"].as_str().map(str::to_owned)
}

#[test]
fn a_filter_that_refuses_the_call_is_named() {
    let mut command = pipespeed(SAVED);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let why = refusal(command).unwrap();
    // The level comes first where both refuse.
    let is_named = why.contains("a seccomp filter") && why.contains("may be the cause");
    assert!(is_named || why.contains("perf_event_paranoid is"), "{why}");
}

#[test]
fn a_filter_that_lets_the_call_pass_is_not_named() {
    let mut command = pipespeed(SAVED);
    if !conditions::without_call(&mut command, libc::SYS_acct) {
        return;
    }
    let is_named = |command| refusal(command).is_some_and(|why| why.contains("seccomp"));
    assert!(!is_named(command));
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command(SAVED);
    conditions::without_call(&mut command, libc::SYS_acct);
    assert!(!is_named(command));
    // It may be the second to refuse where the level is the first.
    let mut command = program.command(SAVED);
    conditions::without_call(&mut command, libc::SYS_perf_event_open);
    assert!(is_named(command));
}

#[test]
fn root_of_a_user_namespace_hears_that_its_capabilities_do_not_count() {
    let Some(command) = conditions::in_user_namespace(PIPESPEED, SAVED) else {
        return;
    };
    match refusal(command) {
        Some(why) if why.contains("perf_event_paranoid is") => {
            assert!(why.contains("within a user namespace"), "{why}");
        }
        _ => skip("ordinary users may sample the kernel here"),
    }
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
fn a_file_that_can_not_be_made_is_named() {
    run_alone(pipespeed("profile write_read --json /nonexistent/a"))
        .refused(2, &["/nonexistent/a"]);
}
