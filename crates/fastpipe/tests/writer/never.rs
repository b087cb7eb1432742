//! A writer that never waits, driven by poll(2).

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;

use crate::common;
use crate::common::pipe_of;
use crate::common::writers::{KIB, MIB, expect_all, fill, settings, stream};
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{Writer, WriterBuilder};
use rustix::event::{PollFd, PollFlags, poll};

/// Polls until there is room.
fn until_writable(out: &Writer<OwnedFd>) {
    let mut fds = [PollFd::new(out, PollFlags::OUT)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None)).unwrap();
}

const SIZES: [usize; 10] = [
    1, 4096, 100_000, 3, 4097, 600_000, 65_536, 8191, 2_500_000, 0,
];

/// Sends `len` bytes, and only polls when it would block.
fn drive(out: &mut Writer<OwnedFd>, lend: bool, len: usize) {
    let mut at = 0;
    for size in SIZES.iter().cycle() {
        let n = (*size).min(len - at);
        if lend {
            match out.lend(n) {
                Ok(mut loan) => {
                    fill(&mut loan[..n], at as u64);
                    // Succeeds: the bytes are sent or queued.
                    loan.commit(n).unwrap();
                    at += n;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(out.queued() > 0);
                    until_writable(out);
                }
            }
        } else {
            let bytes = stream(at as u64, n);
            let mut taken = 0;
            while taken < n {
                match out.write(&bytes[taken..]) {
                    Ok(n) => taken += n,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        until_writable(out);
                    }
                }
            }
            at += n;
        }
        if at == len {
            break;
        }
    }
    while let Err(error) = out.flush() {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(out.queued() > 0);
        until_writable(out);
    }
    assert_eq!(out.queued(), 0);
}

fn loses_nothing(prepare: impl Fn(WriterBuilder) -> WriterBuilder, lend: bool) {
    const LEN: usize = 9 * MIB + 5;
    for setting in settings() {
        let (reader, writer) = pipe_of(16 * KIB);
        let reading = std::thread::spawn(move || {
            expect_all(&mut File::from(reader), 0, &[30_000, 5, 100_000])
        });
        let mut out = prepare(setting.builder)
            .wait(Wait::Never)
            .open(writer)
            .unwrap();
        drive(&mut out, lend, LEN);
        let report = out.finish().unwrap().1;
        assert_eq!(report.counts.bytes, LEN as u64);
        assert_eq!(reading.join().unwrap(), LEN as u64, "{setting:?}");
    }
}

#[test]
fn an_event_loop_that_lends_loses_no_byte_at_any_size() {
    loses_nothing(|builder| builder, true);
}

#[test]
fn an_event_loop_that_writes_loses_no_byte_at_any_size() {
    loses_nothing(|builder| builder, false);
}

#[test]
fn small_pipes_and_small_loans_lose_no_byte() {
    loses_nothing(|builder| builder.keep_capacity().loan(12 * KIB), true);
    loses_nothing(|builder| builder.keep_capacity().loan(12 * KIB), false);
}

/// One byte of room at a time: the pipe's slots run out before its bytes do.
#[test]
fn a_reader_of_single_bytes_gets_every_byte() {
    for setting in settings() {
        let (reader, writer) = pipe_of(4096);
        let mut reader = File::from(reader);
        let builder = setting.builder.wait(Wait::Never).keep_capacity();
        let mut out = builder.open(writer).unwrap();
        let (mut at, mut read) = (0_u64, 0_u64);
        for turn in 0..20_000_usize {
            let n = 1 + turn % 5001;
            if let Ok(mut loan) = out.lend(n) {
                fill(&mut loan[..n], at);
                loan.commit(n).unwrap();
                at += n as u64;
            }
            let take = if turn % 7 == 0 { 4096 } else { 1 };
            let n = take.min(pipe::unread(&reader).unwrap());
            common::writers::expect(&mut reader, read, n);
            read += n as u64;
            let there = pipe::unread(&reader).unwrap() as u64;
            assert_eq!(u128::from(read + there) + out.queued(), u128::from(at));
        }
    }
}

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
fn the_pipe_is_not_drained_before_the_last_byte_was_read() {
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
