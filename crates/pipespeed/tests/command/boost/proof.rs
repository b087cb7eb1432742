//! `boost --prove`.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{boost, raised_inputs, sidecar};
use crate::common::conditions::{AsRoot, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::terminal::Terminal;
use crate::common::{
    Outcome, PIPESPEED, json, json_file, pipespeed, run, run_alone, says, start, start_marked,
};

/// Lasts long enough for its pipes to be raised, also on a busy machine.
const LINE: &str = "head -c 2M /dev/zero | od -v | wc -c";

#[test]
fn whole_runs_are_compared_and_recorded() {
    // On a busy machine the observed run may be over before its pipes are looked at, too.
    let record = eventually(|| {
        let outcome = run_alone(boost("--prove=6 --seed 1 --quiet --json -", LINE));
        let record = json(&outcome.succeeded_in_silence().out);
        let has_pipes = record["pipes"]
            .as_array()
            .is_some_and(|pipes| pipes.len() == 2);
        has_pipes.then_some(record)
    });
    let record = record.expect("both pipes are raised");
    assert_eq!(record["kind"], "boost");
    assert_eq!(record["pipeline"], LINE);
    assert_eq!(record["shell"], "/bin/sh");
    assert_eq!(record["output"], "same");
    assert_eq!(record["status"], 0);
    let pipes = record["pipes"].as_array().unwrap();
    assert_eq!(pipes.len(), 2, "{pipes:?}");
    assert_eq!(pipes[0]["raised"]["to_bytes"], 1 << 20);
    let cases = record["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, kind) in cases.iter().zip(["plain", "boosted"]) {
        assert_eq!(case["way"]["kind"], kind);
        let samples = case["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 6);
        for sample in samples {
            assert_eq!(
                (&sample["bytes"], &sample["status"]),
                (&8.into(), &0.into())
            );
            // On a busy machine a run may be over before its pipes are looked at.
            let is_known = sample["raised"].is_u64();
            assert_eq!(is_known, kind == "boosted", "{record:#}");
            assert!(sample["seconds"].as_f64().unwrap() > 0.0);
            assert!(sample["cpu_s"].as_f64().unwrap() > 0.0);
        }
    }
    let mut boosted = cases[1]["samples"].as_array().unwrap().iter();
    assert!(boosted.any(|sample| sample["raised"].as_u64() > Some(0)));
    assert!(cases[1]["speed"]["median"].as_f64().unwrap() > 0.0);
    assert!(record["null_control"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn each_pipe_is_left_out_in_turn_equal_names_together() {
    // The second run, which is boosted and not timed, lasts until its pipes are raised.
    let line = "echo >> runs; { head -c 1M /dev/zero; [ $(wc -l < runs) != 2 ] || \
                until [ -e raised ]; do head -c 64K /dev/zero; done; } | \
                od -v | cat | cat | cat | wc -c > /dev/null";
    let directory = tempfile::tempdir().unwrap();
    let mut command = boost("--prove=1 --each --quiet --json -", line);
    command.current_dir(&directory);
    let (running, mark) = start_marked(command);
    eventually(|| (raised_inputs(&mark) == 5).then_some(())).unwrap();
    std::fs::write(directory.path().join("raised"), "").unwrap();
    let record = json(&running.finish().succeeded_in_silence().out);
    let cases = record["cases"].as_array().unwrap();
    let without = |case: &serde_json::Value| {
        let way = &case["way"];
        // Null if it was not seen in that run, as on a busy machine.
        let raised = case["samples"][0]["raised"].as_u64();
        assert!(raised.is_none_or(|raised| raised <= 4), "{record:#}");
        let name = |field: &str| way[field].as_str().unwrap();
        format!("{}-{}", name("writer"), name("reader"))
    };
    let pipes: Vec<_> = cases[2..].iter().map(without).collect();
    // The writer is the shell or one of its `head`.
    assert_eq!(pipes[1..], ["od-cat", "cat-cat", "cat-wc"], "{pipes:?}");
}

#[test]
fn what_could_not_be_compared_is_said() {
    for (options, line, words) in [
        (
            "--each",
            "echo x | cat",
            "--each: fewer than two pipes between different programs",
        ),
        (
            "-q",
            "seq 3 > /dev/null; exit 3",
            ", same status; it printed nothing to compare\n",
        ),
        (
            "-q",
            "date +%N | cat",
            "note: the output or exit status differs from run to run",
        ),
        ("-q", "seq 3; exit 127", "note: its exit status is 127"),
    ] {
        let outcome = run_alone(boost(&format!("--prove=1 {options}"), line));
        says(outcome.out + &outcome.err, &[words]);
    }
}

/// Kills the sidecar, which has been forked before the shell starts.
const KILL_SIDECAR: &str = "for p in /proc/[0-9]*; do \
     pid=${p#/proc/}; [ $pid != $PPID ] && read -r name < $p/comm && case $name in pipespeed*) \
     grep -qzx \"PIPESPEED_TEST_MARK=$PIPESPEED_TEST_MARK\" $p/environ && kill -9 $pid;; esac; \
     done 2> /dev/null; seq 3";

#[test]
fn a_run_without_an_account_is_not_called_boosted() {
    let outcome = eventually(|| {
        let mut command = boost("--prove=2 --quiet", KILL_SIDECAR);
        let mark = Mark::on(&mut command);
        let outcome = run_alone(command).succeeded_in_silence();
        mark.nobody_left();
        // On a busy machine the command may end before a sidecar shows its environment.
        let words = "note: it is not known what was raised in 3 of 3 boosted runs\n";
        outcome.out.contains(words).then_some(outcome)
    })
    .unwrap();
    says(&outcome.out, &["not known to be boosted\n"]);
    for words in ["same", "no gain", "undecided"] {
        assert!(!outcome.out.contains(words), "{outcome:#?}");
    }
}

/// Compares nothing, since the plain runs would be boosted.
fn refuses(outcome: Outcome) {
    outcome.assert_ended(1, "");
    says(&outcome.err, &["the plain runs would be boosted, too"]);
    assert!(!outcome.err.contains("executed"), "{outcome:#?}");
}

#[test]
fn within_a_boosted_session_nothing_is_compared() {
    let prove = format!("{PIPESPEED} boost --prove=1 --yes 'echo executed >&2'; exit $?");
    refuses(run_alone(boost("", &prove)));
    let words = run_alone({
        let mut command = boost("", PIPESPEED);
        command.args(["boost", "--prove=1", "--yes", "echo executed >&2"]);
        command
    });
    refuses(words);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut session = std::process::Command::new("sh");
    session.env("SHELL", "/bin/sh").stdin(reader);
    session.args(["-c", &format!("read -r line; {prove}")]);
    let session = start(session);
    let pid = session.pid().as_raw_pid();
    let mut follow = pipespeed(&format!("boost --pid {pid} --follow"));
    let mark = Mark::on(&mut follow);
    run_alone(follow).succeeded();
    eventually(|| sidecar(&mark)).unwrap();
    writer.write_all(b"\n").unwrap();
    refuses(session.finish());
    mark.nobody_left();
}

#[test]
fn processor_time_includes_what_the_command_leaves_behind() {
    // Until it has run for 5 ticks of 10 ms.
    let busy = "sh -c 'while [ $(cut -d\" \" -f14 /proc/$$/stat) -lt 5 ]; do i=0; \
         while [ $i -lt 9999 ]; do i=$((i + 1)); done; done' & exit 0";
    let outcome = run_alone(boost("--prove=1 --quiet --json -", busy));
    let record = json(&outcome.succeeded_in_silence().out);
    for case in record["cases"].as_array().unwrap() {
        let cpu_s = case["samples"][0]["cpu_s"].as_f64().unwrap();
        assert!(cpu_s > 0.045, "{record:#}");
    }
}

/// Runs a command that prints `odd` in those of its runs, counted from 1, that satisfy a
/// test of sh(1). The second run is the first boosted one, and so on by turns.
fn odd_in(test: &str) -> (Outcome, usize) {
    let directory = tempfile::tempdir().unwrap();
    let line = format!("echo >> runs; n=$(wc -l < runs); [ {test} ] && echo odd; true");
    let mut command = boost("--prove=1", &line);
    command.current_dir(&directory).stdin(Stdio::null());
    let outcome = run_alone(command);
    let words = "the command will run 4 times (and up to 4 times more if its output differs)";
    assert!(outcome.err.contains(words), "{outcome:#?}");
    let runs = std::fs::read_to_string(directory.path().join("runs"));
    (outcome, runs.unwrap().lines().count())
}

#[test]
fn outputs_are_compared_in_several_runs_before_boosting_is_blamed() {
    let (once, runs) = odd_in("$n = 2");
    assert_eq!((once.code, runs), (Some(0), 8), "{once:#?}");
    let words = "note: the output of some boosted runs differed; the plain runs agreed";
    assert!(once.out.contains(words), "{once:#?}");
    let (plain_too, runs) = odd_in("$n -gt 1");
    assert_eq!((plain_too.code, runs), (Some(0), 5), "{plain_too:#?}");
    let (always, runs) = odd_in("$((n % 2)) = 0 ] && [ $n -lt 7");
    assert_eq!((always.code, runs), (Some(1), 8), "{always:#?}");
    says(
        &always.err,
        &["boosted, the command had a different output"],
    );
}

#[test]
fn a_timed_run_that_ended_otherwise_is_said() {
    let (outcome, runs) = odd_in("$n = 4");
    assert_eq!((outcome.code, runs), (Some(0), 4), "{outcome:#?}");
    let words = "note: another length of the output or exit status than at first in 1 of 1 ";
    assert!(outcome.out.contains(words), "{outcome:#?}");
    assert!(!outcome.out.contains("same output"), "{outcome:#?}");
}

#[test]
fn several_words_are_recorded_as_sh_reads_them() {
    let mut command = pipespeed("boost --prove=1 --quiet --json - -- sh -c");
    command
        .arg("head -c 40K /dev/zero | od -v")
        .stdin(Stdio::null());
    let record = json(&run_alone(command).succeeded_in_silence().out);
    assert_eq!(record["pipeline"], "sh -c 'head -c 40K /dev/zero | od -v'");
    assert!(record["portable"].is_null() && record["shell"].is_null());
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
fn an_input_is_not_replaced_by_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("input"), "one\ntwo\n").unwrap();
    std::os::unix::fs::symlink("input", path("link")).unwrap();
    std::fs::hard_link(path("input"), path("other")).unwrap();
    for (input, record) in [("input", "input"), ("link", "input"), ("input", "other")] {
        let options = format!("--prove=1 --quiet --input {input} --json {record}");
        let mut command = boost(&options, "cat > ran");
        command.current_dir(&directory);
        let words = ["--json: ", input, "is the input of each run: name another"];
        run_alone(command).refused(2, &words);
    }
    assert_eq!(std::fs::read(path("input")).unwrap(), b"one\ntwo\n");
    assert!(!path("ran").exists());
}

#[test]
fn a_run_that_cannot_be_made_is_missing_and_the_others_count() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("input"), "one\n").unwrap();
    // The second timed run takes away the input of the next ones.
    let line = "cat; echo >> runs; [ $(wc -l < runs) != 4 ] || rm input";
    let mut command = boost("--prove=3 --quiet --input input --json run.json", line);
    command.current_dir(&directory);
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    says(
        &outcome.err,
        &["trials failed: --input: input: No such file"],
    );
    let record = json_file(&directory.path().join("run.json"));
    let settings = &record["settings"];
    assert_eq!(
        (&settings["rounds_planned"], &settings["rounds_done"]),
        (&3.into(), &1.into())
    );
    for case in record["cases"].as_array().unwrap() {
        assert_eq!(case["samples"].as_array().unwrap().len(), 1, "{record:#}");
    }
    let warnings = record["warnings"].as_array().unwrap();
    let failed = warnings
        .iter()
        .filter(|warning| warning["kind"] == "failed");
    assert_eq!(failed.count(), 2, "{record:#}");
    let runs = std::fs::read_to_string(directory.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 4);
}

#[test]
fn an_input_that_can_be_read_only_once_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let made = Command::new("mkfifo").arg(path("fifo")).status();
    assert!(made.unwrap().success());
    let _socket = UnixListener::bind(path("socket")).unwrap();
    let terminal = Terminal::new(80);
    let prove = |input: &str, stdin: Stdio| {
        let mut command = boost("--prove=1 --yes --input", input);
        command
            .arg("touch ran")
            .current_dir(&directory)
            .stdin(stdin);
        run(command)
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    for (input, stdin, what) in [
        (&*path("fifo"), Stdio::null(), "a pipe"),
        ("/dev/stdin", reader.into(), "a pipe"),
        (&*path("socket"), Stdio::null(), "a socket"),
        ("/dev/stdin", terminal.input().into(), "a terminal"),
    ] {
        let words = format!("--input: {input} is {what}, which only the first run could read");
        let outcome = prove(input, stdin).refused(2, &[&words, "keep the input in a file first"]);
        assert!(!directory.path().join("ran").exists(), "{outcome:#?}");
    }
    let directory_as_input = path("");
    prove(&directory_as_input, Stdio::null()).refused(2, &["--input: ", "is a directory"]);
    // Each run opens it again, from its beginning.
    let file = path("file");
    std::fs::write(&file, "one\n").unwrap();
    let opened = || std::fs::File::open(&file).unwrap();
    prove("/dev/stdin", opened().into()).succeeded();
    // Without the option nothing would be read.
    let mut command = boost("--prove=1 --yes", "wc -l");
    command.stdin(opened());
    run(command).refused(2, &["standard input is a file", "name it by --input"]);
}

#[test]
fn input_that_becomes_a_fifo_during_the_runs_is_refused_as_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("in"), "one\n").unwrap();
    let mut command = boost("--prove=1 --yes --input", "in");
    command.arg("cat; rm in; mkfifo in").current_dir(&directory);
    let words = [
        "--input: in is a pipe, which only the first run could read",
        "keep the input in a file first",
    ];
    let outcome = run(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    says(&outcome.err, &words);
}

#[test]
fn an_output_held_open_is_said_and_not_waited_for() {
    let mut command = boost("--prove=1 --json -", "sleep 1000 & seq 3");
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command).succeeded();
    let words = "the command has ended, but its output is held open by sleep (pid ";
    assert_eq!(outcome.err.matches(words).count(), 1, "{outcome:#?}");
    let record = json(&outcome.out);
    let held_by = record["held_by"].as_str().unwrap();
    assert!(held_by.starts_with("sleep (pid "), "{held_by}");
    assert_eq!(record["output"], "same");
    let cases = record["cases"].as_array().unwrap();
    let samples: Vec<_> = cases.iter().map(|case| &case["samples"][0]).collect();
    assert!(samples.iter().all(|sample| sample["bytes"] == 6));
    // The second in which nothing came is not the command's. On a busy machine one may take as long by itself.
    let seconds = samples
        .iter()
        .filter_map(|sample| sample["seconds"].as_f64());
    assert!(seconds.fold(f64::MAX, f64::min) < 1.0, "{record:#}");
    // They are not ours, so they are left alone.
    mark.only_left(&["sleep 1000"; 4]);
}

#[test]
fn what_process_left_behind_still_writes_is_part_of_output() {
    for late in [
        "sleep 0.3",
        // Without a word for longer than an output may be quiet.
        "timeout 1.6 sh -c 'while :; do :; done'",
    ] {
        let line = format!("{{ {late}; echo late; }} & echo early");
        let outcome = run_alone(boost("--prove=1 --quiet --json -", &line)).succeeded();
        let record = json(&outcome.out);
        assert_eq!(record["output"], "same", "{late}");
        assert!(record["held_by"].is_null(), "{late}: {record:#}");
        for case in record["cases"].as_array().unwrap() {
            assert_eq!(case["samples"][0]["bytes"], 11, "{late}");
        }
    }
}

#[test]
fn without_a_terminal_it_says_how_long_it_takes() {
    let outcome = run_alone(boost("--prove=1", "sleep 0.1")).succeeded();
    says(&outcome.err, &["the command will run 4 times"]);
    let (_, rest) = outcome
        .err
        .split_once("pipespeed: the first run took 0.")
        .unwrap();
    assert!(rest.contains(" s for the other 3\n"), "{outcome:#?}");
}

#[test]
fn a_command_that_cannot_run_is_an_error() {
    let outcome = run_alone(boost("--prove --quiet", "/no/such/program"));
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(
        outcome
            .err
            .contains("the command ended with exit status 127, as if it could not be run"),
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
    let (running, mark) = start_marked(command);
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
fn an_interrupted_proof_ends_no_process_from_before() {
    let script = "sleep 1001 </dev/null >/dev/null 2>&1 & \
        exec \"$0\" boost --shell /bin/sh --prove=1 --yes --quiet 'sleep 1002; :'";
    let mut command = Command::new("sh");
    command.args(["-c", script, PIPESPEED]);
    let (running, mark) = start_marked(command);
    mark.running("sleep 1002");
    running.send(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    mark.only_left(&["sleep 1001"]);
}

#[test]
fn an_interrupted_proof_names_a_process_that_cannot_be_ended() {
    let (Some(program), Some(root)) = (ForAll::new(PIPESPEED), AsRoot::new()) else {
        return;
    };
    let mut command = program.command("boost --prove=1 --yes --quiet");
    command.arg(format!("{}; exit 5", root.line("sleep 1000")));
    let (running, mark) = start_marked(command);
    let left = mark.running("sleep 1000");
    running.send(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    let named = format!("process {left} (sleep) is left running: it is another user's");
    says(&outcome.err, &[&*named, "interrupted by SIGINT"]);
}

#[test]
fn on_a_terminal_it_asks_first() {
    let directory = tempfile::tempdir().unwrap();
    // Ctrl-C ends the question, too.
    for (answer, runs, code) in [("n\n", 0, 1), ("\x03", 0, 130), ("y\n", 4, 0)] {
        let mut terminal = Terminal::new(80);
        let mut command = boost("--prove=1", "echo >> runs");
        command.current_dir(&directory);
        command
            .stdin(terminal.input())
            .stdout(std::process::Stdio::null());
        let running = terminal.start(command);
        terminal.until("asked", |text| text.contains("Go on? [y/N]"));
        terminal.type_in(answer);
        assert_eq!(running.finish().code(), Some(code));
        let lines = std::fs::read_to_string(directory.path().join("runs"));
        assert_eq!(lines.unwrap_or_default().lines().count(), runs);
    }
}
