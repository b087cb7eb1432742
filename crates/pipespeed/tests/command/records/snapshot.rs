//! A run over invented trials: the record it makes, whatever happens on the
//! way.

use std::collections::BTreeMap;

use crate::common;
use crate::common::fake::{FakeRunner, Trouble, Watch, measurement, whole_run};
use pipespeed_measure::record::{CaseResult, NotRun, Run, WarningKind, load, to_json};
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
fn a_record_begins_with_its_kind_and_version() {
    let text = to_json(&whole_run(Suite::Ladder, FakeRunner::default(), 1));
    assert!(
        text.starts_with("{\n  \"kind\": \"bench\",\n  \"schema_version\": 3,\n"),
        "{text}"
    );
    assert!(text.ends_with("}\n"));
}

#[test]
fn a_saved_record_loads_as_the_run_it_was_made_from() {
    let run = whole_run(Suite::Ladder, one_refused(), ROUNDS);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    std::fs::write(&path, to_json(&run)).unwrap();
    assert_eq!(load(&path).unwrap(), run);
}

#[test]
fn each_trial_is_seen_once_in_the_order_of_the_schedule() {
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
    assert_eq!(watch.rounds.len(), ROUNDS);
    for (round, run) in watch.rounds.iter().enumerate() {
        assert_eq!(run.settings.rounds_done, round + 1);
        assert_eq!(run.settings.rounds_planned, ROUNDS);
        for case in run.cases.iter().filter(|case| case.not_run.is_none()) {
            assert_eq!(case.samples.len(), round + 1);
            assert!(case.summary.is_some());
        }
    }
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
fn a_trial_refused_after_the_pilot_is_left_out_with_a_warning() {
    let runner = FakeRunner {
        trouble: Some((
            CASES + 2 * CASES + 4,
            Trouble::Refusal("no more huge pages".to_owned()),
        )),
        ..FakeRunner::default()
    };
    let mut measurement = measurement(Suite::Ladder, runner);
    measurement.pilot(&mut Watch::default()).unwrap();
    measurement
        .rounds(ROUNDS, None, &mut Watch::default())
        .unwrap();
    let run = measurement.finish(None);
    // A round was added, which the others have one sample more of.
    let short = |case: &&CaseResult| case.samples.len() == ROUNDS;
    let short: Vec<&str> = run
        .cases
        .iter()
        .filter(short)
        .map(|case| &*case.name)
        .collect();
    let [name] = short[..] else {
        panic!("{short:?}")
    };
    let is_warned = run.warnings.iter().any(|warning| {
        warning.case.as_deref() == Some(name) && warning.message.contains("no more huge pages")
    });
    assert!(is_warned, "{:?}", run.warnings);
    assert_eq!(run.interrupted, None);
}

#[test]
fn what_was_measured_before_a_signal_makes_a_valid_record() {
    let runner = FakeRunner {
        // In the middle of the third round.
        trouble: Some((CASES + 2 * CASES + 4, Trouble::Signal(15))),
        ..FakeRunner::default()
    };
    let mut measurement = measurement(Suite::Ladder, runner);
    measurement.pilot(&mut Watch::default()).unwrap();
    let mut watch = Watch::default();
    let stopped = measurement.rounds(ROUNDS, None, &mut watch).unwrap_err();
    assert_eq!((stopped.0, watch.rounds.len()), (15, 2));
    let run = measurement.finish(Some(&stopped.into()));
    assert_eq!(run.interrupted.as_deref(), Some("SIGTERM"));
    assert_eq!(run.settings.rounds_done, 2);
    assert_eq!(run.settings.rounds_planned, ROUNDS);
    let with = |samples: usize| {
        let cases = run.cases.iter();
        cases.filter(|case| case.samples.len() == samples).count()
    };
    // Four trials of the third round had ended.
    assert_eq!((with(3), with(2)), (4, CASES - 4));
    for case in &run.cases {
        let summary = case.summary.as_ref().unwrap();
        let rate = summary.gib_per_s;
        assert!(rate.median > 0.0 && rate.interval.is_none());
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    std::fs::write(&path, to_json(&run)).unwrap();
    assert_eq!(load(&path).unwrap(), run);
    // It can be shown.
    let table = pipespeed_report::table(&run, pipespeed_report::Style::for_terminal(false, false));
    assert!(table.contains("busy_loop_huge"));
    let chart = pipespeed_report::chart(&run);
    roxmltree::Document::parse(&chart).unwrap();
}

#[test]
fn a_failure_in_the_pilot_is_named_and_the_trial_repeated() {
    let runner = FakeRunner {
        trouble: Some((3, Trouble::Failure("it broke".to_owned()))),
        ..FakeRunner::default()
    };
    let mut measurement = measurement(Suite::Ladder, runner);
    let mut watch = Watch::default();
    measurement.pilot(&mut watch).unwrap();
    assert_eq!(watch.failed, ["write_read_huge: it broke"]);
    assert_eq!(measurement.runnable(), CASES);
    let run = measurement.finish(None);
    let failed = run
        .warnings
        .iter()
        .filter(|w| w.kind == WarningKind::Failed);
    assert_eq!(failed.count(), 1);
}

#[test]
fn a_case_refused_before_the_run_is_never_tried_and_its_followers_lose_their_ratio() {
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
    assert!(
        !log.borrow()
            .iter()
            .any(|name| name == "vmsplice_splice_huge")
    );
    assert_eq!(run.null_control, None);
    let case = |name: &str| run.cases.iter().find(|case| case.name == name).unwrap();
    assert_eq!(
        case("vmsplice_splice_huge").not_run.clone(),
        Some(NotRun::refused("not here"))
    );
    assert!(case("vmsplice_splice_huge").samples.is_empty());
    let follower = case("busy_loop_huge");
    assert_eq!(
        follower.compared_with.as_deref(),
        Some("vmsplice_splice_huge")
    );
    assert_eq!(follower.ratio, None);
    assert_eq!(follower.samples.len(), ROUNDS);
}

#[test]
fn without_any_trouble_nothing_is_flagged_and_the_null_control_is_the_same() {
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
