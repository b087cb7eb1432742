//! A run of channels over invented trials, some of which fail: the others go
//! on.

use std::collections::BTreeMap;

use crate::common::fake::{self, FakeRunner, Watch};
use pipespeed_measure::record::{CaseResult, NotRunKind, WarningKind};
use pipespeed_measure::rounds::{Measurement, check};
use pipespeed_measure::spec::Suite;

/// A run of invented trials that goes on when one fails.
fn going_on(runner: FakeRunner) -> (Measurement<FakeRunner>, Watch) {
    let mut measurement = fake::measurement(Suite::Channels, runner);
    let mut watch = Watch::default();
    measurement.verify(&mut watch).unwrap();
    measurement.pilot(&mut watch).unwrap();
    measurement.rounds(5, None, &mut watch).unwrap();
    (measurement, watch)
}

fn failing(case: &str, from: usize) -> FakeRunner {
    let reason = "wrong data: the byte at offset 7".to_owned();
    FakeRunner {
        failing: BTreeMap::from([(case.to_owned(), (from, reason))]),
        ..FakeRunner::default()
    }
}

#[test]
fn a_wrong_byte_in_every_verified_pass_is_reported_and_takes_only_its_case() {
    let (measurement, watch) = going_on(failing("tcp_4k", 0));
    let line = "tcp_4k: wrong data: the byte at offset 7";
    assert_eq!(watch.failed, [line]);
    let run = measurement.finish(None);
    let error = check(&run.warnings).unwrap_err().to_string();
    assert!(
        error.starts_with("tcp_4k: 3 trials failed: wrong"),
        "{error}"
    );
    for case in &run.cases {
        if case.name == "tcp_4k" {
            let not_run = case.not_run.as_ref().unwrap();
            assert_eq!(not_run.kind, NotRunKind::Failed);
            assert!(not_run.reason.contains("wrong data"), "{not_run}");
            assert!(case.samples.is_empty() && case.verified_bytes.is_none());
        } else {
            assert_eq!(case.samples.len(), 5, "{}", case.name);
        }
    }
}

#[test]
fn failed_trials_are_missing_and_after_three_of_them_a_case_is_given_up() {
    // One of the verified pass, one of the pilot, and the first of the rounds.
    let (measurement, watch) = going_on(failing("ring_1k_spin", 3));
    let line = "ring_1k_spin: wrong data: the byte at offset 7";
    assert_eq!(watch.failed, [line]);
    let run = measurement.finish(None);
    let named = |case: &&CaseResult| case.name == "ring_1k_spin";
    let case = run.cases.iter().find(named).unwrap();
    assert_eq!(case.samples.len(), 1);
    let warning = run.warnings.iter().find(|w| w.kind == WarningKind::Failed);
    let message = &warning.unwrap().message;
    assert!(message.starts_with("3 trials failed"), "{message}");
    assert_eq!(run.settings.rounds_done, 5);
}

#[test]
fn every_channel_of_a_whole_run_is_in_the_text_and_in_the_sentences() {
    let (measurement, _) = going_on(FakeRunner::default());
    let run = measurement.finish(None);
    let findings = pipespeed_report::findings(&run);
    assert_eq!(findings.len(), 6, "{findings:?}");
    assert!(findings[0].starts_with("Fastest for messages of 64B: "));
    let text = pipespeed_report::table(&run, pipespeed_report::Style::default());
    assert!(!text.contains("pipe_64k_again  "), "{text}");
    assert!(text.contains("pipe_64k against itself"), "{text}");
}
