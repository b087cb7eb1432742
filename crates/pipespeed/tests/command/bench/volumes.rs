//! Runs of `bench volumes`: real ones of small volumes, and rounds of invented
//! trials.

use pipespeed_base::Named;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::common::fake::{FakeRunner, empty_run, measurement};
use crate::common::{pipespeed, recorded, run_alone, says};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::Run;
use pipespeed_measure::rounds::{Measurement, RunObserver};
use pipespeed_measure::spec::{Case, Durations, Suite};
use pipespeed_measure::suite::Overrides;
use pipespeed_measure::trial::{Runner, Trial};

#[test]
fn trial_ends_when_its_volume_went_over_at_both_ends() {
    let command = pipespeed("bench volumes --volume 64M,16M --rounds 2 --json - -q");
    let record = recorded(command);
    let cases = record["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["volume_16m", "volume_16m_again", "volume_64m"]);
    for case in cases {
        let volume = case["configuration"]["volume_bytes"].as_u64().unwrap();
        let samples = case["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 2);
        for sample in samples {
            for end in ["writer", "reader"] {
                let bytes = sample[end]["bytes"].as_u64().unwrap();
                // A piece more at most: an end looks when a piece is over.
                assert!(
                    bytes.abs_diff(volume) <= 128 << 10,
                    "{volume}: {end} {bytes}"
                );
            }
            // Looked at once a MiB, 16 MiB give 16 parts of 20.
            let parts = sample["parts_gib_per_s"].as_array().unwrap().len();
            assert!((14..=20).contains(&parts), "{parts}");
        }
    }
    let findings = record["findings"].to_string();
    says(&findings, &["From 16MiB to 64MiB", "for an interval)"]);
}

/// The number of the last trial, from 0, and of all.
struct Last(usize, usize);

impl RunObserver<Run> for Last {
    fn before_trial(&mut self, _: &str, done: usize, all: usize) {
        *self = Last(done, all);
    }

    fn after_round(&mut self, _: &Run) {}
}

#[test]
fn trials_of_a_rare_case_are_spread_evenly() {
    let mut measurement = measurement(Suite::Volumes, FakeRunner::default());
    measurement.pilot(&mut ()).unwrap();
    measurement.work.limited =
        BTreeMap::from([("volume_25g".to_owned(), 2), ("volume_2.5g".to_owned(), 9)]);
    let mut last = Last(0, 0);
    measurement.rounds(9, None, &mut last).unwrap();
    let run = measurement.finish(None);
    let rounds = |name: &str| -> Vec<usize> {
        let case = run.cases.iter().find(|case| case.name == name).unwrap();
        case.samples.iter().map(|sample| sample.round).collect()
    };
    assert_eq!(rounds("volume_25g"), [2, 6]);
    assert_eq!(rounds("volume_2.5g"), (0..9).collect::<Vec<_>>());
    assert_eq!(rounds("volume_0.25g").len(), 9);
    assert_eq!((last.0 + 1, last.1), (29, 29));
    // Paired by the rounds that have both.
    let large = run.cases.iter().find(|case| case.name == "volume_25g");
    let ratio = large.unwrap().ratio.unwrap();
    assert_eq!(ratio.estimate.interval, None);
}

/// Notes how long the trials of each case may take.
struct Noting {
    runner: FakeRunner,
    longest: Rc<RefCell<BTreeMap<String, Duration>>>,
}

impl Runner for Noting {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        let longest = case.longest(Durations {
            warm_up_s: 0.0,
            timed_s: 0.0,
        });
        self.longest.borrow_mut().insert(case.name.clone(), longest);
        self.runner.run(case)
    }
}

#[test]
fn trial_may_take_ten_times_as_long_as_pilot_says() {
    let longest = Rc::new(RefCell::new(BTreeMap::new()));
    let runner = Noting {
        runner: FakeRunner::default(),
        longest: Rc::clone(&longest),
    };
    let suite = Suite::Volumes;
    let cases = suite.cases(&Overrides::default());
    let mut measurement = Measurement::new(runner, cases, None, empty_run(suite), &BTreeMap::new());
    measurement.pilot(&mut ()).unwrap();
    let of = |name: &str| longest.borrow()[name];
    // At 32 MiB/s, 0.25 GiB of it.
    assert_eq!(of("volume_25g"), Duration::from_secs(8));
    measurement.expect(&BTreeMap::from([("volume_25g".to_owned(), 900.0)]));
    measurement.rounds(1, None, &mut ()).unwrap();
    assert_eq!(of("volume_25g"), Duration::from_secs(9000));
    assert_eq!(of("volume_0.25g"), Duration::from_secs(8));
}

#[test]
fn options_of_one_suite_are_refused_by_all_others() {
    let options: [(&str, &[&str]); 5] = [
        ("--volume 1G", &["volumes"]),
        ("--pages huge", &["memory"]),
        ("--channel pipe", &["channels"]),
        ("--all", &["channels"]),
        ("--size 4K", &["channels", "memory"]),
    ];
    for suite in Suite::VALUES {
        for (option, takers) in options {
            let command = pipespeed(&format!("bench {} {option} --list", suite.name()));
            let ended = run_alone(command);
            if takers.contains(&suite.name()) {
                drop(ended.succeeded())
            } else {
                let name = option.split(' ').next().unwrap();
                ended.refused(2, &[name, takers[0]]);
            }
        }
    }
}

#[test]
fn a_pipes_size_is_refused_where_there_is_no_pipe() {
    for cases in ["channels --channel tcp", "memory --case mem_read_4k"] {
        let command = pipespeed(&format!("bench {cases} --pipe-size 1M --list"));
        run_alone(command).refused(2, &["--pipe-size", "none of these cases has a pipe"]);
    }
    run_alone(pipespeed(
        "bench channels --channel pipe --pipe-size 1M --list",
    ))
    .succeeded();
}

#[test]
fn a_quick_run_says_what_it_leaves_out() {
    let quick = "bench volumes --quick --volume 16M --rounds 1 --json - -q";
    let record = recorded(pipespeed(quick));
    let notes = record["warnings"].to_string();
    assert!(!notes.contains("quick run"), "{notes}");
    let quick = "bench memory --quick --size 4K --rounds 1 --case mem_read_4k --json - -q";
    let record = recorded(pipespeed(quick));
    let notes = record["warnings"].to_string();
    says(
        &notes,
        &["quick run (trials of 20 ms instead of 60): intervals"],
    );
}
