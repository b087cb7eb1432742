//! Bad usage: exit status 2 and one line that names the option and the way
//! out, before anything is done.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::common::{
    conditions, names_in, pipeline, pipespeed, run_alone, run_in, skip, start, start_into,
    usage_errors,
};
use rustix::net::{AddressFamily, SocketType, socket};

/// Runs the command without standard input.
#[track_caller]
fn refused(args: &str, words: &[&str]) {
    let mut command = pipespeed(args);
    // Should it be taken after all, it must not fill the disk.
    conditions::limit(&mut command, rustix::process::Resource::Fsize, 1 << 20);
    run_alone(command).refused(2, words);
}

/// Unlike those of the transcripts, these messages depend on the machine.
#[test]
fn times_and_sizes_too_small_name_the_way_out() {
    let cases: [(&str, &[&str]); 11] = [
        (
            "bench volumes --volume 0.25G,25G --time 1 --no-save -q",
            &["--time 1", "--volume"],
        ),
        (
            "bench sizes --time 3",
            &["--time 3", "--case", "--buffer-size"],
        ),
        (
            "bench sizes --buffer-size 100",
            &["--buffer-size", "multiple of"],
        ),
        (
            "bench channels --time 3",
            &["--time 3", "12 rounds", "--channel", "--quick"],
        ),
        (
            "bench channels --time 1 --quick",
            &["--time 1", "11 rounds", "--size, or use --rounds"],
        ),
        ("costs --cpus 0,99999", &["99999", "--cpus"]),
        ("latency pipe --cpus 0,99999", &["99999", "--cpus"]),
        (
            "latency pipe ring --naive=short-reads",
            &["not available over ring", "socketpair"],
        ),
        (
            "latency --all --time 2 --rounds 100",
            &["--time 2", "allow --time", "fewer channels"],
        ),
        (
            "latency pipe --cpus 0,0 --wait spin",
            &["--wait spin", "two processors"],
        ),
        (
            "latency pipe --cpus 0,0 --wait adaptive",
            &["--wait adaptive", "two processors"],
        ),
    ];
    for (args, words) in cases {
        refused(args, words);
    }
}

/// Each transcript has command lines after `$ pipespeed `, and what they say. It is updated as
/// snapshots are, by INSTA_UPDATE=always.
#[test]
fn bad_usage_is_one_line_as_in_the_transcripts() {
    let directory = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/errors/transcripts"
    );
    for name in names_in(directory.as_ref()) {
        let path = format!("{directory}/{name}");
        let transcript = std::fs::read_to_string(&path).unwrap();
        let lines = transcript.lines();
        let said = usage_errors(lines.filter_map(|line| line.strip_prefix("$ pipespeed ")));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(&path, &said).unwrap();
        } else {
            let differing = said.lines().zip(transcript.lines());
            let differing = { differing }.find(|(said, expected)| said != expected);
            assert!(said == transcript, "{name}: {differing:#?}");
        }
    }
}

#[test]
fn an_endless_write_goes_to_nothing_but_a_pipe() {
    let words = ["standard output", "not a pipe", "--bytes"];
    // A regular file.
    let file = tempfile::tempfile().unwrap();
    let mut writer = pipespeed("write");
    // Should it begin after all, it must not fill the disk.
    conditions::limit(&mut writer, rustix::process::Resource::Fsize, 1 << 20);
    let writer = start_into(writer, file.try_clone().unwrap());
    writer.finish().refused(2, &words);
    assert_eq!(file.metadata().unwrap().len(), 0);
    // A device, and a socket.
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    start_into(pipespeed("write"), null)
        .finish()
        .refused(2, &words);
    let (socket, _peer) = UnixStream::pair().unwrap();
    let socket = std::os::fd::OwnedFd::from(socket);
    start_into(pipespeed("write"), socket)
        .finish()
        .refused(2, &words);
}

#[test]
fn vmsplice_and_splice_want_pipe_even_for_a_few_bytes() {
    let file = tempfile::tempfile().unwrap();
    let command = pipespeed("write --write-with-vmsplice --bytes 1K");
    let writer = start_into(command, file.try_clone().unwrap());
    writer
        .finish()
        .refused(2, &["--write-with-vmsplice", "not a pipe"]);
    assert_eq!(file.metadata().unwrap().len(), 0);
    refused(
        "read --read-with-splice",
        &["--read-with-splice", "standard input", "not a pipe"],
    );
    refused(
        "read --pipe-size 64K",
        &["--pipe-size", "standard input", "not a pipe"],
    );
}

#[test]
fn an_odd_buffer_with_vmsplice_is_refused_with_the_unit() {
    let unit = (2 * rustix::param::page_size()).to_string();
    for size in ["1", "4095", "10000", "100001"] {
        let writer = pipespeed(&format!("write --write-with-vmsplice --buf-size {size}"));
        let (writer, reader) = pipeline(writer, pipespeed("read --bytes-to-pipe 1"));
        writer.refused(2, &["--buf-size", size, "--write-with-vmsplice", &unit]);
        reader.refused(1, &["got 0 bytes"]);
        let words = ["--buffer-size", size, &unit];
        refused(&format!("bench --buffer-size {size}"), &words);
    }
    // Without vmsplice any buffer will do.
    let args = "write --buf-size 4095 --bytes 10000";
    let (writer, reader) = pipeline(pipespeed(args), pipespeed("read --bytes-to-pipe 10000"));
    writer.succeeded();
    reader.succeeded();
}

#[test]
fn processors_that_are_not_there_or_not_ours_are_named() {
    let many = 4_000_000_000_u32.to_string();
    let words = ["--cpus", &many, "does not exist", "may use"];
    let ours = conditions::first_processor();
    refused(&format!("bench --cpus {ours},{many}"), &words);
    refused(&format!("bench --cpus {many},{ours}"), &words);
    if conditions::processors() > 1 {
        let mut command = pipespeed("bench --cpus 0,1");
        conditions::one_processor(&mut command);
        run_alone(command).refused(2, &["--cpus", "may not use processor 1", "taskset"]);
    } else {
        skip("only one processor here");
    }
}

#[test]
fn only_one_thing_uses_standard_output_or_input() {
    let directory = tempfile::tempdir().unwrap();
    for (args, both) in [
        ("bench --json - --csv -", "--json and --csv"),
        ("latency --csv - --chart -", "--csv and --chart"),
        ("bench --json - --csv - --chart -", "--json and --csv"),
        ("latency --json - --csv /dev/stdout", "--json and --csv"),
    ] {
        run_in(&directory, args).refused(2, &[both, "standard output"]);
    }
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn line_break_in_an_argument_does_not_break_the_message() {
    for args in ["check --only", "report"] {
        let mut command = pipespeed(args);
        command.arg("one\ntwo");
        run_alone(command).refused(2, &[r"one\ntwo"]);
    }
}

#[test]
fn words_that_are_no_unicode_are_refused_like_any_other() {
    use std::os::unix::ffi::OsStrExt;
    let strange = std::ffi::OsStr::from_bytes(b"--by\xfftes");
    let mut command = pipespeed("write");
    command.arg(strange).stdin(std::process::Stdio::null());
    start(command).finish().refused(2, &["--by"]);
    let mut command = pipespeed("");
    command.arg(strange).stdin(std::process::Stdio::null());
    start(command).finish().refused(2, &["--by"]);
    // Of several arguments it is named.
    let mut command = pipespeed("bench --size 4K --case");
    command.arg(std::ffi::OsStr::from_bytes(b"a\xffb"));
    run_alone(command).refused(2, &[r#"not UTF-8: "a\xFFb""#]);
}

#[test]
fn empty_input_is_named_without_an_option() {
    let outcome = run_alone(pipespeed("read"));
    let outcome = outcome.refused(1, &["nothing to read: standard input is empty"]);
    assert!(!outcome.err.contains("--bytes"), "{outcome:#?}");
}

#[test]
fn a_socket_that_was_never_connected_is_no_output() {
    for args in [
        "bench --list",
        "check --only limits --json -",
        "fizzbuzz --help",
        "fizzbuzz --to 10",
        "meter -q /dev/null",
        "write --bytes 1000",
        "yes",
    ] {
        let listener = OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let unconnected = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        for output in [listener, unconnected] {
            let outcome = start_into(pipespeed(args), output).finish();
            outcome.refused(2, &["standard output: the socket is not connected"]);
        }
    }
}

#[test]
fn a_reader_that_has_left_its_socket_ends_a_producer_quietly() {
    for args in ["bench --list", "fizzbuzz --to 10", "yes"] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let done = start_into(pipespeed(args), OwnedFd::from(ours)).finish();
        done.succeeded_in_silence();
    }
}
