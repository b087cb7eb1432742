//! Planted hangs are found and explained.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::commands::doctor;
use super::truths::child;
use super::{Group, assert_contains, becomes, pipe, yes_to_cat};
use crate::common::procs::{Mark, eventually};
use crate::common::{json, pipespeed, run_alone, skip, start};

fn fifo(directory: &tempfile::TempDir, name: &str) -> String {
    let path = directory.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn two_programs_that_both_write_are_stuck() {
    let ((to_second, from_first), (to_first, from_second)) = (pipe(), pipe());
    let mut group = Group::default();
    let pids = [
        group.add("head -c 1000000 /dev/zero", [to_first, from_first, None]),
        group.add("head -c 1000000 /dev/zero", [to_second, from_second, None]),
    ];
    let first_waits = format!("head (pid {}) waits for room in pipe", pids[0]);
    let only = format!(
        "at its standard output, which only head (pid {}) reads.",
        pids[1]
    );
    assert_contains(
        &group.stuck(),
        &[
            "STUCK: head (pid",
            "wait for each other: all write, and none reads.",
            &first_waits,
            &only,
            "100 % full",
            "Remedy: one of them must read",
        ],
    );
    let outcome = group.examine("--no-open --json -");
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let record = json(&outcome.out);
    assert_eq!(record["kind"], "doctor");
    assert_eq!(record["is_stuck"], true);
    let finding = &record["findings"][0];
    assert_eq!(finding["finding"], "deadlock");
    assert_eq!(finding["kind"], "all_write");
    for (member, pid) in finding["members"].as_array().unwrap().iter().zip(pids) {
        assert_eq!(member["who"]["pid"], pid);
        assert_eq!(member["reasons"][0]["pipe"]["fd"], 1, "{member:#}");
    }
    // Not looked into.
    assert_eq!(record["pipes"][0]["capacity"], serde_json::Value::Null);
}

#[test]
fn a_full_stderr_that_nobody_reads_is_stuck() {
    let ((out, to_out), (err, to_err)) = (pipe(), pipe());
    let mut group = Group::default();
    // It reads one pipe and holds the other.
    group.add("cat", [out, None, err]);
    let mut writer = Command::new("sh");
    writer.args(["-c", "exec 3>&1; exec head -c 1000000 /dev/zero >&2"]);
    group.start(writer, [None, to_out, to_err]);
    let text = group.stuck();
    assert_contains(
        &text,
        &["one writes to a pipe whose reader waits for something else"],
    );
}

#[test]
fn a_reader_that_keeps_its_own_input_open_is_stuck() {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    let pid = group.add("cat", [reader, None, writer]);
    let text = group.stuck();
    let headline = format!("STUCK: cat (pid {pid}) waits for input that only it could write");
    assert_contains(&text, &[&headline, "Remedy: close standard error"]);
}

#[test]
fn a_fifo_that_nobody_else_opens_is_named() {
    for program in [&["cat"][..], &["timeout", "1000", "cat"]] {
        let directory = tempfile::tempdir().unwrap();
        fifo(&directory, "lonely");
        let mut group = Group::default();
        let mut reader = Command::new(program[0]);
        reader.args(&program[1..]).arg("lonely");
        reader.current_dir(&directory);
        let pid = group.start(reader, [None, None, None]);
        child(pid, "cat");
        let path = directory.path().join("lonely").display().to_string();
        let waits = format!("waits for another process to open {path}.");
        assert_contains(
            &group.stuck(),
            &["until another process opens the FIFO", &waits],
        );
    }
}

/// The shell could let it go on; a program that opens it to write could not.
#[test]
fn a_shell_that_waits_for_the_reader_of_its_fifo_is_probably_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo(&directory, "f");
    let mut group = Group::default();
    // dash waits for a signal, which may be another one than that of its child.
    let script = format!("cat {path} & exec 3>{path}; echo a >&3; wait");
    let pid = group.script(&format!("exec bash -c '{script}'"));
    child(pid, "cat");
    let words = [
        "PROBABLY STUCK",
        "a process that waits for its reader keeps it open",
        "from outside may end this",
        "close the write end before waiting",
    ];
    assert_contains(&group.stuck(), &words);
}

#[test]
fn a_cycle_of_two_fifos_is_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| fifo(&directory, name));
    // While they are kept open, opening them waits for nobody.
    let both = || fs::File::options().read(true).write(true).clone();
    let kept = [&a, &b].map(|path| both().open(path).unwrap());
    let mut group = Group::default();
    for (input, output) in [(&a, &b), (&b, &a)] {
        let pid = group.script(&format!("exec cat <{input} >{output}"));
        becomes(pid, "cat");
    }
    drop(kept);
    let text = group.stuck();
    let file = format!("FIFO {a}");
    assert_contains(&text, &["all read, and none writes", &file]);
}

#[test]
fn stopped_stage_is_named_with_the_way_to_continue_it() {
    let (group, [_, pid]) = yes_to_cat();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap();
    let remedy = format!("Remedy: kill -CONT {pid}");
    assert_contains(
        &group.stuck(),
        &["is stopped", &remedy, "Waiting for them: yes"],
    );
}

/// Nobody has an end of a pipe that is in a message which was not received yet.
#[test]
fn data_of_a_writer_that_is_not_seen_is_waited_for() {
    if !has_python("import socket; socket.send_fds") {
        return;
    }
    let script = "import os, socket, subprocess\n\
                  r, w = os.pipe(); a, b = socket.socketpair()\n\
                  cat = subprocess.Popen(['cat'], stdin=r); os.close(r)\n\
                  socket.send_fds(a, [b'x'], [w]); os.close(w); cat.wait()";
    let (reader, writer) = pipe();
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    let mut group = Group::default();
    let pid = group.start(python, [None, writer, None]);
    group.add("wc -c", [reader, None, None]);
    let cat = child(pid, "cat");
    let words = format!("WAITING FOR data of a pipe whose writer isn't seen: cat (pid {cat}).");
    let seen = eventually(|| {
        let text = group.examine("").unwrapped();
        text.contains(&words).then_some(text)
    });
    let text = seen.expect("the writer is not seen");
    assert!(!text.contains("bottleneck"), "{text}");
}

/// Whether this Python is installed; a skip if not.
pub fn has_python(condition: &str) -> bool {
    let mut python = Command::new("python3");
    let output = python.args(["-c", condition]).output();
    let has = output.is_ok_and(|output| output.status.success());
    if !has {
        skip(format!("no python3 for which this works: {condition}"));
    }
    has
}

#[test]
fn a_python_parent_and_its_child_are_explained() {
    if !has_python("import subprocess") {
        return;
    }
    for (script, words) in [
        (
            "p=Popen(['cat'],stdin=PIPE,stdout=PIPE);p.stdin.write(b'x'*1000000)",
            "all write, and none reads",
        ),
        (
            "p=Popen(['head','-c1000000','/dev/zero'],stdout=PIPE);p.wait()",
            "does not read the child's output",
        ),
        (
            "p=Popen(['cat'],stdin=PIPE);p.wait()",
            "an input does not end",
        ),
        (
            "p=Popen('head -c1000000 /dev/zero >&2',shell=True,stdout=PIPE,stderr=PIPE);\
             p.stdout.read()",
            "one writes to a pipe whose reader waits for something else",
        ),
    ] {
        let mut python = Command::new("python3");
        python.args(["-c", &format!("from subprocess import *;{script}")]);
        let mut group = Group::default();
        group.start(python, [None, None, None]);
        assert_contains(&group.stuck(), &[words]);
    }
}

#[test]
fn splice_that_holds_pipe_is_found_and_stuck_if_nobody_outside_can_help() {
    if !has_python("import os; os.splice") {
        return;
    }
    let (reader, writer) = pipe();
    let mut group = Group::default();
    let splice = |group: &mut Group, input, output: UnixStream, stderr| {
        let mut splicer = Command::new("python3");
        splicer.args(["-c", "import os\nwhile True: os.splice(0,1,1<<20)"]);
        group.start(splicer, [input, Some(output.into()), stderr])
    };
    // It splices from another pipe, and has an end of this one.
    let (other_reader, other_writer) = pipe();
    let copy = |end: &Option<OwnedFd>| end.as_ref().map(|end| end.try_clone().unwrap());
    let (other_socket, other_peer) = UnixStream::pair().unwrap();
    splice(&mut group, other_reader, other_socket, copy(&writer));
    let (socket, peer) = UnixStream::pair().unwrap();
    let copy_of_reader = copy(&reader);
    let pid = splice(&mut group, reader, socket, None);
    group.add("yes", [None, other_writer, None]);
    group.add("yes", [None, writer, None]);
    let holds = format!("python3 (pid {pid}) splices and holds the lock of pipe");
    let is_said = |group: &Group, words: &str| {
        eventually(|| {
            let text = group.examine("").unwrapped();
            text.contains(words).then_some(())
        })
    };
    // This test could read what is sent.
    let went_on = is_said(&group, &holds);
    assert!(went_on.is_some(), "{:#?}", group.examine(""));
    assert!(!group.examine("").unwrapped().contains("STUCK"));
    // Now only cat could, which waits for the pipe that is locked.
    let ends = [copy_of_reader, Some(other_peer.into()), Some(peer.into())];
    group.add("cat", ends);
    let is_stuck = is_said(&group, &format!("STUCK: {holds}"));
    assert!(is_stuck.is_some(), "{:#?}", group.examine(""));
}

/// reubeno/brush#1293: a shell writes a here-document into a pipe before it starts the program
/// that reads it.
#[test]
fn document_larger_than_pipe_without_a_reader_yet_is_stuck() {
    if !has_python("import os") {
        return;
    }
    let mut shell = Command::new("python3");
    let script = "import os; r, w = os.pipe(); os.write(w, b'x' * 100000); os.execlp('cat', 'cat')";
    shell.args(["-c", script]);
    let mut group = Group::default();
    let pid = group.start(shell, [None, None, None]);
    let headline = format!("STUCK: python3 (pid {pid}) waits for room in a pipe that only it");
    let remedy = "Remedy: start the reader before writing more than the pipe holds";
    assert_contains(&group.stuck(), &[&headline, "100 % full", remedy]);
}

/// haskell/process#70: a program's output is read to its end, but the server that it started
/// has inherited that output. The server may end at any time, so this is not called stuck.
#[test]
fn server_that_keeps_output_of_its_starter_open_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("record");
    let mut command = pipespeed("doctor --time 0.5 --json");
    command.arg(&file).arg("--");
    command.arg("text=$(sh -c 'tail -f /dev/null & echo started'); echo $text");
    let mark = Mark::on(&mut command);
    command.stdin(std::process::Stdio::null());
    let running = start(command);
    // It is reported on, and goes on: the server is ended.
    eventually(|| file.exists().then_some(())).unwrap();
    let server = |(_, line): &(Pid, String)| line.starts_with("tail");
    let server = mark.processes().into_iter().find(server).unwrap().0;
    kill_process(server, Signal::KILL).unwrap();
    let outcome = running.finish();
    outcome.assert_ended(0, "started\n");
    let words = format!("tail (pid {server}) holds a write end (standard output), and wrote");
    assert_contains(
        &outcome.unwrapped_err(),
        &[
            "waits for input or its end",
            &words,
            "WAITING FOR data or an end of file: ",
        ],
    );
}

#[test]
fn a_process_that_has_ended_is_bad_usage() {
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id();
    let is_zombie = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") Z ").then_some(())
    };
    eventually(is_zombie).unwrap();
    let doctor = || run_alone(pipespeed(&format!("doctor {pid}")));
    doctor().refused(2, &["has ended", "a zombie"]);
    gone.wait().unwrap();
    doctor().refused(2, &[&format!("process {pid}: no such process")]);
}

/// More programs, of other languages, are in benches/doctor.
#[test]
fn a_python_program_that_waits_for_ever_gets_its_verdict() {
    if !has_python("import asyncio, multiprocessing, socket") {
        return;
    }
    for (script, verdict, words) in [
        (
            "import asyncio as a\n\
             async def main():\n \
             p = await a.create_subprocess_shell('yes >&2; :', stdout=-1, stderr=-1)\n \
             await p.stdout.readline()\n\
             a.run(main())",
            "UNREAD: python3",
            "communicate()",
        ),
        (
            "import subprocess as s; s.run('sleep 1000 & :', shell=True, stdout=-1, stderr=-1)",
            "WAITING FOR data or an end of file: python3",
            "── sleep (pid",
        ),
        (
            "import os, socket, time\n\
             a, b = socket.socketpair()\n\
             if os.fork() == 0: a.close(); time.sleep(1000)\n\
             b.close(); a.sendall(b'x' * 10**7)",
            "WAITING FOR a timer: python3",
            "nobody read from it",
        ),
        (
            "import multiprocessing as m; a, b = m.Pipe(); \
             m.Process(target=lambda: b.recv()).start(); a.recv()",
            "STUCK: python3",
            "all read, and none writes",
        ),
        (
            "import os, socket\n\
             l = socket.create_server(('127.0.0.1', 0))\n\
             if os.fork() == 0: socket.create_connection(l.getsockname()).recv(1)\n\
             l.accept()[0].recv(1)",
            "STUCK: python3",
            "all read, and none writes",
        ),
        (
            "import os, subprocess as s; m, t = os.openpty(); p = s.Popen(['yes'], stdout=t); \
             os.close(t); p.wait()",
            "UNREAD: python3",
            "in terminal /dev/pts/",
        ),
        (
            "import os, subprocess as s; m, t = os.openpty(); s.Popen(['cat'], stdin=t, stdout=t); \
             os.close(t); os.read(m, 1)",
            "WAITING FOR each other's message: python3",
            "sendline()",
        ),
        // A terminal emulator waits for a person, too.
        (
            "import os, select, subprocess as s; r, w = os.pipe(); m, t = os.openpty()\n\
             s.Popen(['sleep', '1000'], stdout=w)\n\
             s.Popen(['cat'], stdin=t, stdout=t); os.close(t); os.close(w); select.select([m, r], [], [])",
            "WAITING FOR a timer: sleep",
            "1 pipeline",
        ),
        (
            "import os, subprocess as s; m, t = os.openpty(); \
             s.Popen('sleep 1000 & :', shell=True, stdout=t); os.close(t); os.read(m, 1)",
            "WAITING FOR data or an end of file: python3",
            "terminal /dev/pts/",
        ),
    ] {
        let mut python = Command::new("python3");
        python.args(["-c", script]);
        let mut group = Group::default();
        group.start(python, [None, None, None]);
        let found = eventually(|| {
            let text = group.examine("").unwrapped();
            // The first look may begin while the program still fills a buffer.
            (text.starts_with(verdict) && text.contains(words)).then_some(())
        });
        let what = || format!("{verdict}, {words}: {:#?}", group.examine(""));
        assert!(found.is_some(), "{}", what());
    }
}

/// A command whose parent takes nothing of its child's output, and waits beside a thread that does
/// this.
fn leaves_output(does: &str) -> String {
    format!(
        "python3 -c \"import subprocess as s, time, threading; \
         threading.Thread(target=lambda: [{does} for _ in range(10**9)], daemon=True).start(); \
         s.Popen(['yes'], stdout=s.PIPE).wait()\""
    )
}

#[test]
fn output_that_nobody_reads_counts_as_stuck_once_it_has_lasted() {
    if !has_python("import os, subprocess, threading; os.pidfd_open") {
        return;
    }
    let options = "--if-stuck 1s --kill";
    let outcome = run_alone(doctor(options, &leaves_output("time.sleep(0.2)")));
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let text = outcome.unwrapped_err();
    assert_contains(&text, &["STUCK: python3 (pid", "--kill ended"]);
    // A reader that has something to do is left alone.
    let works = leaves_output("time.sleep(0.001) or sum(range(2000))");
    let command = format!("timeout 8 {works}");
    let outcome = run_alone(doctor(options, &command));
    assert_eq!(outcome.code, Some(124), "{outcome:#?}");
    let text = outcome.unwrapped_err();
    assert_contains(&text, &["PROBABLY STUCK: ", "waiting for the command"]);
    assert_eq!(text.matches("PROBABLY").count(), 1, "{text}");
    // So is one that pauses, and its command's status is passed on.
    for pause in [
        "time.sleep(4)",
        "threading.Event().wait(4)",
        "asyncio.run(asyncio.sleep(4))",
        "signal.signal(signal.SIGALRM, lambda *_: None), signal.alarm(4), signal.pause()",
        // The event of the second one says less than the timer before it.
        "c = ctypes.CDLL(None); t = c.timerfd_create(1, 0); \
         c.timerfd_settime(t, 0, struct.pack('qqqq', 0, 0, 4, 0), None); p = select.poll(); \
         p.register(t, 1); p.register(os.pidfd_open(os.getpid()), 1); p.poll()",
    ] {
        let program = format!(
            "import asyncio, ctypes, os, select, signal, struct, sys, threading, time; {pause}; sys.exit(len(sys.stdin.read()) % 251)"
        );
        let command = format!("head -c 3000000 /dev/zero | python3 -c \"{program}\"");
        let outcome = run_alone(doctor(options, &command));
        assert_eq!(outcome.code, Some(3_000_000 % 251), "{pause}: {outcome:#?}");
    }
}
