//! Processes that end, are killed, or get the number of another one while they are watched.

use std::hash::{BuildHasher, RandomState};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::hangs::has_python;
use super::{Group, pipe, yes_to_cat};
use crate::common::conditions::{failing_call, few_descriptors};
use crate::common::procs::{Mark, Stat, eventually};
use crate::common::{
    PIPESPEED, json, json_file, pipespeed, run_alone, says, skip, start, start_marked,
};

#[test]
fn short_lived_and_killed_processes_confuse_nothing() {
    let mut group = Group::default();
    // Each of these ends within milliseconds.
    group.script("while :; do (true; true) | cat; done");
    for nth in 0..10 {
        let (reader, writer) = pipe();
        let yes = group.add("yes", [None, writer, None]);
        let cat = group.add("cat", [reader, None, None]);
        let first = group.children[0].id();
        let running = start(pipespeed(&format!("doctor --time 0.3 {first}")));
        // Any moment, from the first reading to the report.
        let random = RandomState::new().hash_one(nth);
        thread::sleep(Duration::from_millis(random % 400));
        let victim = if random >> 32 & 1 == 0 { cat } else { yes };
        let victim = Pid::from_raw(victim as i32).unwrap();
        kill_process(victim, Signal::KILL).unwrap();
        running.finish().succeeded_in_silence();
    }
}

#[test]
fn a_pipeline_that_waits_is_found_with_few_descriptors_or_the_limit_named() {
    for limit in 5..32 {
        let mut command = pipespeed("doctor --time 0.3 --");
        command.arg("yes | sleep 4");
        few_descriptors(&mut command, limit);
        let outcome = run_alone(command);
        if outcome.code == Some(0) {
            says(&outcome.err, &["sleep (pid"]);
        } else {
            outcome.refused(2, &["ulimit -n"]);
        }
    }
}

#[test]
fn a_killed_doctor_leaves_no_process() {
    let (_group, [yes, _]) = yes_to_cat();
    let (running, mark) = start_marked(pipespeed(&format!("doctor --time 100 {yes}")));
    // Its helper has been started.
    let has_helper = || (mark.processes().len() == 2).then_some(());
    eventually(has_helper).unwrap();
    running.send(Signal::KILL);
    assert_eq!(running.finish().code, None);
    mark.nobody_left();
}

#[test]
fn a_thousand_short_lived_processes_are_survived_and_mostly_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("record");
    let mut command = pipespeed("doctor --time 1000 --json");
    command.arg(&file).arg("--");
    command.arg("i=0; while [ $i -lt 1000 ]; do (:); i=$((i+1)); done | cat; echo done");
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    outcome.assert_ended(0, "done\n");
    mark.nobody_left();
    let record = json_file(&file);
    let processes = record["processes"].as_array().unwrap();
    assert!(processes.len() < 300, "{}", processes.len());
}

#[test]
fn a_number_that_is_reused_has_two_processes() {
    // Process 1 of a new namespace watches its descendants. While it does, `cat` is killed,
    // and `tail` gets its number.
    let script = r#"
        { sleep 1000 | exec cat; } &
        for try in 1 2 3 4 5 6 7 8 9; do
            victim=$(pgrep -x cat) && break
            sleep 0.1
        done
        "$0" doctor --time 3 --no-open --json "$1" 1 &
        doctor=$!
        until ls -l /proc/$doctor/fd | grep -q "/proc/$victim\$"; do :; done
        sleep 1.5 # It is there for long enough to be judged.
        kill -9 $victim
        while [ -d /proc/$victim ]; do :; done
        for try in 1 2 3 4 5 6 7 8 9; do
            echo $((victim - 1)) >/proc/sys/kernel/ns_last_pid || exit 77
            tail -f /dev/null >/dev/null &
            [ $! = $victim ] && break
        done
        [ $! = $victim ] || exit 77
        wait $doctor
    "#;
    let record = tempfile::NamedTempFile::new().unwrap();
    let look = || {
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.args(["-U", "-r"]);
        }
        let namespace = ["-p", "-f", "--mount-proc", "--kill-child"];
        command
            .args(namespace)
            .args(["sh", "-c", script, PIPESPEED]);
        command.arg(record.path());
        run_alone(command)
    };
    // On a busy machine one of both may be there for too short a time.
    let seen = eventually(|| {
        let outcome = look();
        if outcome.code != Some(0) {
            return Some(Err(outcome));
        }
        let record = json_file(record.path());
        let all = record["processes"].as_array()?;
        let find = |name: &str| all.iter().find(|process| process["name"] == name).cloned();
        Some(Ok((find("cat")?, find("tail")?, record.clone(), outcome)))
    });
    let (cat, tail, record, outcome) = match seen.expect("both are seen") {
        Ok(seen) => seen,
        Err(outcome) => {
            return skip(format!(
                "no namespace in which numbers can be chosen: {outcome:?}"
            ));
        }
    };
    assert_eq!(cat["pid"], tail["pid"], "{record:#}");
    assert_ne!(cat["start"], tail["start"]);
    assert_eq!(
        (&cat["has_ended"], &tail["has_ended"]),
        (&true.into(), &false.into())
    );
    assert_eq!(tail["on"], serde_json::json!([]));
    assert_eq!(tail["shares"]["starved"], 0.0);
    // It has no pipe, so it is no stage of the pipeline that `cat` has left.
    // The script's own `ls | grep` may be seen.
    let counts = ["no pipeline: ", "no lasting pipeline: "];
    let has_none = counts.iter().any(|words| outcome.out.contains(words));
    assert!(has_none, "{outcome:#?}");
}

/// As in a container that was entered: the leader of the session has no number in the namespace.
#[test]
fn a_session_led_from_outside_the_namespace_is_no_error() {
    let mut command = Command::new("unshare");
    if !geteuid().is_root() {
        command.args(["-U", "-r"]);
    }
    command.args(["-p", "-f", "--mount-proc", "--kill-child", PIPESPEED]);
    command.args(["doctor", "--time", "0.3", "--", "yes | head -c 1G | wc -c"]);
    let outcome = run_alone(command);
    if outcome.err.contains("unshare: ") {
        return skip(format!("no PID namespaces here: {outcome:?}"));
    }
    let outcome = outcome.succeeded();
    says(&outcome.err, &["3 stages in 1 pipeline"]);
}

#[test]
fn the_helper_that_opens_pipes_keeps_no_inherited_descriptor() {
    let (_group, [yes, _]) = yes_to_cat();
    for is_refused in [false, true] {
        let mut command = Command::new("sh");
        let script = format!("exec 9>/dev/null; exec \"$0\" doctor --time 1000 {yes}");
        command.args(["-c", &script, PIPESPEED]);
        // As before Linux 5.9.
        if is_refused && !failing_call(&mut command, libc::SYS_close_range, libc::ENOSYS) {
            return;
        }
        let (running, mark) = start_marked(command);
        let doctor = running.pid();
        let helper = eventually(|| {
            let mut processes = mark.processes().into_iter().map(|(pid, _)| pid);
            let helper = processes.find(|pid| *pid != doctor)?;
            // A process that only starts it is still in doctor's session.
            (Stat::of(helper)?.session != Stat::of(doctor)?.session).then_some(helper)
        });
        let fds = format!("/proc/{}/fd", helper.unwrap());
        let has_two = |fd: &str| std::path::Path::new(&fds).join(fd).exists();
        assert!(has_two("0") && !has_two("9"), "{is_refused}");
        running.send(Signal::KILL);
        running.finish();
        mark.nobody_left();
    }
}

#[test]
fn very_many_idle_pipes_of_one_process_are_left_out() {
    if !has_python("import resource; assert resource.getrlimit(7)[1] >= 2000") {
        return;
    }
    let script = "import os, resource\n\
                  resource.setrlimit(7, (2000, resource.getrlimit(7)[1]))\n\
                  pipes = [os.pipe() for _ in range(600)]\n\
                  os.write(1, b'.'); os.read(0, 1)";
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    let (input, _open) = pipe();
    let (mut output, into) = std::io::pipe().unwrap();
    let mut group = Group::default();
    let pid = group.start(python, [input, Some(into.into()), None]);
    std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
    let outcome = run_alone(pipespeed(&format!("doctor --time 0.3 --json - {pid}")));
    let record = json(&outcome.succeeded().out);
    let pipes = record["pipes"].as_array().unwrap();
    assert!(pipes.len() < 10, "{}", pipes.len());
}
