//! What `pipespeed meter` says where nobody looks at a terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use super::{file_of, meter};
use crate::common::{json, run_alone, start_into};
use serde_json::Value;

/// A file of `bytes` as standard input, /dev/null as standard output.
fn said_of(args: &str, bytes: &[u8]) -> String {
    let file = file_of(bytes);
    let mut command = meter(args);
    command.stdin(File::open(&file).unwrap());
    start_into(command, Stdio::null()).finish().succeeded().err
}

#[test]
fn without_a_terminal_nothing_is_drawn_unless_forced() {
    for quiet in ["", "-ptebar", "-q", "-q -f", "-F %t"] {
        assert_eq!(said_of(quiet, b"bytes"), "", "{quiet}");
    }
    let forced = said_of("-f -b -t", b"bytes");
    assert_eq!(forced, "\r     5B 0:00:00\n");
    let wide = said_of("-f -w 30 -p", b"bytes");
    assert_eq!(wide, "\r[=======================] 100%\n");
    let named = said_of("-f -N disk -F %N-%b-%%", b"bytes");
    assert_eq!(named, "\r     disk:-     5B-%\n");
}

#[test]
fn a_stream_over_before_it_is_due_is_not_shown() {
    assert_eq!(said_of("-f -D 1000", b"bytes"), "");
    assert_eq!(said_of("-f -W", b""), "");
    assert_eq!(said_of("-fWb", b"some"), "\r     4B\n");
    // Who reads numbers waits for them.
    assert_eq!(said_of("-nW -D 1000", b""), "0\n");
    assert_eq!(json(&said_of("--json -W -D 1000", b""))["summary"], true);
}

#[test]
fn numbers_are_per_cents_or_counts() {
    assert_eq!(said_of("-n", &[0; 500]), "100\n");
    assert_eq!(said_of("-n -s 1000", &[0; 500]), "50\n");
    assert_eq!(said_of("-nb", &[0; 500]), "500\n");
    assert_eq!(said_of("-nl", b"a\nb\n\n"), "3\n");
    assert_eq!(said_of("-nl -s 4", b"a\nb\n\n"), "75\n");
    let timed = said_of("-nbt", &[0; 500]);
    let (seconds, bytes) = timed.trim_end().split_once(' ').unwrap();
    assert!(seconds.parse::<f64>().is_ok() && bytes == "500", "{timed}");
}

#[test]
fn the_size_is_that_of_all_files_if_known() {
    let file = file_of(&[0; 300]);
    let run = |name: &str| {
        let mut command = meter("--json");
        command.arg(file.path()).arg(file.path()).arg(name);
        let outcome = run_alone(command);
        json(outcome.err.lines().last().unwrap())["size_bytes"].clone()
    };
    assert_eq!(run("/nonexistent"), 600);
    assert_eq!(run(file.path().to_str().unwrap()), 900);
    assert_eq!(run("/proc/self/mountinfo"), 600);
    assert_eq!(run("/dev/null"), Value::Null);
    // What is left of standard input.
    let mut half_read = File::open(&file).unwrap();
    half_read.read_exact(&mut [0; 100]).unwrap();
    let mut command = meter("--json -");
    command.stdin(half_read);
    let outcome = start_into(command, Stdio::null()).finish().succeeded();
    assert_eq!(json(&outcome.err)["size_bytes"], 200);
}

#[test]
fn json_ends_with_a_summary() {
    let err = said_of("--json -N x", &[0; 5000]);
    let last = json(err.lines().last().unwrap());
    for (field, value) in [
        ("summary", Value::from(true)),
        ("name", "x".into()),
        ("bytes", 5000.into()),
        ("size_bytes", 5000.into()),
        ("end", "end of data".into()),
        ("status", 0.into()),
        ("technique", "sendfile".into()),
    ] {
        assert_eq!(last[field], value, "{field}: {last:#}");
    }
    let over = last["passed_over"].as_array().unwrap();
    assert!(
        over.iter().all(Value::is_string) && !over.is_empty(),
        "{last:#}"
    );
    // Failures are objects too.
    let outcome = run_alone(meter("--json /nonexistent"));
    let lines: Vec<Value> = outcome.err.lines().map(json).collect();
    assert!(lines[0]["error"].as_str().unwrap().contains("/nonexistent"));
    assert_eq!((&lines[1]["status"], outcome.code), (&2.into(), Some(2)));
}

#[test]
fn what_waits_in_the_output_pipe_has_not_left_yet() {
    for options in ["--json -i 0.01", "--json -i 0.01 -l"] {
        let (from, mut into) = std::io::pipe().unwrap();
        let (mut out, out_into) = std::io::pipe().unwrap();
        let (said, err) = std::io::pipe().unwrap();
        let mut command = meter(options);
        command.stdin(from).stdout(out_into).stderr(err);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut lines = BufReader::new(said)
            .lines()
            .map(|line| json(&line.unwrap()));
        let block = b"line\n".repeat(4000);
        into.write_all(&block).unwrap();
        let full = block.len();
        let waiting = lines.find(|line| line["unread_bytes"] == full).unwrap();
        assert_eq!(
            (&waiting["bytes"], waiting["lines"].as_u64().unwrap_or(0)),
            (&0.into(), 0)
        );
        // Half of it is read, and only that counts.
        out.read_exact(&mut vec![0; full / 2]).unwrap();
        let half = lines.find(|line| line["unread_bytes"] == full / 2).unwrap();
        assert_eq!(half["bytes"], full / 2);
        if options.contains("-l") {
            assert_eq!(half["lines"], 2000);
        }
        drop(into);
        let last = lines.last().unwrap();
        assert_eq!(last["bytes"], full);
        drop(out);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn standard_error_that_nobody_reads_stalls_nothing() {
    // A pipe that is full from the beginning.
    let (_nobody, err) = std::io::pipe().unwrap();
    let capacity = fastpipe::pipe::capacity(&err).unwrap();
    (&err).write_all(&vec![b'x'; capacity]).unwrap();
    let mut command = meter("-n -i 0.01");
    let (from, mut into) = std::io::pipe().unwrap();
    let (mut out, out_into) = std::io::pipe().unwrap();
    let mut child = command
        .stdin(from)
        .stdout(out_into)
        .stderr(err)
        .spawn()
        .unwrap();
    drop(command);
    for _ in 0..50 {
        into.write_all(&[0; 1000]).unwrap();
        out.read_exact(&mut [0; 1000]).unwrap();
    }
    drop(into);
    assert!(child.wait().unwrap().success());
}
