//! A run over invented trials: the record it makes, whatever happens on the
//! way.

use std::collections::BTreeMap;

use crate::common;
use crate::common::fake::{FakeRunner, Watch, measurement, whole_run};
use pipespeed_measure::record::{NotRun, Run, to_json};
use pipespeed_measure::spec::Suite;
use pipespeed_measure::suite::Overrides;
use pipespeed_stats::schedule::Schedule;
use serde_json::Value;

const ROUNDS: usize = 6;
/// The ladder's nine and the null control's twin.
const CASES: usize = 10;

fn one_refused() -> FakeRunner {
    FakeRunner {
        refused: BTreeMap::from([("write_read_huge".to_owned(), "no huge pages".to_owned())]),
        ..FakeRunner::default()
    }
}

/// Makes a record fit for a snapshot: numbers are rounded, since logarithms
/// differ in the last digit from machine to machine; slots are those of 4 KiB
/// pages; and all samples but the first of the first case become a line each.
fn legible(run: &Run) -> Value {
    let mut record: Value = serde_json::from_str(&to_json(run)).unwrap();
    for (at, case) in record["cases"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        if let Some(slots) = case["configuration"]["slots"].as_u64() {
            let bytes = slots * rustix::param::page_size() as u64;
            case["configuration"]["slots"] = (bytes / 4096).into();
        }
        let samples = case["samples"].as_array_mut().unwrap();
        for sample in samples.iter_mut().skip(usize::from(at == 0)) {
            let line = format!(
                "round {}, position {}: {:.6} GiB/s",
                sample["round"],
                sample["position"],
                sample["gib_per_s"].as_f64().unwrap()
            );
            *sample = line.into();
        }
    }
    round(&mut record);
    record
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = (number.as_f64().unwrap() * 1e6).round() / 1e6;
            *value = rounded.into();
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

#[test]
fn the_record_of_a_ladder_is_as_it_was() {
    let run = whole_run(Suite::Ladder, one_refused(), ROUNDS);
    insta::assert_json_snapshot!(legible(&run));
}

#[test]
fn each_trial_is_seen_once_in_order_of_the_schedule() {
    let runner = one_refused();
    let log = runner.log.clone();
    let mut measurement = measurement(Suite::Ladder, runner);

    let mut pilot = Watch::default();
    measurement.pilot(&mut pilot).unwrap();
    let mut expected: Vec<String> = Suite::Ladder
        .cases(&Overrides::default())
        .iter()
        .map(|case| case.name.clone())
        .collect();
    expected.insert(1, "write_read_again".to_owned());
    let numbered = |names: &[String], all| -> Vec<(String, usize, usize)> {
        let numbered = names.iter().enumerate();
        numbered.map(|(at, name)| (name.clone(), at, all)).collect()
    };
    assert_eq!(pilot.trials, numbered(&expected, CASES));
    assert_eq!(measurement.runnable(), CASES - 1);
    assert!(pilot.rounds.is_empty());

    let mut watch = Watch::default();
    measurement.rounds(ROUNDS, None, &mut watch).unwrap();
    expected.retain(|name| name != "write_read_huge");
    let scheduled: Vec<String> = Schedule::new(CASES - 1, ROUNDS, 42)
        .orders()
        .iter()
        .flatten()
        .map(|at| expected[*at].clone())
        .collect();
    assert_eq!(watch.trials, numbered(&scheduled, ROUNDS * (CASES - 1)));
    assert_eq!(log.borrow()[CASES..], scheduled);

    // After each round the record is whole up to there.
    let done = watch.rounds.iter().map(|run| run.settings.rounds_done);
    assert!(done.eq(1..=ROUNDS));
    // And each sample stands where its trial ran.
    let run = measurement.finish(None);
    for case in run.cases.iter().filter(|case| case.not_run.is_none()) {
        for (round, sample) in case.samples.iter().enumerate() {
            assert_eq!(sample.round, round);
            assert_eq!(scheduled[round * (CASES - 1) + sample.position], case.name);
        }
    }
}

#[test]
fn a_case_refused_before_the_run_is_never_tried() {
    let runner = FakeRunner::default();
    let log = runner.log.clone();
    let refused = BTreeMap::from([("vmsplice_splice_huge".to_owned(), "not here".to_owned())]);
    let mut measurement = pipespeed_measure::rounds::Measurement::new(
        runner,
        Suite::Ladder.cases(&Overrides::default()),
        None,
        common::fake::empty_run(Suite::Ladder),
        &refused,
    );
    measurement.pilot(&mut Watch::default()).unwrap();
    measurement
        .rounds(ROUNDS, None, &mut Watch::default())
        .unwrap();
    let run = measurement.finish(None);
    let name = "vmsplice_splice_huge";
    assert!(!log.borrow().iter().any(|tried| tried == name));
    assert_eq!(run.null_control, None);
    let case = |name: &str| run.cases.iter().find(|case| case.name == name).unwrap();
    assert_eq!(case(name).not_run, Some(NotRun::refused("not here")));
    assert!(case(name).samples.is_empty());
    // Its followers lose their ratio.
    let follower = case("busy_loop_huge");
    assert_eq!(follower.compared_with.as_deref(), Some(name));
    assert_eq!(follower.ratio, None);
    assert_eq!(follower.samples.len(), ROUNDS);
}

#[test]
fn without_trouble_nothing_is_flagged() {
    let run = whole_run(Suite::Ladder, FakeRunner::default(), 12);
    assert!(
        run.cases
            .iter()
            .flat_map(|case| &case.samples)
            .all(|s| s.flags.is_empty())
    );
    let ratio = run.null_control.unwrap().ratio.unwrap();
    assert_eq!(ratio.verdict.name(), "same");
    assert_eq!(ratio.estimate.median, 1.0);
    assert_eq!(run.interrupted, None);
}
