//! Bad usage: exit status 2 and one line that names the option and the way
//! out, before anything is done.

use std::os::unix::net::UnixStream;

use crate::common::{
    conditions, names_in, pipeline, pipespeed, run_alone, skip, start, start_into,
};

/// Runs the command with a pipe on its standard output that somebody reads.
#[track_caller]
fn refused_into_a_pipe(args: &str, words: &[&str]) {
    let (writer, reader) = pipeline(pipespeed(args), pipespeed("read --bytes-to-pipe 1"));
    writer.refused(2, words);
    reader.refused(1, &["got 0 bytes"]);
}

/// Runs the command without standard input.
#[track_caller]
fn refused(args: &str, words: &[&str]) {
    let mut command = pipespeed(args);
    // Should it be taken after all, it must not fill the disk.
    conditions::limit(&mut command, rustix::process::Resource::Fsize, 1 << 20);
    run_alone(command).refused(2, words);
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
fn vmsplice_and_splice_want_a_pipe_even_for_a_few_bytes() {
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
fn a_size_that_is_none_is_told_how_to_be_written() {
    let options = [
        "write --bytes",
        "write --buf-size",
        "write --pipe-size",
        "write --bytes-to-pipe",
        "read --buf-size",
        "read --pipe-size",
        "read --bytes-to-pipe",
        "bench --pipe-size",
        "bench --buffer-size",
    ];
    let how = "64K";
    for option in options {
        let name = option.rsplit(' ').next().unwrap();
        for (text, told) in [
            ("0", "above 0"),
            ("0K", "above 0"),
            ("-1", "negative"),
            ("-64K", "negative"),
            ("18446744073709551616", "too large"),
            ("99999999999999999999G", "too large"),
            ("17179869184G", "too large"),
            ("abc", how),
            ("--verbose", how),
            ("12Q", how),
            ("K", how),
            ("0x10", how),
        ] {
            refused(
                &format!("{option} {text}"),
                &[name, told, &format!("'{text}'")],
            );
            refused(&format!("{option}={text}"), &[name, told]);
        }
        refused(&format!("{option}="), &[name, "empty"]);
        refused(option, &[name, "value"]);
    }
}

#[test]
fn an_odd_buffer_with_vmsplice_is_told_the_unit() {
    let unit = (2 * rustix::param::page_size()).to_string();
    for size in ["1", "4095", "10000", "100001"] {
        refused_into_a_pipe(
            &format!("write --write-with-vmsplice --buf-size {size}"),
            &["--buf-size", size, "--write-with-vmsplice", &unit],
        );
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
fn what_is_unknown_is_named_with_what_there_is() {
    refused("nonsense", &["nonsense"]);
    refused("bench nonsense", &["nonsense", "ladder", "touched"]);
    refused("bench --nonsense", &["--nonsense"]);
    refused("write --nonsense", &["--nonsense"]);
    refused("read --data nonsense", &["--data", "nonsense", "verify"]);
    refused("write --data nonsense", &["--data", "nonsense", "pattern"]);
    refused(
        "write --reuse nonsense",
        &["--reuse", "nonsense", "drained"],
    );
    refused("completions nonsense", &["nonsense", "bash"]);
    let words = ["--case", "nonsense", "write_read", "busy_loop_huge"];
    refused("bench --case nonsense", &words);
    refused("bench --case write_read,nonsense", &words);
    // A case of another suite.
    refused(
        "bench --case produce_alone",
        &["--case", "produce_alone", "write_read"],
    );
}

#[test]
fn processors_that_are_not_there_or_not_ours_are_named() {
    let many = 4_000_000_000_u32.to_string();
    let words = ["--cpus", &many, "does not exist", "may use"];
    let ours = conditions::first_processor();
    refused(&format!("bench --cpus {ours},{many}"), &words);
    refused(&format!("bench --cpus {many},{ours}"), &words);
    for text in ["1", "a,b", "0,", "0,1,2", "0;1"] {
        refused(&format!("bench --cpus {text}"), &["--cpus", text, "2,3"]);
    }
    refused("bench --cpus=-1,0", &["--cpus"]);
    refused(
        "bench --placement bad",
        &["--placement", "bad", "different", "same", "free"],
    );
    refused(
        "bench --cpus 0,1 --placement same",
        &["--cpus", "--placement"],
    );
    if conditions::processors() > 1 {
        let mut command = pipespeed("bench --cpus 0,1");
        conditions::one_processor(&mut command);
        run_alone(command).refused(2, &["--cpus", "may not use processor 1", "taskset"]);
    } else {
        skip("only one processor here");
    }
}

#[test]
fn numbers_out_of_range_are_named() {
    refused("bench --rounds 0", &["--rounds", "0"]);
    refused("bench --rounds -5", &["--rounds", "-5"]);
    refused("bench --rounds 1.5", &["--rounds", "1.5"]);
    refused("bench --rounds 100001", &["--rounds", "100001"]);
    refused("bench --time 0", &["--time", "above 0"]);
    refused("bench --time -1", &["--time", "above 0"]);
    refused("bench --time nan", &["--time", "above 0"]);
    refused("bench --time inf", &["--time", "86400"]);
    refused("bench --time soon", &["--time", "soon"]);
    refused("bench --seed x", &["--seed", "x"]);
    refused("bench --work many", &["--work", "many"]);
    refused("bench --work 4294967296", &["--work", "4294967296"]);
}

#[test]
fn options_that_contradict_each_other_are_both_named() {
    let words = ["--check-huge-page", "--dont-touch-pages"];
    refused_into_a_pipe("write --check-huge-page --dont-touch-pages", &words);
    refused("read --check-huge-page --dont-touch-pages", &words);
    refused(
        "read --data discard",
        &["--data discard", "--read-with-splice"],
    );
    refused(
        "bench touched --data read",
        &["--data read", "touched", "ladder"],
    );
    refused(
        "bench touched --data discard",
        &["--data discard", "touched"],
    );
}

#[test]
fn only_one_thing_goes_to_standard_output_or_comes_from_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    for args in [
        "bench --json - --csv -",
        "bench --csv - --chart -",
        "bench --json - --csv - --chart -",
        "bench --json - --csv /dev/stdout",
    ] {
        let mut command = pipespeed(args);
        command.current_dir(&directory);
        run_alone(command).refused(2, &["--json", "--csv", "--chart", "standard output"]);
    }
    assert!(names_in(directory.path()).is_empty());
    refused(
        "compare a b --json - --chart -",
        &["--json", "--chart", "standard output"],
    );
    refused("compare - -", &["standard input"]);
}

#[test]
fn too_few_runs_to_compare_are_bad_usage() {
    refused("compare", &["FILE"]);
    refused("compare one.json", &["FILE", "2"]);
    refused("compare a b --fail-on", &["--fail-on"]);
    for text in [
        "faster",
        "slower:",
        "slower:x",
        "slower:-1",
        "slower:100",
        "slower:nan",
    ] {
        refused(
            &format!("compare a b --fail-on {text}"),
            &["--fail-on", text],
        );
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
}
