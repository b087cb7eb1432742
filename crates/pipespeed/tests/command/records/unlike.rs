//! `compare` on runs that are not alike, and on what is no run.

use std::collections::BTreeMap;
use std::fs::{self, File};

use crate::common::fake::{FakeRunner, whole_run};
use crate::common::records::{ROUNDS, Records, run};
use crate::common::{
    case, conditions, json, pipespeed, pipespeed_in, run_alone, says, start, start_into,
};
use pipespeed_measure::record::{Run, Warning, WarningKind};
use pipespeed_measure::spec::Suite;
use rustix::process::Resource;
use serde_json::Value;

#[test]
fn runs_of_different_suites_are_refused_unless_forced() {
    let records = Records::new();
    records.save("touched.json", &run(Suite::Touched, &[]));
    let words = [
        "old.json",
        "touched.json",
        "different suites",
        "ladder",
        "touched",
    ];
    records.compare("old.json touched.json").refused(2, &words);
    let other = records.compare("old.json touched.json --force");
    // Some of the names are common to both: that is compared if one insists.
    insta::assert_snapshot!(other.succeeded().out);
}

#[test]
fn a_run_to_compare_is_not_replaced_by_the_comparison() {
    let records = Records::new();
    records.save("new.json", &run(Suite::Ladder, &[]));
    for output in ["--json new.json", "--json ./old.json", "--chart new.json"] {
        let option = output.split(' ').next().unwrap();
        let outcome = records.compare(&format!("old.json new.json {output}"));
        outcome.refused(2, &[option, "is a run to compare"]);
    }
    let path = records.0.path().join("new.json");
    let old = fs::read(&path).unwrap();
    let open = || {
        let mut options = File::options();
        options.read(true).append(true).open(&path).unwrap()
    };
    let command = |args: &str| {
        let mut command = pipespeed(&format!("compare old.json {args}"));
        command.current_dir(&records.0);
        command
    };
    for option in ["--json", "--chart"] {
        let mut command = command(&format!("- {option} new.json"));
        command.stdin(open());
        let words = [option, "standard input is a run to compare"];
        start(command).finish().refused(2, &words);
    }
    for (args, what) in [("--json -", "--json"), ("", "standard output")] {
        let outcome = start_into(command(&format!("new.json {args}")), open()).finish();
        outcome.refused(2, &[what, "new.json is a run to compare"]);
    }
    assert_eq!(fs::read(&path).unwrap(), old);
    records.compare("old.json new.json").succeeded();
}

#[test]
fn another_machine_is_said_first() {
    let records = Records::new();
    records.changed("new.json", |run| {
        run.header.machine.processors.model = Some("Zilog Z80".to_owned());
        run.header.machine.kernel.release = Some("2.6.32".to_owned());
        run.settings.placement = "same".to_owned();
        run.header.pipespeed_version = "9.9.9".to_owned();
    });
    let outcome = records.compare("old.json new.json").succeeded();
    let at = |word: &str| match outcome.out.find(word) {
        Some(at) => at,
        None => panic!("{word} is missing: {outcome:#?}"),
    };
    for word in ["Zilog Z80", "2.6.32", "placement", "9.9.9"] {
        assert!(at(word) < at("busy_loop_huge"), "{word}: {outcome:#?}");
    }
    let comparison = records.comparison("new.json");
    let differences = comparison["differences"].as_array().unwrap();
    assert!(differences.len() >= 4, "{differences:#?}");
}

#[test]
fn other_work_or_use_of_data_is_not_compared() {
    let records = Records::new();
    records.changed("work.json", |run| run.settings.work = 3);
    records
        .compare("old.json work.json")
        .refused(2, &["passes over the data"]);
    records.compare("old.json work.json --force").succeeded();
    records.changed("data.json", |run| {
        run.cases[0].data = pipespeed_measure::spec::DataUse::Verify;
    });
    records
        .compare("old.json data.json")
        .refused(2, &["write_read", "verified"]);
}

#[test]
fn a_missing_or_refused_case_is_named_the_rest_compared() {
    let records = Records::new();
    records.changed("new.json", |run| {
        run.cases.retain(|case| case.name != "vmsplice_splice");
    });
    let runner = FakeRunner {
        refused: BTreeMap::from([("busy_loop_huge".to_owned(), "one processor".to_owned())]),
        ..FakeRunner::default()
    };
    records.save("refused.json", &whole_run(Suite::Ladder, runner, ROUNDS));
    let comparison = records.comparison("new.json");
    let missing = case(&comparison, "vmsplice_splice");
    assert_eq!(missing["note"], "not in the newer run");
    assert_eq!(
        (&missing["ratio"], &missing["new"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(case(&comparison, "write_read")["ratio"]["verdict"], "same");
    let comparison = records.comparison("refused.json");
    let refused = case(&comparison, "busy_loop_huge");
    assert_eq!(
        refused["note"],
        "not run in the newer run: refused: one processor"
    );
    let table = records.compare("old.json refused.json").succeeded();
    insta::assert_snapshot!(table.out);
    // A gate can't be passed by losing the case.
    let gate = records.compare("old.json refused.json --fail-on slower");
    insta::assert_snapshot!(gate.failed(2, &[]).err);
    let reverse = records.compare("new.json old.json --json -").succeeded();
    let reverse = &json(&reverse.out)["comparisons"][0];
    assert_eq!(
        case(reverse, "vmsplice_splice")["note"],
        "not in the older run"
    );
}

#[test]
fn runs_without_a_common_case_are_refused_even_by_force() {
    let records = Records::new();
    records.changed("none.json", |run| run.cases.clear());
    for args in [
        "old.json none.json",
        "old.json none.json --force",
        "none.json none.json",
    ] {
        records
            .compare(args)
            .refused(2, &["no measured case in common"]);
    }
}

#[test]
fn an_interrupted_run_is_compared_and_said_to_be_one() {
    let records = Records::new();
    records.changed("new.json", |run| {
        run.interrupted = Some("SIGINT".to_owned())
    });
    insta::assert_snapshot!(records.compare("old.json new.json").succeeded().out);
    // One that was killed can't say so.
    records.changed("killed.json", |run| run.settings.rounds_planned = 500);
    let outcome = records.compare("old.json killed.json").succeeded();
    says(
        &outcome.out,
        &[format!(
            "of the newer run {ROUNDS} of 500 rounds are complete"
        )],
    );
}

#[test]
fn edited_names_and_numbers_are_shown_safely() {
    let records = Records::new();
    records.changed("odd.json", |run| {
        run.settings.timed_s = 1e300;
        run.header.machine.cgroup.cpu_quota = Some(1e300);
        run.header.machine.processors.model = Some("\u{1b}[2J".to_owned());
        for case in &mut run.cases {
            for sample in &mut case.samples {
                sample.gib_per_s *= 1e200;
            }
            if let Some(summary) = &mut case.summary {
                summary.gib_per_s.median = 1e300;
            }
        }
        run.cases[0].name = "\u{202e}odd\u{7}".to_owned();
    });
    for args in ["old.json odd.json", "odd.json old.json"] {
        let outcome = records
            .compare(&format!("{args} --force --verbose"))
            .succeeded();
        for text in [&outcome.out, &outcome.err] {
            let is_safe = |c: char| c == '\n' || pipespeed_base::text::is_printable(c);
            assert!(text.chars().all(is_safe), "{outcome:#?}");
            assert!(!text.contains("0000000000"), "{outcome:#?}");
        }
        for word in [r"\u{202e}odd\u{7}", r"\u{1b}[2J", "1.00e300"] {
            assert!(outcome.out.contains(word), "{word}: {outcome:#?}");
        }
    }
    let missing = records.compare("old.json \u{1b}c.json");
    missing.refused(2, &[r"\u{1b}c.json"]);
}

/// What else is no record is a matter of unit tests.
#[test]
fn what_is_no_record_is_refused_with_the_way_out() {
    let records = Records::new();
    let path = |name: &str| records.0.path().join(name);
    let old = fs::read_to_string(path("old.json")).unwrap();
    let newer = old.replacen("\"schema_version\": 3", "\"schema_version\": 4", 1);
    fs::create_dir(path("directory")).unwrap();
    fs::write(path("newer"), newer).unwrap();
    fs::write(path("sure"), old.replace("0.95", "2.0")).unwrap();
    for (name, expected) in [
        ("newer", "this pipespeed reads 3: use a newer"),
        ("sure", "confidence level"),
        ("directory", "directory"),
        ("missing", "No such file"),
    ] {
        for args in [format!("{name} old.json"), format!("old.json {name}")] {
            records.compare(&args).refused(2, &[name, expected]);
        }
    }
}

#[test]
fn an_endless_file_is_refused() {
    let records = Records::new();
    for args in ["/dev/zero old.json", "old.json /dev/zero"] {
        let words = ["/dev/zero: larger than 256MiB", "--json"];
        records.compare(args).refused(2, &words);
    }
}

/// Parsed, each of these files would take more than the limit, or be printed.
#[test]
fn a_large_other_file_is_refused_in_little_memory() {
    const LENGTH: usize = 4 << 20;
    const LIMIT: u64 = 112 << 20;
    let records = Records::new();
    let padded = |before: &str, filler: &str, after: &str| {
        let mut text = before.to_owned();
        text.push_str(&filler.repeat(LENGTH / filler.len()));
        text.push_str(after);
        text
    };
    let files = [
        ("numbers.json", padded("[", "1,", "1]"), "not a record"),
        ("nested.json", padded("", "[", ""), "not JSON"),
        (
            "objects.json",
            padded("{\"a\":[", "{},", "1]}"),
            "not a record",
        ),
        ("text.json", padded("\"", "a", "\""), "not a record"),
        (
            "kind.json",
            padded("{\"schema_version\":3,\"kind\":\"", "a", "\"}"),
            "aaa…",
        ),
        (
            "old-version.json",
            padded("{\"schema_version\":1,\"a\":[", "{},", "1]}"),
            "schema_version 1",
        ),
    ];
    for (name, text, expected) in files {
        fs::write(records.0.path().join(name), text).unwrap();
        for args in [format!("compare {name} old.json"), format!("report {name}")] {
            let mut command = pipespeed_in(&records.0, &args);
            conditions::limit(&mut command, Resource::As, LIMIT);
            let outcome = run_alone(command).refused(2, &[name, expected]);
            assert!(outcome.err.len() < 1000, "{}", outcome.err.len());
        }
    }
}

#[test]
fn a_gate_that_nothing_can_exceed_does_not_pass() {
    let records = Records::new();
    let save = |name: &str, rounds: usize, factor: f64| {
        let runner = FakeRunner {
            factors: BTreeMap::from([("tcp_4k".to_owned(), factor)]),
            ..FakeRunner::default()
        };
        records.save(name, &whole_run(Suite::Channels, runner, rounds));
    };
    for rounds in [6, ROUNDS] {
        save(&format!("old{rounds}.json"), rounds, 1.0);
        save(&format!("slow{rounds}.json"), rounds, 0.5);
    }
    // Six rounds are enough for intervals, but too few for verdicts on all these cases.
    let gate = records.compare("old6.json slow6.json --fail-on slower");
    gate.failed(2, &["--fail-on: no verdict is possible", "tcp_4k"]);
    records.compare("old6.json slow6.json").succeeded();
    let gate = records.compare("old12.json slow12.json --fail-on slower");
    gate.failed(1, &["--fail-on: slower: tcp_4k (x0.50)"]);
    let gate = records.compare("old12.json old12.json --fail-on slower");
    gate.succeeded();
}

#[test]
fn a_verdict_on_a_disturbed_run_is_marked() {
    let records = Records::new();
    let disturb = |run: &mut Run| {
        let warning = Warning::new(WarningKind::Steal, "the hypervisor took 20 % of the time");
        run.warnings.push(warning);
    };
    records.changed("disturbed.json", disturb);
    let mut slow = run(Suite::Ladder, &[("vmsplice_read", 0.8)]);
    disturb(&mut slow);
    records.save("slow.json", &slow);
    let gate = "--fail-on slower";

    let passed = records.compare(&format!("old.json disturbed.json {gate}"));
    let passed = passed.succeeded();
    assert!(passed.out.contains("same (disturbed)"), "{passed:#?}");
    let line =
        "no case is proven slower by more than 5 %; the newer run was disturbed: measure again";
    assert!(passed.err.contains(line), "{passed:#?}");

    let failed = records.compare(&format!("disturbed.json slow.json {gate}"));
    assert!(failed.out.contains("slower (disturbed)"), "{failed:#?}");
    let line = "slower: vmsplice_read (x0.80); both runs were disturbed: measure again";
    failed.failed(1, &[line]);
    let passed = records.compare("old.json slow.json --fail-on slower:30%");
    let line =
        "no case is proven slower by 30 % or more; the newer run was disturbed: measure again";
    assert!(passed.succeeded().err.contains(line));
    let comparison = records.comparison("slow.json");
    assert_eq!(comparison["old"]["disturbed"], false);
    assert_eq!(comparison["new"]["disturbed"], true);
}
