//! A run of channels over invented trials, some of which fail: the others go
//! on.

use std::collections::BTreeMap;

use crate::common::fake::{self, FakeRunner};
use pipespeed_measure::record::NotRunKind;
use pipespeed_measure::rounds::check;
use pipespeed_measure::spec::Suite;

#[test]
fn a_wrong_byte_is_reported_and_takes_only_its_case() {
    let reason = "wrong data: the byte at offset 7".to_owned();
    let runner = FakeRunner {
        failing: BTreeMap::from([("tcp_4k".to_owned(), (0, reason))]),
        ..FakeRunner::default()
    };
    let mut measurement = fake::measurement(Suite::Channels, runner);
    measurement.verify(&mut ()).unwrap();
    measurement.pilot(&mut ()).unwrap();
    measurement.rounds(5, None, &mut ()).unwrap();
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
