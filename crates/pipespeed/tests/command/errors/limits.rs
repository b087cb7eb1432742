//! What the system does not give: exit status 1 (2 where the command line could
//! have known) and one line that names the limit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::{
    Outcome, PIPESPEED, full_device, json_file, names_in, pipeline, pipespeed, pipespeed_in, run,
    run_alone, run_in, says, skip, start, start_into,
};
use rustix::process::Resource;

/// What a writer says whose standard output is a pipe.
fn into_a_pipe(writer: Command) -> Outcome {
    let (_from, into) = std::io::pipe().unwrap();
    start_into(writer, into).finish()
}

/// What a reader says whose standard input is a pipe with 16 bytes in it.
fn from_a_pipe(reader: Command) -> Outcome {
    start(with_16_bytes(reader)).finish()
}

fn with_16_bytes(mut reader: Command) -> Command {
    use std::io::Write;
    let (from, mut into) = std::io::pipe().unwrap();
    into.write_all(&[0; 16]).unwrap();
    reader.stdin(from);
    reader
}

#[test]
fn a_pipe_over_the_limit_is_refused_with_the_limit() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let limit = fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit >= 1 << 30 {
        skip("pipes have no limit here");
        return;
    }
    let (over, limit) = (2 * limit, limit.to_string());
    let words = ["--pipe-size", &limit, "pipe-max-size"];
    let command = program.command(&format!("write --pipe-size {over}"));
    into_a_pipe(command).refused(1, &words);
    let command = program.command(&format!("read --pipe-size {over}"));
    from_a_pipe(command).refused(1, &words);
    // The pipe gets half the buffer, so the buffer is at fault.
    let args = format!("write --write-with-vmsplice --buf-size {}", 2 * over);
    into_a_pipe(program.command(&args)).refused(1, &["--buf-size", &limit]);
    let command = program.command(&format!("bench --no-save --pipe-size {over}"));
    run_alone(command).refused(2, &["--pipe-size", "the limit is", "pipe-max-size"]);
}

#[test]
fn buffers_larger_than_the_memory_are_refused() {
    // What the limit of the process forbids, and what no machine has.
    for (bytes, limit, code, words) in [
        ("1G", 1 << 30, 1, ["--buf-size 1073741824", "memory", ""]),
        (
            "1024T",
            4 << 30,
            2,
            ["1024TiB", "3072TiB of memory needed", "smaller"],
        ),
    ] {
        for (args, writes) in [
            ("write", true),
            ("write --write-with-vmsplice --pipe-size 64K", true),
            ("read", false),
        ] {
            let mut command = pipespeed(&format!("{args} --buf-size {bytes}"));
            conditions::limit(&mut command, Resource::As, limit);
            let outcome = if writes {
                into_a_pipe(command)
            } else {
                from_a_pipe(command)
            };
            outcome.refused(code, &words);
        }
    }
}

#[test]
fn sizes_that_would_exhaust_memory_are_refused_before_anything_runs() {
    // No machine has as much; should a size be accepted after all, it can't be mapped.
    for (args, size) in [
        ("bench", "--buffer-size 1024T"),
        ("bench --rounds 1", "--buffer-size 1024T"),
        ("bench touched", "--buffer-size 1024T"),
        ("bench changes", "--buffer-size 1024T"),
        ("bench options", "--buffer-size 1024T"),
        ("bench volumes", "--buffer-size 1024T"),
        ("bench sizes", "--buffer-size 1024T"),
        ("bench memory", "--size 1024T"),
        ("profile write_read", "--buffer-size 1024T"),
        ("profile --all", "--buffer-size 1024T"),
        ("costs --pinning", "--size 1024T"),
        ("meter", "--buffer-size 7E"),
    ] {
        let mut command = pipespeed(&format!("{args} {size}"));
        conditions::limit(&mut command, Resource::As, 4 << 30);
        let option = size.split(' ').next().unwrap();
        let words = ["memory needed", "80 % of what is available (", "smaller"];
        run_alone(command).refused(2, &[&[option][..], &words].concat());
    }
}

#[test]
fn too_little_address_space_or_stack_is_refused_with_limit() {
    let space = (
        Resource::As,
        64 << 20,
        "raise the limit (ulimit -v, now 65536)",
    );
    let private = (
        Resource::Data,
        16 << 20,
        "raise the limit (ulimit -d, now 16384)",
    );
    let stack = (
        Resource::Stack,
        64 << 10,
        "raise the limit (ulimit -s, now 64)",
    );
    // Its own options need less than those of all subcommands, but for a build that is not optimised.
    let stack_of_boost = if cfg!(debug_assertions) {
        let words = "raise the limit (ulimit -s, now 192)";
        (Resource::Stack, 192 << 10, words)
    } else {
        stack
    };
    for (args, (resource, bytes, words)) in [
        ("check", space),
        ("profile write_read --no-save", space),
        ("profile write_read --no-save", private),
        // It would be left alone by a program that is aborted.
        ("top -- true", space),
        ("doctor --if-stuck 1s -- true", space),
        ("top -- true", private),
        ("check", stack),
        ("top --once", stack),
        ("doctor", stack),
        ("boost --prove=1 --yes -q true", stack_of_boost),
        ("meter /dev/null", stack),
        ("--help", stack),
    ] {
        // Theirs have another meaning for 1.
        let code = match args {
            "doctor" | "doctor --if-stuck 1s -- true" => 2,
            "meter /dev/null" => 16,
            _ => 1,
        };
        let mut command = pipespeed(args);
        conditions::limit(&mut command, resource, bytes);
        run_alone(command).refused(code, &[" are allowed; ", words]);
    }
}

#[test]
fn too_few_descriptors_to_start_name_the_limit() {
    for (args, descriptors, code) in [
        ("bench --quick --no-save", 4, 1),
        ("latency pipe --time 5", 4, 1),
        ("check -q --json never", 4, 2),
    ] {
        let mut command = pipespeed(args);
        conditions::few_descriptors(&mut command, descriptors);
        let limit = format!("(ulimit -n, now {descriptors})");
        run_alone(command).refused(code, &[&limit]);
    }
}

#[test]
fn memory_over_the_limit_of_locked_memory_is_not_locked() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let words = ["--lock-memory", "RLIMIT_MEMLOCK", "65536"];
    for args in [
        "write --lock-memory",
        "write --lock-memory --write-with-vmsplice",
    ] {
        let mut command = program.command(args);
        conditions::limit(&mut command, Resource::Memlock, 65_536);
        into_a_pipe(command).refused(1, &words);
    }
    let mut command = program.command("read --lock-memory");
    conditions::limit(&mut command, Resource::Memlock, 65_536);
    from_a_pipe(command).refused(1, &words);
}

#[test]
fn huge_pages_to_be_checked_and_not_given_are_error() {
    let words = ["--check-huge-page", "only 0 of", "transparent huge pages"];
    for args in ["", "--write-with-vmsplice"] {
        let mut command = pipespeed(&format!("write --huge-page --check-huge-page {args}"));
        conditions::no_huge_pages(&mut command);
        into_a_pipe(command).refused(1, &words);
        // Without --verbose.
        let mut command = pipespeed(&format!("write --huge-page --bytes 64K {args}"));
        conditions::no_huge_pages(&mut command);
        let (writer, reader) = pipeline(command, pipespeed("read --bytes-to-pipe 64K"));
        writer.succeeded();
        reader.succeeded();
    }
    let mut command = pipespeed("read --huge-page --check-huge-page");
    conditions::no_huge_pages(&mut command);
    from_a_pipe(command).refused(1, &words);
}

#[test]
fn huge_pages_that_nothing_can_show_are_an_error() {
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let args = ["write", "--huge-page", "--check-huge-page"];
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &args) else {
        return;
    };
    into_a_pipe(command).refused(1, &["--check-huge-page", "/proc"]);
}

#[test]
fn where_nothing_can_be_saved_run_is_made_all_same() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = program.command("bench --quick --rounds 1 --case write_read");
    command.current_dir(&directory);
    let outcome = run_alone(command).succeeded();
    says(&outcome.err, &["results will not be saved"]);
    assert!(outcome.out.contains("write_read"), "{outcome:#?}");
    assert!(names_in(directory.path()).is_empty());
}

/// Short runs of every command that measures.
const SHORT: [&str; 4] = [
    "bench --quick --rounds 2 --case write_read -q",
    "latency pipe --size 8 --count 3 --rounds 2 --placement free -q",
    "costs --rounds 2 -q",
    "costs --pinning --pages base --size 1M --rounds 2 -q",
];

/// Sampled if that is allowed, else counted.
const PROFILE: &str = "profile write_read --time 0.4 -q";

#[test]
fn every_measurement_is_saved_unless_that_is_not_wanted() {
    let all = SHORT.into_iter().chain([PROFILE]);
    for (run, stem) in all.zip(["ladder-", "latency-", "costs-", "pinning-", "profile-"]) {
        let directory = tempfile::tempdir().unwrap();
        let in_directory = |options: &str| {
            run_in(&directory, &format!("{} {options}", run.replace(" -q", ""))).succeeded()
        };
        in_directory("--no-save");
        in_directory("-q --json -");
        assert!(names_in(directory.path()).is_empty(), "{run}");
        let outcome = in_directory("");
        assert_eq!(names_in(directory.path()), ["pipespeed-results"]);
        let results = directory.path().join("pipespeed-results");
        let names = names_in(&results);
        assert!(names.iter().any(|name| name.ends_with(".json")), "{run}");
        for name in &names {
            assert!(name.starts_with(stem), "{name}");
            assert!(outcome.err.contains(&**name), "{outcome:#?}");
            if name.ends_with(".json") {
                assert_eq!(json_file(&results.join(name))["command"][0], "pipespeed");
            }
        }
        let quiet = in_directory("-q");
        assert_eq!(quiet.err, "");
    }
}

#[test]
fn a_file_that_cannot_be_saved_is_named_after_figures() {
    for run in SHORT.into_iter().chain([PROFILE, "check --only semantics"]) {
        for option in ["--json", "--csv", "--chart"] {
            let has_all = run.starts_with("bench") || run.starts_with("latency");
            if option == "--json" || has_all {
                let outcome = run_alone(pipespeed(&format!("{run} {option} /dev/full")));
                assert!(outcome.out.lines().count() > 2, "{outcome:#?}");
                outcome.failed(1, &["cannot write /dev/full", "No space left"]);
            }
        }
        // Larger than a file may be, unlike what is printed.
        let directory = tempfile::tempdir().unwrap();
        let mut command = pipespeed_in(&directory, &format!("{run} --json run.json"));
        conditions::limit(&mut command, Resource::Fsize, 4096);
        let outcome = run_alone(command);
        outcome.failed(1, &["run.json", "File too large"]);
        assert!(names_in(directory.path()).is_empty());
    }
}

#[test]
fn a_full_device_as_standard_output_is_an_error() {
    for args in [
        "bench --list",
        "man",
        "completions bash",
        "--help",
        "bench -h",
        "help read",
        "--version",
        "yes",
        "fizzbuzz --to 100000",
        "write --bytes 1K",
    ] {
        let outcome = start_into(pipespeed(args), full_device()).finish();
        outcome.failed(1, &["standard output", "No space left"]);
    }
    for run in SHORT {
        let outcome = start_into(pipespeed(&format!("{run} --json -")), full_device()).finish();
        outcome.failed(1, &["cannot write to standard output: No space left"]);
    }
    let reader = with_16_bytes(pipespeed("read --bytes-to-pipe 16"));
    let outcome = start_into(reader, full_device()).finish();
    outcome.failed(1, &["No space left"]);
}

#[test]
fn standard_output_or_input_that_is_closed_is_handled() {
    let closed = |args: &str, which: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {args} {which}")]);
        command.arg(PIPESPEED);
        run(command)
    };
    for args in [
        "write",
        "read",
        "check",
        "bench --list",
        "man",
        "meter /dev/null",
        "fizzbuzz --to 10",
        // Status 1 is that of a slower case.
        "compare a b --fail-on slower",
    ] {
        closed(args, ">&-").refused(2, &["standard output is closed"]);
    }
    for args in ["bench --list", "check", "--version", "yes"] {
        closed(args, "1</dev/null").refused(2, &["standard output is open for reading only"]);
    }
    closed("check", "<&- 2>&-").succeeded();
    // Its report is lost.
    for option in ["-n", "--json"] {
        let outcome = closed(&format!("meter {option} /dev/null"), "2>&-");
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    }
    // The report on a command goes to standard error.
    let outcome = closed("doctor --time 0.2 -- true", "2>&-");
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    closed("read", "<&-").refused(2, &["standard input is closed"]);
    closed("meter -q", "<&-").refused(2, &["standard input", "closed"]);
    closed("compare - b", "0>/dev/null").refused(2, &["standard input: cannot be read: Bad file"]);
    closed("compare - b", "<&-").refused(2, &["standard input: cannot be read: it is closed"]);
}

#[test]
fn too_few_processes_to_start_name_the_limits() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    for args in [
        "bench --quick --rounds 1 --case write_read --no-save",
        "latency pipe --count 1 --rounds 1 --placement free --no-save",
    ] {
        let mut command = program.command(args);
        conditions::limit(&mut command, Resource::Nproc, 0);
        let words = ["can't start the ", "(ulimit -u, now 0)", "pids.max"];
        let outcome = run_alone(command);
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        for word in words {
            assert!(outcome.err.contains(word), "{word}: {outcome:#?}");
        }
    }
    let mut command = program.command("costs --quick --no-save");
    conditions::limit(&mut command, Resource::Nproc, 0);
    let outcome = run_alone(command).succeeded();
    says(outcome.unwrapped(), &["(ulimit -u, now 0)"]);
}

#[test]
fn messages_have_no_numbers_of_errors() {
    for args in [
        "bench --json /nonexistent/a",
        "compare /nonexistent/a /nonexistent/b",
        "meter /nonexistent/a",
        "meter --json /nonexistent/a",
    ] {
        let outcome = run_alone(pipespeed(args));
        assert!(outcome.err.contains("No such"), "{outcome:#?}");
        assert!(!outcome.err.contains("os error"), "{outcome:#?}");
    }
    // In a record and its table, too.
    let mut command = pipespeed("bench channels --channel tcp --size 4K --rounds 1 --no-save -v");
    if conditions::failing_call(&mut command, libc::SYS_socket, libc::ENETDOWN) {
        let outcome = run_alone(command);
        assert!(outcome.err.contains("Network is down"), "{outcome:#?}");
        assert!(!outcome.err.contains("os error"), "{outcome:#?}");
    }
}

#[test]
fn a_file_has_no_reader_that_could_have_left() {
    let input = tempfile::NamedTempFile::new().unwrap();
    fs::write(&input, [b'x'; 100_000]).unwrap();
    let meter = format!("meter -qC {}", input.path().display());
    for errno in [libc::EPIPE, libc::ECONNRESET] {
        for (args, status) in [(&*meter, 16), ("fizzbuzz --to 100000", 1), ("yes", 1)] {
            let mut command = pipespeed(args);
            // Of standard output: the message is still printed.
            if !conditions::failing_call_with(&mut command, libc::SYS_write, (0, 1), errno)
                || !conditions::failing_call(&mut command, libc::SYS_pwritev2, libc::ENOSYS)
            {
                return;
            }
            let outcome = start_into(command, tempfile::tempfile().unwrap()).finish();
            outcome.failed(status, &["standard output"]);
        }
    }
}

#[test]
fn a_refused_call_is_not_taken_for_a_limit_or_a_closed_descriptor() {
    for call in [libc::SYS_prlimit64, libc::SYS_fcntl] {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let mut command = pipespeed("bench --list");
            if !conditions::failing_call(&mut command, call, errno) {
                return;
            }
            let outcome = run_alone(command);
            if call == libc::SYS_prlimit64 {
                outcome.succeeded_in_silence();
            } else {
                assert!(!outcome.err.contains("is closed"), "{outcome:#?}");
            }
        }
    }
}

#[test]
fn standard_output_that_nobody_reads_any_more_ends_command_well() {
    let unread = || std::io::pipe().unwrap().1;
    for args in ["bench --list", "man", "completions bash", "--help"] {
        let outcome = start_into(pipespeed(args), unread()).finish().succeeded();
        assert_eq!(outcome.err, "", "{outcome:#?}");
    }
    for args in [
        "write",
        "write --write-with-vmsplice",
        "write --busy-loop --bytes 1G",
    ] {
        let outcome = start_into(pipespeed(args), unread()).finish().succeeded();
        assert_eq!(outcome.err, "", "{outcome:#?}");
    }
    let saves = "bench --quick --rounds 1 --case write_read --json - -q";
    for args in [saves, "check"] {
        let outcome = start_into(pipespeed(args), unread()).finish();
        outcome.succeeded_in_silence();
    }
}

#[test]
fn where_no_file_may_grow_measurements_are_still_shown() {
    let directory = tempfile::tempdir().unwrap();
    let limited = |args: &str| {
        let mut command = pipespeed_in(&directory, args);
        // Enough for what is said, which goes to files here, but for no ring.
        conditions::limit(&mut command, Resource::Fsize, 8 << 10);
        run_alone(command)
    };
    let outcome = limited("bench channels --channel ring,pipe --size 4K --quick --rounds 1 -v");
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let text = outcome.unwrapped();
    says(&text, &["Measured: 1 round", "(ulimit -f)"]);
    assert!(outcome.err.contains("File too large"), "{outcome:#?}");
    let outcome =
        limited("latency ring pipe --size 64 --count 100 --rounds 1 -v --no-save").succeeded();
    assert!(outcome.unwrapped().contains("(ulimit -f)"), "{outcome:#?}");
}
