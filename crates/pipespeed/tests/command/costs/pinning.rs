//! `costs --pinning`, for real: with the kernel's own benchmark where there is
//! one, which `ci/gup-test` sees to, else with the estimate alone.

use crate::common::conditions::ForAll;
use crate::common::{
    Marked, Outcome, PIPESPEED, json, json_file, pipespeed, run_alone, says, skip,
};
use rustix::process::Signal;

const QUICK: &str = "costs --pinning --quiet --rounds 7 --size 4M";

/// Checks the estimate of one kind of pages, and returns its median if the
/// system grants such pages.
#[track_caller]
fn check_estimate(record: &serde_json::Value, kind: &str) -> Option<f64> {
    let figures = record["figures"].as_array().unwrap();
    let figure = |step: &str| {
        let name = format!("{step}_{kind}");
        let found = figures.iter().find(|figure| figure["name"] == *name);
        found.unwrap_or_else(|| panic!("{name}: {record:#}"))
    };
    let estimate = figure("estimate");
    if let Some(why) = estimate["not_run"]["reason"].as_str() {
        skip(format_args!("no estimate for {kind} pages: {why}"));
        return None;
    }
    for step in ["vmsplice", "splice", "estimate"] {
        assert_eq!(figure(step)["samples_ns"].as_array().unwrap().len(), 7);
        let estimate = &figure(step)["estimate_ns"];
        let interval = &estimate["interval"];
        let [low, median, high] = [&interval["low"], &estimate["median"], &interval["high"]]
            .map(|value| value.as_f64().unwrap());
        assert!(low <= median && median <= high, "{step} {kind}: {record:#}");
    }
    assert!(
        figure("vmsplice")["estimate_ns"]["median"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(figure("splice")["estimate_ns"]["median"].as_f64().unwrap() > 0.0);
    estimate["estimate_ns"]["median"].as_f64()
}

/// Checks that the record names the source of its figures: the kernel's file, or what is
/// missing.
#[track_caller]
fn check_source(record: &serde_json::Value) {
    match record["missing"].as_str() {
        Some(why) => {
            assert!(record["kernel"].is_null(), "{record:#}");
            let known = ["mount -t debugfs", "root", "CONFIG_GUP_TEST"];
            assert!(known.iter().any(|word| why.contains(word)), "{why}");
        }
        None => {
            assert!(record["kernel"]["file"].is_string(), "{record:#}");
            assert!(
                record["figures"][0]["estimate_ns"]["median"]
                    .as_f64()
                    .unwrap()
                    > 0.0
            );
        }
    }
}

#[track_caller]
fn measured(outcome: Outcome) -> serde_json::Value {
    let done = outcome.succeeded();
    assert_eq!(done.err, "");
    json(&done.out)
}

#[test]
fn there_is_a_figure_with_its_source_whatever_the_kernel() {
    let record = measured(run_alone(pipespeed(&format!("{QUICK} --json -"))));
    check_source(&record);
    check_estimate(&record, "base");
    check_estimate(&record, "huge");
    assert_eq!(record["settings"]["pages_per_call"], 16);
    assert_eq!(record["settings"]["bytes_per_call"], 4 << 20);
}

#[test]
fn an_ordinary_user_gets_the_estimate_and_the_reason() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let record = measured(run_alone(program.command(&format!("{QUICK} --json -"))));
    let why = record["missing"].as_str().unwrap();
    assert!(why.contains("root"), "{why}");
    check_estimate(&record, "base");
    let text = run_alone(program.command(QUICK)).succeeded().out;
    says(
        &text,
        &[
            "The figures below are an estimate",
            "estimate for base pages",
            "vmsplice, base pages",
            "ns per page",
        ],
    );
}

#[test]
fn one_kind_of_pages_untouched_ones_too_and_saved_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pinning.json");
    let mut command = pipespeed(&format!("{QUICK} --pages base --untouched --json"));
    command.arg(&path);
    let text = run_alone(command).succeeded().out;
    assert!(text.contains("never written"), "{text}");
    assert!(!text.contains("huge pages"), "{text}");
    let record = json_file(&path);
    assert_eq!(record["settings"]["untouched"], true);
    check_estimate(&record, "base");
}

#[test]
fn a_signal_shows_and_saves_what_was_measured() {
    let args = "costs --pinning -q --rounds 10000 --size 1M --seed 5 --json run.json";
    let run = Marked::start(args).saved();
    run.running.send(Signal::TERM);
    let (outcome, record) = run.recorded();
    assert_eq!(outcome.code, Some(143), "{outcome:#?}");
    assert!(outcome.out.contains("ns per page"), "{outcome:#?}");
    assert_eq!(record["interrupted"], "SIGTERM");
    assert_eq!(record["settings"]["seed"], 5);
    let samples = |figure: &serde_json::Value| figure["samples_ns"].as_array().unwrap().len();
    let figures = record["figures"].as_array().unwrap();
    assert!(
        figures
            .iter()
            .any(|figure| (1..10_000).contains(&samples(figure)))
    );
}
