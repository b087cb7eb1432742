//! The process that raises the pipes.

use std::io::Write;
use std::thread;
use std::time::Duration;

use pipespeed_stats::Rng;
use rustix::process::{Resource, Signal, getsid, kill_process};

use super::{boost, sidecar};
use crate::common::conditions::limit;
use crate::common::procs::{Mark, eventually};
use crate::common::{PIPESPEED, run_alone, start};

/// Moves much data, and prints how much.
const BUSY: &str = "head -c 300M /dev/zero | tr '\\0' a | wc -c";
const BUSY_OUTPUT: &str = "314572800\n";

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

#[test]
fn it_is_silent_unless_a_report_is_wanted() {
    let outcome = run_alone(boost("", BUSY)).succeeded_in_silence();
    assert_eq!(outcome.out, BUSY_OUTPUT);
}

#[test]
fn a_report_keeps_the_status_and_says_that_nothing_was_raised() {
    let outcome = run_alone(boost("--report", "echo x | cat; exit 5"));
    assert_eq!((outcome.code, &*outcome.out), (Some(5), "x\n"));
    assert!(outcome.err.contains("no pipe was raised"), "{outcome:#?}");
}

#[test]
fn a_report_with_few_descriptors_keeps_the_status_or_names_the_limit() {
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
fn it_has_its_own_session_and_no_descriptor_of_the_command() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = boost("", "cat");
    command.stdin(reader);
    let mark = Mark::on(&mut command);
    let running = start(command);
    let sidecar = eventually(|| sidecar(&mark)).unwrap();
    let links = |pid: &str| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = entries.flatten().map(|it| std::fs::read_link(it.path()));
        let links = links.flatten().map(|link| link.display().to_string());
        links
            .filter(|link| ["pipe:", "socket:"].iter().any(|it| link.starts_with(it)))
            .collect()
    };
    // The command has got what this process has that is inheritable, and the pipe.
    let own = links("self");
    let sidecars = links(&sidecar.as_raw_pid().to_string());
    let inherited = sidecars.iter().filter(|link| own.contains(link));
    assert_eq!(inherited.count(), 0, "{sidecars:?}");
    assert_ne!(
        getsid(Some(sidecar)).unwrap(),
        getsid(Some(running.pid())).unwrap()
    );
    writer.write_all(b"x").unwrap();
    drop(writer);
    assert_eq!(running.finish().succeeded_in_silence().out, "x");
    mark.nobody_left();
}

#[test]
fn killed_at_any_moment_it_changes_nothing() {
    let mut rng = Rng::new(7);
    for _ in 0..10 {
        // Begins when the sidecar was found.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = boost("", &format!("read -r line; {BUSY}"));
        command.stdin(reader);
        let mark = Mark::on(&mut command);
        let running = start(command);
        let sidecar = eventually(|| sidecar(&mark)).unwrap();
        writer.write_all(b"\n").unwrap();
        // The moment of the signal; nothing is waited for.
        thread::sleep(Duration::from_micros(rng.next_u64() % 30_000));
        let _ = kill_process(sidecar, Signal::KILL);
        let outcome = running.finish().succeeded_in_silence();
        assert_eq!(outcome.out, BUSY_OUTPUT);
        mark.nobody_left();
    }
}

/// More of them find rare faults: PIPESPEED_TEST_RUNS=1000.
#[test]
fn many_pipelines_in_a_row_leave_no_process() {
    let runs = std::env::var("PIPESPEED_TEST_RUNS");
    let runs: u32 = runs.map_or(30, |number| number.parse().unwrap());
    let mut command = std::process::Command::new("sh");
    let loops = format!(
        "i=0; while [ $i -lt {runs} ]; do \"$0\" boost 'head -c 1M /dev/zero | cat | wc -c' || exit 1; \
         i=$((i + 1)); done | uniq -c"
    );
    command
        .args(["-c", &loops, PIPESPEED])
        .env("SHELL", "/bin/sh");
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command).succeeded_in_silence();
    assert_eq!(outcome.out.trim(), format!("{runs} 1048576"));
    mark.nobody_left();
}

#[test]
fn a_writer_that_vmsplices_is_left_alone_and_its_bytes_arrive() {
    let report = |line: &str| {
        let line = line.replace("P ", &format!("{PIPESPEED} "));
        let outcome = run_alone(boost("--report", &line)).succeeded();
        (outcome.out, outcome.err)
    };
    let write = "P write --data pattern --bytes 200M";
    let read = "P read --data verify";
    for options in [
        "--write-with-vmsplice",
        "--write-with-vmsplice --reuse drained",
        "--write-with-vmsplice --reuse drained --pipe-size 256K",
        "",
    ] {
        let (_, err) = report(&format!("{write} {options} | {read}"));
        let is_raised = err.contains("1MiB in place of");
        assert_eq!(is_raised, options.is_empty(), "{options}: {err}");
    }
    let sums = ["P fizzbuzz", "P yes abcdefg"].map(|producer| {
        let line =
            format!("{producer} | head -c 300M | cksum").replace("P ", &format!("{PIPESPEED} "));
        let mut plain = std::process::Command::new("sh");
        plain.args(["-c", &line]);
        let plain = run_alone(plain).succeeded_in_silence().out;
        (
            plain,
            run_alone(boost("", &line)).succeeded_in_silence().out,
        )
    });
    assert!(
        sums.iter().all(|(plain, boosted)| plain == boosted),
        "{sums:?}"
    );
}

#[test]
fn a_size_that_a_program_chose_stays() {
    let words =
        "the pipe between pipespeed and pipespeed was left as it is: a program has chosen its size";
    // On a busy machine a short stream ends before the sidecar has looked at it.
    let reports = ["100M", "1G", "10G"].map(|bytes| {
        move || {
            let writer = format!("{PIPESPEED} write --bytes {bytes} --pipe-size 128K");
            let line = format!("{writer} | {PIPESPEED} read");
            run_alone(boost("--report", &line)).succeeded().err
        }
    });
    let mut reports = reports.iter().map(|report| report());
    assert!(reports.any(|report| report.contains(words)));
}
