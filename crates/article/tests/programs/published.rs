//! The exact published commands, and their output.

use crate::common::{Outcome, pipeline, read, skip, write};

/// Writer and reader options of the seven published rungs. The last one spins.
const LADDER: [(&str, &str); 7] = [
    ("", ""),
    ("--huge_page", "--huge_page"),
    ("--write_with_vmsplice", ""),
    ("--write_with_vmsplice --huge_page", "--huge_page"),
    ("--write_with_vmsplice", "--read_with_splice"),
    ("--write_with_vmsplice --huge_page", "--read_with_splice"),
    (
        "--write_with_vmsplice --huge_page --busy_loop",
        "--read_with_splice --busy_loop",
    ),
];

/// Checks that the output is a line such as `3.7GiB/s, 256KiB buffer, 40960
/// iterations (10GiB piped)`: a rate with one decimal, then exactly `settings`.
#[track_caller]
fn assert_result_line(outcome: &Outcome, settings: &str) {
    let line = outcome.out.strip_suffix('\n').unwrap();
    let (rate, rest) = line.split_once("GiB/s, ").unwrap();
    let (integer, decimal) = rate.split_once('.').unwrap();
    assert!(integer.parse::<u32>().is_ok(), "{outcome:#?}");
    assert!(decimal.len() == 1 && decimal.parse::<u32>().is_ok());
    assert_eq!(rest, settings, "{outcome:#?}");
}

/// Runs both programs in a pipeline and checks that they succeed. Returns the reader's
/// outcome.
#[track_caller]
fn piped(writer: &str, reader: &str) -> Outcome {
    let (writer, reader) = pipeline(write(writer), read(reader));
    assert_eq!(writer.succeeded_in_silence().out, "");
    reader.succeeded_in_silence()
}

#[test]
fn every_rung_of_the_ladder_runs_by_its_published_command() {
    for (writer, reader) in LADDER {
        let outcome = piped(writer, &format!("{reader} --bytes_to_pipe 64M"));
        assert_result_line(&outcome, "256KiB buffer, 256 iterations (64MiB piped)");
    }
}

#[test]
fn the_options_of_the_side_experiments_work_at_both_ends() {
    let small = "--bytes_to_pipe 4M";
    for option in [
        "--poll",
        "--gift",
        "--dont_touch_pages",
        "--same_buffer",
        "--poll --busy_loop",
        "--buf_size 64K",
    ] {
        for (writer, reader) in LADDER {
            let writer = format!("{writer} {option}");
            let outcome = piped(&writer, &format!("{reader} {option} {small}"));
            let (size, iterations) = match option {
                "--buf_size 64K" => ("64KiB", 64),
                _ => ("256KiB", 16),
            };
            let rest = format!("{size} buffer, {iterations} iterations (4MiB piped)");
            assert_result_line(&outcome, &rest);
        }
    }
}

#[test]
fn memory_is_locked_if_the_limit_allows_it() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if limit.is_some_and(|bytes| bytes < 2 << 20) {
        skip(format_args!("RLIMIT_MEMLOCK is only {limit:?} bytes"));
        return;
    }
    piped("--lock_memory", "--lock_memory --bytes_to_pipe 4M");
    piped(
        "--lock_memory --write_with_vmsplice",
        "--lock_memory --read_with_splice --bytes_to_pipe 4M",
    );
}

#[test]
fn huge_pages_are_checked_if_the_system_grants_them() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let granted = setting.is_ok_and(|text| !text.contains("[never]"));
    if !granted || status.contains("THP_enabled:\t0") {
        skip("no transparent huge pages here");
        return;
    }
    let options = "--huge_page --check_huge_page";
    piped(
        &format!("{options} --write_with_vmsplice"),
        &format!("{options} --bytes_to_pipe 4M"),
    );
}

#[test]
fn verbose_prints_settings_and_page_faults_on_standard_error() {
    let (writer, reader) = pipeline(
        write("--verbose --write_with_vmsplice"),
        read("--verbose --bytes_to_pipe 4M"),
    );
    assert_eq!((writer.code, reader.code), (Some(0), Some(0)));
    assert!(writer.err.contains("vmsplice"), "{writer:#?}");
    assert!(writer.err.contains("pipe of 128KiB"), "{writer:#?}");
    for outcome in [&writer, &reader] {
        assert!(outcome.err.contains(" page faults"), "{outcome:#?}");
    }
    assert!(reader.err.contains("4MiB received"), "{reader:#?}");
    assert_result_line(&reader, "256KiB buffer, 16 iterations (4MiB piped)");
}

#[test]
fn options_accept_hyphens_underscores_equals_signs_and_prefixes() {
    for (writer, reader) in [
        ("--buf_size=64K", "--buf_size=64K --bytes_to_pipe=1M"),
        ("--buf-size=64K", "--buf-size 64K --bytes-to-pipe 1M"),
        (
            "--buf-size 65536",
            "--buf_size 65536 --bytes_to_pipe 1048576",
        ),
        ("--buf 64k", "--buf=64KiB --byt 1M"),
        (
            "--buf_s 64K --write_w --hu --sam --gi",
            "--buf_s 64K --read-with-s --po --bytes_to 1M",
        ),
        (
            "--write-with-vmsplice --busy-loop --huge-page --same-buffer --buf-size 64K",
            "--read_with_splice --busy-loop --buf_si 64K --bytes-to 1M",
        ),
    ] {
        let outcome = piped(writer, reader);
        assert_result_line(&outcome, "64KiB buffer, 16 iterations (1MiB piped)");
    }
    let ambiguous = pipeline(write(""), read("--b 1M")).1;
    ambiguous.refused(2, &["--b"]);
}

#[test]
fn the_last_of_repeated_options_counts() {
    let outcome = piped(
        "--busy_loop --busy_loop --buf_size 1M --buf_size 64K",
        "--buf_size 1M --buf_size 64K --bytes_to_pipe 1G --bytes_to_pipe 1M",
    );
    assert_result_line(&outcome, "64KiB buffer, 16 iterations (1MiB piped)");
}

#[test]
fn a_partial_last_buffer_counts_as_an_iteration() {
    let outcome = piped("", "--bytes_to_pipe 1000001 --buf_size 100000");
    assert_result_line(&outcome, "97.66KiB buffer, 11 iterations (976.56KiB piped)");
}

#[test]
fn the_csv_line_holds_the_rate_and_the_thirteen_published_options_in_order() {
    // gigabytes_per_second,bytes_to_pipe,buf_size,pipe_size,busy_loop,poll,
    // huge_page,check_huge_page,write_with_vmsplice,read_with_splice,gift,
    // lock_memory,dont_touch_pages,same_buffer
    for (writer, options, expected) in [
        (
            "",
            "--bytes_to_pipe 1M",
            "1048576,262144,0,0,0,0,0,0,0,0,0,0,0",
        ),
        (
            "--pipe_size 128K",
            "--bytes_to_pipe 1M --buf_size 64K --pipe_size 128K",
            "1048576,65536,131072,0,0,0,0,0,0,0,0,0,0",
        ),
        (
            "--write_with_vmsplice",
            "--bytes_to_pipe 1M --write_with_vmsplice",
            "1048576,262144,131072,0,0,0,0,1,0,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --busy_loop",
            "1048576,262144,0,1,0,0,0,0,0,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --poll",
            "1048576,262144,0,0,1,0,0,0,0,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --huge_page",
            "1048576,262144,0,0,0,1,0,0,0,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --check_huge_page",
            "1048576,262144,0,0,0,0,1,0,0,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --read_with_splice",
            "1048576,262144,0,0,0,0,0,0,1,0,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --gift",
            "1048576,262144,0,0,0,0,0,0,0,1,0,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --lock_memory --buf_size 4K",
            "1048576,4096,0,0,0,0,0,0,0,0,1,0,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --dont_touch_pages",
            "1048576,262144,0,0,0,0,0,0,0,0,0,1,0",
        ),
        (
            "",
            "--bytes_to_pipe 1M --same_buffer",
            "1048576,262144,0,0,0,0,0,0,0,0,0,0,1",
        ),
    ] {
        let outcome = piped(writer, &format!("{options} --csv"));
        let (rate, rest) = outcome.out.split_once(',').unwrap();
        assert!(
            rate.parse::<f64>().is_ok_and(|rate| rate > 0.0),
            "{outcome:#?}"
        );
        assert_eq!(rest, format!("{expected}\n"), "{outcome:#?}");
        assert_eq!(outcome.out.split(',').count(), 14);
    }
}

#[test]
fn a_pipe_size_with_vmsplice_is_wrong_usage_in_both_programs() {
    let both = "--pipe_size 64K --write_with_vmsplice";
    let words = ["--pipe_size", "--write_with_vmsplice", "half"];
    let (writer, reader) = pipeline(write(both), read(both));
    writer.refused(2, &words);
    reader.refused(2, &words);
    // Either alone is fine.
    piped("--pipe_size 64K", "--pipe_size 64K --bytes_to_pipe 1M");
}

#[test]
fn not_touching_pages_contradicts_checking_them() {
    let both = "--dont_touch_pages --check_huge_page";
    let (writer, reader) = pipeline(write(both), read(both));
    for outcome in [writer, reader] {
        let outcome = outcome.refused(2, &["check", "dont"]);
        assert!(outcome.err.contains("cannot be used with"), "{outcome:#?}");
    }
}

#[test]
fn the_published_programs_reject_options_that_only_pipespeed_has() {
    let (writer, _) = pipeline(write("--reuse fresh"), read("--bytes_to_pipe 1"));
    writer.refused(2, &["--reuse"]);
    let (_, reader) = pipeline(write(""), read("--data verify"));
    reader.refused(2, &["--data"]);
    // --bytes abbreviates --bytes_to_pipe, as with getopt_long. The writer ignores
    // it, and writes until the reader closes the pipe.
    piped("--bytes 1K", "--bytes 1M");
}
