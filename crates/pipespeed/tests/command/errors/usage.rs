//! Bad usage: exit status 2 and one line that names the option and the way
//! out, before anything is done.

use std::os::unix::net::UnixStream;

use crate::common::{
    conditions, names_in, pipeline, pipespeed, run_alone, skip, start, start_into, usage_errors,
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
fn an_invalid_size_is_refused_with_examples() {
    let texts = [
        " 0",
        " 0K",
        " -1",
        " -64K",
        " 18446744073709551616",
        " 99999999999999999999G",
        " 17179869184G",
        " abc",
        " --verbose",
        " 12Q",
        " K",
        " 0x10",
        "=-1",
        "=12Q",
        "=",
        "",
    ];
    let of_one_option = texts.map(|text| format!("write --bytes{text}"));
    insta::assert_snapshot!(usage_errors(of_one_option));
    let options = [
        "write --buf-size",
        "write --pipe-size",
        "write --bytes-to-pipe",
        "read --buf-size",
        "read --pipe-size",
        "read --bytes-to-pipe",
        "bench --pipe-size",
        "bench --buffer-size",
    ];
    let of_all_options = options.map(|option| format!("{option} 12Q"));
    insta::assert_snapshot!(usage_errors(of_all_options));
}

#[test]
fn an_odd_buffer_with_vmsplice_is_refused_with_the_unit() {
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
    insta::assert_snapshot!(usage_errors([
        "nonsense",
        "bench nonsense",
        "bench --nonsense",
        "write --nonsense",
        "read --data nonsense",
        "write --data nonsense",
        "write --reuse nonsense",
        "completions nonsense",
        "bench --case nonsense",
        "bench --case write_read,nonsense",
        // A case of another suite.
        "bench --case produce_alone",
        "profile no_such_case",
        "profile a|b",
        "profile --suite volumes write_read",
        "check --only nope",
        "check --explain nope",
    ]));
}

#[test]
fn processors_that_are_not_there_or_not_ours_are_named() {
    let many = 4_000_000_000_u32.to_string();
    let words = ["--cpus", &many, "does not exist", "may use"];
    let ours = conditions::first_processor();
    refused(&format!("bench --cpus {ours},{many}"), &words);
    refused(&format!("bench --cpus {many},{ours}"), &words);
    insta::assert_snapshot!(usage_errors([
        "bench --cpus 1",
        "bench --cpus a,b",
        "bench --cpus 0,",
        "bench --cpus 0,1,2",
        "bench --cpus 0;1",
        "bench --cpus=-1,0",
        "bench --placement bad",
        "bench --cpus 0,1 --placement same",
    ]));
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
    insta::assert_snapshot!(usage_errors([
        "bench --rounds 0",
        "bench --rounds -5",
        "bench --rounds 1.5",
        "bench --rounds 100001",
        "bench --time 0",
        "bench --time -1",
        "bench --time nan",
        "bench --time inf",
        "bench --time soon",
        "bench --seed x",
        "bench --seed -1",
        "bench --seed 18446744073709551616",
        "bench --work many",
        "bench --work 4294967296",
        "bench volumes --volume 1M",
        "bench volumes --volume -1G",
        "bench volumes --volume 8E",
        "costs --rounds 0",
        "costs --seed -1",
        "costs --pinning --pages-per-call many",
        "latency --count 99999999999999999999",
        "latency --rounds x",
        "latency --seed 0x1",
        "latency --rate fast",
        "latency --naive --limit soon",
        "pages --address 0x0 --pid -1",
        "pages --address 0x0 --levels 6",
        "meter --width -1",
        "meter --interval soon",
        "meter --delay-start -1",
        "meter --rate-limit fast",
        "profile write_read --threshold 200",
        "profile --time 0 -- a",
        "fizzbuzz --from 0",
        "fizzbuzz --to 9223372036854775809",
        "fizzbuzz --from ten",
        "fizzbuzz --from 5 --to 4",
    ]));
}

#[test]
fn options_that_contradict_each_other_are_both_named() {
    let words = ["--check-huge-page", "--dont-touch-pages"];
    refused_into_a_pipe("write --check-huge-page --dont-touch-pages", &words);
    insta::assert_snapshot!(usage_errors([
        "read --check-huge-page --dont-touch-pages",
        "read --data discard",
        "bench touched --data read",
        "bench touched --data discard",
        "bench --volume 1G",
        "costs --quick --rounds 9",
        "profile --all write_read",
        "profile write_read -- a",
        "profile --all -- a",
        "profile --cpus 0,0 -- a",
        "profile --placement same -- a",
        "profile --pipe-size 64K -- a",
        "profile --buffer-size 64K -- a",
        "profile --suite ladder -- a",
        "bench --list --json -",
        "check --list --json -",
    ]));
}

#[test]
fn only_one_thing_goes_to_standard_output_or_comes_from_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    for (args, both) in [
        ("bench --json - --csv -", "--json and --csv"),
        ("latency --csv - --chart -", "--csv and --chart"),
        ("bench --json - --csv - --chart -", "--json and --csv"),
        ("latency --json - --csv /dev/stdout", "--json and --csv"),
    ] {
        let mut command = pipespeed(args);
        command.current_dir(&directory);
        run_alone(command).refused(2, &[both, "standard output"]);
    }
    assert!(names_in(directory.path()).is_empty());
    insta::assert_snapshot!(usage_errors([
        "compare a b --json - --chart -",
        "compare - -",
        "profile write_read --json - --flame -",
        "profile --json - --flame - -- a",
        "latency pipe --csv - --json -",
    ]));
}

#[test]
fn what_is_missing_is_named() {
    insta::assert_snapshot!(usage_errors([
        "compare",
        "compare one.json",
        "compare a b --fail-on",
        "compare a b --fail-on faster",
        "compare a b --fail-on slower:",
        "compare a b --fail-on slower:x",
        "compare a b --fail-on slower:-1",
        "compare a b --fail-on slower:100",
        "compare a b --fail-on slower:nan",
        "profile",
        "profile --time 3",
    ]));
}

#[test]
fn a_line_break_in_an_argument_does_not_break_the_message() {
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
