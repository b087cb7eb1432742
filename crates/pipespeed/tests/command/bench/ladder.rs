//! Real runs of `bench`, short ones: what they print, save and leave behind.

use std::collections::BTreeSet;

use crate::common::{
    conditions, json, json_file, names_in, pipespeed, recorded, run_alone, run_in, skip, start_into,
};
use serde_json::Value;

/// A run of few and short trials.
const SHORT: &str = "bench --quick --rounds 1";

/// Which fields it has is a matter of `records::keys`.
#[test]
fn record_adds_up_and_agrees_with_csv_and_the_chart() {
    let directory = tempfile::tempdir().unwrap();
    run_in(
        &directory,
        "bench --quick --rounds 2 --seed 7 --case write_read,vmsplice_read \
         --json r.json --csv r.csv --chart r.svg",
    )
    .succeeded();
    assert_eq!(names_in(directory.path()), ["r.csv", "r.json", "r.svg"]);

    let record = json_file(&directory.path().join("r.json"));
    assert_eq!(record["command"][0], "pipespeed");
    assert_eq!(record["settings"]["seed"], 7);
    assert_eq!(record["settings"]["rounds_done"], 2);
    assert_eq!(record["null_control"]["case"], "write_read");
    let cases = record["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|c| c["name"].as_str()).collect();
    // Those asked for, the one compared with, and the null control.
    let expected = "write_read write_read_again write_read_128k vmsplice_read";
    assert_eq!(names.join(" "), expected);
    let mut places = BTreeSet::new();
    for case in cases {
        assert_eq!(case["not_run"], Value::Null);
        // Two rounds are too few for an interval.
        assert_eq!(case["summary"]["gib_per_s"]["interval"], Value::Null);
        if case["compared_with"] != Value::Null {
            assert_eq!(case["ratio"]["verdict"], "undecided");
        } else {
            assert_eq!(case["ratio"], Value::Null);
        }
        for (round, sample) in case["samples"].as_array().unwrap().iter().enumerate() {
            assert_eq!(sample["round"], round);
            assert!(places.insert((round, sample["position"].as_u64())));
            let number = |key: &str| sample[key].as_f64().unwrap();
            let gib = number("bytes") / (1_u64 << 30) as f64;
            let ratio = number("gib_per_s") * number("seconds") / gib;
            assert!((ratio - 1.0).abs() < 1e-9, "{sample:#}");
            // Both ends count between the same two offsets, give or take a
            // piece each.
            let bytes = |end: &str| sample[end]["bytes"].as_u64().unwrap();
            let difference = bytes("writer").abs_diff(bytes("reader"));
            assert!(difference <= 2 * (256 << 10), "{sample:#}");
            assert_eq!(bytes("reader"), sample["bytes"]);
        }
    }
    assert_eq!(places.len(), 2 * cases.len());
    let sizes = [0, 2].map(|at| cases[at]["configuration"]["pipe_bytes"].clone());
    assert_eq!(sizes, [65_536, 131_072]);

    let rows = csv::Reader::from_path(directory.path().join("r.csv")).unwrap();
    let rows = rows.into_records().map(Result::unwrap);
    assert_eq!(rows.count(), 2 * cases.len());
    let chart = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    let chart = roxmltree::Document::parse(&chart).unwrap();
    assert_eq!(chart.root_element().tag_name().name(), "svg");
}

/// Runs every case of a suite with all data verified: a wrong byte would end
/// the run.
fn verified(suite: &str) {
    let args = format!("bench {suite} --quick --rounds 1 --data verify --json - -q");
    let outcome = run_alone(pipespeed(&args)).succeeded();
    assert!(!outcome.err.contains("wrong"), "{outcome:#?}");
    let record = json(&outcome.out);
    for case in record["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        assert_eq!(case["data"], "verify", "{name}");
        match case["not_run"]["reason"].as_str() {
            None => {
                let bytes = case["samples"][0]["bytes"].as_u64().unwrap();
                assert!(bytes > 1 << 20, "{case:#}");
            }
            Some(reason) => {
                let allowed = (name.contains("huge") && !conditions::huge_pages())
                    || conditions::processors() < 2
                    || suite == "options" && reason.contains("--data verify");
                assert!(allowed, "{name}: {reason}");
                skip(format_args!("{name}: {reason}"));
            }
        }
        // What splices shows its data to a second pipe.
        let reader = case["configuration"]["reader"].as_str().unwrap_or("none");
        if name.contains("splice_splice") || name.contains("busy") {
            assert_eq!(reader, "splice, read", "{name}");
        }
    }
}

#[test]
fn every_case_delivers_the_right_bytes() {
    ["ladder", "touched", "options"]
        .into_iter()
        .for_each(verified);
}

#[test]
fn quiet_silences_stderr_and_json_has_stdout_alone() {
    let quiet = format!("{SHORT} --case write_read -q");
    let outcome = run_alone(pipespeed(&format!("{quiet} --no-save"))).succeeded();
    assert_eq!(outcome.err, "");
    assert!(outcome.out.contains("write_read"), "{outcome:#?}");

    let outcome = run_alone(pipespeed(&format!("{quiet} --json -"))).succeeded();
    assert_eq!(outcome.err, "");
    assert_eq!(json(&outcome.out)["suite"], "ladder");

    // Without --quiet the table goes to standard error.
    let args = format!("{SHORT} --case write_read --csv -");
    let outcome = run_alone(pipespeed(&args)).succeeded();
    assert!(outcome.err.contains("write_read_again"), "{outcome:#?}");
    assert_eq!(outcome.out.lines().count(), 3, "{outcome:#?}");
    assert!(outcome.out.starts_with("suite,case,data,round,"));
    assert!(!outcome.err.contains('\u{1b}'), "colours in no terminal");
}

#[test]
fn list_names_the_cases_and_measures_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (suite, first, cases) in [
        ("ladder", "write_read ", 9),
        ("touched", "write_read_best ", 13),
    ] {
        let outcome = run_in(&directory, &format!("bench {suite} --list")).succeeded();
        assert_eq!(outcome.err, "");
        assert!(outcome.out.starts_with(first), "{outcome:#?}");
        assert_eq!(outcome.out.lines().count(), cases, "{outcome:#?}");
    }
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn requested_pipe_and_buffer_sizes_take_effect_in_every_case() {
    let args =
        format!("{SHORT} --pipe-size 32K --buffer-size 64K --case vmsplice_read --json - -q");
    let record = recorded(pipespeed(&args));
    for case in record["cases"].as_array().unwrap() {
        let configuration = &case["configuration"];
        assert_eq!(configuration["pipe_bytes"], 32 << 10, "{case:#}");
        assert_eq!(configuration["buffer_bytes"], 64 << 10, "{case:#}");
    }
}

#[test]
fn a_device_as_the_file_gets_the_record_once() {
    let (mut from, into) = std::io::pipe().unwrap();
    let args = "bench --quick --rounds 3 --case write_read --json /dev/stdout -q";
    let running = start_into(pipespeed(args), into);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut from, &mut text).unwrap();
    running.finish().succeeded();
    assert_eq!(json(&text)["settings"]["rounds_done"], 3);
}
