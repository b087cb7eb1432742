//! Profiles of cases: sampled if that is allowed, else counted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::{is_only_for_root, is_refused, number};
use crate::common::conditions::{self, ForAll};
use crate::common::procs::eventually;
use crate::common::{Outcome, PIPESPEED, json, pipespeed, recorded, run_alone, skip, start_marked};
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

/// Runs a profile. `None`, with a skip, if sampling is refused.
fn sampled(args: &str) -> Option<Outcome> {
    let outcome = run_alone(pipespeed(&format!("profile {args} --quiet")));
    if is_refused(&outcome) {
        return None;
    }
    if is_counted(&outcome) {
        skip(&outcome.out);
        return None;
    }
    Some(outcome.succeeded())
}

/// Whether the profile is counted instead of sampled.
fn is_counted(outcome: &Outcome) -> bool {
    outcome.out.contains("counted, not sampled") || outcome.out.contains("profile_counted")
}

/// Checks that the profile is counted, and contains these words of the refusal, which may
/// be wrapped.
#[track_caller]
fn assert_counted(outcome: Outcome, words: &[&str]) {
    let outcome = outcome.succeeded();
    assert!(is_counted(&outcome), "{outcome:#?}");
    for row in ["pages of 4 KiB", "unexplained", "wall time"] {
        // A note on costs that exceed it mentions the wall time, too.
        let rows = outcome.out.lines().filter(|line| {
            let rest = line.strip_prefix(row);
            rest.is_some_and(|rest| rest.starts_with("  "))
        });
        assert_eq!(rows.count(), 2, "{row}: {outcome:#?}");
    }
    let text = outcome.unwrapped();
    for word in words {
        assert!(text.contains(word), "{word}: {outcome:#?}");
    }
}

#[test]
fn each_ends_costs_add_up_to_its_wall_time() {
    let Some(outcome) = sampled("write_read --time 0.2 --json -") else {
        return;
    };
    let profile: Value = serde_json::from_str(&outcome.out).unwrap();
    let ends = profile["cases"][0]["ends"].as_array().unwrap();
    assert_eq!(ends.len(), 2);
    // The heading's rate is that of the reader's wall time.
    let reader = &ends[1]["usage"];
    let rate = number(&reader["bytes"]) / number(&reader["wall_s"]) / f64::from(1 << 30);
    let shown = number(&profile["cases"][0]["gib_per_s_unsampled"]);
    assert!((shown / rate - 1.0).abs() < 1e-9, "{shown} {rate}");
    for end in ends {
        let usage = &end["usage"];
        let wall = number(&usage["wall_s"]) * 1e9 * 4096.0 / number(&usage["bytes"]);
        let costs = end["costs"].as_array().unwrap();
        let sum: f64 = costs.iter().map(|cost| number(&cost["ns_per_page"])).sum();
        assert!((sum / wall - 1.0).abs() < 0.05, "{sum} of {wall}: {end:#}");
        assert!(end["samples"].as_u64().unwrap() > 0, "{end:#}");
    }
    // A writer copies in any case, but few samples of a busy machine may miss it.
    let copies = |profile: &Value| {
        let costs = &profile["cases"][0]["ends"][0]["costs"];
        let mut costs = costs.as_array().unwrap().iter();
        costs.any(|cost| cost["group"] == "copy_to_kernel")
    };
    let again = || json(&sampled("write_read --time 1 --json -").unwrap().out);
    assert!(
        copies(&profile) || (0..4).any(|_| copies(&again())),
        "{profile:#}"
    );
}

/// The bounds and shares of the writer's costs, by group.
fn bounds(outcome: &Outcome) -> BTreeMap<String, (String, f64)> {
    let profile = json(&outcome.out);
    let costs = profile["cases"][0]["ends"][0]["costs"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |cost: &Value| (word(&cost["bound"]), number(&cost["share"]));
    let costs = costs.iter();
    costs.map(|cost| (word(&cost["group"]), of(cost))).collect()
}

#[test]
fn without_events_of_processors_scheduling_is_an_upper_bound() {
    const ARGS: &str = "write_read --time 1 --json -";
    let mut command = pipespeed(&format!("profile {ARGS} --quiet"));
    // perf_event_open(attr, pid, cpu, group, flags): every process of a processor.
    let every = (1, -1_i32 as u32);
    if sampled(ARGS).is_none()
        || !conditions::failing_call_with(
            &mut command,
            libc::SYS_perf_event_open,
            every,
            libc::EACCES,
        )
    {
        return;
    }
    let outcome = run_alone(command).succeeded();
    let profile = json(&outcome.out);
    assert_eq!(profile["settings"]["scope"], "tasks", "{outcome:#?}");
    let warning = &profile["warnings"][0]["message"];
    assert!(
        warning.as_str().unwrap().contains("CAP_PERFMON"),
        "{warning}"
    );
    let bounds = bounds(&outcome);
    let samples = profile["cases"][0]["ends"][0]["samples"].as_u64().unwrap();
    // The ends may run in lockstep, and sleep too rarely to distort anything.
    let sleeps = bounds
        .get("asleep")
        .is_some_and(|(_, share)| *share >= 0.02);
    let is_distorted = samples >= 100 && sleeps;
    if !is_distorted {
        skip("the writer hardly slept or ran, so its costs are exact");
    }
    for (group, (bound, _)) in bounds {
        let expected = match group.as_str() {
            "asleep" | "run_delay" => "exact",
            _ if !is_distorted => "exact",
            "scheduling" => "at_most",
            _ => "at_least",
        };
        assert_eq!(bound, expected, "{group}");
    }
}

#[test]
fn events_of_processors_have_no_bounds() {
    let Some(outcome) = sampled("write_read --time 0.5 --json -") else {
        return;
    };
    if json(&outcome.out)["settings"]["scope"] != "processors" {
        skip("events of processors are refused here");
        return;
    }
    assert!(bounds(&outcome).values().all(|(bound, _)| bound == "exact"));
}

/// Replaces syscall(2), through which the library opens events: an event of a
/// type up to MAX_TYPE, for any processor or for ONLY_CPU, becomes one that never counts
/// (PERF_COUNT_SW_DUMMY).
const NEVER_COUNTS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <sys/syscall.h>
long syscall(long number, ...) {
    static long (*next)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (!next) next = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_perf_event_open) {
        struct perf_event_attr *event = (void *)a[0];
        if (event->type <= MAX_TYPE && (ONLY_CPU < 0 || a[2] == ONLY_CPU)) {
            event->type = PERF_TYPE_SOFTWARE;
            event->config = PERF_COUNT_SW_DUMMY;
        }
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"#;

/// Makes the events of the command never count: those of hardware (type 0), or also those of
/// software (type 1), for one processor or for any. False, with a skip, without a C compiler.
fn never_count(
    command: &mut Command,
    max_type: u32,
    only_cpu: Option<usize>,
    directory: &Path,
) -> bool {
    let source = directory.join("never_counts.c");
    let library = directory.join("never_counts.so");
    fs::write(&source, NEVER_COUNTS).unwrap();
    let only_cpu = only_cpu.map_or(-1, |cpu| cpu as i64);
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC"])
        .arg(format!("-DMAX_TYPE={max_type}"))
        .arg(format!("-DONLY_CPU={only_cpu}"))
        .arg("-o")
        .args([&library, &source])
        .arg("-ldl")
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("no C compiler");
        return false;
    }
    command.env("LD_PRELOAD", library);
    true
}

#[test]
fn a_counter_that_opens_and_never_counts_is_not_used() {
    const ARGS: &str = "write_read --time 0.5 --json -";
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed(&format!("profile {ARGS} --quiet"));
    if sampled(ARGS).is_none() || !never_count(&mut command, 0, None, directory.path()) {
        return;
    }
    let profile = recorded(command);
    assert_eq!(profile["settings"]["event"], "cpu-clock", "{profile:#}");
    for end in profile["cases"][0]["ends"].as_array().unwrap() {
        assert!(number(&end["samples"]) > 0.0, "{end:#}");
    }
}

#[test]
fn an_end_whose_events_never_count_is_not_divided() {
    const ARGS: &str = "busy_loop_huge --time 1 --json -";
    if conditions::processors() < 2 {
        return skip("one processor");
    }
    if sampled(ARGS).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let first = conditions::first_processor();
    let mut command = pipespeed(&format!(
        "profile {ARGS} --quiet --cpus {first},{}",
        first + 1
    ));
    if !never_count(&mut command, 1, Some(first), directory.path()) {
        return;
    }
    let record = recorded(command);
    let ends = record["cases"][0]["ends"].as_array().unwrap();
    let groups = |end: &Value| -> Vec<String> {
        let costs = end["costs"].as_array().unwrap().iter();
        costs
            .map(|cost| cost["group"].as_str().unwrap().to_owned())
            .collect()
    };
    // Both ends spin.
    assert!(
        groups(&ends[0]).contains(&"running".to_owned()),
        "{record:#}"
    );
    assert!(
        !groups(&ends[0]).contains(&"other".to_owned()),
        "{record:#}"
    );
    assert!(
        groups(&ends[1]).contains(&"user_code".to_owned()),
        "{record:#}"
    );
    let warnings = record["warnings"].to_string();
    assert!(warnings.contains("writer: 0 samples, where "), "{warnings}");
}

#[test]
fn counts_replace_events_that_never_count() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed("profile write_read --time 0.2 --quiet");
    if is_refused(&run_alone(pipespeed(
        "profile write_read --time 0.2 --quiet",
    ))) || !never_count(&mut command, 1, None, directory.path())
    {
        return;
    }
    let outcome = run_alone(command);
    if !outcome.out.contains("never count") {
        // Refused for another reason.
        assert!(is_counted(&outcome), "{outcome:#?}");
        return;
    }
    assert_counted(outcome, &["can be opened but never count"]);
}

#[test]
fn each_file_has_the_format_of_its_option() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let args = format!(
        "vmsplice_splice --time 1 --folded {} --flame {} --chart {}",
        path("folded"),
        path("flame.svg"),
        path("chart.svg")
    );
    let Some(outcome) = sampled(&args) else {
        return;
    };
    assert!(
        outcome.out.contains("running time by call chains"),
        "{outcome:#?}"
    );
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
fn an_ordinary_user_gets_counts_and_the_setting_that_refuses() {
    if !is_only_for_root() {
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
    // This needs samples.
    run_alone(profile("write_read --folded -")).refused(1, &words);
}

#[test]
fn counted_times_add_up_to_wall_time_and_are_saved() {
    let mut command = pipespeed(SAVED);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let account = recorded(command);
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

const SAVED: &str = "profile write_read --time 0.2 --quiet --json -";

/// The reason why a profile was not sampled; `None` if it was.
fn refusal(command: Command) -> Option<String> {
    let record = recorded(command);
    record["refusal"].as_str().map(str::to_owned)
}

#[test]
fn a_filter_that_refuses_the_call_is_named() {
    let mut command = pipespeed(SAVED);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let why = refusal(command).unwrap();
    // If both refuse, the level is named.
    let is_named = why.contains("a seccomp filter") && why.contains("may be the cause");
    assert!(is_named || why.contains("perf_event_paranoid is"), "{why}");
}

#[test]
fn the_refusal_mentions_a_user_namespace() {
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
fn a_signal_ends_a_profile_and_its_processes() {
    if sampled("write_read --time 0.2").is_none() {
        return;
    }
    for (signal, name) in [(Signal::QUIT, "SIGQUIT"), (Signal::TERM, "SIGTERM")] {
        let mut command = pipespeed("profile write_read --time 1000 --quiet");
        // A terminal sends the signal to the whole process group.
        command.process_group(0);
        let (running, mark) = start_marked(command);
        eventually(|| mark.instructed_endpoint("reader")).unwrap();
        kill_process_group(running.pid(), signal).unwrap();
        let outcome = running.finish();
        mark.nobody_left();
        outcome.failed(128 + signal.as_raw(), &["interrupted by", name]);
    }
}

#[test]
fn the_processes_of_a_killed_profile_die_with_it() {
    if sampled("write_read --time 0.2").is_none() {
        return;
    }
    let (running, mark) = start_marked(pipespeed("profile write_read --time 1000 --quiet"));
    eventually(|| mark.instructed_endpoint("reader")).unwrap();
    running.send(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    mark.nobody_left();
}
