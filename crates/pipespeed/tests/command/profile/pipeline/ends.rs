//! How a profiled command and its profile end, and what they leave.

use std::fs;

use rustix::process::Signal;

use super::*;
use crate::common::conditions::{AsRoot, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{PIPESPEED, json_file, pipespeed, run_alone, run_marked, says, start_marked};
use crate::profile::number;

#[test]
fn a_long_pipeline_is_terminated_with_all_its_processes() {
    if !can_sample() {
        return;
    }
    // Processes that ignore SIGTERM, or whose parent has ended.
    let stubborn = "sh -c 'trap \"\" TERM; (sleep 1000 &) ; while :; do sleep 1000; done'";
    let command = profile(
        "--time 0.3 --json -",
        &format!("yes | {stubborn} | (sleep 1000; true)"),
    );
    let outcome = run_marked(command).succeeded();
    let pipeline = pipeline_of(&outcome);
    assert_eq!(pipeline["out_of_time"], true);
    assert!(number(&pipeline["wall_s"]) >= 0.3);
    assert_adds_up(&pipeline);
}

#[test]
fn an_interrupted_pipeline_is_shown_and_leaves_no_process() {
    if !can_sample() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let options = format!("--time 1000 --json {}", path.display());
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::QUIT, "SIGQUIT"),
    ] {
        let command = profile(&options, "yes | (cat; sleep 1000) | cat > /dev/null");
        let (running, mark) = start_marked(command);
        let under_way = || {
            let all = mark.processes();
            let is = |name: &str| all.iter().any(|(_, line)| line.trim() == name);
            (is("yes") && is("cat")).then_some(())?;
            // Long enough to be sampled.
            let (yes, _) = all.iter().find(|(_, line)| line.trim() == "yes")?;
            let stat = fs::read_to_string(format!("/proc/{yes}/schedstat")).ok()?;
            let ran_ns: u64 = stat.split(' ').next()?.parse().ok()?;
            (ran_ns > 50_000_000).then_some(())
        };
        eventually(under_way).unwrap();
        running.send(signal);
        let outcome = running.finish();
        mark.nobody_left();
        let outcome = outcome.failed(128 + signal.as_raw(), &["interrupted by SIG"]);
        let shown = format!("then interrupted by {name}");
        assert!(outcome.out.contains(&shown), "{outcome:#?}");
        assert_eq!(json_file(&path)["interrupted"], name);
        assert!(outcome.out.contains("\n1: yes "), "{outcome:#?}");
    }
}

#[test]
fn a_pipeline_keeps_running_when_its_profile_is_killed() {
    if !can_sample() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let mut command = profile(
        "--time 1000",
        "cat fifo | (: > second; cat; echo all) | cat > out",
    );
    command.current_dir(&directory);
    let (running, mark) = start_marked(command);
    // Opening succeeds once the first command runs; the files show that the others do.
    let mut input = fs::File::options().write(true).open(&fifo).unwrap();
    let out = directory.path().join("out");
    let second = directory.path().join("second");
    eventually(|| (second.exists() && out.exists()).then_some(())).unwrap();
    running.send(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    std::io::Write::write_all(&mut input, b"still here\n").unwrap();
    drop(input);
    let whole = || (fs::read_to_string(&out).ok()? == "still here\nall\n").then_some(());
    assert!(
        eventually(whole).is_some(),
        "{:?}",
        fs::read_to_string(&out)
    );
    mark.nobody_left();
}

#[test]
fn what_a_finished_pipeline_leaves_goes_on() {
    if !can_sample() {
        return;
    }
    let mut command = profile("--json -", "exec 2>&1; sleep 1000 & setsid sleep 1001 &");
    let mark = Mark::on(&mut command);
    let pipeline = pipeline_of(&run_alone(command).succeeded());
    mark.only_left(&["sleep 1000", "sleep 1001"]);
    assert_eq!(pipeline["left"], 2, "{pipeline:#}");
}

/// One of another process group, too.
#[test]
fn a_signal_ends_what_a_pipeline_has_in_the_background() {
    let (running, mark) = start_marked(profile("--no-save", "setsid sleep 1000 & sleep 1001; :"));
    mark.running("sleep 1000");
    mark.running("sleep 1001");
    running.send(Signal::TERM);
    running.finish().failed(143, &["interrupted by SIGTERM"]);
    mark.nobody_left();
}

/// What a shell has that becomes the profile, such as process substitutions: a pipeline.
const BEFORE: &str = "sleep 1001 </dev/null 2>&1 | sleep 1003 >/dev/null 2>&1 &";

#[test]
fn processes_from_before_are_neither_stages_nor_ended() {
    let script = format!(
        "{BEFORE} exec \"$0\" profile --quiet --json - -- 'sleep 1002 >/dev/null 2>&1 & sleep 2 | cat'"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, PIPESPEED]);
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command).succeeded();
    let pipeline = pipeline_of(&outcome);
    assert_eq!(commands(&pipeline), ["sleep 2", "cat"], "{pipeline:#}");
    assert_eq!(pipeline["left"], 1, "{pipeline:#}");
    mark.only_left(&["sleep 1001", "sleep 1002", "sleep 1003"]);
}

#[test]
fn signal_ends_no_process_from_before() {
    let script = format!("{BEFORE} exec \"$0\" profile --quiet --no-save -- 'sleep 1002 | cat'");
    let mut command = Command::new("sh");
    command.args(["-c", &script, PIPESPEED]);
    let (running, mark) = start_marked(command);
    mark.running("sleep 1002");
    running.send(Signal::TERM);
    running.finish().failed(143, &["interrupted by SIGTERM"]);
    mark.only_left(&["sleep 1001", "sleep 1003"]);
}

#[test]
fn a_stopped_stage_ends_by_sigterm() {
    if !can_sample() {
        return;
    }
    let pipeline = "sh -c 'kill -STOP $$; :' | cat";
    let pipeline = profiled("--time 0.3", pipeline);
    // SIGTERM, not SIGKILL a second later.
    assert_ended(&pipeline["stages"][0], "signal", 15);
}

#[test]
fn a_command_that_is_missing_or_fails_is_named() {
    if !can_sample() {
        return;
    }
    // The shell prints a message of its own.
    let outcome = run_alone(profile("", "no_such_command_at_all 7")).succeeded();
    let words = "1: no_such_command_at_all 7 exited with status 127, which shells";
    assert!(outcome.unwrapped().contains(words), "{outcome:#?}");
    let command = pipespeed("profile --quiet -- no_such_command_at_all 7");
    run_alone(command).refused(127, &["can't start the command no_such_command_at_all"]);
    // The status of a stage, or before Linux 6.15 that of the command.
    let outcome = run_alone(profile("", "yes | head -c 100M | sh -c 'cat; exit 3'")).succeeded();
    assert!(
        outcome.unwrapped().contains(" exited with status 3."),
        "{outcome:#?}"
    );
    // Several words are a program and its arguments, even with a | in them.
    let mut command = pipespeed("profile --quiet --json - -- sh -c");
    command.arg("test \"$1\" = 'a | b'").arg("sh").arg("a | b");
    let pipeline = pipeline_of(&run_alone(command).succeeded());
    assert_eq!(pipeline["stages"][0]["status"]["exited"], 0, "{pipeline:#}");
}

/// A process of a pipeline that has become another user's can't be signalled.
#[test]
fn a_process_that_cannot_be_ended_is_named_and_the_rest_recorded() {
    let (Some(program), Some(root)) = (ForAll::new(PIPESPEED), AsRoot::new()) else {
        return;
    };
    for (options, code) in [("--time 1000", 130), ("--time 3", 0)] {
        let mut command = program.command(&format!("profile -q {options} --json - --"));
        command.arg(format!("yes | {}; exit 5", root.line("sleep 1000")));
        let (running, mark) = start_marked(command);
        let left = mark.running("sleep 1000").as_raw_pid();
        if code == 130 {
            running.send(Signal::INT);
        }
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(code), "{outcome:#?}");
        let record = json(&outcome.out);
        assert_eq!(record["pipeline"]["out_of_time"], code == 0);
        let named = format!("process {left} (sleep) is left running: it is another user's");
        says(record["warnings"].to_string(), &[named]);
        // Others may still be exiting.
        let is_alone = || {
            let still = mark.processes().into_iter();
            let still: Vec<i32> = still.map(|(pid, _)| pid.as_raw_pid()).collect();
            (still == [left]).then_some(())
        };
        assert!(eventually(is_alone).is_some(), "{:?}", mark.processes());
    }
}
