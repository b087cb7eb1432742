//! Text and records, without a screen.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::slow_loop;
use crate::common::conditions::ForAll;
use crate::common::procs::{Mark, eventually};
use crate::common::terminal::Terminal;
use crate::common::{PIPESPEED, command, json, pipespeed, run_alone, skip};
use crate::doctor::{Group, assert_contains};

#[test]
fn one_frame_shows_stages_shares_and_the_pace_setter() {
    let mut group = Group::default();
    let [fast, slow, _] = slow_loop(&mut group);
    let frame = || run_alone(pipespeed(&format!("top --once {fast}")));
    let row = |text: &str, name: &str| {
        let mut lines = text.lines();
        let is_row = |line: &&str| line.split_whitespace().any(|word| word == name);
        lines.rfind(is_row).unwrap().to_owned()
    };
    // On a busy machine a stage may go without a sample for a second.
    let mut frames = (0..10).map(|_| frame().succeeded_in_silence().out);
    let has_samples =
        |text: &String| row(text, "yes").contains("BBBB") && row(text, "cat").contains("SSSS");
    let text = frames.find(has_samples).unwrap();
    assert_contains(
        &text,
        &[
            "pipespeed top: 1 pipeline, 3 stages",
            "yes | sh | cat",
            "is the bottleneck",
        ],
    );
    let row = row(&text, "sh");
    assert!(
        row.starts_with("> ") && row.contains(&slow.to_string()),
        "{text}"
    );
    assert!(!text.contains('\x1b'));
}

#[test]
fn unread_bytes_of_a_socket_stand_in_place_of_its_fill() {
    let mut python = command("python3", "-c");
    python.arg(
        "import os, socket; a, b = socket.socketpair()\n\
         if os.fork() == 0: os.dup2(a.fileno(), 1); os.execlp('yes', 'yes')\n\
         os.dup2(b.fileno(), 0); os.execlp('sleep', 'sleep', '1000')",
    );
    let mut group = Group::default();
    let pid = group.start(python, [None, None, None]);
    let row = eventually(|| {
        let frame = run_alone(pipespeed(&format!("top --once {pid}"))).succeeded_in_silence();
        let row = frame.out.lines().find(|line| line.contains(" yes "));
        row.filter(|row| row.ends_with("iB")).map(str::to_owned)
    });
    row.expect("the socket has unread bytes");
}

/// A running `top --json -`.
struct Records {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    mark: Mark,
}

impl Records {
    /// Starts it with these arguments.
    fn of(args: &str) -> Self {
        let mut command = pipespeed(&format!("top --json - {args}"));
        let mark = Mark::on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Records { child, lines, mark }
    }

    /// Waits for the next record.
    fn next(&mut self) -> Value {
        json(&self.lines.next().unwrap().unwrap())
    }

    /// Closes its output, which ends it.
    fn finish(mut self) {
        drop(self.lines);
        assert!(self.child.wait().unwrap().success());
        self.mark.nobody_left();
    }
}

#[test]
fn records_come_one_a_second_until_the_reader_leaves() {
    let mut group = Group::default();
    let [fast, slow, last] = slow_loop(&mut group);
    let mut running = Records::of(&fast.to_string());
    let (first, second) = (running.next(), running.next());
    running.finish();
    for record in [&first, &second] {
        assert_eq!(record["kind"], "top");
        assert_eq!(record["schema_version"], 3);
    }
    let gap = second["seconds"].as_f64().unwrap() - first["seconds"].as_f64().unwrap();
    assert!(gap >= 0.99, "{gap}");
    let pipeline = &second["pipelines"][0];
    assert_eq!(pipeline["bottleneck"]["stage"]["pid"], slow);
    let pids = [0, 1, 2].map(|at| pipeline["stages"][at]["pid"].as_u64().unwrap() as u32);
    assert_eq!(pids, [fast, slow, last]);
    let (yes, link) = (&pipeline["stages"][0], &pipeline["links"][0]);
    assert_eq!((&link["from"], &link["to"]), (&fast.into(), &slow.into()));
    assert!(link["capacity"].as_u64() >= Some(4096), "{link}");
    for window in ["second", "minute"] {
        let shares = yes[window]["shares"].as_object().unwrap();
        let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
        assert!(yes[window]["written_per_s"].as_f64() > Some(0.0), "{yes}");
    }
}

#[test]
fn no_process_is_left_if_it_is_killed() {
    let mut group = Group::default();
    let [fast, ..] = slow_loop(&mut group);
    let mut running = Records::of(&fast.to_string());
    // By then it has started its helper.
    running.next();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    running.mark.nobody_left();
}

#[test]
fn one_record_can_be_saved() {
    let mut group = Group::default();
    let [fast, ..] = slow_loop(&mut group);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    let mut command = pipespeed(&format!("top --once --no-open {fast} --json"));
    command.arg(&file);
    run_alone(command).succeeded_in_silence();
    let record = json(&std::fs::read_to_string(file).unwrap());
    assert_eq!(record["pipelines"][0]["links"][0]["capacity"], Value::Null);
    run_alone(pipespeed("top --once --no-open --json /dev/full"))
        .failed(1, &["--json: cannot write /dev/full: No space left"]);
}

#[test]
fn short_lived_and_killed_processes_confuse_nothing() {
    let mut group = Group::default();
    // Each of these ends within milliseconds.
    let script = group.script("while :; do (true; true) | cat; done");
    let stages = slow_loop(&mut group);
    let mut running = Records::of(&script.to_string());
    let names = |record: Value| {
        let pipelines = record["pipelines"].as_array().unwrap().clone();
        let stages = pipelines
            .iter()
            .flat_map(|it| it["stages"].as_array().unwrap());
        let names = stages.map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<String>>()
    };
    let has_slow_loop = |names: &[String]| {
        ["yes", "cat"]
            .iter()
            .all(|it| names.iter().any(|name| name == it))
    };
    while !has_slow_loop(&names(running.next())) {}
    for pid in stages {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        // Others end as soon as one is killed.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    loop {
        let names = names(running.next());
        let known = ["yes", "sh", "cat", "true"];
        assert!(names.iter().all(|it| known.contains(&&**it)), "{names:?}");
        if !names.contains(&"yes".to_owned()) {
            break;
        }
    }
    running.finish();
}

#[test]
fn an_ordinary_user_sees_own_pipelines_only() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    // On a busy machine it may be looked for only before it is there.
    let found = eventually(|| {
        let mut command = program.command("top --once --");
        command.arg("sleep 3 | cat");
        let outcome = run_alone(command);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        let has = |words: &str| outcome.err.contains(words);
        (has("1 pipeline, 2 stages") && has("sleep | cat")).then_some(())
    });
    assert!(found.is_some());
    let text = run_alone(program.command("top --once"))
        .succeeded_in_silence()
        .out;
    let outcome = run_alone(program.command("top --once 1"));
    if outcome.code == Some(0) {
        return skip("process 1 belongs to this user");
    }
    // What can't be seen is said.
    assert_contains(
        &text,
        &[" hidden", "can't be examined without more privileges"],
    );
    outcome.refused(1, &["process 1: Permission denied", "try as root"]);
}

#[test]
fn without_a_screen_the_ways_out_are_named() {
    let instead = "use --once for one frame, or --json for a record a second";
    let words = ["standard output is not a terminal", instead];
    run_alone(pipespeed("top")).refused(2, &words);
    for term in ["", "dumb"] {
        let mut terminal = Terminal::new(200);
        let mut command = pipespeed("top");
        command.env("TERM", term);
        command.stdin(terminal.input()).stdout(terminal.input());
        assert_eq!(terminal.start(command).finish().code(), Some(2));
        let text = terminal.text();
        assert!(text.contains(instead) && !text.contains('\x1b'), "{text:?}");
    }
}
