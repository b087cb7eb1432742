//! Pipelines that move, or wait for something outside, are not stuck.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::hangs::has_python;
use super::{Group, assert_contains, pipe, yes_to_cat};
use crate::common::procs::eventually;
use crate::common::{PIPESPEED, json, pipelines, pipespeed, run_alone, skip};

/// A slow filter that leaves little work for the stage after it, also on a busy machine.
const SLOW: &str = "while read x; do case $((n += 1)) in *000) echo $x; esac; done";

/// Each producer, with each consumer. The benchmark examines all sixty.
#[test]
fn twenty_healthy_pipelines_are_not_stuck() {
    let mut group = Group::default();
    for script in pipelines::healthy().step_by(3) {
        group.script(&script);
    }
    for _ in 0..2 {
        let outcome = group.examine("--json -").succeeded();
        assert_eq!(json(&outcome.out)["is_stuck"], false);
    }
}

#[test]
fn a_fifo_that_is_opened_later_is_not_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    let mut group = Group::default();
    group.script(&format!(
        "mkfifo {0}; cat {0} & sleep 1000; echo a >{0}",
        fifo.display()
    ));
    assert!(eventually(|| fifo.exists().then_some(())).is_some());
    for _ in 0..2 {
        let outcome = group.examine("--json -").succeeded();
        assert_eq!(json(&outcome.out)["is_stuck"], false);
    }
}

/// Its parent waits for a make, which waits for a slot in a pipe that only these two hold,
/// or for the end of a job.
#[test]
fn a_make_within_make_is_not_stuck() {
    if Command::new("make").arg("--version").output().is_err() {
        return skip("make is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let makefile = |path: &str, text: &str| {
        fs::write(directory.path().join(path), text).unwrap();
    };
    makefile("Makefile", "all:\n\t+$(MAKE) -f jobs\n");
    let jobs = "all: 1 2 3 4\n1 2 3 4:\n\ttouch ran$@; sleep 1000\n";
    makefile("jobs", jobs);
    let mut group = Group::default();
    group.script(&format!(
        "cd {}; exec make -s -j2",
        directory.path().display()
    ));
    let has_run = || directory.path().join("ran2").exists().then_some(());
    assert!(eventually(has_run).is_some());
    for _ in 0..2 {
        let outcome = group.examine("--json -").succeeded();
        assert_eq!(json(&outcome.out)["is_stuck"], false);
    }
}

#[test]
fn the_slow_stage_of_a_pipeline_is_named() {
    let ((to_slow, from_fast), (to_last, from_slow)) = (pipe(), pipe());
    let mut group = Group::default();
    let fast = group.add("yes", [None, from_fast, None]);
    let mut slow = Command::new("sh");
    slow.args(["-c", SLOW]);
    let slow = group.start(slow, [to_slow, from_slow, None]);
    group.add("cat", [to_last, None, None]);
    let text = group.examine("").succeeded().unwrapped();
    let words = [
        format!("sh (pid {slow})"),
        // On a busy machine it waits for a processor.
        "is the bottleneck: it ".to_owned(),
        format!("before it, waiting for room: yes (pid {fast})"),
        "SLOW: ".to_owned(),
    ];
    assert_contains(&text, &words.each_ref().map(String::as_str));
}

/// The stage after it works nearly as often, since each of its small writes wakes that.
#[test]
fn the_pipe_between_a_slow_and_busy_stage_distinguishes_them() {
    let ((to_slow, from_fast), (to_busy, from_slow), (to_last, from_busy)) =
        (pipe(), pipe(), pipe());
    let mut group = Group::default();
    group.add("yes", [None, from_fast, None]);
    let mut slow = Command::new("sh");
    slow.args(["-c", "while read x; do echo $x; done"]);
    let slow = group.start(slow, [to_slow, from_slow, None]);
    group.add("cat", [to_busy, from_busy, None]);
    group.add("cat", [to_last, None, None]);
    // On a busy machine none may stand out for a while, but never another one.
    let found = eventually(|| {
        let record = json(&group.examine("--json -").succeeded().out);
        let findings = record["findings"].as_array().unwrap().iter();
        let mut bottlenecks = findings.filter(|finding| finding["finding"] == "bottleneck");
        bottlenecks
            .next()
            .map(|finding| finding["stage"]["pid"].clone())
    });
    assert_eq!(found.unwrap(), slow);
}

/// Runtimes register a pipe for room once, and are told only when there is room again.
#[test]
fn an_event_loop_with_an_idle_child_does_not_wait_for_room() {
    if !has_python("import select; select.epoll()") {
        return;
    }
    let mut python = Command::new("python3");
    python.args([
        "-c",
        "import select, subprocess as s; p = s.Popen(['cat'], stdin=-1, stdout=-1)\n\
         e = select.epoll(); e.register(p.stdin, select.EPOLLOUT | select.EPOLLET)\n\
         e.register(p.stdout, select.EPOLLIN | select.EPOLLET)\n\
         while True: e.poll()",
    ]);
    let mut group = Group::default();
    group.start(python, [None, None, None]);
    let record = eventually(|| {
        let record = json(&group.examine("--json -").out);
        let processes = record["processes"].as_array()?;
        let is_still =
            processes.len() == 2 && processes.iter().all(|process| process["is_frozen"] == true);
        is_still.then_some(record)
    });
    let record = record.expect("both wait");
    assert_ne!(record["verdict"], "unread", "{record:#}");
    let mut processes = record["processes"].as_array().unwrap().iter();
    let is_unblocked = processes.all(|process| process["shares"]["blocked"] == 0.0);
    assert!(is_unblocked, "{record:#}");
}

#[test]
fn stage_that_waits_for_a_socket_is_named_with_it() {
    let (reader, writer) = pipe();
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut group = Group::default();
    let pid = group.add("cat", [Some(socket.into()), writer, None]);
    group.add("tar x", [reader, None, None]);
    let server = std::process::id();
    let words = format!("cat (pid {pid}) is the bottleneck: it waits for a socket of ");
    // On a busy machine there may be too few samples for a while.
    let text = eventually(|| {
        let text = group.examine("").succeeded().unwrapped();
        text.contains(&words).then_some(text)
    });
    let look = format!("The pipes are not the cause. 'pipespeed doctor {server}' shows what");
    assert_contains(&text.unwrap(), &[&look]);
}

#[test]
fn programs_that_wait_for_one_they_started_are_no_stages() {
    for wrapper in ["timeout 1000 sh -c", "sh -c '\"$@\"; :' sh sh -c"] {
        let mut group = Group::default();
        group.script(&format!("yes | {wrapper} '{SLOW}' | cat >/dev/null"));
        // The programs start while the first observations are made.
        let found = eventually(|| {
            let text = group.examine("").succeeded().unwrapped();
            let is_named = text.contains("sh (pid") && text.contains("is the bottleneck: it ");
            (is_named && text.contains("3 stages in 1 pipeline")).then_some(text)
        });
        assert!(!found.unwrap().contains("timeout"));
    }
}

#[test]
fn a_stray_write_end_is_named_with_its_descriptor() {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    group.add("cat", [reader, None, None]);
    let mut stray = Command::new("sh");
    stray.args(["-c", "exec sleep 1000 7>&1 >/dev/null"]);
    let pid = group.start(stray, [None, writer, None]);
    super::becomes(pid, "sleep");
    let text = group.examine("").succeeded().unwrapped();
    let words = format!("sleep (pid {pid}) holds a write end (descriptor 7), and wrote nothing");
    assert_contains(&text, &["waits for input or its end", &words, "'7>&-'"]);
}

#[test]
fn a_users_pipelines_are_surveyed() {
    let (_group, [_, pid]) = yes_to_cat();
    let outcome = run_alone(pipespeed("doctor --time 0.2 --json - --no-open"));
    let record = json(&outcome.out);
    let processes = record["processes"].as_array().unwrap();
    let cat = processes.iter().find(|it| it["pid"] == pid).unwrap();
    assert_eq!(
        (&cat["name"], &cat["is_asked"]),
        (&"cat".into(), &true.into())
    );
}

#[test]
fn a_shell_that_waits_for_the_doctor_is_not_stuck() {
    let (reader, writer) = pipe();
    // Later it may close the write end, for whose end `cat` waits.
    let script = "exec 3<&0; cat <&3 >/dev/null 2>&1 & \
                  \"$0\" doctor --no-open --time 0.3 $$ 2>/dev/null; echo status $?; kill $!";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, PIPESPEED]).stdout(Stdio::piped());
    shell.stdin(reader.unwrap()).stderr(writer.unwrap());
    // Without what other tests run.
    shell.process_group(0);
    let child = shell.spawn().unwrap();
    drop(shell);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_contains(&text, &["cat", "WAITING FOR an end of file: ", "status 0"]);
}

#[test]
fn a_process_whose_main_thread_has_ended_is_a_stage() {
    if !has_python("import ctypes, os; assert os.uname().machine in ('x86_64', 'aarch64')") {
        return;
    }
    let script = "import ctypes, os, threading\n\
                  def read():\n  while os.read(0, 65536): pass\n\
                  threading.Thread(target=read).start()\n\
                  exit = 60 if os.uname().machine == 'x86_64' else 93\n\
                  ctypes.CDLL(None).syscall(exit, 0)";
    let (reader, writer) = pipe();
    let mut group = Group::default();
    group.add("yes", [None, writer, None]);
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    let pid = group.start(python, [reader, None, None]);
    let is_zombie = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") Z ").then_some(())
    };
    eventually(is_zombie).unwrap();
    let text = group.examine("").succeeded().unwrapped();
    assert_contains(
        &text,
        &["2 stages in 1 pipeline", &format!("{pid} python3")],
    );
}

/// A control group, which is thawed and removed when this is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// One of version 2; a skip if there can't be one.
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut mounts = mounts.lines().map(|line| line.split(' '));
        let mount = mounts.find_map(|mut words| {
            let place = words.nth(1)?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        let path = mount.map(|mount| mount.join(format!("pipespeed-{}", std::process::id())));
        let path = path.filter(|path| fs::create_dir(path).is_ok());
        if path.is_none() {
            skip("no control group can be made");
        }
        path.map(ControlGroup)
    }

    fn set(&self, file: &str, value: impl ToString) -> bool {
        fs::write(self.0.join(file), value.to_string()).is_ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.set("cgroup.freeze", 0);
        let _ = eventually(|| fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_frozen_pipeline_is_not_stuck() {
    let Some(control) = ControlGroup::new() else {
        return;
    };
    let (reader, writer) = pipe();
    let mut group = Group::default();
    let pids = [
        group.add("yes", [None, writer, None]),
        group.add("cat", [reader, None, None]),
    ];
    if !pids.iter().all(|pid| control.set("cgroup.procs", pid)) || !control.set("cgroup.freeze", 1)
    {
        return skip("processes can't be frozen");
    }
    let is_frozen = || {
        let events = fs::read_to_string(control.0.join("cgroup.events")).unwrap();
        events.contains("frozen 1").then_some(())
    };
    eventually(is_frozen).unwrap();
    let text = group.examine("").succeeded().unwrapped();
    assert_contains(&text, &["WAITING FOR its frozen control group: "]);
    // Killed processes end once they are thawed.
    control.set("cgroup.freeze", 0);
    drop(group);
}
