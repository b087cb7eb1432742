//! What `pipespeed meter` passes on, and how it ends.

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;

use fastpipe::{Reader, pipe};
use rustix::fs::OFlags;

use super::{file_of, meter};
use crate::common::conditions::{few_descriptors, without_call};
use crate::common::{
    Outcome, Piped, full_device, run_alone, says, skip, start_into, start_piped, written_by,
};

/// Bytes in which a lost or repeated one shows.
fn data(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Feeds `bytes` to a command through a pipe. Returns what it passed on.
fn passed(command: Command, bytes: &[u8]) -> (Outcome, Vec<u8>) {
    let Piped {
        running,
        mut into,
        mut out,
    } = start_piped(command);
    let mut got = Vec::new();
    thread::scope(|scope| {
        // It may end before all is read.
        scope.spawn(move || drop(into.write_all(bytes)));
        out.read_to_end(&mut got).unwrap();
    });
    (running.finish(), got)
}

/// Between which kinds of ends is a matter of the library's tests.
#[test]
fn every_byte_is_passed_on_whatever_the_options() {
    let bytes = data(3_000_001);
    let file = file_of(&bytes);
    for options in [
        "-q",
        "-C -q",
        "-B 7000 -q",
        "-l -q",
        "-q -L 20M",
        "-l -q -L 100K",
        "-0n",
        "--json",
        "-n",
        "--resize-input -q",
    ] {
        let (outcome, got) = passed(meter(options), &bytes);
        outcome.succeeded();
        assert!(got == bytes, "{options}: from a pipe");
        let mut command = meter(options);
        command.arg(file.path()).stdin(Stdio::null());
        let out = tempfile::NamedTempFile::new().unwrap();
        let running = start_into(command, out.reopen().unwrap());
        running.finish().succeeded();
        let got = std::fs::read(&out).unwrap();
        assert!(got == bytes, "{options}: from a file to another");
    }
}

#[test]
fn several_files_are_passed_on_in_order_without_bad_one() {
    let (first, second) = (file_of(b"first "), file_of(b"second "));
    let mut command = meter("-q");
    command
        .arg(first.path())
        .arg("/nonexistent")
        .arg("/")
        .arg("-")
        .arg(second.path());
    let (outcome, got) = passed(command, b"input ");
    assert_eq!(got, b"first input second ");
    // Not found, and unreadable.
    assert_eq!(outcome.code, Some(2 | 16), "{outcome:#?}");
    let lines: Vec<&str> = outcome.err.lines().collect();
    assert_eq!(lines.len(), 2, "{outcome:#?}");
    says(lines[0], &["/nonexistent: No such file"]);
    assert!(lines[1].contains("/: Is a directory"), "{outcome:#?}");
}

#[test]
fn an_input_that_is_the_output_is_left_out() {
    let (same, other) = (file_of(b"same"), file_of(b" other"));
    let mut command = meter("-q");
    command
        .arg(same.path())
        .arg(other.path())
        .stdin(Stdio::null());
    let append = File::options().append(true).open(same.path()).unwrap();
    let outcome = start_into(command, append).finish();
    outcome.failed(
        4,
        &["the input is the output", same.path().to_str().unwrap()],
    );
    assert_eq!(std::fs::read(same.path()).unwrap(), b"same other");
}

#[test]
fn at_the_size_it_stops_and_leaves_the_next_byte() {
    let bytes = data(50_000);
    for options in ["-qS -s 12345", "-qCS -s 12345", "-qS -s 12345 -B 512"] {
        let (pipe, mut into) = std::io::pipe().unwrap();
        into.write_all(&bytes).unwrap();
        drop(into);
        let file = file_of(&bytes);
        for input in [OwnedFd::from(pipe), file.reopen().unwrap().into()] {
            let mut command = meter(options);
            command.stdin(input.try_clone().unwrap());
            let (outcome, got) = written_by(command);
            outcome.succeeded();
            let mut rest = Vec::new();
            File::from(input).read_to_end(&mut rest).unwrap();
            assert!(
                got == bytes[..12_345] && rest == bytes[12_345..],
                "{options}"
            );
        }
    }
}

#[test]
fn the_size_holds_for_all_files_together() {
    let (first, second) = (file_of(&[b'a'; 600]), file_of(&[b'b'; 600]));
    let mut command = meter("-qSs 1000");
    command
        .arg(first.path())
        .arg(second.path())
        .arg("/nonexistent");
    let (outcome, got) = passed(command, b"");
    outcome.succeeded();
    assert_eq!(got, [[b'a'; 600].as_slice(), &[b'b'; 400]].concat());
}

#[test]
fn at_so_many_lines_it_stops_and_leaves_next_line() {
    let text: String = (0..3000)
        .map(|n| format!("{n} {}\r\n", "x".repeat(n % 90)))
        .collect();
    for wanted in [1, 2, 77, 2999] {
        let end = text.match_indices('\n').nth(wanted - 1).unwrap().0 + 1;
        let (mut from, mut into) = std::io::pipe().unwrap();
        let mut command = meter(&format!("-q -l -S -s {wanted}"));
        command.stdin(from.try_clone().unwrap());
        let (mut out, out_into) = std::io::pipe().unwrap();
        let running = start_into(command, out_into);
        let (mut got, mut rest) = (String::new(), String::new());
        thread::scope(|scope| {
            let text = &text;
            scope.spawn(move || into.write_all(text.as_bytes()).unwrap());
            out.read_to_string(&mut got).unwrap();
            running.finish().succeeded();
            from.read_to_string(&mut rest).unwrap();
        });
        assert!(got == text[..end] && rest == text[end..], "{wanted} lines");
    }
}

#[test]
fn a_consumer_that_has_had_enough_ends_it_quietly() {
    for options in ["", "-q", "-C", "-l", "-L 100M", "-n"] {
        let mut piped = start_piped(meter(options));
        piped.into.write_all(b"some").unwrap();
        piped.out.read_exact(&mut [0; 4]).unwrap();
        drop(piped.out);
        // Nothing more comes, and still it ends.
        let outcome = piped.running.finish().succeeded();
        let only_numbers = outcome.err.lines().all(|line| line.parse::<u64>().is_ok());
        assert!(only_numbers, "{outcome:#?}");
    }
}

#[test]
fn an_output_that_fails_is_named_as_the_output() {
    for options in ["-q", "-l", "-C"] {
        let mut command = meter(options);
        command.stdin(File::open("/etc/passwd").unwrap());
        let outcome = start_into(command, full_device()).finish();
        outcome.failed(16, &["standard output", "No space left"]);
    }
}

#[test]
fn an_input_that_fails_is_named() {
    // Nothing is mapped at address 0.
    run_alone(meter("-q /proc/self/mem")).refused(16, &["/proc/self/mem", "Input/output error"]);
}

#[test]
fn a_connection_that_breaks_is_a_failed_input() {
    for options in ["-q", "-q -C", "-q -s 1M -S", "-q -l", "--json"] {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        // Closing a unix socket resets the connection if something is unread.
        (&ours).write_all(b"?").unwrap();
        let mut command = meter(options);
        command.stdin(OwnedFd::from(ours));
        let (mut out, out_into) = std::io::pipe().unwrap();
        let running = start_into(command, out_into);
        peer.write_all(&[b'd'; 1000]).unwrap();
        out.read_exact(&mut [0; 1000]).unwrap();
        drop(peer);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(16), "{options}: {outcome:#?}");
        let error = "standard input: Connection reset by peer";
        assert!(outcome.err.contains(error), "{options}: {outcome:#?}");
        let end = r#""end":"input failed""#;
        assert_eq!(outcome.err.contains(end), options == "--json");
    }
}

#[test]
fn the_input_pipe_keeps_its_size_unless_resizing_is_allowed() {
    for (options, may_grow) in [("-q", false), ("-C -q", false), ("--resize-input -q", true)] {
        let (from, mut into) = std::io::pipe().unwrap();
        fastpipe::pipe::set_capacity(&from, 65_536).unwrap();
        let mut command = meter(options);
        command.stdin(from.try_clone().unwrap());
        let (mut out, out_into) = std::io::pipe().unwrap();
        let running = start_into(command, out_into);
        into.write_all(b"x").unwrap();
        out.read_exact(&mut [0]).unwrap();
        let capacity = fastpipe::pipe::capacity(&from).unwrap();
        assert_eq!(capacity > 65_536, may_grow, "{options}: {capacity}");
        drop(into);
        running.finish().succeeded();
    }
}

#[test]
fn a_file_that_changes_after_the_end_does_not_change_what_is_read() {
    const CAPACITY: usize = 1 << 20;
    for len in [900_000, 3_000_001] {
        for is_truncated in [false, true] {
            let bytes = data(len);
            let file = file_of(&bytes);
            let (mut out, into) = std::io::pipe().unwrap();
            if pipe::set_capacity(&into, CAPACITY).is_err() {
                return skip("a pipe can't be enlarged to 1 MiB here");
            }
            let mut command = meter("-q");
            command.arg(file.path());
            let running = start_into(command, into);
            // Nothing but the last pipeful is left when it ends.
            let mut got = vec![0; len.saturating_sub(CAPACITY)];
            out.read_exact(&mut got).unwrap();
            running.finish().succeeded_in_silence();
            if is_truncated {
                file.as_file().set_len(0).unwrap();
            } else {
                file.as_file().write_all_at(&vec![b'!'; len], 0).unwrap();
            }
            out.read_to_end(&mut got).unwrap();
            assert!(got == bytes, "{len} {is_truncated}");
        }
    }
}

#[test]
fn a_file_that_changes_after_the_end_does_not_change_what_is_in_a_socket() {
    let bytes = data(60_000);
    let file = file_of(&bytes);
    let (mut ours, into) = UnixStream::pair().unwrap();
    into.set_nonblocking(true).unwrap();
    let mut command = meter("-q");
    command.arg(file.path());
    let running = start_into(command, OwnedFd::from(into));
    running.finish().succeeded_in_silence();
    let changed = vec![b'!'; bytes.len()];
    file.as_file().write_all_at(&changed, 0).unwrap();
    let mut got = Vec::new();
    ours.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
}

/// A block device over a file, which losetup(8) makes; `None` if it can't.
struct LoopDevice(String);

impl LoopDevice {
    fn new(path: &std::path::Path) -> Option<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(path);
        let made = command.output().ok().filter(|made| made.status.success())?;
        let name = String::from_utf8(made.stdout).ok()?;
        Some(LoopDevice(name.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let mut command = Command::new("losetup");
        let _ = command.args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_device_that_changes_after_the_end_does_not_change_what_is_read() {
    const CAPACITY: usize = 1 << 20;
    let bytes = data(2 * CAPACITY);
    let file = file_of(&bytes);
    let Some(device) = LoopDevice::new(file.path()) else {
        return skip("no loop device can be made here");
    };
    // As long as it is open its pages are kept.
    let open = File::options()
        .read(true)
        .write(true)
        .open(&device.0)
        .unwrap();
    let (mut out, into) = std::io::pipe().unwrap();
    if pipe::set_capacity(&into, CAPACITY).is_err() {
        return skip("a pipe can't be enlarged to 1 MiB here");
    }
    let mut command = meter("-q");
    command.arg(&device.0);
    let running = start_into(command, into);
    let mut got = vec![0; bytes.len() - CAPACITY];
    out.read_exact(&mut got).unwrap();
    running.finish().succeeded_in_silence();
    open.write_all_at(&vec![b'!'; bytes.len()], 0).unwrap();
    out.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
}

/// Whatever is left stays in the pipe.
#[test]
fn a_device_that_is_too_small_is_an_error_unless_the_input_has_no_end() {
    const LEN: usize = 1 << 20;
    let bytes = data(LEN + 5);
    let file = file_of(&vec![0; LEN]);
    let Some(device) = LoopDevice::new(file.path()) else {
        return skip("no loop device can be made here");
    };
    let passed_on = |mut command: Command, input: Stdio| {
        command.stdin(input);
        let output = File::options().write(true).open(&device.0).unwrap();
        start_into(command, output).finish()
    };
    for more in [0, 5] {
        let (mut input, mut into) = std::io::pipe().unwrap();
        let (passed, left) = thread::scope(|scope| {
            let feeder = scope.spawn(|| {
                into.write_all(&bytes[..LEN + more]).unwrap();
                drop(into);
            });
            let passed = passed_on(meter("-q"), input.try_clone().unwrap().into());
            feeder.join().unwrap();
            let mut left = Vec::new();
            input.read_to_end(&mut left).unwrap();
            (passed, left)
        });
        if more == 0 {
            passed.succeeded_in_silence();
        } else {
            assert_eq!(passed.code, Some(16), "{passed:?}");
            let message = "standard output: the device is full, standard input has more";
            assert!(passed.err.contains(message), "{passed:?}");
        }
        assert_eq!(left, &bytes[LEN..LEN + more]);
    }
    passed_on(meter("-q /dev/zero"), Stdio::null()).succeeded_in_silence();
}

/// Pages that the first meter splices would outlast it in the pipe of the second one.
#[test]
fn a_copy_does_not_change_after_the_end_behind_another_meter() {
    const CAPACITY: usize = 1 << 20;
    const LEN: usize = 2 * CAPACITY - (64 << 10);
    let bytes = data(LEN);
    let file = file_of(&bytes);
    let (between, into) = std::io::pipe().unwrap();
    let (mut out, last) = std::io::pipe().unwrap();
    if [&into, &last]
        .into_iter()
        .any(|end| pipe::set_capacity(end, CAPACITY).is_err())
    {
        return skip("a pipe can't be enlarged to 1 MiB here");
    }
    let mut first = meter("-q -C");
    first.arg(file.path());
    let first = start_into(first, into);
    let mut second = meter("-q");
    second.stdin(between);
    let second = start_into(second, last);
    first.finish().succeeded_in_silence();
    file.as_file().write_all_at(&[b'!'; LEN], 0).unwrap();
    let mut got = Vec::new();
    out.read_to_end(&mut got).unwrap();
    second.finish().succeeded_in_silence();
    assert!(got == bytes);
}

/// Other writers at the same offset: splice(2) looks at it before it writes, and moves it after.
#[test]
fn a_copy_loses_nothing_where_others_write_to_the_same_open_file() {
    let bytes = data(1_400_000);
    let input = file_of(&bytes);
    let output = file_of(b"");
    let running: Vec<_> = (0..4)
        .map(|_| {
            let mut command = meter("-q -C");
            command.arg(input.path());
            start_into(command, output.as_file().try_clone().unwrap())
        })
        .collect();
    for meter in running {
        meter.finish().succeeded_in_silence();
    }
    assert_eq!(output.as_file().metadata().unwrap().len(), 5_600_000);
}

/// A pipe that holds bytes, from the `first` on as packets (O_DIRECT), of which a short read
/// loses the rest.
fn packets_after(first: usize, bytes: &[u8]) -> PipeReader {
    let (pipe, mut into) = std::io::pipe().unwrap();
    into.write_all(&bytes[..first]).unwrap();
    rustix::fs::fcntl_setfl(&into, OFlags::WRONLY | OFlags::DIRECT).unwrap();
    for packet in bytes[first..].chunks(4000) {
        into.write_all(packet).unwrap();
    }
    pipe
}

#[test]
fn no_part_of_a_packet_is_lost_whatever_is_refused() {
    let numbered: String = (0..5013).map(|n| format!("{n:07}\n")).collect();
    let bytes = numbered.as_bytes();
    let limits: [fn(&mut Command) -> bool; 4] = [
        |_| true,
        |command| {
            few_descriptors(command, 5);
            true
        },
        |command| without_call(command, libc::SYS_splice),
        |command| without_call(command, libc::SYS_tee),
    ];
    for (options, len) in [
        ("-q", bytes.len()),
        ("-q -W", bytes.len()),
        ("-q -C -W", bytes.len()),
        ("-q -B 100", bytes.len()),
        ("-q -l -B 4001", bytes.len()),
        ("-q -L 1M", bytes.len()),
        ("-q -S -s 20001", 20_001),
        ("-q -S -s 20001 -B 100", 20_001),
        ("-q -l -S -s 1000", 8000),
    ] {
        for first in [0, 8, 104] {
            for (n, limit) in limits.iter().enumerate() {
                let case = format!("{options}, {first} bytes first, limit {n}");
                let from = packets_after(first, bytes);
                let mut command = meter(options);
                command.stdin(from.try_clone().unwrap());
                if !limit(&mut command) {
                    continue;
                }
                // Packets that are spliced stay packets.
                let (out, into) = std::io::pipe().unwrap();
                let running = start_into(command, into);
                let mut got = Vec::new();
                let mut out = Reader::builder().open(out).unwrap();
                out.read_to_end(&mut got).unwrap();
                let outcome = running.finish();
                assert!(got == bytes[..len], "{case}");
                let mut rest = Vec::new();
                let mut from = Reader::builder().open(from).unwrap();
                from.read_to_end(&mut rest).unwrap();
                if rest == bytes[len..] {
                    outcome.succeeded();
                } else {
                    assert!(n > 0, "{case}");
                    let lost = format!("{} bytes", bytes.len() - len - rest.len());
                    outcome.refused(16, &["standard input", &lost, "are lost"]);
                }
            }
        }
    }
}
