//! Pipelines that move, or wait for something outside, are not stuck.

use super::{Group, assert_contains, pipe};
use crate::common::conditions::ForAll;
use crate::common::{PIPESPEED, json, pipespeed, run_alone, skip, start};

const PRODUCERS: [&str; 5] = [
    "sleep 1000",
    "tail -f /dev/null",
    "while :; do echo a; sleep 0.2; done",
    "yes",
    "(sleep 1000 & wait)",
];
const FILTERS: [&str; 3] = ["cat", "grep --line-buffered a", "tee /dev/null"];
const CONSUMERS: [&str; 4] = [
    "cat > /dev/null",
    "sleep 1000",
    "while read x; do sleep 0.1; done",
    "(sleep 1000; cat)",
];

#[test]
fn sixty_healthy_pipelines_are_not_stuck() {
    let mut group = Group::default();
    for producer in PRODUCERS {
        for filter in FILTERS {
            for consumer in CONSUMERS {
                group.script(&format!("{producer} | {filter} | {consumer}"));
            }
        }
    }
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
    let mut slow = std::process::Command::new("sh");
    slow.args(["-c", "while read x; do echo $x; done"]);
    let slow = group.start(slow, [to_slow, from_slow, None]);
    group.add("cat", [to_last, None, None]);
    let text = group.examine("").succeeded().unwrapped();
    let words = [
        format!("sh (pid {slow})"),
        "sets the pace: it works".to_owned(),
        format!("before it, waiting for room: yes (pid {fast})"),
        "Nothing is stuck.".to_owned(),
    ];
    assert_contains(&text, &words.each_ref().map(String::as_str));
}

#[test]
fn a_stage_that_waits_for_a_socket_is_named_with_it() {
    let (reader, writer) = pipe();
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut group = Group::default();
    let pid = group.add("cat", [Some(socket.into()), writer, None]);
    group.add("tar x", [reader, None, None]);
    let text = group.examine("").succeeded().unwrapped();
    let words = format!("cat (pid {pid}) sets the pace: it waits for a socket");
    assert_contains(&text, &[&words, "The pipes are not the cause."]);
}

#[test]
fn a_stray_write_end_is_named_with_its_descriptor() {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    group.add("cat", [reader, None, None]);
    // Standard error, where it writes nothing.
    let pid = group.add("sleep 1000", [None, None, writer]);
    let text = group.examine("").succeeded().unwrapped();
    let words = format!("sleep (pid {pid}) holds a write end (standard error) without using it");
    assert_contains(&text, &["waits for input or its end", &words, "'2>&-'"]);
}

#[test]
fn a_users_pipelines_are_surveyed() {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    group.add("yes", [None, writer, None]);
    let pid = group.add("cat", [reader, None, None]);
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
fn short_lived_and_killed_processes_confuse_nothing() {
    let mut group = Group::default();
    // Each of these ends within milliseconds.
    group.script("while :; do (true; true) | cat; done");
    for _ in 0..10 {
        let (reader, writer) = pipe();
        group.add("yes", [None, writer, None]);
        let cat = group.add("cat", [reader, None, None]);
        let first = group.children[0].id();
        let running = start(pipespeed(&format!("doctor --time 0.3 {first}")));
        let cat = rustix::process::Pid::from_raw(cat as i32).unwrap();
        rustix::process::kill_process(cat, rustix::process::Signal::KILL).unwrap();
        running.finish().succeeded_in_silence();
    }
}

#[test]
fn an_ordinary_user_sees_own_pipelines_only() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command("doctor --time 0.3 -v --");
    command.arg("sleep 1 | cat");
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert_contains(&outcome.err, &["sets the pace: it waits for a timer"]);
    let mut others = program.command("doctor 1");
    others.env_remove("TERM");
    let outcome = run_alone(others);
    if outcome.code == Some(0) {
        return skip("process 1 belongs to this user");
    }
    outcome.refused(1, &["process 1: Permission denied", "try as root"]);
}
