//! Repeated constant bytes.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use crate::common::writers::{KIB, MIB, safe_settings, settings, stream};
use crate::common::{ALL_WAITS, WAITS, assert_same, pipe_of, read_all};
use fastpipe::method::Method;
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{Frozen, Writer};

const LENGTHS: [usize; 7] = [1, 2, 3, 7, 4096, 4097, 100_000];

fn expected(data: &[u8], times: u64) -> Vec<u8> {
    data.repeat(times as usize)
}

/// Returns how often to repeat `data` for about `bytes` bytes.
fn times(data: &[u8], bytes: usize) -> u64 {
    (bytes / data.len()) as u64 + 1
}

#[test]
fn repeated_bytes_keep_their_place_between_written_and_lent_ones() {
    for setting in settings() {
        for wait in WAITS {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = read_all(reader, vec![65_536, 1000]);
            let mut out = setting.builder.wait(wait).open(writer).unwrap();
            let mut sent = Vec::new();
            for length in LENGTHS {
                let data = stream(length as u64, length);
                let frozen = Frozen::new(&data).unwrap();
                for n in [0, 1, 2, times(&data, 9000), times(&data, 600_000)] {
                    out.write_all(&stream(7, 1 + length % 1000)).unwrap();
                    sent.extend(stream(7, 1 + length % 1000));
                    out.repeat(&frozen, n).unwrap();
                    sent.extend(expected(&data, n));
                }
                let mut loan = out.lend(5000).unwrap();
                loan[..5000].copy_from_slice(&stream(99, 5000));
                loan.commit(5000).unwrap();
                sent.extend(stream(99, 5000));
                // Two repetitions in sequence.
                out.repeat(&frozen, 3).unwrap();
                out.repeat(&frozen, times(&data, 5000)).unwrap();
                sent.extend(expected(&data, 3 + times(&data, 5000)));
                out.write_all(b"!").unwrap();
                sent.push(b'!');
            }
            assert_eq!(out.finish().unwrap().1.counts.bytes, sent.len() as u64);
            assert_same(&reading.join().unwrap(), &sent);
        }
    }
}

#[test]
fn unsent_repeated_bytes_are_queued_and_nothing_else_is_accepted() {
    for setting in safe_settings() {
        for length in LENGTHS {
            let data = stream(length as u64, length);
            let frozen = Frozen::new(&data).unwrap();
            let n = times(&data, MIB);
            let (reader, writer) = pipe_of(64 * KIB);
            let mut reader = File::from(reader);
            let builder = setting.builder.wait(Wait::Never).keep_capacity();
            let mut out = builder.open(&writer).unwrap();
            let mut sent = stream(5, 3001);
            out.write_all(&sent).unwrap();
            out.repeat(&frozen, n).unwrap();
            sent.extend(expected(&data, n));
            assert!(out.queued() > 0);
            let mut got = Vec::new();
            let mut chunk = vec![0; 50_001];
            for turn in 0.. {
                // Nothing else is accepted before everything is sent.
                if turn < 3 {
                    let kinds = [
                        out.lend(1).map(drop).unwrap_err().kind(),
                        out.repeat(&frozen, 1).unwrap_err().kind(),
                        out.write(b"not taken").unwrap_err().kind(),
                        out.flush().unwrap_err().kind(),
                        out.wait_drained().unwrap_err().kind(),
                    ];
                    assert_eq!(kinds, [ErrorKind::WouldBlock; 5], "{setting:?}, {length}");
                }
                if pipe::unread(&reader).unwrap() == 0 {
                    break;
                }
                let n = reader.read(&mut chunk).unwrap();
                got.extend_from_slice(&chunk[..n]);
                match out.flush() {
                    Ok(()) => assert_eq!(out.queued(), 0),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                if got.len() + pipe::unread(&reader).unwrap() < sent.len() {
                    assert!(out.queued() > 0);
                }
                assert_eq!(
                    got.len() as u128 + pipe::unread(&reader).unwrap() as u128 + out.queued(),
                    sent.len() as u128,
                    "{setting:?}, {length}"
                );
            }
            assert_same(&got, &sent);
        }
    }
}

#[test]
fn an_unlimited_repetition_ends_with_its_reader() {
    for wait in WAITS {
        let (reader, writer) = pipe_of(64 * KIB);
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; 3 * MIB];
            File::from(reader).read_exact(&mut got).unwrap();
            got
        });
        let mut out = Writer::builder()
            .method(Method::Fresh)
            .wait(wait)
            .open(writer)
            .unwrap();
        let end = out.repeat(&Frozen::new(b"y\n").unwrap(), u64::MAX);
        assert_eq!(end.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(reading.join().unwrap().chunks(2).all(|pair| pair == b"y\n"));
        // The pipe stays broken, and each call reports that.
        assert!(out.queued() > 1 << 60);
        for _ in 0..3 {
            assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    }
}

#[test]
fn repeating_zero_times_sends_only_earlier_bytes() {
    let frozen = Frozen::new(b"abc").unwrap();
    for wait in ALL_WAITS {
        let (reader, writer) = pipe_of(64 * KIB);
        let mut out = Writer::builder()
            .method(Method::Fresh)
            .wait(wait)
            .open(&writer)
            .unwrap();
        out.repeat(&frozen, 0).unwrap();
        out.write_all(b"x").unwrap();
        out.repeat(&frozen, 0).unwrap();
        out.write_all(b"y").unwrap();
        drop(out);
        assert_eq!(pipe::unread(&reader).unwrap(), 2);
    }
}
