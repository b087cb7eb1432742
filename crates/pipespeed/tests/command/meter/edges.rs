//! `pipespeed meter` where something is odd: consumers that leave, descriptors
//! that are closed, pv's zeros.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use super::{file_of, meter};
use crate::common::terminal::Terminal;
use crate::common::{full_device, json, run, run_alone, start_into};

const MIB: usize = 1 << 20;

/// A meter of a file.
fn meter_of(options: &str, file: &tempfile::NamedTempFile) -> Command {
    let mut command = meter(options);
    command.arg(file.path());
    command
}

#[test]
fn a_consumer_that_goes_early_is_shown_with_its_count() {
    let file = file_of(&vec![b'x'; 4 * MIB]);
    for options in ["--json", "--json -C", "--json -L 100G", "--json -C -L 1"] {
        let (mut out, into) = std::io::pipe().unwrap();
        let running = start_into(meter_of(options, &file), into);
        let mut got = vec![0; if options.contains("-L 1") { 1 } else { 1000 }];
        // It is under way, and the pipe full or soon to be.
        out.read_exact(&mut got).unwrap();
        drop(out);
        let done = running.finish();
        assert_eq!(done.code, Some(0), "{done:?}");
        let last = json(done.err.lines().last().unwrap());
        assert_eq!(last["end"], "consumer gone", "{options}: {done:?}");
        assert_eq!(last["bytes"], got.len(), "{options}: {done:?}");
    }
}

#[test]
fn zeros_mean_that_nothing_was_said_as_with_pv() {
    let file = file_of(&vec![b'x'; 100_000]);
    let mut command = meter_of("-s 0 -L 0 -i 0 -w 0 -B 0 -q", &file);
    command.stdin(std::process::Stdio::null());
    assert_eq!(run(command).succeeded().out.len(), 100_000);
    let done = run_alone(meter_of("-f -w 100000 -s 0", &file));
    assert_eq!(done.succeeded().out.len(), 100_000);
}

#[test]
fn an_unwritable_report_is_a_failure_and_all_data_passes() {
    let file = file_of(&vec![b'x'; MIB]);
    for (options, code) in [
        ("--json", 1),
        ("-n", 1),
        ("-n -s 1M", 1),
        ("-q", 0),
        ("", 0),
    ] {
        let mut command = meter_of(options, &file);
        command.stdin(std::process::Stdio::null());
        let out = command.stderr(full_device()).output().unwrap();
        assert_eq!(
            (out.status.code(), out.stdout.len()),
            (Some(code), MIB),
            "{options}"
        );
    }
}

/// Nobody reads there any more, as in a pipe whose reader has gone.
#[test]
fn a_terminal_that_has_hung_up_is_no_failure() {
    let file = file_of(&vec![b'x'; MIB]);
    for options in ["--json", "-n", ""] {
        // The other side of the terminal closes at once.
        let hung_up = Terminal::new(80).input();
        let mut command = meter_of(options, &file);
        command.stdin(std::process::Stdio::null());
        let out = command.stderr(hung_up).output().unwrap();
        assert_eq!(
            (out.status.code(), out.stdout.len()),
            (Some(0), MIB),
            "{options}"
        );
    }
}

#[test]
fn a_name_that_would_steer_the_terminal_is_shown_harmlessly() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = meter("-q");
    command.arg(directory.path().join("a\x1b]0;b\u{202e}c"));
    let done = run_alone(command);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("a?]0;b?c"), "{done:?}");
}

#[test]
fn names_and_formats_that_are_not_utf8_are_shown_as_far_as_they_are() {
    let file = file_of(b"data");
    for option in ["-N", "-F"] {
        let mut command = meter_of("-f", &file);
        command.arg(option).arg(OsStr::from_bytes(b"caf\xe9"));
        let done = run_alone(command);
        assert_eq!((done.code, &*done.out), (Some(0), "data"), "{done:?}");
        assert!(done.err.contains("caf\u{fffd}"), "{done:?}");
    }
}

#[test]
fn fifo_without_writer_is_waited_for_while_display_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let (err, err_into) = std::io::pipe().unwrap();
    let mut command = meter("--json -i 0.02");
    command.arg(&path).stderr(err_into);
    let out = tempfile::tempfile().unwrap();
    let mut child = command.stdout(out.try_clone().unwrap()).spawn().unwrap();
    // Else its copy keeps the pipe open.
    drop(command);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(err));
    for _ in 0..3 {
        assert_eq!(json(&lines.next().unwrap().unwrap())["bytes"], 0);
    }
    let bytes = vec![b'x'; 300_000];
    std::fs::write(&path, &bytes).unwrap();
    let last = lines.last().unwrap().unwrap();
    assert_eq!(json(&last)["bytes"], 300_000);
    assert!(child.wait().unwrap().success());
    assert_eq!(out.metadata().unwrap().len(), 300_000);
}
