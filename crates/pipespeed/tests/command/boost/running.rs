//! `boost --pid`.

use std::sync::mpsc;
use std::thread;

use rustix::thread::gettid;

use super::sidecar;
use crate::common::conditions::few_descriptors;
use crate::common::procs::{Mark, eventually};
use crate::common::{Outcome, Running, pipespeed, run_alone, start_marked};

/// A pipeline that runs until it is killed, with a mark.
fn endless() -> (Running, Mark) {
    started("yes | cat > /dev/null; true", &["yes", "cat"])
}

/// A line for the shell with these stages, which have started, with a mark.
fn started(line: &str, stages: &[&str]) -> (Running, Mark) {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line]);
    let (running, mark) = start_marked(command);
    let has = |stage: &&str| {
        mark.processes()
            .iter()
            .any(|(_, line)| line.trim() == *stage)
    };
    eventually(|| stages.iter().all(has).then_some(())).unwrap();
    (running, mark)
}

/// Raises the pipes of a process.
fn raised(pid: i32) -> Outcome {
    run_alone(pipespeed(&format!("boost --pid {pid}"))).succeeded_in_silence()
}

#[test]
fn the_pipes_of_a_running_process_are_raised_once() {
    let (running, _mark) = endless();
    let pid = running.pid().as_raw_pid();
    let outcome = raised(pid);
    assert_eq!(outcome.out, "1MiB in place of 64KiB between yes and cat\n");
    let again = raised(pid);
    let words = "no pipe was raised\nthe pipe between yes and cat was left as it is: it is 1MiB";
    assert!(again.out.starts_with(words), "{again:#?}");
}

#[test]
fn pipes_are_raised_with_few_descriptors_or_the_limit_is_named() {
    for limit in 4..32 {
        let (running, _mark) = endless();
        let mut command = pipespeed(&format!("boost --pid {}", running.pid()));
        few_descriptors(&mut command, limit);
        let outcome = run_alone(command);
        if outcome.code == Some(0) {
            assert_eq!(outcome.out, "1MiB in place of 64KiB between yes and cat\n");
        } else {
            outcome.refused(1, &["ulimit -n"]);
        }
    }
}

#[test]
fn pipe_that_is_left_as_it_is_has_a_reason() {
    let reason_of = |running: &Running| raised(running.pid().as_raw_pid()).out;
    let sockets = "exec python3 -c \"import os, socket; a, b = socket.socketpair()\n\
        if os.fork() == 0: a.close(); os.dup2(b.fileno(), 0); os.execlp('cat', 'cat')\n\
        b.close(); a.recv(1)\"";
    // A job of the same parent and group as the others.
    let (connected, _connected) = started(sockets, &["cat"]);
    let (idle, _idle) = started("sleep 1000 | cat; true", &["sleep 1000", "cat"]);
    let reason = "no pipe was raised\nthe pipe between sleep and cat was left as it is: its writer \
                  was not seen to wait for room, and has written less than 32KiB so far (splice is \
                  not counted)\n";
    assert_eq!(reason_of(&idle), reason);
    let words = "python3 and cat are connected by a socket, which boost leaves alone\n";
    let out = reason_of(&connected);
    assert!(out.ends_with(words), "{out}");
    let (alone, _alone) = started("sleep 1000; true", &["sleep 1000"]);
    let reason =
        "no pipe was raised: none that is a program's standard input was seen to carry much data\n";
    assert_eq!(reason_of(&alone), reason);
}

#[test]
fn a_process_is_followed_in_the_background_until_it_ends() {
    let (running, mark) = endless();
    let pid = running.pid().as_raw_pid();
    let mut follow = pipespeed(&format!("boost --pid {pid} --follow"));
    let own = Mark::on(&mut follow);
    assert_eq!(run_alone(follow).succeeded_in_silence().out, "");
    assert!(eventually(|| sidecar(&own)).is_some());
    drop(mark);
    drop(running);
    own.nobody_left();
}

#[test]
fn a_thread_that_is_no_process_is_bad_usage() {
    let (sender, tid) = mpsc::channel();
    let (end, until) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        sender.send(gettid().as_raw_pid()).unwrap();
        until.recv().unwrap_err();
    });
    let tid = tid.recv().unwrap();
    for options in ["", "--follow"] {
        run_alone(pipespeed(&format!("boost --pid {tid} {options}")))
            .refused(2, &["no such process"]);
    }
    drop(end);
    thread.join().unwrap();
}
