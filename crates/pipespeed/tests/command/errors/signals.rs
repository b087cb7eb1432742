//! Signals at random moments of every command that measures.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::procs::{Mark, eventually};
use crate::common::{json_file, names_in, pipespeed, pipespeed_in, start_into, start_marked};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};

/// Runs that take longer than the latest signal.
const LONG: [&str; 15] = [
    "bench ladder --quick --rounds 5000",
    "bench touched --quick --rounds 5000",
    "bench changes --quick --rounds 5000",
    "bench channels --quick --rounds 5000",
    "bench options --quick --rounds 5000",
    "bench pages --quick --rounds 5000",
    "bench sizes --time 100",
    "bench volumes --volume 100G",
    "bench memory --quick --rounds 5000",
    "latency --rounds 5000",
    "latency pipe --size 128K --naive --rounds 5000",
    "costs --rounds 5000",
    "costs --pinning --rounds 5000",
    "profile write_read --time 100",
    "boost --seed 1 --prove=1000 -- sleep 0.01",
];

/// At most this many run at the same time.
const LANES: usize = 3;

const LATEST: Duration = Duration::from_millis(1500);

/// More than one per command finds rare faults: PIPESPEED_TEST_SIGNALS=20.
fn signals_per_command() -> u32 {
    let number = std::env::var("PIPESPEED_TEST_SIGNALS");
    number.map_or(1, |number| number.parse().unwrap())
}

#[test]
fn a_signal_at_any_moment_loses_nothing_and_leaves_nobody() {
    // Several at once, since most of the time nothing but the moment is waited for.
    thread::scope(|scope| {
        for commands in LONG.chunks(LONG.len().div_ceil(LANES)) {
            scope.spawn(|| interrupt(commands));
        }
    });
}

#[test]
fn a_first_signal_ends_a_write_that_nobody_reads() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
    for args in [
        "check --only semantics -q --json",
        "doctor --time 0.1 --all --json",
        "bench --quick --rounds 1 --case write_read -q --no-save --json",
        "latency pipe --size 8 --count 5 --rounds 1 -q --json",
        "costs -q --rounds 1 --json",
        "profile write_read --time 0.4 -q --json",
    ] {
        for path in ["-", fifo.to_str().unwrap()] {
            let (unread, written): (OwnedFd, OwnedFd) = if path == "-" {
                let (reader, writer) = std::io::pipe().unwrap();
                (reader.into(), writer.into())
            } else {
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let both = open(&fifo, flags, Mode::empty()).unwrap();
                (both, File::create("/dev/null").unwrap().into())
            };
            let capacity = fcntl_setpipe_size(&unread, 4096).unwrap() as u64;
            let running = start_into(pipespeed(&format!("{args} {path}")), written);
            // It has begun to write what has no room.
            let is_full = || (ioctl_fionread(&unread).unwrap() == capacity).then_some(());
            eventually(is_full).unwrap_or_else(|| panic!("{args}: never full"));
            running.send(Signal::TERM);
            let outcome = running.finish();
            assert_eq!(outcome.code, Some(143), "{outcome:#?}");
            let last = outcome.err.lines().last().unwrap_or_default();
            let words = ["cannot write ", "interrupted by SIGTERM"];
            assert!(words.iter().all(|word| last.contains(word)), "{outcome:#?}");
        }
    }
}

/// The signal is noticed before the last messages, for which there is no room.
#[test]
fn one_signal_is_enough_where_nobody_reads_standard_error() {
    for args in [
        "doctor --time 60",
        "boost --report",
        "top --json /dev/null",
        "profile -q --no-save --time 60",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
        let started = open(&fifo, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let (_unread, mut errors) = std::io::pipe().unwrap();
        let capacity = fcntl_setpipe_size(&errors, 4096).unwrap();
        errors.write_all(&vec![b' '; capacity]).unwrap();

        let mut command = pipespeed_in(&directory, args);
        command.args(["--", "echo > fifo; exec sleep 60"]);
        let mark = Mark::on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(errors).spawn().unwrap();
        let has_started = || (ioctl_fionread(&started).unwrap() > 0).then_some(());
        eventually(has_started).unwrap_or_else(|| panic!("{args}: never started"));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = eventually(|| child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("{args}: goes on"));
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        assert_eq!(code, Some(143), "{args}: {status}");
        mark.nobody_left();
    }
}

/// Interrupts these commands, one after another.
fn interrupt(commands: &[&str]) {
    for args in commands {
        for nth in 0..signals_per_command() {
            let random = RandomState::new().hash_one(nth);
            let delay = LATEST * (random % 1000) as u32 / 1000;
            let signal = [Signal::INT, Signal::TERM, Signal::HUP][(random >> 32) as usize % 3];
            let context = format!("{signal:?} {delay:?} after the start of {args}");

            let directory = tempfile::tempdir().unwrap();
            // Options come before the command that `boost` runs.
            let (name, options) = args.split_once(' ').unwrap();
            let command = pipespeed_in(&directory, &format!("{name} --json run.json {options}"));
            let (mut running, mark) = start_marked(command);
            // The moment of the signal; nothing is waited for.
            thread::sleep(delay);
            // On a busy machine the command may not have blocked its signals yet.
            let is_new = !mark.processes().iter().any(|(_, line)| line.contains("__"));
            assert!(!running.has_ended(), "{context}");
            running.send(signal);
            let outcome = running.finish();
            mark.nobody_left();
            let names = names_in(directory.path());
            if outcome.signal == Some(signal.as_raw()) && is_new && names.is_empty() {
                continue;
            }
            assert_eq!(
                outcome.code,
                Some(128 + signal.as_raw()),
                "{context}: {outcome:#?}"
            );
            let last = outcome.err.lines().last().unwrap_or_default();
            assert!(
                last.starts_with("pipespeed: ") && last.contains("interrupted by SIG"),
                "{context}: {outcome:#?}"
            );
            if !names.is_empty() {
                assert_eq!(names, ["run.json"], "{context}");
                let record = json_file(&directory.path().join("run.json"));
                assert!(
                    record["interrupted"].is_string(),
                    "{context}: {}",
                    record["interrupted"]
                );
            }
        }
    }
}
