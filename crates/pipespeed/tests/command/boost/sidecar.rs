//! The process that raises the pipes.

use std::io::Write;
use std::thread;
use std::time::Duration;

use pipespeed_stats::Rng;
use rustix::process::{Resource, Rlimit, Signal, kill_process, prlimit, test_kill_process};

use super::{boost, raised_inputs, sidecar};
use crate::common::conditions::{
    ControlGroup, ForAll, failing_call, limit, starting_pid_namespace,
};
use crate::common::procs::{Mark, Stat, eventually};
use crate::common::{PIPESPEED, run_alone, says, start_marked};

/// Moves much data, and prints how much.
const BUSY: &str = "head -c 300M /dev/zero | tr '\\0' a | wc -c";
const BUSY_OUTPUT: &str = "314572800\n";

/// Moves less, for as long as signals are sent.
const BRIEF: &str = "head -c 100M /dev/zero | tr '\\0' a | wc -c";
const BRIEF_OUTPUT: &str = "104857600\n";

#[test]
fn the_pipes_of_a_busy_pipeline_are_raised() {
    let outcome = run_alone(boost("--report", BUSY)).succeeded();
    assert_eq!(outcome.out, BUSY_OUTPUT);
    let raised = |writer: &str, reader: &str| {
        let line = format!("pipespeed: 1MiB in place of 64KiB between {writer} and {reader}\n");
        assert!(outcome.err.contains(&line), "{outcome:#?}");
    };
    raised("head", "tr");
    raised("tr", "wc");
}

/// The bytes in pipes count as their memory, and the kernel would end a stage.
#[test]
fn a_pipeline_with_little_memory_keeps_its_pipes() {
    let limits = [
        ("memory.max", "16777216"),
        ("memory.limit_in_bytes", "16777216"),
    ];
    let Some(group) = ControlGroup::new("memory", &limits) else {
        return;
    };
    let procs = group.path().join("cgroup.procs");
    let line = format!("echo $$ >{} && {BUSY}", procs.display());
    let outcome = run_alone(boost("--report", &line)).succeeded();
    assert_eq!(outcome.out, BUSY_OUTPUT);
    let words = "was left as it is: less than 32MiB of memory is left";
    assert_eq!(outcome.err.matches(words).count(), 2, "{outcome:#?}");
}

#[test]
fn a_pipe_is_named_after_the_reader_that_read_later() {
    let directory = tempfile::tempdir().unwrap();
    // The last reader sleeps. The one that reads starts when the pipe is raised.
    let line = "yes | { exec 3<&0; sleep 1000 <&3 & mkfifo go; read -r line < go; \
                head -c 1G > /dev/null; kill $!; }";
    let mut command = boost("--report", line);
    command.current_dir(&directory);
    let (running, mark) = start_marked(command);
    eventually(|| (raised_inputs(&mark) == 2).then_some(())).unwrap();
    std::fs::write(directory.path().join("go"), "\n").unwrap();
    let outcome = running.finish();
    says(
        &outcome.err,
        &["1MiB in place of 64KiB between yes and head\n"],
    );
}

#[test]
fn it_is_silent_unless_a_report_is_wanted() {
    let outcome = run_alone(boost("", BUSY)).succeeded_in_silence();
    assert_eq!(outcome.out, BUSY_OUTPUT);
}

#[test]
fn report_keeps_the_status_and_says_that_nothing_was_raised() {
    let outcome = run_alone(boost("--report", "echo x | cat; exit 5"));
    outcome.assert_ended(5, "x\n");
    assert!(outcome.err.contains("no pipe was raised"), "{outcome:#?}");
}

#[test]
fn without_signalfd_the_command_runs_and_has_no_report() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
        let mut command = boost("--report", "echo x | cat; exit 5");
        if !failing_call(&mut command, libc::SYS_signalfd4, errno) {
            return;
        }
        let mark = Mark::on(&mut command);
        let outcome = run_alone(command);
        outcome.assert_ended(5, "x\n");
        says(
            &outcome.err,
            &["there will be no report: signals can't be passed on"],
        );
        mark.nobody_left();
    }
}

#[test]
fn report_with_few_descriptors_keeps_status_or_names_the_limit() {
    for descriptors in 5..20 {
        let mut command = boost("--report", "echo x | cat; exit 5");
        limit(&mut command, Resource::Nofile, descriptors);
        let mark = Mark::on(&mut command);
        let outcome = run_alone(command);
        let is_whole = (outcome.code, &*outcome.out) == (Some(5), "x\n");
        let is_refused = (outcome.code, &*outcome.out) == (Some(1), "");
        let names_limit = outcome.err.contains("raise the limit (ulimit -n, now ");
        let is_clear = outcome.err.lines().count() == 1 && names_limit;
        assert!(
            is_whole || is_refused && is_clear,
            "{descriptors}: {outcome:#?}"
        );
        mark.nobody_left();
    }
}

#[test]
fn it_has_its_own_session_and_no_descriptor_of_command() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = boost("", "cat");
    command.stdin(reader);
    let (running, mark) = start_marked(command);
    let sidecar = eventually(|| sidecar(&mark)).unwrap();
    let links = |pid: &str| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = entries.flatten().map(|it| std::fs::read_link(it.path()));
        let links = links.flatten().map(|link| link.display().to_string());
        links.collect()
    };
    let is_known = |link: &String| {
        ["/dev/null", "/proc/loadavg", "anon_inode:[pidfd]"].contains(&&**link)
            || link.starts_with("pipe:")
    };
    let is_null = |link: &&String| *link == "/dev/null";
    // Now and then it has opened more in /proc.
    let sidecars = eventually(|| {
        let links = links(&sidecar.as_raw_pid().to_string());
        let nulls = links.iter().filter(is_null).count();
        (nulls == 3 && links.iter().all(is_known)).then_some(links)
    })
    .unwrap_or_else(|| panic!("{:?}", links(&sidecar.as_raw_pid().to_string())));
    // The command has got what this process has that is inheritable, and the pipe.
    let own = links("self");
    let mut pipes = sidecars.iter().filter(|link| link.starts_with("pipe:"));
    assert!(!pipes.any(|link| own.contains(link)), "{sidecars:?}");
    let session = |pid| Stat::of(pid).unwrap().session;
    assert_ne!(session(sidecar), session(running.pid()));
    writer.write_all(b"x").unwrap();
    drop(writer);
    assert_eq!(running.finish().succeeded_in_silence().out, "x");
    mark.nobody_left();
}

/// A PID namespace ends with its first process.
#[test]
fn it_is_not_started_as_the_first_process_of_a_namespace() {
    let Some(mut command) = starting_pid_namespace(PIPESPEED) else {
        return;
    };
    command.args(["boost", "--", "sh -c 'exit 7'; exit $?"]);
    let outcome = run_alone(command);
    outcome.failed(7, &["pipes are not raised: the sidecar would be process 1"]);
}

#[test]
fn it_ends_if_it_can_no_longer_watch_the_command() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = boost("", "cat");
    command.stdin(reader);
    let (running, mark) = start_marked(command);
    let sidecar = eventually(|| sidecar(&mark)).unwrap();
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // poll(2) now fails with EINVAL.
    prlimit(Some(sidecar), Resource::Nofile, none).unwrap();
    eventually(|| test_kill_process(sidecar).is_err().then_some(())).unwrap();
    drop(writer);
    running.finish().succeeded_in_silence();
    mark.nobody_left();
}

#[test]
fn killed_at_any_moment_it_changes_nothing() {
    let mut rng = Rng::new(7);
    for _ in 0..10 {
        // Begins when the sidecar was found.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = boost("", &format!("read -r line; {BRIEF}"));
        command.stdin(reader);
        let (running, mark) = start_marked(command);
        let sidecar = eventually(|| sidecar(&mark)).unwrap();
        writer.write_all(b"\n").unwrap();
        // The moment of the signal; nothing is waited for.
        thread::sleep(Duration::from_micros(rng.next_u64() % 30_000));
        let _ = kill_process(sidecar, Signal::KILL);
        let outcome = running.finish().succeeded_in_silence();
        assert_eq!(outcome.out, BRIEF_OUTPUT);
        mark.nobody_left();
    }
}

/// Together they raise more than the pipes of one user may take at a time (64 MiB). More of
/// them find rare faults: PIPESPEED_TEST_RUNS=1000.
#[test]
fn many_pipelines_leave_no_process_and_no_raised_pipe() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let wanted = std::env::var("PIPESPEED_TEST_RUNS");
    let wanted: usize = wanted.map_or(20, |number| number.parse().unwrap());
    let (mut runs, mut raised) = (0, 0);
    while runs < wanted || raised <= 64 {
        let mut command = program.command("boost --report --shell /bin/sh");
        command.arg("head -c 100M /dev/zero | cat | wc -c");
        let mark = Mark::on(&mut command);
        let outcome = run_alone(command).succeeded();
        assert_eq!(outcome.out, "104857600\n");
        assert!(!outcome.err.contains("limit"), "{outcome:#?}");
        mark.nobody_left();
        // On a busy machine some end before they are looked at.
        raised += outcome.err.matches("1MiB in place of").count();
        runs += 1;
        assert!(runs < 10 * wanted, "{raised} raised in {runs} runs");
    }
}

/// Runs lines whose lengths grow until one is long enough to be seen on a busy machine.
fn report_that_contains(words: &str, line: fn(&str) -> String) -> bool {
    ["100M", "1G", "10G"].into_iter().any(|bytes| {
        let outcome = run_alone(boost("--report", &line(bytes))).succeeded();
        outcome.err.contains(words)
    })
}

#[test]
fn writer_that_vmsplices_is_left_alone_and_its_bytes_arrive() {
    for options in ["", "--reuse drained", "--reuse drained --pipe-size 256K"] {
        let line = format!(
            "{PIPESPEED} write --data pattern --bytes 200M --write-with-vmsplice {options} | \
             {PIPESPEED} read --data verify"
        );
        let outcome = run_alone(boost("--report", &line)).succeeded();
        assert!(!outcome.err.contains("1MiB in place of"), "{outcome:#?}");
    }
    for producer in ["fizzbuzz", "yes abcdefg"] {
        let line = format!("{PIPESPEED} {producer} | head -c 100M | cksum");
        let mut plain = std::process::Command::new("sh");
        plain.args(["-c", &line]);
        let plain = run_alone(plain).succeeded_in_silence().out;
        let boosted = run_alone(boost("", &line)).succeeded_in_silence().out;
        assert_eq!(plain, boosted, "{producer}");
    }
}

#[test]
fn a_writer_that_copies_is_raised_and_its_bytes_arrive() {
    let words = "1MiB in place of 64KiB between pipespeed and pipespeed";
    assert!(report_that_contains(words, |bytes| format!(
        "{PIPESPEED} write --data pattern --bytes {bytes} | {PIPESPEED} read --data verify"
    )));
}

#[test]
fn pipe_that_short_readers_hold_before_the_last_is_raised() {
    let words = "1MiB in place of 64KiB between head and ";
    assert!(report_that_contains(words, |bytes| format!(
        "head -c {bytes} /dev/zero | (for i in $(seq 20); do env true; done; wc -c)"
    )));
}

#[test]
fn a_size_that_a_program_chose_stays() {
    let words =
        "the pipe between pipespeed and pipespeed was left as it is: a program has chosen its size";
    assert!(report_that_contains(words, |bytes| format!(
        "{PIPESPEED} write --bytes {bytes} --pipe-size 128K | {PIPESPEED} read"
    )));
}
