//! `doctor -- COMMAND`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use super::{assert_contains, yes_to_cat};
use crate::common::procs::{Mark, eventually};
use crate::common::{
    PIPESPEED, full_device, json_file, pipespeed, run_alone, start, start_into, start_marked,
};

pub fn doctor(options: &str, pipeline: &str) -> Command {
    let mut command = pipespeed(&format!("doctor {options} --"));
    command.arg(pipeline);
    command
}

/// A command that waits for ever for the end of its input, which it keeps open itself.
pub const STUCK: &str = ": | cat 3>/dev/stdin";

/// A command that waits until somebody opens a FIFO.
pub const WAITS_FOR_FIFO: &str = "f=$(mktemp -u); mkfifo $f; trap 'rm $f' EXIT; cat $f";

#[test]
fn command_keeps_its_output_and_the_report_goes_to_stderr() {
    let outcome = run_alone(doctor("--time 0.3", "echo first; sleep 1 | cat; echo last"));
    outcome.assert_ended(0, "first\nlast\n");
    assert_contains(&outcome.err, &["sleep (pid", "WAITING FOR a timer: "]);
}

#[test]
fn arguments_of_a_command_need_not_be_utf8() {
    let word = OsStr::from_bytes(b"a\xff\n");
    for options in ["doctor --", "top --once --json /dev/null --"] {
        let mut command = pipespeed(options);
        command.args([OsStr::new("printf"), word]);
        let outcome = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(
            (outcome.status.code(), &*outcome.stdout),
            (Some(0), word.as_bytes()),
            "{options}"
        );
    }
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    for (script, out) in [("sleep 0.6 | cat; echo last", "last\n"), ("true", "")] {
        let mut command = doctor("--time 0.2", script);
        let outcome = command.stdin(Stdio::null()).stderr(full_device()).output();
        let outcome = outcome.unwrap();
        assert_eq!(
            (outcome.status.code(), &*outcome.stdout),
            (Some(2), out.as_bytes()),
            "{script}"
        );
    }
}

#[test]
fn a_command_is_awaited_if_its_record_cannot_be_saved() {
    let command = doctor("--time 0.2 --json /dev/full", "sleep 0.6 | cat; echo last");
    let outcome = run_alone(command);
    outcome.assert_ended(2, "last\n");
}

#[test]
fn files_are_saved_if_standard_output_has_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let (_group, [yes, _]) = yes_to_cat();
    let mut command = pipespeed(&format!(
        "doctor --time 0.2 --json run.json --prometheus run.prom {yes}"
    ));
    command.current_dir(&directory);
    let outcome = start_into(command, full_device()).finish();
    outcome.failed(2, &["standard output: No space left"]);
    json_file(&directory.path().join("run.json"));
    assert!(directory.path().join("run.prom").exists());
}

#[test]
fn a_command_that_ends_at_once_is_not_judged() {
    for (script, words) in [
        ("true", " s, too soon to be examined"),
        ("sleep 0.05 | cat", " s, too soon to be examined"),
        // The shell says what is missing, and the status is that of doctor.
        ("no_such_command", " s (exit status: 127), too soon"),
    ] {
        // A busy machine may be slow to start it, but not each time.
        let found = eventually(|| {
            let outcome = run_alone(doctor("", script)).succeeded();
            let words = ["pipespeed: the command ended after ", words];
            let is_all = words.iter().all(|words| outcome.err.contains(words));
            let is_judged = outcome.err.contains("is the bottleneck");
            assert!(!(is_all && is_judged), "{outcome:#?}");
            is_all.then_some(())
        });
        assert!(found.is_some(), "{script}");
    }
}

/// It sleeps for the whole of the first look, so that a second one begins.
#[test]
fn command_that_ends_early_in_the_second_look_was_examined() {
    // On a busy machine the first look may begin late, and the command may end in it.
    let examined = ["0.51", "0.54", "0.57", "0.7", "0.9"]
        .iter()
        .find(|seconds| {
            let outcome = run_alone(doctor("--time 0.5", &format!("sleep {seconds} | cat")));
            let outcome = outcome.succeeded();
            outcome.err.contains("WAITING FOR a timer: sleep") && !outcome.err.contains("too soon")
        });
    assert!(examined.is_some());
}

#[test]
fn second_look_that_ends_early_does_not_replace_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = doctor("--time 0.5 --json run.json", "sleep 0.9 | cat");
    command.current_dir(&directory);
    run_alone(command).succeeded();
    let record = json_file(&directory.path().join("run.json"));
    assert!(record["seconds"].as_f64().unwrap() >= 0.5, "{record:#}");
}

#[test]
fn a_stuck_command_is_explained_and_ended() {
    let mut command = doctor("--time 0.3 --kill", STUCK);
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let ended = "--kill ended 2 processes of the command";
    assert_contains(
        &outcome.err,
        &["STUCK: cat (pid", "only it could write", ended],
    );
    mark.nobody_left();
}

#[test]
fn a_stuck_command_is_left_alone_without_kill() {
    let mut command = doctor("--time 0.3", STUCK);
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert_contains(&outcome.err, &["is left running (--kill ends it)"]);
    let is_cat = |line: &str| line == "cat ";
    assert!(mark.processes().iter().any(|(_, line)| is_cat(line)));
}

/// Anybody may open a FIFO, or continue what is stopped; timeout(1), and a process that goes on beside it, may end it.
#[test]
fn what_something_outside_may_end_is_not_killed() {
    for (script, words) in [
        (WAITS_FOR_FIFO, "from outside may end this"),
        ("kill -STOP $$; true", "from outside may end this"),
        ("timeout 1000 sh -c ': | cat 3>/dev/stdin'", "timeout(1)"),
        (
            "{ : | cat 3>/dev/stdin; } & for step in $(seq 5000); do sleep 0.1; done",
            "another process goes on",
        ),
        // A watchdog whose starter has gone, and one that may have called alarm(2).
        (
            "setsid -f sleep 1000; : | cat 3>/dev/stdin",
            "another process goes on",
        ),
        (
            "trap : ALRM; sh -c ': | cat 3>/dev/stdin'; :",
            "another process goes on, or has a timer",
        ),
    ] {
        let mut command = doctor("--time 0.3 --kill", script);
        let mark = Mark::on(&mut command);
        let outcome = run_alone(command);
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        let words = ["PROBABLY STUCK: ", words, "is left running"];
        assert_contains(&outcome.unwrapped_err(), &words);
        assert!(!mark.processes().is_empty());
    }
}

/// The report fills standard error, so that the signal arrives before it is written.
#[test]
fn a_signal_during_the_report_is_passed_on() {
    let (unread, mut errors) = std::io::pipe().unwrap();
    let capacity = fastpipe::pipe::capacity(&errors).unwrap();
    // The first line takes the last slot.
    let filled = capacity - fastpipe::pipe::page_size();
    errors.write_all(&vec![b' '; filled]).unwrap();
    let mut command = doctor("--if-stuck 1", STUCK);
    let mark = Mark::on(&mut command);
    let mut child = command.stdin(Stdio::null()).stderr(errors).spawn().unwrap();
    // It holds the write end.
    drop(command);
    let pid = Pid::from_child(&child);
    let reports = || (ioctl_fionread(&unread).unwrap() > filled as u64).then_some(());
    eventually(reports).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    mark.nobody_left();
}

#[test]
fn a_guarded_command_has_its_own_status_and_no_report() {
    for (script, code) in [
        ("echo out; exit 3", 3),
        ("echo out", 0),
        ("echo out; kill $$", 143),
    ] {
        let outcome = run_alone(doctor("--if-stuck 30s", script));
        outcome.assert_ended(code, "out\n");
        assert!(!outcome.err.contains("pipeline"), "{outcome:#?}");
    }
}

#[test]
fn a_guarded_command_that_anybody_may_free_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let script = format!("read line < {}; echo $line; exit 7", path.display());
    let mut child = doctor("--if-stuck 1 --kill", &script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = "pipespeed: it may go on by itself: waiting for the command";
    assert!(errors.any(|line| line.unwrap() == waits));
    std::fs::write(&path, "opened\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"opened\n");
}

#[test]
fn a_guarded_command_is_explained_once_it_is_stuck() {
    let mut command = doctor("--if-stuck 1 --kill", &format!("sleep 1; {STUCK}"));
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let lines = [
        "the command has been stuck for 1.00 s",
        "--kill ended 2 processes",
    ];
    assert_contains(&outcome.err, &lines);
    assert_contains(&outcome.err, &["STUCK: cat (pid"]);
    mark.nobody_left();
}

/// In a process group of its own, since a terminal sends Ctrl-C to all of its foreground group.
#[test]
fn a_signal_ends_all_processes_of_the_command() {
    for args in [
        "doctor --if-stuck 100",
        "doctor --time 100",
        "top --json /dev/null",
    ] {
        for (signal, name) in [
            (Signal::TERM, "SIGTERM"),
            (Signal::INT, "SIGINT"),
            (Signal::HUP, "SIGHUP"),
            (Signal::USR1, "SIGUSR1"),
            (Signal::XCPU, "SIGXCPU"),
        ] {
            let mut command = pipespeed(&format!("{args} --"));
            // The shell starts another process than the one that gets the signal first.
            command.arg("(sleep 1000; :) | cat; :").process_group(0);
            let (running, mark) = start_marked(command);
            let has = |name: &str| mark.processes().iter().any(|(_, line)| line.trim() == name);
            eventually(|| (has("sleep 1000") && has("cat")).then_some(())).unwrap();
            running.send(signal);
            let outcome = running.finish();
            assert_eq!(outcome.code, Some(128 + signal.as_raw()), "{outcome:#?}");
            assert!(outcome.err.contains(name), "{outcome:#?}");
            mark.nobody_left();
        }
    }
}

/// The command's own handler runs, and its status is the result.
#[test]
fn a_command_that_handles_a_signal_ends_by_itself() {
    let script = "trap 'echo handled; exit 7' TERM; sleep 1000 & wait";
    let (running, mark) = start_marked(doctor("--if-stuck 100", script));
    let is_started = |(_, line): &(_, String)| line.trim() == "sleep 1000";
    eventually(|| mark.processes().iter().any(is_started).then_some(())).unwrap();
    running.send(Signal::TERM);
    let outcome = running.finish();
    outcome.assert_ended(7, "handled\n");
    mark.nobody_left();
}

/// As a shell's process substitution, which is a child of what the shell becomes.
#[test]
fn signal_ends_no_process_that_was_there_before_the_command() {
    let script = "sleep 1001 & exec \"$0\" doctor --time 100 -- 'sleep 1002 | cat'";
    let mut command = Command::new("sh");
    command.args(["-c", script, PIPESPEED]);
    let (running, mark) = start_marked(command);
    let has = |name: &str| mark.processes().iter().any(|(_, line)| line.trim() == name);
    eventually(|| (has("sleep 1002") && has("cat")).then_some(())).unwrap();
    running.send(Signal::TERM);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(143), "{outcome:#?}");
    assert!(!outcome.err.contains("is left running"), "{outcome:#?}");
    assert!(has("sleep 1001") && !has("sleep 1002"), "{outcome:#?}");
}

#[test]
fn processes_from_before_are_neither_examined_nor_ended() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "sleep 1001 </dev/null 2>&1 | sleep 1003 >/dev/null 2>&1 & \
         exec \"$0\" doctor --time 0.3 --kill --json run.json -- '{STUCK}'"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, PIPESPEED])
        .current_dir(&directory);
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert_contains(&outcome.err, &["--kill ended 2 processes of the command"]);
    let record = json_file(&directory.path().join("run.json"));
    for process in record["processes"].as_array().unwrap() {
        assert_ne!(process["name"], "sleep", "{process:#}");
    }
    mark.only_left(&["sleep 1001", "sleep 1003"]);
}

/// The observer adopts orphans, also those of a process substitution.
#[test]
fn orphan_of_a_process_from_before_is_left_alone() {
    // The command waits for the end of the orphan's parent.
    let script = "mkfifo ready gate; \
        (sleep 1001 >/dev/null 2>&1 & echo >ready; read x <gate) & PARENT=$!; export PARENT; \
        read x <ready; exec \"$0\" \"$@\" \
        'echo >gate; while grep -q \"^State:.[^Z]\" /proc/$PARENT/status; do :; done; exit 3'";
    for args in [
        "doctor --if-stuck 100 --",
        "top --json /dev/null --",
        "profile --quiet --no-save --",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", script, PIPESPEED])
            .args(args.split(' '));
        command.current_dir(&directory);
        let mark = Mark::on(&mut command);
        run_alone(command);
        mark.only_left(&["sleep 1001"]);
    }
}

#[test]
fn a_command_that_is_empty_or_missing_is_refused() {
    for empty in ["", " "] {
        run_alone(doctor("", empty)).refused(2, &["the command is empty"]);
    }
    let mut command = pipespeed("doctor --");
    command.args(["/no/such/program", "x"]);
    run_alone(command).refused(127, &["can't start the command /no/such/program"]);
}

/// They become children of the observer, which is the one that adopts orphans.
#[test]
fn what_a_command_leaves_behind_is_reaped() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    for args in [
        "doctor --time 1000",
        "doctor --time 0.1",
        "doctor --if-stuck 1000",
        "top --json /dev/null",
    ] {
        let script = format!(
            "(true & echo $! >{0}.new); mv {0}.new {0}; exec sleep 1000",
            file.display()
        );
        let mut command = pipespeed(&format!("{args} --"));
        command.arg(&script);
        let running = start(command);
        let orphan = eventually(|| fs::read_to_string(&file).ok()).unwrap();
        let place = format!("/proc/{}", orphan.trim());
        let is_reaped = eventually(|| (!Path::new(&place).exists()).then_some(()));
        assert!(is_reaped.is_some(), "{args}");
        running.send(Signal::TERM);
        running.finish();
        fs::remove_file(&file).unwrap();
    }
}
