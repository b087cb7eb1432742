//! `fizzbuzz` and `yes`: every byte, whatever they are written to and whoever
//! reads.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::{Running, pipespeed, run_alone, says, skip, start, start_into};
use fastpipe::transfer::{Input, SpliceOptions};
use fastpipe::wait::Wait;
use pipespeed_tools::fizzbuzz::{CodePath, FizzBuzz, naive};

const MIB: usize = 1 << 20;

/// Starts it, and gives what it writes.
fn piped(args: &str) -> (Running, PipeReader) {
    let (from, into) = std::io::pipe().unwrap();
    (start_into(pipespeed(args), into), from)
}

/// The lines from `from` on, for comparison: made by the portable way, which
/// has unit tests against the naive one.
struct Expected(FizzBuzz);

impl Expected {
    fn from(from: u64) -> Self {
        Expected(FizzBuzz::with_path(CodePath::Portable, from, u64::MAX))
    }

    #[track_caller]
    fn is(&mut self, got: &[u8]) {
        let mut expected = vec![0; got.len()];
        self.0.fill(&mut expected);
        if got != expected {
            let differ = got.iter().zip(&expected).position(|(a, b)| a != b);
            panic!("byte {differ:?} of {} is wrong", got.len());
        }
    }

    /// Reads and compares this number of bytes.
    #[track_caller]
    fn read(&mut self, from: &mut impl Read, bytes: usize) {
        let mut piece = vec![0; 100_003];
        let mut left = bytes;
        while left > 0 {
            let n = left.min(piece.len());
            from.read_exact(&mut piece[..n]).unwrap();
            self.is(&piece[..n]);
            left -= n;
        }
    }
}

/// All settings, which a reader that copies can't tell from one another.
const SETTINGS: [&str; 6] = [
    "",
    "--method drained",
    "--busy-loop",
    "--method drained --busy-loop",
    "--by portable",
    "--by avx2 --method drained",
];

fn is_supported(args: &str) -> bool {
    let known = !args.contains("avx2") || CodePath::Avx2.is_supported();
    if !known {
        skip("no AVX2 here");
    }
    known
}

#[test]
fn fizzbuzz_prints_what_everybody_knows() {
    let done = run_alone(pipespeed("fizzbuzz --to 16")).succeeded();
    let expected = "1 2 Fizz 4 Buzz Fizz 7 8 Fizz Buzz 11 Fizz 13 14 FizzBuzz 16";
    assert_eq!(done.out, expected.replace(' ', "\n") + "\n");
    let done = run_alone(pipespeed("fizzbuzz --from 98 --to 101")).succeeded();
    assert_eq!(done.out, "98\nFizz\nBuzz\n101\n");
    let done = run_alone(pipespeed(
        "fizzbuzz --from 9223372036854775807 --to 9223372036854775808",
    ));
    let last = "9223372036854775807\n9223372036854775808\n";
    assert_eq!(done.succeeded().out, last);
}

#[test]
fn fizzbuzz_goes_on_until_its_reader_has_had_enough() {
    for args in SETTINGS {
        if !is_supported(args) {
            continue;
        }
        for from in [1, 999_000_000] {
            let (fizzbuzz, mut reader) = piped(&format!("fizzbuzz --from {from} {args}"));
            Expected::from(from).read(&mut reader, 24 * MIB + 1);
            drop(reader);
            let done = fizzbuzz.finish().succeeded();
            assert_eq!(done.err, "", "{args}");
        }
    }
}

#[test]
fn fizzbuzz_ends_with_its_last_line() {
    for args in SETTINGS {
        if !is_supported(args) {
            continue;
        }
        for (from, to) in [(1, 1), (1, 100), (95, 5000), (1, 500_000)] {
            let (fizzbuzz, mut reader) = piped(&format!("fizzbuzz --from {from} --to {to} {args}"));
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert!(got == naive::lines(from, to), "{from} to {to} {args}");
            fizzbuzz.finish().succeeded();
        }
    }
}

#[test]
fn fizzbuzz_goes_to_files_and_sockets_too() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"head\n").unwrap();
    let into = file.try_clone().unwrap();
    start_into(pipespeed("fizzbuzz --to 300000"), into)
        .finish()
        .succeeded();
    let mut got = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_end(&mut got).unwrap();
    assert_eq!(&got[..5], b"head\n");
    assert!(got[5..] == naive::lines(1, 300_000));

    let (mut here, there) = UnixStream::pair().unwrap();
    let fizzbuzz = start_into(pipespeed("fizzbuzz --to 500000"), OwnedFd::from(there));
    let mut got = Vec::new();
    here.read_to_end(&mut got).unwrap();
    assert!(got == naive::lines(1, 500_000));
    fizzbuzz.finish().succeeded();
}

/// As pv does, and `tee` of some systems: what was spliced is looked at only
/// after the writer has gone on for long.
#[test]
fn fizzbuzz_is_right_for_a_late_reader_of_spliced_pages() {
    let (fizzbuzz, mut reader) = piped("fizzbuzz --from 1000000000");
    let mut expected = Expected::from(1_000_000_000);
    let (late, onward) = fastpipe::pipe::create().unwrap();
    let mut late = File::from(late);
    for _ in 0..20 {
        let mut input = Input::new(&reader, Wait::Block);
        let held = 65_536 - 4096;
        input
            .splice(&onward, held, SpliceOptions::default())
            .unwrap();
        let mut rest = vec![0; 5 * MIB];
        reader.read_exact(&mut rest).unwrap();
        let mut first = vec![0; held as usize];
        late.read_exact(&mut first).unwrap();
        expected.is(&first);
        expected.is(&rest);
    }
    drop(reader);
    fizzbuzz.finish().succeeded();
}

#[test]
fn what_fizzbuzz_can_not_do_is_said_in_one_line() {
    let file = tempfile::tempfile().unwrap();
    let endless = start_into(pipespeed("fizzbuzz"), file).finish();
    endless.refused(2, &["file", "--to"]);
}

#[test]
fn fizzbuzz_says_how_it_was_done_if_asked() {
    let (fizzbuzz, mut reader) = piped("fizzbuzz --to 5000000 --verbose");
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    let done = fizzbuzz.finish().succeeded();
    says(
        &done.err,
        &["generated by", "sent 32.18MiB", "system calls"],
    );
}

/// The first bytes of what `yes` has to print.
fn lines(line: &[u8], bytes: usize) -> Vec<u8> {
    let endless = line.iter().chain(b"\n").cycle();
    endless.take(bytes).copied().collect()
}

fn yes(strings: &[&[u8]]) -> Command {
    let mut command = pipespeed("yes");
    command.args(strings.iter().copied().map(OsStr::from_bytes));
    command
}

#[test]
fn yes_prints_its_strings_until_its_reader_has_had_enough() {
    let long = b"long ".repeat(25_000);
    let longer = b"x".repeat(100_000);
    let cases: [(&[&[u8]], &[u8]); 9] = [
        (&[], b"y"),
        (&[b""], b""),
        (&[b"a"], b"a"),
        (&[b"a", b"b c", b"", b"d"], b"a b c  d"),
        (&[b"--", b"--help"], b"--help"),
        (&[b"two\nlines"], b"two\nlines"),
        (&[b"\xff\xfe"], b"\xff\xfe"),
        (&[&long], &long),
        (&[&longer, &longer, &longer], &[&*longer; 3].join(&b' ')),
    ];
    for (strings, line) in cases {
        let (mut reader, into) = std::io::pipe().unwrap();
        let yes = start_into(yes(strings), into);
        let mut got = vec![0; 5 * MIB + 1];
        reader.read_exact(&mut got).unwrap();
        assert!(got == lines(line, got.len()), "{:?}", line.get(..20));
        drop(reader);
        yes.finish().succeeded();
    }
}

#[test]
fn yes_goes_to_sockets() {
    let (mut here, there) = UnixStream::pair().unwrap();
    let running = start_into(yes(&[b"no"]), OwnedFd::from(there));
    let mut got = vec![0; MIB];
    here.read_exact(&mut got).unwrap();
    assert!(got == lines(b"no", MIB));
    // With bytes unread, which a socket's writer may get to know as an error.
    drop(here);
    let done = running.finish();
    let said = done.err.contains("standard output: Connection reset");
    assert!(done.code == Some(if said { 1 } else { 0 }), "{done:?}");
}

#[test]
fn an_unknown_option_of_yes_is_said_in_one_line() {
    start(yes(&[b"--no-such"]))
        .finish()
        .refused(2, &["--no-such"]);
}
