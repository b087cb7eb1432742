//! `compare` on records of invented runs: what it finds and where it puts it.

use std::fs;
use std::process::Stdio;

use crate::common::records::{ROUNDS, Records, run};
use crate::common::{case, json, json_file, names_in, pipespeed, pipespeed_in, start, start_into};
use pipespeed_measure::spec::Suite;

#[test]
fn a_run_and_itself_are_the_same_in_every_case() {
    let records = Records::new();
    let outcome = records
        .compare("old.json old.json --fail-on slower")
        .succeeded();
    assert_eq!(outcome.err, "");
    let comparison = records.comparison("old.json");
    let cases = comparison["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        assert_eq!(case["ratio"]["verdict"], "same", "{case:#}");
        assert_eq!(case["ratio"]["median"], 1.0, "{case:#}");
    }
    assert_eq!(comparison["differences"], json("[]"));
    insta::assert_snapshot!(outcome.out);
}

#[test]
fn fail_on_slower_fails_from_percentage_on_and_not_below() {
    let records = Records::new();
    records.slower("new.json");
    let table = records.compare("old.json new.json").succeeded().out;
    let mut errors = String::new();
    for arg in ["slower", "slower:0", "slower:10", "slower:19%"] {
        let outcome = records.compare(&format!("old.json new.json --fail-on {arg}"));
        assert_eq!(outcome.out, table);
        errors += &outcome.failed(1, &[]).err;
    }
    insta::assert_snapshot!(errors);
    for arg in ["slower:21", "slower:30", "slower:99.9"] {
        let args = format!("old.json new.json --fail-on {arg}");
        assert_eq!(records.compare(&args).succeeded().err, "");
    }
    // Faster is no failure.
    records
        .compare("new.json old.json --fail-on slower")
        .succeeded();
    // Among several files one is enough.
    let outcome = records.compare("old.json old.json new.json --fail-on slower");
    outcome.failed(1, &["vmsplice_read"]);
    // A case that is slower counts more than one that is missing.
    records.changed("short.json", |run| {
        run.cases.retain(|case| case.name != "vmsplice_splice");
    });
    let outcome = records.compare("old.json new.json short.json --fail-on slower");
    outcome.failed(1, &["vmsplice_read"]);
    // A reader that leaves early changes nothing.
    let command = pipespeed_in(
        &records.0,
        "compare old.json new.json --json - --fail-on slower",
    );
    let unread = std::io::pipe().unwrap().1;
    let outcome = start_into(command, unread).finish();
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
}

#[test]
fn a_gate_names_undecided_cases_that_may_be_slower() {
    let records = Records::new();
    // Seven of twelve rounds at half the rate.
    records.changed("wide.json", |run| {
        let samples = run.cases[0].samples.iter_mut();
        samples.take(7).for_each(|it| it.gib_per_s *= 0.5);
    });
    for (gate, by) in [
        ("slower", " by more than 5 %"),
        ("slower:10", " by 10 % or more"),
    ] {
        let outcome = records.compare(&format!("old.json wide.json --fail-on {gate}"));
        let outcome = outcome.succeeded();
        let line = format!(
            "no case is proven slower{by}; 1 case undecided (write_read x0.60 [0.50, 1.00]): \
             measure more rounds"
        );
        assert!(outcome.err.contains(&line), "{outcome:#?}");
    }
    // It can't be slower by that much.
    let outcome = records.compare("old.json wide.json --fail-on slower:60");
    assert_eq!(outcome.succeeded().err, "");
}

#[test]
fn a_ratio_that_contradicts_its_medians_has_a_note() {
    let records = Records::new();
    let note = "the two medians point in different directions: vmsplice_read";
    records.slower("slow.json");
    let outcome = records.compare("old.json slow.json").succeeded();
    assert!(!outcome.out.contains("directions"), "{outcome:#?}");
    let mut slow = run(Suite::Ladder, &[("vmsplice_read", 0.8)]);
    let case = slow
        .cases
        .iter_mut()
        .find(|case| case.name == "vmsplice_read");
    let summary = case.unwrap().summary.as_mut().unwrap();
    summary.gib_per_s.median *= 2.0;
    records.save("odd.json", &slow);
    let outcome = records.compare("old.json odd.json").succeeded();
    assert!(outcome.unwrapped().contains(note), "{outcome:#?}");
}

#[test]
fn several_files_make_one_table_and_a_list_of_comparisons() {
    let records = Records::new();
    records.slower("b.json");
    records.save("c.json", &run(Suite::Ladder, &[("write_read_128k", 1.5)]));
    let outcome = records.compare("old.json b.json c.json").succeeded();
    insta::assert_snapshot!(outcome.out);
    let record = json(
        &records
            .compare("old.json b.json c.json --json -")
            .succeeded()
            .out,
    );
    let all = &record["comparisons"];
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(case(&all[0], "vmsplice_read")["ratio"]["verdict"], "slower");
    assert_eq!(case(&all[0], "write_read_128k")["ratio"]["verdict"], "same");
    assert_eq!(case(&all[1], "vmsplice_read")["ratio"]["verdict"], "same");
    assert_eq!(
        case(&all[1], "write_read_128k")["ratio"]["verdict"],
        "faster"
    );
}

#[test]
fn json_and_chart_are_saved_and_the_table_is_shown() {
    let records = Records::new();
    records.slower("new.json");
    let args = "old.json new.json --json c.json --chart c.svg";
    let table = records.compare("old.json new.json").succeeded().out;
    let outcome = records.compare(args).succeeded();
    assert_eq!(outcome.out, table);
    let record = json_file(&records.0.path().join("c.json"));
    assert_eq!(record["kind"], "comparison");
    assert_eq!(record["schema_version"], 3);
    let comparison = &record["comparisons"][0];
    assert_eq!(comparison["old"]["file"], "old.json");
    assert_eq!(comparison["new"]["rounds"], ROUNDS);
    let chart = fs::read_to_string(records.0.path().join("c.svg")).unwrap();
    let chart = roxmltree::Document::parse(&chart).unwrap();
    let mut texts = chart.descendants().filter_map(|node| node.text());
    assert!(texts.any(|text| text.contains("vmsplice_read")));
    let names = names_in(records.0.path());
    assert_eq!(names, ["c.json", "c.svg", "new.json", "old.json"]);

    // Which is no run itself.
    let words = ["c.json", "kind comparison, not bench"];
    records.compare("old.json c.json").refused(2, &words);

    // To standard output one of them; then the table goes to standard error.
    let outcome = records.compare("old.json new.json --chart -").succeeded();
    roxmltree::Document::parse(&outcome.out).unwrap();
    assert_eq!(outcome.err, table);

    // They are saved before --fail-on decides.
    fs::remove_file(records.0.path().join("c.json")).unwrap();
    let args = "old.json new.json --json c.json --fail-on slower";
    records.compare(args).failed(1, &["--fail-on"]);
    json_file(&records.0.path().join("c.json"));
    let args = "old.json new.json --json missing/c.json";
    records.compare(args).refused(2, &["missing/c.json"]);
    // What can't be saved is an error after the table was shown.
    let args = "old.json new.json --json /dev/full";
    let outcome = records.compare(args);
    assert!(outcome.out.contains("vmsplice_read"), "{outcome:#?}");
    outcome.failed(2, &["cannot write /dev/full"]);
}

#[test]
fn one_of_the_runs_comes_from_standard_input() {
    let records = Records::new();
    records.slower("new.json");
    for (args, verdict) in [("old.json -", "slower"), ("- old.json", "faster")] {
        let mut command = pipespeed(&format!("compare {args} --json -"));
        let input = fs::File::open(records.0.path().join("new.json")).unwrap();
        command.current_dir(&records.0).stdin(input);
        let record = json(&start(command).finish().succeeded().out);
        assert_eq!(
            case(&record["comparisons"][0], "vmsplice_read")["ratio"]["verdict"],
            verdict
        );
    }
    let mut command = pipespeed("compare old.json -");
    command.current_dir(&records.0).stdin(Stdio::null());
    start(command)
        .finish()
        .refused(2, &["standard input", "empty"]);
}
