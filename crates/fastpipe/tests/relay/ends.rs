//! Relays from every kind of descriptor to every other.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::common::ends::{FROM, From, TECHNIQUES, TO, To, between, collected, input, output};
use crate::common::{Directory, assert_same, flags, pattern, pipe_of};
use fastpipe::relay::{End, Flow, Options, Relayed, Technique, relay};

const LEN: usize = 300_001;

/// Relays `limit` of LEN bytes, and checks the output and the rest of the input.
fn check(from: From, to: To, options: Options, limit: usize) -> Relayed {
    let directory = Directory::new();
    let bytes = pattern(LEN);
    let (reader, writing) = input(from, &directory, &bytes);
    let (writer, collector) = output(to, &directory, limit);
    let before = (flags(&reader), flags(&writer));
    let options = options.limit(limit as u64);
    let done = relay(&reader, &writer, &options, |_| Flow::Continue).unwrap();
    assert_eq!((done.taken, done.given), (limit as u64, limit as u64));
    assert_eq!(done.end, End::Limit, "{from:?} to {to:?}");
    assert!(done.undelivered.is_empty());
    assert_eq!(
        (flags(&reader), flags(&writer)),
        before,
        "no flag is touched"
    );
    let got = collected(to, &directory, writer, collector);
    assert_same(&got, &bytes[..limit]);

    // The rest is there for the next process.
    let mut rest = vec![0; LEN - limit];
    let mut file = File::from(reader);
    file.read_exact(&mut rest).unwrap();
    assert_same(&rest, &bytes[limit..]);
    if from != From::Terminal {
        assert_eq!(file.read(&mut [0]).unwrap(), 0, "and no more");
    }
    writing.join().unwrap();
    done
}

#[test]
fn every_technique_moves_every_byte_between_any_two_ends() {
    for from in FROM {
        for to in TO {
            check(from, to, Options::new(), 123_457);
            for technique in TECHNIQUES {
                let done = check(from, to, Options::new().technique(technique), 200_003);
                assert!(
                    [technique, Technique::Copy].contains(&done.technique),
                    "{technique} asked for, {} used",
                    done.technique
                );
            }
        }
    }
}

#[test]
fn an_oversized_block_is_clamped() {
    for technique in TECHNIQUES {
        for (from, to) in [(From::Pipe, To::Pipe), (From::File, To::File)] {
            let options = Options::new().technique(technique).block(usize::MAX);
            check(from, to, options, LEN);
        }
    }
}

#[test]
fn without_a_limit_a_relay_runs_to_the_end() {
    for from in FROM {
        // A terminal can't end without losing bytes.
        if from == From::Terminal {
            continue;
        }
        for to in TO {
            for options in [Options::new(), Options::new().copy()] {
                let done = between(from, to, &pattern(LEN), |reader, writer| {
                    relay(reader, writer, &options, |_| Flow::Continue).unwrap()
                });
                assert_eq!((done.end, done.given), (End::EndOfData, LEN as u64));
            }
        }
    }
}

#[test]
fn the_technique_depends_on_the_two_ends() {
    use Technique::{Copy, CopyFileRange, Sendfile, Splice, SpliceThroughPipe};
    for (from, to, technique) in [
        (From::File, To::File, CopyFileRange),
        (From::File, To::Pipe, Splice),
        (From::Pipe, To::Pipe, Splice),
        (From::Pipe, To::File, Copy),
        (From::Pipe, To::UnixNonblocking, Splice),
        (From::Pipe, To::Unix, Copy),
        (From::File, To::TcpNonblocking, Sendfile),
        (From::File, To::Tcp, Copy),
        (From::Unix, To::File, SpliceThroughPipe),
        (From::Unix, To::UnixNonblocking, Copy),
        (From::Terminal, To::Pipe, Copy),
        (From::Pipe, To::Terminal, Copy),
    ] {
        let done = check(from, to, Options::new(), 100_000);
        assert_eq!(done.technique, technique, "{from:?} to {to:?}");
        // Each other technique is listed with a reason, except those that would be next.
        for other in done.passed_over {
            assert_ne!(other.technique, technique, "{other}");
        }
    }
}

#[test]
fn holes_and_an_endless_input_arrive_up_to_the_limit() {
    let inputs = Directory::new();
    let holes = inputs.file("holes", b"begin");
    holes.write_all_at(b"end", 400_000).unwrap();
    let all = std::fs::read(inputs.path("holes")).unwrap();
    let zero = File::open("/dev/zero").unwrap();
    for technique in TECHNIQUES {
        for to in [To::Pipe, To::File, To::UnixNonblocking, To::Tcp] {
            for (mut input, expected) in [(&holes, &all), (&zero, &vec![0; LEN])] {
                let directory = Directory::new();
                let (writer, collector) = output(to, &directory, expected.len());
                let options = Options::new().technique(technique);
                let options = options.limit(expected.len() as u64);
                relay(input, &writer, &options, |_| Flow::Continue).unwrap();
                assert_same(&collected(to, &directory, writer, collector), expected);
                input.rewind().unwrap();
            }
        }
    }
}

#[test]
fn proc_files_of_length_zero_are_read_completely() {
    let asked = TECHNIQUES.map(|t| Options::new().technique(t));
    for options in asked.into_iter().chain([Options::new()]) {
        for path in ["/proc/version", "/proc/cpuinfo", "/proc/self/status"] {
            for to in [To::File, To::Pipe, To::UnixNonblocking, To::Append] {
                let directory = Directory::new();
                let (writer, collector) = output(to, &directory, 0);
                let file = File::open(path).unwrap();
                let done = relay(&file, &writer, &options, |_| Flow::Continue).unwrap();
                let got = collected(to, &directory, writer, collector);
                assert_eq!(done.given, got.len() as u64);
                // Values such as frequencies change, but the end of the file does not.
                let expected = std::fs::read(path).unwrap();
                assert!(got.len() >= expected.len() * 9 / 10 && !got.is_empty());
                assert_eq!(got.first(), expected.first(), "{path}");
                assert_eq!(got.last(), expected.last(), "{path}");
            }
        }
    }
}

#[test]
fn a_relay_starts_at_a_files_position_and_advances_it() {
    for technique in TECHNIQUES {
        let directory = Directory::new();
        let bytes = pattern(LEN);
        let mut file = directory.file("in", &bytes);
        file.seek(std::io::SeekFrom::Start(5000)).unwrap();
        let mut out = directory.file("out", &[b'.'; 100]);
        out.seek(std::io::SeekFrom::Start(10)).unwrap();
        let options = Options::new().technique(technique).limit(7000);
        relay(&file, &out, &options, |_| Flow::Continue).unwrap();
        assert_eq!(file.stream_position().unwrap(), 12_000, "{technique}");
        assert_eq!(out.stream_position().unwrap(), 7010, "{technique}");
        let got = std::fs::read(directory.path("out")).unwrap();
        assert_eq!(&got[..10], &[b'.'; 10]);
        assert_same(&got[10..], &bytes[5000..12_000]);
    }
}

#[test]
fn only_pipes_that_may_be_enlarged_are_enlarged() {
    let size = |fd: &OwnedFd| fastpipe::pipe::capacity(fd).unwrap();
    for (options, input_grows, output_grows) in [
        (Options::new(), false, true),
        (Options::new().raise_capacity(false), false, false),
        (Options::new().raise_input_capacity(true), true, true),
    ] {
        let (reader, in_writer) = pipe_of(16_384);
        let (out_reader, writer) = pipe_of(16_384);
        drop(in_writer);
        let before = (size(&reader), size(&out_reader));
        relay(&reader, &writer, &options, |_| Flow::Continue).unwrap();
        let after = (size(&reader), size(&out_reader));
        assert!(after.0 == before.0 || input_grows);
        assert!(after.1 == before.1 || output_grows);
        // If the user's pipes are at their limit, no pipe can grow.
        if rustix::process::geteuid().is_root() {
            assert_eq!(after.0 > before.0, input_grows);
            assert_eq!(after.1 > before.1, output_grows);
        }
    }
}
