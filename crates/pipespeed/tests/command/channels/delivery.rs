//! `bench channels`: every channel delivers the right bytes, what a machine
//! refuses is shown, and what goes wrong with one leaves the others.

use pipespeed_measure::spec::Channel;
use std::collections::BTreeSet;
use std::process::Command;

use crate::common;
use crate::common::conditions::{self, ForAll};
use crate::common::procs::Mark;
use crate::common::{
    Marked, Outcome, PIPESPEED, case, json, json_file, names_in, pipespeed, pipespeed_in, recorded,
    refusal, run, run_marked, says, skip,
};
use rustix::process::Resource;
use serde_json::Value;

/// A run of few and short trials.
const SHORT: &str = "bench channels --quick --rounds 1 -q";

/// The outcome of a command that leaves no process and no temporary file.
#[track_caller]
fn clean(mut command: Command) -> Outcome {
    let private = tempfile::tempdir().unwrap();
    command.env("TMPDIR", private.path());
    let outcome = run_marked(command);
    assert!(names_in(private.path()).is_empty(), "{outcome:#?}");
    outcome
}

/// The names of all channels.
fn every_channel() -> Vec<&'static str> {
    Channel::with_data()
        .into_iter()
        .map(Channel::name)
        .collect()
}

/// A run of these channels and sizes without ends that spin, which have the same descriptors,
/// memory and names.
fn blocking(channels: &[&str], sizes: &[&str]) -> String {
    with_spinning(channels, sizes, &[])
}

/// As [`blocking`], and these cases of ends that spin.
fn with_spinning(channels: &[&str], sizes: &[&str], spinning: &[String]) -> String {
    let of_size = |size| channels.iter().map(move |name| format!("{name}_{size}"));
    let cases: Vec<String> = sizes.iter().flat_map(of_size).collect();
    let cases = [&*cases, spinning].concat().join(",");
    let (channels, sizes) = (channels.join(","), sizes.join(","));
    format!("{SHORT} --channel {channels} --size {sizes} --case {cases} --json -")
}

fn cases(record: &Value) -> &Vec<Value> {
    record["cases"].as_array().unwrap()
}

/// Runs these cases with all data verified in every trial, not only in the first. Pipes and
/// rings must have been measured with each of these sizes.
fn verified(args: &str, sizes: &[&str]) {
    let outcome = clean(pipespeed(&format!("{args} --data verify"))).succeeded();
    let record = json(&outcome.out);
    let measured: BTreeSet<&str> = cases(&record).iter().filter_map(came_through).collect();
    for size in sizes {
        for channel in ["pipe", "ring", "ring_copy"] {
            let name = format!("{channel}_{size}");
            assert!(measured.contains(&*name), "{name}: {measured:?}");
        }
    }
}

/// The case's name, if it was not refused for a reason that holds.
fn came_through(case: &Value) -> Option<&str> {
    let name = case["name"].as_str().unwrap();
    if let Some(reason) = case["not_run"]["reason"].as_str() {
        let spins = name.ends_with("_spin") && conditions::processors() < 2;
        let is_explained = case["not_run"]["kind"] == "limit" || reason.contains("here");
        assert!(is_explained || spins, "{name}: {reason}");
        skip(format_args!("{name}: {reason}"));
        return None;
    }
    assert_eq!(case["data"], "verify", "{name}");
    let bytes = case["samples"][0]["bytes"].as_u64().unwrap();
    let message = case["configuration"]["message_bytes"].as_u64().unwrap();
    assert!(bytes >= 4 * message, "{name}: {bytes}");
    Some(name)
}

/// Single bytes, sizes that fit no page, messages larger than a pipe and than buffers of sockets,
/// and larger than a ring. Ends that spin have the largest that a channel takes.
#[test]
fn messages_arrive_whole_through_every_channel() {
    let sizes = ["1", "4097", "220007"];
    let largest = |channel: &&str| match *channel {
        "seqpacket" | "datagram" | "mqueue" => format!("{channel}_4097_spin"),
        _ => format!("{channel}_220007_spin"),
    };
    let spinning: Vec<String> = every_channel().iter().map(largest).collect();
    verified(&with_spinning(&every_channel(), &sizes, &spinning), &sizes);
    let sizes = ["1100007"];
    let spinning = ["ring", "ring_copy"].map(|ring| format!("{ring}_1100007_spin"));
    let channels = ["pipe", "ring", "ring_copy"];
    verified(&with_spinning(&channels, &sizes, &spinning), &sizes);
}

#[test]
fn the_record_says_what_took_effect() {
    let directory = tempfile::tempdir().unwrap();
    let command = pipespeed_in(
        &directory,
        &format!(
            "{SHORT} --channel pipe,ring,ring_copy,socketpair,tcp,mqueue --size 4K \
         --json r.json --csv r.csv --chart r.svg"
        ),
    );
    clean(command).succeeded();
    let record = json_file(&directory.path().join("r.json"));
    assert_eq!(record["suite"], "channels");
    for case in cases(&record) {
        let configuration = &case["configuration"];
        assert_eq!(configuration["message_bytes"], 4096, "{case:#}");
        let twin = record["null_control"]["twin"] == case["name"];
        if case["not_run"].is_null() && !twin {
            assert!(case["verified_bytes"].as_u64().unwrap() > 0, "{case:#}");
            assert!(case["summary"]["cpu_us_per_message"].as_f64().unwrap() > 0.0);
        }
    }
    let took = |name: &str, field: &str| case(&record, name)["configuration"][field].clone();
    assert_eq!(took("pipe_4k", "channel"), "pipe");
    assert_eq!(took("pipe_4k", "pipe_bytes"), 65_536);
    assert_eq!(took("pipe_4k", "reader_buffer_bytes"), 65_536);
    for (ring, buffers) in [("ring_4k", Value::Null), ("ring_copy_4k", 1.into())] {
        assert_eq!(took(ring, "ring_bytes"), 1 << 20);
        assert_eq!(took(ring, "buffers"), buffers);
        assert_eq!(took(ring, "reader_buffer_bytes"), 65_536);
        assert!(took(ring, "send_buffer_bytes").is_null());
        assert_eq!(took(ring, "writer_bytes_per_call"), 4096.0);
        assert!(took(ring, "reader_bytes_per_call").as_f64().unwrap() >= 4096.0);
    }
    // No end sleeps or is woken; each looks now and then whether the other lives.
    if let Some(spun) = case(&record, "ring_4k_spin")["samples"][0].as_object() {
        let calls = |end: &str| spun[end]["syscalls"].as_u64().unwrap();
        assert!(calls("writer") + calls("reader") < 200, "{spun:#?}");
    }
    assert_eq!(took("tcp_4k", "nodelay"), true);
    assert!(took("tcp_4k", "receive_buffer_bytes").as_u64().unwrap() > 4096);
    assert!(took("socketpair_4k", "send_buffer_bytes").as_u64().unwrap() > 4096);
    if refusal(&record, "mqueue_4k").is_empty() {
        assert_eq!(took("mqueue_4k", "reader_buffer_bytes"), 4096);
        assert!(took("mqueue_4k", "queue_messages").as_u64().unwrap() >= 1);
    }
    // The twin differs in nothing.
    assert_eq!(record["null_control"]["case"], "pipe_4k");
    let rows = csv::Reader::from_path(directory.path().join("r.csv")).unwrap();
    let mut rows = rows.into_records().map(Result::unwrap);
    assert!(rows.all(|row| row.iter().any(|field| field == "4096")));
    let chart = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    roxmltree::Document::parse(&chart).unwrap();
}

#[test]
fn a_size_over_a_limit_shows_it_others_are_measured() {
    let args = blocking(&["pipe", "seqpacket", "datagram", "mqueue"], &["4k", "4m"]);
    let record = json(&clean(pipespeed(&args)).succeeded().out);
    for channel in ["seqpacket", "datagram"] {
        let reason = refusal(&record, &format!("{channel}_4m"));
        let large = case(&record, &format!("{channel}_4m"));
        assert_eq!(large["not_run"]["kind"], "limit", "{reason}");
        assert!(reason.contains("SO_SNDBUF"), "{reason}");
        assert!(case(&record, &format!("{channel}_4k"))["not_run"].is_null());
    }
    let reason = refusal(&record, "mqueue_4m");
    assert!(
        reason.contains("msgsize_max") || reason.contains("ulimit -q") || reason.contains("here"),
        "{reason}"
    );
    assert!(case(&record, "pipe_4m")["not_run"].is_null());
}

#[test]
fn a_channel_that_a_filter_refuses_is_shown_as_refused() {
    for (call, channel, word) in [
        (libc::SYS_mq_open, "mqueue", "message queue"),
        (libc::SYS_io_uring_setup, "uring", "io_uring"),
        // Else a request would wait for ever.
        (libc::SYS_io_uring_enter, "uring", "io_uring"),
        (libc::SYS_vmsplice, "vmsplice", "vmsplice"),
        (libc::SYS_bind, "tcp", "TCP"),
        (libc::SYS_bind, "unix", "unix socket"),
        (libc::SYS_fallocate, "ring", "a ring in shared memory"),
        (libc::SYS_fallocate, "ring_copy", "a ring in shared memory"),
        (libc::SYS_mknodat, "fifo", "FIFO"),
    ] {
        let args = format!("{SHORT} --channel pipe,{channel} --size 1K --json -");
        let mut command = pipespeed(&args);
        if !conditions::without_call(&mut command, call) {
            return;
        }
        let record = json(&clean(command).succeeded().out);
        let reason = refusal(&record, &format!("{channel}_1k"));
        assert!(reason.contains(word), "{channel}: {reason}");
        let permitted = reason.contains("EPERM") || reason.contains("not permitted");
        assert!(permitted, "{channel}: {reason}");
        assert!(case(&record, "pipe_1k")["not_run"].is_null());
    }
}

#[test]
fn queue_over_a_limit_of_the_users_names_the_limit() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command(&blocking(&["pipe", "mqueue"], &["4k"]));
    conditions::limit(&mut command, Resource::Msgqueue, 3000);
    let record = recorded(command);
    let reason = refusal(&record, "mqueue_4k");
    let is_named = reason.contains("ulimit -q, now 3000");
    assert!(is_named || reason.contains("not available"), "{reason}");
    assert!(case(&record, "pipe_4k")["not_run"].is_null());
}

#[test]
fn an_ordinary_user_measures_every_channel_too() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command(&blocking(&every_channel(), &["1k"]));
    let mark = Mark::on(&mut command);
    let record = recorded(command);
    mark.nobody_left();
    for case in cases(&record) {
        if let Some(reason) = case["not_run"]["reason"].as_str() {
            assert!(reason.contains("here"), "{case:#}");
            skip(format_args!("{}: {reason}", case["name"]));
        }
    }
    assert!(case(&record, "unix_1k")["not_run"].is_null());
}

#[test]
fn without_descriptors_every_line_names_limit_and_nothing_is_left() {
    // From less than the command itself needs up to what every trial does.
    let mut explained = 0;
    for descriptors in 8.. {
        let mut command = pipespeed(&blocking(&["pipe", "ring", "fifo", "unix", "tcp"], &["1k"]));
        conditions::few_descriptors(&mut command, descriptors);
        let outcome = clean(command);
        if outcome.code == Some(0) {
            assert_eq!(outcome.err, "", "{outcome:#?}");
            break;
        }
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        for line in outcome.err.lines() {
            assert!(line.starts_with("pipespeed: "), "{outcome:#?}");
            explained += usize::from(line.contains(&format!("ulimit -n, now {descriptors}")));
        }
    }
    assert!(explained > 3, "{explained}");
}

#[test]
fn all_of_it_says_first_how_long_it_takes() {
    let list = run(pipespeed("bench channels --all --list")).succeeded();
    let all = list.out.lines().count();
    assert!(all >= 13 * 11 * 2, "{all}");
    let usual = run(pipespeed("bench channels --list")).succeeded();
    assert_eq!(usual.out.lines().count(), 6 * 6 * 2);
    let quick = run(pipespeed("bench channels --list --quick")).succeeded();
    assert_eq!(quick.out.lines().count(), 6 * 4 * 2);
    // Interrupted as soon as it has said so.
    let run = Marked::start("bench channels --all");
    common::procs::eventually(|| run.mark.endpoint("reader")).unwrap();
    run.running.send(rustix::process::Signal::INT);
    let (outcome, _) = run.finish();
    assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    let first = outcome.err.lines().next().unwrap();
    says(first, &["rounds, about", "minutes"]);
}
