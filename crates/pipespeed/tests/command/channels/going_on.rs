//! A run of channels over invented trials, some of which fail: the others go
//! on.

use std::collections::BTreeMap;

use crate::common::fake::{self, FakeRunner, Watch};
use pipespeed_measure::record::NotRunKind;
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
fn a_wrong_byte_is_reported_and_takes_only_its_case() {
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
