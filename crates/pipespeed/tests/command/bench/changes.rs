//! Runs of `bench changes`: real ones, and pilots of invented trials.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::common::fake::{FakeRunner, empty_run};
use crate::common::{case, conditions, json_file, pipespeed, recorded, run_alone, says, skip};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::fixtures::overrides;
use pipespeed_measure::record::{NotRun, Run};
use pipespeed_measure::rounds::Measurement;
use pipespeed_measure::spec::{Case, PageKind, PageReuse, PipeWriter, Suite, Waiting};
use pipespeed_measure::suite::changes;
use pipespeed_measure::trial::{Runner, Trial};

/// Trials whose rates follow from the changes that their cases make.
struct Invented<'a, F> {
    runner: FakeRunner,
    rate: F,
    /// What the case `combined` did at last.
    combined: &'a RefCell<Option<Vec<&'static str>>>,
}

impl<F: Fn(&[&str]) -> f64> Runner for Invented<'_, F> {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        let pipe_bytes = case.subject.pipe_bytes().unwrap();
        let plain = Case {
            subject: Case::new("", 65_536, pipe_bytes).subject,
            ..case.clone()
        };
        let changes = changes_of(case);
        let factor = (self.rate)(&changes);
        if case.name == changes::COMBINED {
            self.combined.replace(Some(changes));
        }
        self.runner.factors.insert(case.name.clone(), factor);
        self.runner.run(&plain)
    }
}

/// The names of the changes that a case makes, by what it does.
fn changes_of(case: &Case) -> Vec<&'static str> {
    let (sink, source) = (
        case.subject.writer().unwrap(),
        case.subject.reader().unwrap(),
    );
    assert_eq!(sink.buffer_bytes, source.buffer_bytes, "{case:#?}");
    assert_eq!(sink.wait, source.wait, "{case:#?}");
    let writer = |reuse, pages| {
        case.pipe_writer() == Some(PipeWriter::Fastpipe(reuse)) && sink.pages == pages
    };
    [
        (case.cpus == Some((0, 0)), "one_processor"),
        (sink.wait == Waiting::Spin, "spinning"),
        (case.subject.pipe_bytes() == Some(1 << 20), "pipe_1m"),
        (sink.buffer_bytes == 8 << 10, "pieces_8k"),
        (writer(PageReuse::Fresh, PageKind::Base), "fresh_base"),
        (writer(PageReuse::Fresh, PageKind::Huge), "fresh_huge"),
        (writer(PageReuse::Drained, PageKind::Huge), "drained"),
    ]
    .into_iter()
    .filter(|(is_made, _)| *is_made)
    .map(|(_, name)| name)
    .collect()
}

/// A run of one round with such rates, and what its case `combined` did.
fn combined(refused: &[&str], rate: impl Fn(&[&str]) -> f64) -> (Run, Option<Vec<&'static str>>) {
    let mut cases = Suite::Changes.cases(&overrides(|asked| asked.one_cpu = Some(0)));
    cases.push(changes::combination_placeholder(&cases[0]));
    let combined = RefCell::new(None);
    let runner = Invented {
        runner: FakeRunner::default(),
        rate,
        combined: &combined,
    };
    let refused: BTreeMap<String, String> = refused
        .iter()
        .map(|name| ((*name).to_owned(), "not here".to_owned()))
        .collect();
    let mut measurement = Measurement::new(
        runner,
        cases,
        Some("baseline"),
        empty_run(Suite::Changes),
        &refused,
    );
    measurement.pilot(&mut ()).unwrap();
    measurement.choose_combination(&mut ()).unwrap();
    combined.replace(None);
    measurement.rounds(1, None, &mut ()).unwrap();
    (measurement.finish(None), combined.into_inner())
}

fn by_factors(factors: &[(&str, f64)]) -> impl Fn(&[&str]) -> f64 {
    let factors: BTreeMap<String, f64> =
        factors.iter().map(|(n, f)| ((*n).to_owned(), *f)).collect();
    move |changes| {
        changes
            .iter()
            .filter_map(|name| factors.get(*name))
            .product()
    }
}

#[test]
fn the_combination_has_what_was_faster_in_the_pilot() {
    let rates = by_factors(&[
        ("spinning", 2.0),
        ("pipe_1m", 3.0),
        ("pieces_8k", 0.8),
        ("fresh_base", 1.02),
        ("drained", 9.0),
    ]);
    let (run, made) = combined(&[], rates);
    assert_eq!(made.unwrap(), ["spinning", "pipe_1m"]);
    let case = run.cases.last().unwrap();
    assert_eq!(case.name, "combined");
    let words = "a pipe of 1 MiB + spinning instead of sleeping";
    assert_eq!(case.factor.as_deref(), Some(words));
    assert_eq!(case.configuration.wait, Some(Waiting::Spin));
    assert_eq!(case.configuration.pipe_bytes, Some(1 << 20));
    assert_eq!(case.compared_with.as_deref(), Some("baseline"));
    assert_eq!(case.samples.len(), 1);
}

#[test]
fn combination_takes_the_better_of_changes_that_exclude_each_other() {
    // One processor alone is best, but spinning goes better with the rest.
    let rate = |changes: &[&str]| {
        let has = |name| changes.contains(&name);
        let placed = match (has("one_processor"), has("spinning")) {
            (true, true) => panic!("spinning on one processor"),
            (true, false) => 5.0,
            (false, true) if has("fresh_huge") => 8.0,
            (false, true) => 4.0,
            _ => 1.0,
        };
        match (has("fresh_base"), has("fresh_huge")) {
            (true, true) => panic!("two kinds of pages"),
            (true, false) => placed * 1.5,
            (false, true) => placed * 1.2,
            _ => placed,
        }
    };
    let (_, made) = combined(&["fresh_base"], rate);
    assert_eq!(made.unwrap(), ["spinning", "fresh_huge"]);
    let (_, made) = combined(&[], rate);
    assert_eq!(made.unwrap(), ["one_processor", "fresh_base"]);
}

#[test]
fn change_that_does_not_help_the_others_is_left_out() {
    let rate = |changes: &[&str]| match changes {
        ["spinning"] => 4.0,
        ["pipe_1m"] => 3.0,
        ["pieces_8k"] => 2.0,
        ["spinning", "pieces_8k"] => 5.0,
        ["spinning", ..] => 3.5,
        _ => 1.0,
    };
    let (_, made) = combined(&[], rate);
    assert_eq!(made.unwrap(), ["spinning", "pieces_8k"]);
}

#[test]
fn what_is_refused_is_not_combined() {
    let rates = [("spinning", 4.0), ("pipe_1m", 3.0), ("pieces_8k", 2.0)];
    let (run, made) = combined(&["spinning"], by_factors(&rates));
    assert_eq!(made.unwrap(), ["pipe_1m", "pieces_8k"]);
    let spinning = run.cases.iter().find(|case| case.name == "spinning");
    assert_eq!(spinning.unwrap().not_run, Some(NotRun::refused("not here")));
}

#[test]
fn with_nothing_to_combine_no_trial_is_spent_on_it() {
    for (rates, why) in [
        (vec![("pipe_1m", 3.0)], "no change made pipe_1m faster"),
        (vec![("drained", 3.0)], "no change that may be combined"),
    ] {
        let (run, made) = combined(&[], by_factors(&rates));
        assert_eq!(made, None);
        let not_run = run.cases.last().unwrap().not_run.as_ref().unwrap();
        assert!(not_run.reason.contains(why), "{not_run}");
    }
}

#[test]
fn a_quick_run_measures_and_ranks_each_change() {
    if conditions::processors() < 2 {
        skip("spinning takes two processors");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        pipespeed("bench changes --quick --rounds 2 --json r.json --csv r.csv --chart r.svg");
    command.current_dir(&directory);
    let outcome = run_alone(command).succeeded();
    let record = json_file(&directory.path().join("r.json"));
    assert_eq!(record["suite"], "changes");
    assert_eq!(record["null_control"]["case"], "baseline");
    let shared = case(&record, "one_processor")["configuration"].clone();
    assert_eq!(shared["writer_cpu"], shared["reader_cpu"]);
    assert_eq!(shared["writer_cpu"], record["settings"]["writer_cpu"]);
    let takes = |name: &str, field: &str| case(&record, name)["configuration"][field].clone();
    assert_eq!(takes("spinning", "wait"), "spin");
    assert_eq!(takes("pieces_8k", "buffer_bytes"), 8 << 10);
    assert_eq!(takes("fresh_base", "writer"), "fastpipe, fresh");
    assert_eq!(takes("fresh_base", "pages"), "base");
    assert_eq!(takes("drained", "writer"), "fastpipe, drained");
    for made in record["cases"].as_array().unwrap() {
        let name = made["name"].as_str().unwrap();
        assert_eq!(made["data"], "touch", "{name}");
        if made["not_run"].is_object() {
            skip(format_args!("{name}: {}", made["not_run"]["reason"]));
            continue;
        }
        assert_eq!(made["samples"].as_array().unwrap().len(), 2, "{name}");
        let reference = name != "baseline";
        assert_eq!(made["compared_with"] == "baseline", reference, "{name}");
    }
    says(
        &outcome.out,
        &["Changes to the baseline", "unsafe where the reader splices"],
    );
    let chart = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    roxmltree::Document::parse(&chart).unwrap();
}

#[test]
fn on_one_processor_neither_sharing_nor_spinning_is_a_change() {
    let short =
        "bench changes --quick --rounds 1 --json - -q --case one_processor,spinning,pipe_1m";
    let record = recorded(pipespeed(&format!("{short} --placement same")));
    for (name, why) in [
        ("one_processor", "no change"),
        ("spinning", "two processors"),
    ] {
        let reason = case(&record, name)["not_run"]["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
    }
    let large = case(&record, "pipe_1m")["not_run"]["reason"].as_str();
    assert!(large.is_none_or(|why| why.contains("pipe")), "{large:?}");
}

#[test]
fn the_list_has_every_change_and_the_combination() {
    let list = run_alone(pipespeed("bench changes --list")).succeeded().out;
    for change in <changes::Change as pipespeed_base::Named>::VALUES {
        let is_row = |line: &str| line.split_whitespace().next() == Some(change.name());
        assert!(list.lines().any(is_row), "{list}");
    }
    insta::assert_snapshot!(list);
    // Without pipe_1m.
    let list = run_alone(pipespeed("bench changes --list --pipe-size 1M")).succeeded();
    insta::assert_snapshot!(list.out);
}
