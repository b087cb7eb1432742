//! `costs`, for real.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, Stat, eventually};
use crate::common::terminal::Terminal;
use crate::common::{
    PIPESPEED, json, json_file, pipespeed, recorded, run_alone, says, skip, start_marked,
};
use rustix::process::{Pid, Resource, Signal, kill_process, kill_process_group};

#[test]
fn every_cost_has_an_estimate_or_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("costs.json");
    let metrics = directory.path().join("costs.prom");
    let mut command = pipespeed("costs --quick --quiet --json");
    command.arg(&path).arg("--prometheus").arg(&metrics);
    let done = run_alone(command).succeeded();
    assert_eq!(done.err, "");
    says(
        &done.out,
        &[
            "ns per call",
            "through a pipe",
            "pinning",
            "ns per fault",
            "waking",
        ],
    );
    let record = json_file(&path);
    assert_eq!(record["kind"], "costs");
    let costs = record["costs_ns"].as_object().unwrap();
    assert_eq!(costs["rounds"], 7);
    let costs = costs
        .iter()
        .filter(|(_, cost)| cost["not_run"].is_object() || cost["estimate"].is_object());
    let mut estimates = 0;
    let metrics = fs::read_to_string(metrics).unwrap();
    for (name, cost) in costs.clone() {
        if cost["not_run"].is_object() {
            continue;
        }
        let median = cost["estimate"]["median"].as_f64().unwrap();
        let [low, high] =
            ["low", "high"].map(|end| cost["estimate"]["interval"][end].as_f64().unwrap());
        assert!(low <= median && median <= high, "{name}: {cost}");
        let sample = format!("pipespeed_cost_seconds{{cost=\"{name}\"}} ");
        let sample = metrics.lines().find_map(|line| line.strip_prefix(&sample));
        let seconds: f64 = sample.unwrap().parse().unwrap();
        assert!(
            (seconds / (median * 1e-9) - 1.0).abs() < 1e-9,
            "{name}: {cost}"
        );
        estimates += 1;
    }
    assert_eq!(costs.count(), 18);
    assert!(estimates > 0);
    // Certain on every machine: these cost something.
    for name in ["call", "write", "read", "fault_base"] {
        let median = record["costs_ns"][name]["estimate"]["median"].as_f64();
        assert!(median.unwrap() > 0.0, "{name}: {record:#}");
    }
}

#[test]
fn what_is_lacking_leaves_the_rest_to_be_measured() {
    // Whether the condition could be set.
    type Lack = fn(&mut Command) -> bool;
    let lacking: [(Lack, &[&str], &str); 3] = [
        (
            |command| {
                conditions::one_processor(command);
                true
            },
            &["wake_up_other"],
            "",
        ),
        (
            conditions::no_vmsplice,
            &["vmsplice_base", "splice_base", "tee", "pin_base"],
            "Operation not permitted",
        ),
        (
            |command| {
                conditions::no_huge_pages(command);
                true
            },
            &["vmsplice_huge", "splice_huge", "pin_huge", "fault_huge"],
            "grants no huge pages",
        ),
    ];
    for (prepare, refused, words) in lacking {
        let mut command = pipespeed("costs --rounds 1 --quiet --json -");
        if !prepare(&mut command) {
            continue;
        }
        let record = recorded(command);
        let costs = &record["costs_ns"];
        assert!(costs["write"]["estimate"].is_object(), "{costs:#}");
        for name in refused {
            let why = costs[name]["not_run"]["reason"].as_str().unwrap();
            assert!(why.contains(words), "{name}: {why}");
        }
    }
    let mut command = pipespeed("costs --rounds 1 --quiet");
    conditions::soft_limit(&mut command, Resource::Nofile, 16);
    let done = run_alone(command).succeeded();
    assert!(done.out.contains("Too many open files"), "{}", done.out);
}

#[test]
fn an_ordinary_user_gets_the_same() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        skip("not root, so all other tests are this one");
        return;
    };
    let done = run_alone(program.command("costs --rounds 1 --quiet --json -")).succeeded();
    let costs = &json(&done.out)["costs_ns"];
    for name in ["call", "read", "tee", "pin_base", "wake_up_same"] {
        assert!(costs[name]["estimate"].is_object(), "{name}: {costs:#}");
    }
}

#[test]
fn ctrl_c_shows_and_saves_the_rounds_that_were_completed() {
    let directory = tempfile::tempdir().unwrap();
    let shown = directory.path().join("costs.txt");
    let saved = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 10000 --json");
    command.arg(&saved);
    command.stdout(File::create(&shown).unwrap());
    let mark = Mark::on(&mut command);
    let mut terminal = Terminal::new(80);
    let running = terminal.start(command);
    terminal.until("completed a round", |_| saved.exists());
    terminal.type_in("\x03");
    assert_eq!(running.finish().code(), Some(130));
    mark.nobody_left();
    assert!(terminal.text().contains("interrupted by SIGINT"));
    let text = fs::read_to_string(shown).unwrap();
    says(&text, &["interrupted after", "GiB/s"]);
    let record = json_file(&saved);
    assert_eq!(record["interrupted"], "SIGINT");
    let rounds = record["costs_ns"]["rounds"].as_u64().unwrap();
    assert!((1..10_000).contains(&rounds), "{rounds}");
    assert!(record["costs_ns"]["call"]["estimate"].is_object());
}

/// The processes to be woken.
fn helpers(mark: &Mark) -> Vec<Pid> {
    let all = mark.processes().into_iter();
    all.filter(|(_, line)| line.contains(" wake-up"))
        .map(|(pid, _)| pid)
        .collect()
}

/// It would never answer.
#[test]
fn a_signal_ends_a_run_whose_helper_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 10000 --quiet --json");
    command.arg(&saved);
    let (running, mark) = start_marked(command);
    assert!(eventually(|| saved.exists().then_some(())).is_some());
    let helpers = helpers(&mark);
    assert!(!helpers.is_empty());
    for helper in helpers {
        kill_process(helper, Signal::STOP).unwrap();
    }
    let sleeps = || (Stat::of(running.pid())?.state == 'S').then_some(());
    assert!(eventually(sleeps).is_some());
    running.send(Signal::TERM);
    let done = running.finish();
    assert_eq!(done.code, Some(128 + 15), "{done:#?}");
    mark.nobody_left();
    assert_eq!(json_file(&saved)["interrupted"], "SIGTERM");
}

#[test]
fn terminal_s_signals_are_no_failure_and_nobody_is_left() {
    for (signal, status) in [
        (Signal::INT, Some(130)),
        (Signal::QUIT, Some(131)),
        (Signal::KILL, None),
    ] {
        let mut command = pipespeed("costs --rounds 10000 --quiet");
        command.process_group(0);
        let (running, mark) = start_marked(command);
        // Until the probes are there, one of which is a process.
        let echo = || (mark.processes().len() > 1).then_some(());
        assert!(eventually(echo).is_some());
        match status {
            Some(_) => kill_process_group(running.pid(), signal).unwrap(),
            // Nobody kills a whole group of them.
            None => running.send(signal),
        }
        let done = running.finish();
        assert_eq!(done.code, status, "{}", done.err);
        mark.nobody_left();
    }
}

#[test]
fn a_killed_helper_costs_one_trial_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("costs.json");
    let mut command = pipespeed("costs --rounds 10000 --quiet --json");
    command.arg(&saved);
    let (running, mark) = start_marked(command);
    let rounds = |least: u64| {
        let text = fs::read_to_string(&saved).ok()?;
        let record: serde_json::Value = serde_json::from_str(&text).ok()?;
        record["costs_ns"]["rounds"]
            .as_u64()
            .filter(|rounds| *rounds >= least)
    };
    let before = eventually(|| rounds(1)).unwrap();
    kill_process(helpers(&mark)[0], Signal::KILL).unwrap();
    assert!(eventually(|| rounds(before + 3)).is_some());
    running.send(Signal::INT);
    let done = running.finish();
    mark.nobody_left();
    let text = "the process to be woken was killed by SIGKILL";
    let lines = done.err.lines().filter(|line| line.contains(text));
    // When it happens, and at the end.
    assert!((1..=2).contains(&lines.count()), "{}", done.err);
    assert!(!done.err.contains("buffer"), "{}", done.err);
}
