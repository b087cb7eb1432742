//! Repetitions long enough for the fast path with its own pipes.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::thread::scope;

use crate::common::seccomp::refuse;
use crate::common::writers::{KIB, MIB, fresh, stream};
use crate::common::{WAITS, pipe_of};
use fastpipe::Method;
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::Frozen;

const LENGTHS: [usize; 7] = [1, 2, 3, 4096, 4097, 100_000, 700_000];

/// Number of bytes above which the fast path is used, with a margin.
const MUCH: usize = 130 * MIB;

/// The expected bytes: some data repeated.
struct Expected {
    /// Whole repetitions, long enough to compare many bytes at once.
    data: Vec<u8>,
    at: usize,
}

impl Expected {
    fn new(data: &[u8]) -> Self {
        Expected {
            data: data.repeat((64 * KIB).div_ceil(data.len())),
            at: 0,
        }
    }

    #[track_caller]
    fn is(&mut self, mut got: &[u8]) {
        while !got.is_empty() {
            let n = got.len().min(self.data.len() - self.at);
            assert!(got[..n] == self.data[self.at..self.at + n]);
            self.at = (self.at + n) % self.data.len();
            got = &got[n..];
        }
    }

    /// Reads this number of bytes, in pieces of this size.
    #[track_caller]
    fn read(&mut self, from: &mut impl Read, bytes: usize, piece: usize) {
        let mut piece = vec![0; piece];
        let mut left = bytes;
        while left > 0 {
            let n = left.min(piece.len());
            from.read_exact(&mut piece[..n]).unwrap();
            self.is(&piece[..n]);
            left -= n;
        }
    }
}

#[test]
fn an_endless_repetition_is_correct_and_ends_with_its_reader() {
    for length in LENGTHS {
        let data = stream(length as u64, length);
        for wait in WAITS {
            for capacity in [4 * KIB, 64 * KIB] {
                let (reader, writer) = pipe_of(capacity);
                let read = 8 * MIB + 1;
                let queued = scope(|scope| {
                    let data = &data;
                    scope.spawn(move || {
                        let mut file = File::from(reader);
                        let mut first = [0; 777];
                        file.read_exact(&mut first).unwrap();
                        assert!(first[..] == stream(9, 777));
                        Expected::new(data).read(&mut file, read, 30_001);
                    });
                    let mut out = fresh().wait(wait).open(writer).unwrap();
                    out.write_all(&stream(9, 777)).unwrap();
                    let frozen = Frozen::new(data).unwrap();
                    out.repeat(&frozen, u64::MAX).unwrap();
                    let again = out.repeat(&frozen, 1);
                    assert_eq!(again.unwrap_err().kind(), ErrorKind::BrokenPipe);
                    assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
                    let sent = u128::from(out.report().counts.bytes) - 777;
                    assert!(sent >= read as u128);
                    out.queued() + sent
                });
                assert_eq!(queued, u128::from(u64::MAX) * length as u128);
            }
        }
    }
}

#[test]
fn a_long_repetition_ends_exactly_and_other_bytes_follow() {
    for length in LENGTHS {
        let data = stream(length as u64, length);
        let times = MUCH / length + 3;
        let (reader, writer) = pipe_of(64 * KIB);
        scope(|scope| {
            let data = &data;
            scope.spawn(move || {
                let mut file = File::from(reader);
                for _ in 0..2 {
                    Expected::new(data).read(&mut file, times * length, 256 * KIB);
                    let mut after = [0; 10];
                    file.read_exact(&mut after).unwrap();
                    assert!(after[..] == stream(1, 10));
                }
                assert_eq!(file.read(&mut [0]).unwrap(), 0);
            });
            let frozen = Frozen::new(data).unwrap();
            let mut out = fresh().open(writer).unwrap();
            for _ in 0..2 {
                out.repeat(&frozen, times as u64).unwrap();
                assert_eq!(out.queued(), 0);
                out.write_all(&stream(1, 10)).unwrap();
            }
            let report = out.finish().unwrap();
            assert_eq!(report.counts.bytes as usize, 2 * (times * length + 10));
            if report.is_zero_copy() && report.method == Method::Fresh {
                let copied = report.counts.bytes - report.zero_copy_bytes;
                assert!(copied < 100_000, "{report:?}");
            }
        });
    }
}

#[test]
fn a_repetition_under_wait_never_resumes_where_it_stopped() {
    for length in LENGTHS {
        let data = stream(5, length);
        let (reader, writer) = pipe_of(16 * KIB);
        let mut file = File::from(reader);
        let builder = fresh().wait(Wait::Never).keep_capacity();
        let mut out = builder.open(writer).unwrap();
        let times = MUCH.div_ceil(length);
        out.repeat(&Frozen::new(&data).unwrap(), times as u64)
            .unwrap();
        let mut expected = Expected::new(&data);
        let mut read = 0;
        for take in [1, 5000, 16_384, 4095].into_iter().cycle().take(2000) {
            let n = take.min(pipe::unread(&file).unwrap());
            expected.read(&mut file, n, 16_384);
            read += n;
            assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
            let there = read + pipe::unread(&file).unwrap();
            assert_eq!(there as u128 + out.queued(), (times * length) as u128);
        }
    }
}

/// Refused from the start, or after both calls were used.
#[test]
fn with_splice_or_tee_refused_repeating_uses_another_technique() {
    for calls in [&[libc::SYS_tee][..], &[libc::SYS_splice]] {
        for before in [0, 3 * MIB] {
            for length in LENGTHS {
                let data = stream(5, length);
                let (reader, writer) = pipe_of(64 * KIB);
                let mut file = File::from(reader);
                let data = &data;
                let filtered = move || {
                    let builder = fresh().wait(Wait::Never);
                    let mut out = builder.keep_capacity().open(writer).unwrap();
                    let mut expected = Expected::new(data);
                    let mut refused = before == 0;
                    if refused && !refuse(calls, libc::EPERM) {
                        return;
                    }
                    let times = MUCH.div_ceil(length) as u64;
                    out.repeat(&Frozen::new(data).unwrap(), times).unwrap();
                    let mut read = 0;
                    while read < before + 3 * MIB {
                        if !refused && read >= before {
                            refused = true;
                            if !refuse(calls, libc::EPERM) {
                                return;
                            }
                        }
                        let n = pipe::unread(&file).unwrap();
                        expected.read(&mut file, n, 64 * KIB);
                        read += n;
                        assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
                    }
                };
                scope(|scope| scope.spawn(filtered).join().unwrap());
            }
        }
    }
}
