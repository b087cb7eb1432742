//! `bench` where something is lacking: processors, huge pages, system calls,
//! descriptors.

use crate::common::{conditions, json, pipespeed, recorded, run_alone, run_marked, skip};
use serde_json::Value;

/// A run of few and short trials.
const SHORT: &str = "bench --quick --rounds 1";

#[test]
fn trials_leave_no_process_and_no_descriptor() {
    // 24 trials would not get along with so few, if each kept one.
    let mut command =
        pipespeed("bench --quick --rounds 11 --case write_read_huge --no-save -q --placement free");
    conditions::few_descriptors(&mut command, 26);
    run_marked(command).succeeded();
}

#[test]
fn on_one_processor_spinning_is_refused_and_rest_is_measured() {
    let mut command = pipespeed(&format!(
        "{SHORT} --case busy_loop_huge,write_read --json - "
    ));
    conditions::one_processor(&mut command);
    let outcome = run_alone(command).succeeded();
    let record = json(&outcome.out);
    for case in record["cases"].as_array().unwrap() {
        let samples = case["samples"].as_array().unwrap().len();
        if case["name"] == "busy_loop_huge" {
            let reason = case["not_run"]["reason"].as_str().unwrap();
            assert!(reason.contains("two processors"), "{reason}");
            assert_eq!((samples, &case["summary"]), (0, &Value::Null));
        } else if case["not_run"].is_null() {
            assert_eq!(samples, 1, "{case:#}");
        }
    }
    let line = outcome
        .err
        .lines()
        .find(|l| l.starts_with("busy_loop_huge"));
    assert!(
        line.unwrap()
            .contains("refused: spinning needs two processors")
    );

    // Nothing but what is refused.
    let mut command =
        pipespeed("bench touched --no-save --case fastpipe_auto_spin --quick --rounds 1");
    conditions::one_processor(&mut command);
    let outcome = run_alone(command).succeeded();
    assert!(outcome.out.contains("refused"), "{outcome:#?}");
}

#[test]
fn without_huge_pages_only_their_cases_are_refused() {
    let mut command = pipespeed(&format!("{SHORT} --case vmsplice_read_huge --json - -q"));
    conditions::no_huge_pages(&mut command);
    let record = recorded(command);
    let cases = record["cases"].as_array().unwrap();
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    let measured = case("vmsplice_read");
    assert_eq!(measured["samples"].as_array().unwrap().len(), 1);
    let refused = case("vmsplice_read_huge");
    let reason = refused["not_run"]["reason"].as_str().unwrap();
    assert!(reason.contains("are in transparent huge pages"), "{reason}");
    assert_eq!(
        (&refused["summary"], &refused["ratio"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn sizes_that_do_not_fit_each_other_are_measured_too() {
    // The offsets at which the ends take their readings then lie within a
    // piece, and the reader leaves in the middle of it.
    for sizes in [
        "--case write_read --buffer-size 1M",
        "--case write_read --buffer-size 321K",
        "--case write_read --pipe-size 4K",
        "--case vmsplice_read --pipe-size 16K",
        "touched --case vmsplice_read_huge --buffer-size 64K",
        "touched --case vmsplice_read_huge --pipe-size 1M --buffer-size 8K",
    ] {
        let command = pipespeed(&format!("bench {sizes} --rounds 1 --quick --json - -q"));
        let outcome = run_alone(command);
        if outcome.err.contains("no case could be run: refused: ") {
            skip(format_args!("{sizes}: {}", outcome.err));
            continue;
        }
        let record = json(&outcome.succeeded().out);
        for case in record["cases"].as_array().unwrap() {
            let measured = case["samples"].as_array().unwrap().len() == 1;
            assert!(measured || case["not_run"].is_object(), "{sizes}: {case:#}");
        }
    }
}
