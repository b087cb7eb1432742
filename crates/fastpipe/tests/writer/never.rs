//! A writer that never waits.

use std::fs::File;
use std::io::{ErrorKind, Write};

use crate::common;
use crate::common::pipe_of;
use crate::common::writers::{KIB, MIB, safe_settings, settings, stream};
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::Frozen;

/// As documented. Otherwise a loop of "flush until all is sent, then write" would never
/// sleep.
#[test]
fn a_write_is_refused_only_while_something_is_queued() {
    for setting in settings() {
        let (_reader, writer) = pipe_of(4096);
        let builder = setting.builder.wait(Wait::Never).keep_capacity();
        let mut out = builder.open(writer).unwrap();
        drop(out.lend(0).unwrap());
        let bytes = stream(0, 2 * MIB);
        let mut taken = 0;
        while let Ok(n) = out.write(&bytes) {
            taken += n;
            assert!(taken < 64 * MIB);
        }
        assert!(
            out.queued() > 0,
            "{setting:?}: nothing is queued, {}",
            out.path()
        );
    }
}

#[test]
fn pipe_is_not_drained_before_the_last_byte_was_read() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let mut reader = File::from(reader);
        let mut out = setting.builder.wait(Wait::Never).open(writer).unwrap();
        out.write_all(&stream(0, 20_000)).unwrap();
        out.flush().unwrap();
        let mut read = 0;
        for left in [20_000, 4096, 1] {
            let n = 20_000 - left - read;
            common::writers::expect(&mut reader, read as u64, n);
            read += n;
            let kind = out.wait_drained().unwrap_err().kind();
            assert_eq!(kind, ErrorKind::WouldBlock, "{left} unread");
        }
        common::writers::expect(&mut reader, 19_999, 1);
        out.wait_drained().unwrap();
    }
}

#[test]
fn unsent_repeated_bytes_are_queued_and_nothing_else_is_accepted() {
    for setting in safe_settings() {
        for length in [1, 3, 4097, 100_000] {
            let data = stream(length as u64, length);
            let frozen = Frozen::new(&data).unwrap();
            let times = MIB / length + 1;
            let (reader, writer) = pipe_of(64 * KIB);
            let builder = setting.builder.wait(Wait::Never).keep_capacity();
            let mut out = builder.open(&writer).unwrap();
            out.write_all(&stream(5, 3001)).unwrap();
            out.repeat(&frozen, times as u64).unwrap();
            let kinds = [
                out.lend(1).map(drop).unwrap_err().kind(),
                out.repeat(&frozen, 1).unwrap_err().kind(),
                out.write(b"not taken").unwrap_err().kind(),
                out.flush().unwrap_err().kind(),
                out.wait_drained().unwrap_err().kind(),
            ];
            assert_eq!(kinds, [ErrorKind::WouldBlock; 5], "{setting:?}, {length}");
            let there = pipe::unread(&reader).unwrap() as u128;
            assert_eq!(there + out.queued(), (3001 + times * length) as u128);
        }
    }
}
