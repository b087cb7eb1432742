//! `boost --prove`.

use rustix::process::Signal;

use super::boost;
use crate::common::procs::{Mark, eventually};
use crate::common::terminal::Terminal;
use crate::common::{json, json_file, run_alone, start, usage_errors};

/// Lasts long enough for its pipes to be raised, also on a busy machine.
const LINE: &str = "head -c 4M /dev/zero | od -v | wc -c";

#[test]
fn whole_runs_are_compared_and_recorded() {
    let outcome = run_alone(boost("--prove=6 --seed 1 --quiet --json -", LINE));
    let record = json(&outcome.succeeded_in_silence().out);
    assert_eq!(record["kind"], "boost");
    assert_eq!(record["pipeline"], LINE);
    assert_eq!(record["shell"], "/bin/sh");
    assert_eq!(record["output"], "same");
    assert_eq!(record["status"], 0);
    let raised: Vec<_> = record["raised"].as_array().unwrap().iter().collect();
    assert_eq!(raised.len(), 2, "{raised:?}");
    assert_eq!(raised[0]["to_bytes"], 1 << 20);
    let cases = record["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, kind) in cases.iter().zip(["plain", "boosted"]) {
        assert_eq!(case["way"]["kind"], kind);
        let samples = case["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 6);
        for sample in samples {
            assert_eq!(
                (&sample["bytes"], &sample["status"]),
                (&9.into(), &0.into())
            );
            assert!(sample["seconds"].as_f64().unwrap() > 0.0);
            assert!(sample["cpu_s"].as_f64().unwrap() > 0.0);
        }
    }
    assert!(cases[1]["speed"]["median"].as_f64().unwrap() > 0.0);
    assert!(record["null_control"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn each_pipe_is_left_out_in_turn() {
    let outcome = run_alone(boost("--prove=2 --each --quiet --json -", LINE));
    let record = json(&outcome.succeeded_in_silence().out);
    let cases = record["cases"].as_array().unwrap();
    let without = |at: usize| {
        let way = &cases[at]["way"];
        (
            way["writer"].as_str().unwrap(),
            way["reader"].as_str().unwrap(),
        )
    };
    assert_eq!(cases.len(), 4, "{record:#}");
    assert_eq!([without(2), without(3)], [("head", "od"), ("od", "wc")]);
}

#[test]
fn the_result_is_a_few_lines() {
    let outcome = run_alone(boost(
        "--prove=6 --shell sh",
        "head -c 1M /dev/zero | wc -c",
    ));
    assert!(
        outcome
            .err
            .contains("the command will run 14 times, with all its side effects")
    );
    let first = outcome.out.lines().next().unwrap();
    assert!(
        first.starts_with("  plain    ") && first.contains("]  CPU "),
        "{outcome:#?}"
    );
    assert!(outcome.out.contains("\n  boosted  "), "{outcome:#?}");
    assert!(outcome.out.contains("\n  equal runs: x"), "{outcome:#?}");
}

#[test]
fn an_output_that_differs_from_run_to_run_is_said() {
    let outcome = run_alone(boost("--prove=1 --quiet", "date +%N | cat")).succeeded_in_silence();
    let words = "note: the output differs from run to run even without boosting";
    assert!(outcome.out.contains(words), "{outcome:#?}");
}

#[test]
fn a_file_is_the_input_of_each_run() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    std::fs::write(&input, "one\ntwo\n").unwrap();
    let options = format!("--prove=1 --quiet --json - --input {}", input.display());
    let command = boost(&options, "cat | tr a-z A-Z");
    let record = json(&run_alone(command).succeeded_in_silence().out);
    for case in record["cases"].as_array().unwrap() {
        assert_eq!(case["samples"][0]["bytes"], 8);
    }
}

#[test]
fn a_command_that_cannot_run_is_an_error() {
    let outcome = run_alone(boost("--prove --quiet", "/no/such/program"));
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(
        outcome
            .err
            .contains("the command can't be run (exit status 127)"),
        "{outcome:#?}"
    );
}

#[test]
fn an_interrupted_proof_saves_what_there_is_and_leaves_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = boost(
        "--prove=1000 --json run.json",
        "seq 20000 | sort | wc -l; sleep 0.01",
    );
    command.current_dir(&directory);
    let mark = Mark::on(&mut command);
    let running = start(command);
    let file = directory.path().join("run.json");
    eventually(|| file.exists().then_some(())).unwrap();
    running.send(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    mark.nobody_left();
    let record = json_file(&file);
    assert_eq!(record["interrupted"], "SIGINT");
    assert!(!record["cases"][0]["samples"].as_array().unwrap().is_empty());
}

#[test]
fn on_a_terminal_it_asks_first() {
    let directory = tempfile::tempdir().unwrap();
    for (answer, runs) in [("n\n", 0), ("y\n", 4)] {
        let mut terminal = Terminal::new(80);
        let mut command = boost("--prove=1", "echo >> runs");
        command.current_dir(&directory);
        command
            .stdin(terminal.input())
            .stdout(std::process::Stdio::null());
        let running = terminal.start(command);
        terminal.until("asked", |text| text.contains("Go on? [y/N]"));
        terminal.type_in(answer);
        running.finish();
        let lines = std::fs::read_to_string(directory.path().join("runs"));
        assert_eq!(lines.unwrap_or_default().lines().count(), runs);
    }
}

#[test]
fn options_that_make_no_sense_are_bad_usage() {
    insta::assert_snapshot!(usage_errors([
        "boost",
        "boost --pid x",
        "boost --pid 0",
        "boost --pid 1 cat",
        "boost --pid 1 --prove",
        "boost --pid 1 --json x",
        "boost --follow true",
        "boost --each true",
        "boost --json x true",
        "boost --prove=0 true",
        "boost --prove=x true",
        "boost --prove --report true",
        "boost --prove --input /no/such/file true",
        "boost --prove --json /no/such/directory/x true",
    ]));
}
