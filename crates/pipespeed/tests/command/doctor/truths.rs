//! What doctor says of a stage, beside what is true of it: planted, or counted by the kernel.

mod children;
mod given;
mod threads;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::hangs::has_python;
use super::{Group, assert_contains, becomes, pipe};
use crate::common::conditions::ControlGroup;
use crate::common::procs::eventually;
use crate::common::{Outcome, json_file, pipespeed, pipespeed_in, run_alone, skip};

/// A file that is removed by the end of the test.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The processes below one, and itself, with their names.
fn tree(pid: u32) -> Vec<(u32, String)> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        all.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap()),
        );
        at += 1;
    }
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let named = all
        .into_iter()
        .filter_map(|pid| Some((pid, name(pid)?.trim().to_owned())));
    named.collect()
}

/// Waits until a program with this name runs below a process.
pub(super) fn child(pid: u32, wanted: &str) -> u32 {
    let found = eventually(|| {
        let mut all = tree(pid).into_iter();
        all.find_map(|(pid, name)| (name == wanted).then_some(pid))
    });
    found.expect(wanted)
}

/// Seconds that a process has run, and that it has waited for a processor.
fn schedule(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let mut numbers = text
        .split(' ')
        .map(|word| word.trim().parse::<f64>().unwrap() / 1e9);
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Examines a process for a second. Returns the report, the record, and the shares of that time in
/// which `stage` ran and waited for a processor.
fn examine(pid: u32, stage: u32) -> (String, Value, (f64, f64)) {
    let directory = scratch();
    let record = directory.path().join("record");
    let mut command = pipespeed("doctor --time 1 --json");
    command.arg(&record).arg(pid.to_string());
    let began = std::time::Instant::now();
    let before = schedule(stage);
    let outcome = run_alone(command);
    let after = schedule(stage);
    let seconds = began.elapsed().as_secs_f64();
    let shares = (
        (after.0 - before.0) / seconds,
        (after.1 - before.1) / seconds,
    );
    (outcome.unwrapped(), json_file(&record), shares)
}

fn process(record: &Value, pid: u32) -> &Value {
    let mut all = record["processes"].as_array().unwrap().iter();
    all.find(|process| process["pid"] == pid)
        .expect("the stage")
}

/// The finding of the stage that is the bottleneck. `None` if no stage stands out, as where a busy
/// machine leaves few samples.
fn bottleneck(record: &Value) -> Option<&Value> {
    let mut all = record["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["finding"] == "bottleneck")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn has_program(name: &str) -> bool {
    let output = Command::new(name).arg("--version").output();
    let has = output.is_ok();
    if !has {
        skip(format!("no {name}"));
    }
    has
}

/// A shell that works all the time and ends with the test's group.
const BUSY: &str = "while :; do :; done";

#[test]
fn a_stage_beside_other_load_waits_for_its_processor() {
    if !has_program("taskset") {
        return;
    }
    let mut group = Group::default();
    let cpu = pipespeed_testing::conditions::first_processor();
    let pinned = |script: &str| format!("exec taskset -c {cpu} sh -c '{script}'");
    let pipeline = group.script(&pinned("cat /dev/zero | tr x y | wc -c; :"));
    let busy: Vec<u32> = (0..2).map(|_| group.script(&pinned(BUSY))).collect();
    let tr = child(pipeline, "tr");
    let found = eventually(|| {
        let (text, record, (ran, delayed)) = examine(pipeline, tr);
        let shares = &process(&record, tr)["shares"];
        // The same times, but for the start and the end of doctor.
        assert!(
            (number(&shares["runs"]) - ran).abs() < 0.15,
            "{ran}: {shares}"
        );
        assert!(
            (number(&shares["queued"]) - delayed).abs() < 0.15,
            "{delayed}: {shares}"
        );
        assert!(!text.contains("Only a faster"), "{text}");
        let bottleneck = bottleneck(&record)?;
        // On a busy machine what others run beside these may hide which one uses most.
        let is_named =
            bottleneck["stage"]["pid"] == tr && !bottleneck["delay"]["largest"].is_null();
        is_named.then(|| (text, bottleneck.clone()))
    });
    let (text, bottleneck) = found.unwrap();
    let delay = &bottleneck["delay"];
    assert_eq!(delay["cause"], "others", "{bottleneck:#}");
    let largest = &delay["largest"];
    assert!(busy.iter().any(|pid| largest["pid"] == *pid), "{largest}");
    let place = format!("of processor {cpu}");
    assert_contains(
        &text,
        &[
            "waits for a processor",
            "other processes use",
            &place,
            " sh (pid ",
            // It has started the pipeline and what is beside it.
            "unless the same program has started them",
        ],
    );
}

/// The kernel counts a wait for a processor once it has ended.
#[test]
fn a_stage_that_never_gets_a_processor_does_not_run() {
    if !has_program("taskset") || !has_program("chrt") {
        return;
    }
    let mut group = Group::default();
    let cpu = pipespeed_testing::conditions::first_processor();
    for _ in 0..8 {
        group.script(&format!("exec taskset -c {cpu} sh -c '{BUSY}'"));
    }
    let idle =
        format!("cat /dev/zero | exec taskset -c {cpu} chrt -i 0 gzip -1 | cat >/dev/null; :");
    let pipeline = group.script(&idle);
    let gzip = child(pipeline, "gzip");
    // It may get its turn meanwhile.
    let found = eventually(|| {
        let (_, record, (ran, _)) = examine(pipeline, gzip);
        (ran == 0.0).then_some(record)
    });
    let record = found.expect("a second without it");
    let shares = &process(&record, gzip)["shares"];
    assert!(number(&shares["runs"]) < 0.05, "{shares}");
    assert!(number(&shares["queued"]) > 0.9, "{shares}");
}

#[test]
fn stages_that_share_one_processor_are_said_to() {
    if !has_program("taskset") {
        return;
    }
    let mut group = Group::default();
    let cpu = pipespeed_testing::conditions::first_processor();
    // More of it than other tests take.
    let pipeline = group.script(&format!(
        "exec taskset -c {cpu} sh -c 'cat /dev/zero | tr x y | tr a b | tr c d | wc -c; :'"
    ));
    let tr = child(pipeline, "tr");
    child(pipeline, "wc");
    let (text, record, (ran, _)) = examine(pipeline, tr);
    assert!(
        (number(&process(&record, tr)["shares"]["runs"]) - ran).abs() < 0.15,
        "{text}"
    );
    assert!(
        ran < 0.6 && !text.contains("Only a faster"),
        "{ran}: {text}"
    );
}

/// How often the quota of a group was used up.
fn throttled(group: &ControlGroup) -> u64 {
    let text = fs::read_to_string(group.path().join("cpu.stat")).unwrap();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("nr_throttled "));
    count.unwrap().parse().unwrap()
}

#[test]
fn a_stage_that_its_quota_stops_is_not_said_to_be_slow() {
    // A fifth of a processor.
    let quota = [
        ("cpu.max", "20000 100000"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "20000"),
    ];
    let Some(limited) = ControlGroup::new("cpu", &quota) else {
        return;
    };
    let mut group = Group::default();
    let procs = limited.path().join("cgroup.procs");
    let pipeline = group.script(&format!(
        "echo $$ >{} && cat /dev/zero | tr x y | wc -c; :",
        procs.display()
    ));
    let tr = child(pipeline, "tr");
    child(pipeline, "wc");
    let found = eventually(|| {
        let before = throttled(&limited);
        let (text, record, (ran, _)) = examine(pipeline, tr);
        assert!(ran < 0.3, "{ran}");
        assert!(throttled(&limited) >= before);
        let shares = &process(&record, tr)["shares"];
        assert!(
            (number(&shares["runs"]) - ran).abs() < 0.15,
            "{ran}: {shares}"
        );
        assert!(!text.contains("Only a faster"), "{text}");
        let quota = &process(&record, tr)["quota"];
        // A busy machine leaves it less than the quota.
        if quota["throttled"].as_f64().is_none_or(|share| share < 0.9) {
            return None;
        }
        assert!((number(&quota["processors"]) - 0.2).abs() < 1e-6, "{quota}");
        let bottleneck = bottleneck(&record)?;
        assert_eq!(bottleneck["delay"]["cause"], "quota", "{text}");
        Some(text)
    });
    let Some(text) = found else {
        return skip("the machine is too busy for the quota to be used up");
    };
    assert_contains(&text, &["control group, 0.200 processors, is used up in"]);
    // The group is removed after its processes.
    drop(group);
}

/// `seq | xargs -P4 ... | sort`: what the children move between them does not go through the pipe to
/// sort, though the kernel counts it for xargs.
#[test]
fn bytes_of_children_are_not_those_of_the_pipe() {
    if !has_program("xargs") || !has_program("md5sum") {
        return;
    }
    let mut group = Group::default();
    let pipeline = group.script(
        "yes x | xargs -P4 -I{} sh -c 'head -c 20000000 /dev/zero | md5sum' | sort -S1M -T/tmp >/dev/null",
    );
    let sort = child(pipeline, "sort");
    let xargs = child(pipeline, "xargs");
    let moved = |pid: u32, key: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let mut lines = text.lines();
        lines
            .find_map(|line| line.strip_prefix(key)?.trim().parse::<f64>().ok())
            .unwrap()
    };
    // Until the counts include a child that has ended.
    eventually(|| (moved(xargs, "wchar:") > 2e7).then_some(())).unwrap();
    let before = moved(sort, "rchar:");
    let (text, record, _) = examine(pipeline, xargs);
    let received = moved(sort, "rchar:") - before;
    let inode = |pid: u32, fd: i32| fs::metadata(format!("/proc/{pid}/fd/{fd}")).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&inode(sort, 0));
    let mut pipes = record["pipes"].as_array().unwrap().iter();
    let pipe = pipes
        .find(|pipe| pipe["inode"] == inode)
        .expect("the pipe to sort");
    let rate = number(&pipe["bytes_per_s"]);
    assert!(
        // Those of the children are 20 MB each.
        rate < 1e5 && received < 1e5,
        "{rate} {received}: {text}"
    );
}

/// A stage that moves data by splice(2) between two that copy has their rate.
#[test]
fn a_splicing_stage_has_the_rate_of_its_neighbours() {
    let ((to_meter, from_source), (to_sink, from_meter)) = (pipe(), pipe());
    let mut group = Group::default();
    group.add("cat /dev/zero", [None, from_source, None]);
    let mut meter = pipespeed("meter -q -L 30M");
    meter.env_clear();
    let meter = group.start(meter, [to_meter, from_meter, None]);
    let sink = group.add("tr x y", [to_sink, None, None]);
    becomes(sink, "tr");
    let (text, record, _) = examine(group.first(), meter);
    let rates = record["pipes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pipe| &pipe["bytes_per_s"]);
    let rates: Vec<f64> = rates.filter_map(Value::as_f64).collect();
    assert_eq!(rates.len(), 2, "{text}");
    for rate in rates {
        assert!((1e7..6e7).contains(&rate), "{rate}: {text}");
    }
}

/// A writer sleeps until a whole page of its pipe has been read, and a pipe fills up for a while
/// before it is full.
#[test]
fn a_reader_that_takes_little_at_a_time_is_named() {
    let slow = "while read x; do sleep 0.1; echo $x; done | cat >/dev/null; :";
    for writer in [
        "seq 1000000",
        "while :; do echo 0123456789; sleep 0.01; done",
    ] {
        let mut group = Group::default();
        let pipeline = group.script(&format!("exec bash -c '{writer} | {slow}'"));
        child(pipeline, "cat");
        let mut last = String::new();
        // On a busy machine a child is still the shell for long.
        let found = eventually(|| {
            let (text, record, _) = examine(pipeline, pipeline);
            assert!(!text.contains("nobody read"), "{text}");
            let bottleneck = bottleneck(&record).cloned();
            last = text;
            let stage = bottleneck?["stage"]["pid"].as_u64()? as u32;
            // The writer waits for room, or hardly runs.
            let io = fs::read_to_string(format!("/proc/{stage}/io")).ok()?;
            let read = io.lines().find_map(|line| line.strip_prefix("syscr: "))?;
            let read: u64 = read.parse().ok()?;
            let is_named = last.contains("its child sleep") && last.contains(" timer");
            (read > 20 && is_named).then_some(())
        });
        assert!(found.is_some(), "{last}");
    }
}

/// Whether there is a sentence that nothing is wrong.
fn is_reassuring(outcome: &Outcome) -> bool {
    let text = outcome.unwrapped();
    text.starts_with("NOTHING WRONG") || text.contains("The pipes are not the cause")
}

#[test]
fn a_parent_that_waits_beside_a_timer_is_said_not_to_read() {
    if !has_python("import subprocess, threading") {
        return;
    }
    let mut python = Command::new("python3");
    let script = "import subprocess, threading, time\n\
                  tick = lambda: [time.sleep(0.2) for _ in range(10000)]\n\
                  threading.Thread(target=tick, daemon=True).start()\n\
                  subprocess.Popen(['yes'], stdout=subprocess.PIPE).wait()";
    python.args(["-c", script]);
    let mut group = Group::default();
    let parent = group.start(python, [None, None, None]);
    let yes = child(parent, "yes");
    let words = [
        format!("yes (pid {yes}) waits for room in pipe"),
        "nobody read from it".to_owned(),
        format!("python3 (pid {parent}) ── waits for the end of ── yes"),
    ];
    let found = eventually(|| {
        let outcome = group.examine("");
        let text = outcome.unwrapped();
        words
            .iter()
            .all(|words| text.contains(words))
            .then_some(outcome)
    });
    let outcome = found.unwrap_or_else(|| panic!("{:#?}", group.examine("")));
    assert!(!is_reassuring(&outcome), "{outcome:#?}");
}

#[test]
fn a_fifo_that_its_holder_never_reads_or_writes_is_named() {
    let directory = scratch();
    let path = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let path = path.display();
    for (script, program, words) in [
        (
            format!("sleep 1000 3<>{path} & exec yes >{path}"),
            "yes",
            "nobody read from it",
        ),
        (
            format!("exec 3<>{path}; yes >{path}; :"),
            "yes",
            "nobody read from it",
        ),
        (
            format!("exec 3<>{path}; cat <{path}; :"),
            "cat",
            "holds a write end (descriptor 3)",
        ),
    ] {
        let mut group = Group::default();
        let shell = group.script(&script);
        child(shell, program);
        let found = eventually(|| {
            let outcome = group.examine("");
            outcome.unwrapped().contains(words).then_some(outcome)
        });
        let outcome = found.unwrap_or_else(|| panic!("{:#?}", group.examine("")));
        assert!(!is_reassuring(&outcome), "{outcome:#?}");
        assert!(
            !outcome.unwrapped().contains("is the bottleneck"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn a_small_pipe_is_not_said_to_be_large_enough_nor_blamed_on_the_limit() {
    if std::io::pipe().is_ok_and(|(pipe, _)| fastpipe::pipe::capacity(&pipe).unwrap() < 65536) {
        return skip("new pipes are small here");
    }
    for size in [4096, 8192] {
        let (reader, writer) = pipe();
        let set = fastpipe::pipe::set_capacity(reader.as_ref().unwrap(), size).unwrap();
        if set > 8192 {
            return skip("pages are larger here");
        }
        let mut group = Group::default();
        group.add("yes", [None, writer, None]);
        group.add("cat", [reader, None, None]);
        let text = group.examine("").succeeded().unwrapped();
        assert!(!text.contains("larger pipes don't"), "{text}");
        assert!(!text.contains("pipes of this user exceed"), "{text}");
        let size = if size == 4096 { "4KiB" } else { "8KiB" };
        assert_contains(&text, &[&format!("has only {size}: a program has set it")]);
    }
}

/// A command that is over before doctor has looked a second time.
#[test]
fn bytes_of_a_short_command_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let found = eventually(|| {
        let mut command = pipespeed_in(&directory, "doctor --json run.json --");
        command.arg("seq 5000000 | cat >/dev/null");
        run_alone(command);
        let record = json_file(&directory.path().join("run.json"));
        let processes = record["processes"].as_array().unwrap().iter();
        let mut seq = processes.filter(|process| process["name"] == "seq");
        // A busy machine may not even see it, or not for long enough.
        seq.next()?["io"]["written_bytes"].as_f64()
    });
    assert!(found.unwrap() > 1e6, "{found:?}");
}

#[test]
fn a_shell_that_reads_lines_is_not_told_to_use_a_larger_buffer() {
    let ((to_shell, from_yes), (to_cat, from_shell)) = (pipe(), pipe());
    let mut group = Group::default();
    group.add("yes", [None, from_yes, None]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "while read x; do :; done"]);
    group.start(shell, [to_shell, from_shell, None]);
    group.add("cat", [to_cat, None, None]);
    let text = eventually(|| {
        let text = group.examine("").succeeded().unwrapped();
        text.contains("reads only one byte a call").then_some(text)
    });
    let text = text.unwrap_or_else(|| group.examine("").unwrapped());
    assert_contains(
        &text,
        &["A shell's 'read' takes a pipe byte by byte", "let awk"],
    );
    assert!(!text.contains("Only a faster"), "{text}");
}

/// Several pipelines are shown one by one, each with its own conclusion.
#[test]
fn each_of_several_pipelines_has_its_own_section() {
    let mut group = Group::default();
    let shell = group.script("yes | tr x y >/dev/null & seq 1000000000 | wc -l & wait");
    for name in ["tr", "wc"] {
        child(shell, name);
    }
    let found = eventually(|| {
        let text = group.examine("").succeeded().out;
        let lines: BTreeMap<&str, usize> = text
            .lines()
            .enumerate()
            .map(|(at, line)| (line, at))
            .collect();
        let has_both = ["yes | tr", "seq | wc"]
            .iter()
            .all(|name| lines.contains_key(name));
        has_both.then_some(())
    });
    found.unwrap_or_else(|| panic!("{:#?}", group.examine("")));
}

/// The disk is waited for where each write goes to it: by the same command with and without that.
#[test]
fn writes_that_wait_for_the_disk_are_not_work() {
    let directory = scratch();
    let path = directory.path().join("out");
    let share = |flags: &str| {
        let (reader, writer) = pipe();
        let mut group = Group::default();
        group.add("cat /dev/zero", [None, writer, None]);
        let line = format!(
            "dd of={} bs=64k count=30000 conv=notrunc {flags}",
            path.display()
        );
        let dd = group.add(&line, [reader, None, None]);
        becomes(dd, "dd");
        let (text, record, (ran, delayed)) = examine(group.first(), dd);
        let shares = process(&record, dd)["shares"].clone();
        assert!(number(&shares["runs"]) <= ran + 0.15, "{ran}: {text}");
        let rest = 1.0 - ran - delayed;
        (number(&shares["disk"]), rest, text)
    };
    let (disk, rest, text) = share("oflag=dsync");
    if rest < 0.4 {
        return skip("writes don't wait for the disk here");
    }
    assert!((disk - rest).abs() < 0.3, "{disk} {rest}: {text}");
    assert_contains(&text, &["a disk"]);
    assert!(!text.contains("Only a faster dd"), "{text}");
}

#[test]
fn a_survey_shows_what_stands_still_first() {
    let ((to_sleep, from_yes), (to_cat, from_other)) = (pipe(), pipe());
    let mut group = Group::default();
    group.add("yes", [None, from_other, None]);
    group.add("cat", [to_cat, None, None]);
    let yes = group.add("yes", [None, from_yes, None]);
    group.add("sleep 1000", [to_sleep, None, None]);
    let words = format!("yes (pid {yes}) waits for room");
    let found = eventually(|| {
        let text = run_alone(pipespeed("doctor --time 0.5")).unwrapped();
        text.contains(&words).then_some(text)
    });
    let text = found.unwrap();
    let bottleneck = text.find("is the bottleneck").unwrap_or(usize::MAX);
    assert!(text.find(&words).unwrap() < bottleneck, "{text}");
}
