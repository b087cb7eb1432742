//! The exact published commands, and their output.

use std::path::Path;

use crate::common::{
    Outcome, READ, WRITE, assert_result_line, command, pipeline, read, run_alone, skip, write,
};

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
fn every_rung_delivers_its_bytes_while_its_pipes_are_boosted() {
    let pipespeed = Path::new(WRITE).with_file_name("pipespeed");
    if !pipespeed.exists() {
        skip("pipespeed is not built");
        return;
    }
    let run = |program: &Path, options: &str, line: &str| {
        let mut command = command(program, options);
        command.arg(line);
        run_alone(command).succeeded_in_silence()
    };
    let boost = |line: &str| run(&pipespeed, "boost --shell /bin/sh", line);
    for (writer, reader) in LADDER {
        let sum = format!("{WRITE} {writer} | head -c 100M | cksum");
        let plain = run(Path::new("sh"), "-c", &sum);
        assert_eq!(boost(&sum).out, plain.out, "{writer}");
        let outcome = boost(&format!(
            "{WRITE} {writer} | {READ} {reader} --bytes_to_pipe 100M"
        ));
        assert_result_line(&outcome, "256KiB buffer, 400 iterations (100MiB piped)");
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
fn iterations_are_whole_buffers_and_sizes_are_exact() {
    let outcome = piped(
        "--write_with_vmsplice",
        "--read_with_splice --bytes_to_pipe=1G --buf_size=1000000",
    );
    assert_result_line(&outcome, "1000000B buffer, 1073 iterations (1GiB piped)");
}

#[test]
fn the_measuring_scripts_options_suit_both_ends() {
    // The published script gives both ends the same options.
    for (writer, reader) in LADDER {
        let mut words: Vec<&str> = writer.split(' ').chain(reader.split(' ')).collect();
        words.dedup();
        let options = words.join(" ");
        let both = format!("--csv --bytes_to_pipe=4194304 --buf_size=262144 {options}");
        let line = piped(&both, &both).out;
        let given = |option: &str| u8::from(options.contains(option));
        let expected = format!(
            ",4194304,262144,0,{},0,{},0,{},{},0,0,0,0\n",
            given("--busy_loop"),
            given("--huge_page"),
            given("--write_with_vmsplice"),
            given("--read_with_splice"),
        );
        assert!(line.ends_with(&expected), "{line}: {expected}");
    }
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
