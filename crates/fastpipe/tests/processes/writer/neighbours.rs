//! Writers with concurrent events: a second writer to the pipe, forked children, signals.

use std::fs::File;
use std::io::{BufRead, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::scope;

use crate::common::onward::{Onward, hold_and_read_on};
use crate::common::pipe_of;
use crate::common::process::{Forked, in_child, in_own_process};
use crate::common::state::until_asleep;
use crate::common::storm::{Storm, until_interrupted};
use crate::common::writers::{
    How, KIB, MIB, SLEEPING, Setting, check, safe_settings, send, settings, stream,
};
use fastpipe::writer::Frozen;
use fastpipe::{Reader, Writer};

/// Returns the stream of writer `tag`, which is the highest bit of each byte.
fn tagged(tag: u8, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = stream(at + (u64::from(tag) << 40), len);
    for byte in &mut bytes {
        *byte = *byte & 0x7f | tag << 7;
    }
    bytes
}

fn send_tagged(setting: Setting, writer: OwnedFd, tag: u8, len: usize) {
    let mut out = setting.builder.open(writer).unwrap();
    let mut at = 0;
    for n in [70_000, 4096, 1, 300_000, 4097, 65_536].into_iter().cycle() {
        let n = n.min(len - at);
        let bytes = tagged(tag, at as u64, n);
        if n % 2 == 0 {
            let mut loan = out.lend(n).unwrap();
            loan[..n].copy_from_slice(&bytes);
            loan.commit(n).unwrap();
        } else {
            out.write_all(&bytes).unwrap();
        }
        at += n;
        if at == len {
            break;
        }
    }
    out.finish().unwrap();
}

#[test]
fn two_writers_to_a_pipe_send_every_byte_in_order() {
    in_own_process(|| {
        const LEN: usize = 5 * MIB;
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let second = writer.try_clone().unwrap();
            scope(|scope| {
                scope.spawn(move || send_tagged(setting, writer, 0, LEN));
                scope.spawn(move || send_tagged(setting, second, 1, LEN));
                let mut reader = File::from(reader);
                let mut got = [Vec::new(), Vec::new()];
                let mut chunk = vec![0; 100_001];
                loop {
                    let n = reader.read(&mut chunk).unwrap();
                    if n == 0 {
                        break;
                    }
                    for byte in &chunk[..n] {
                        got[usize::from(byte >> 7)].push(*byte);
                    }
                }
                for (tag, got) in got.iter().enumerate() {
                    crate::common::assert_same(got, &tagged(tag as u8, 0, LEN));
                }
            });
        }
    });
}

/// Forks a child that keeps its copy of the parent's memory until `open` is dropped.
fn fork_and_hold(mut gate: &PipeReader, open: &mut Option<PipeWriter>) -> Forked {
    Forked::running(|| {
        open.take();
        gate.read(&mut [0]).is_ok()
    })
}

#[test]
fn children_forked_while_pages_are_in_flight_change_nothing() {
    in_own_process(|| {
        for setting in safe_settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = std::thread::spawn(move || hold_and_read_on(reader, Onward::Spliced));
            let (gate, open) = std::io::pipe().unwrap();
            let mut open = Some(open);
            let mut children = Vec::new();
            let mut out = setting.builder.open(writer).unwrap();
            for n in 0..24 {
                send(&mut out, How::Both, n * MIB as u64, MIB).unwrap();
                match n % 4 {
                    // Fork while a loan is half filled.
                    0 => {
                        let mut loan = out.lend(8192).unwrap();
                        loan[..100].fill(b'?');
                        children.push(fork_and_hold(&gate, &mut open));
                    }
                    1 => {
                        let mut exec = Command::new("true");
                        exec.stdout(Stdio::null());
                        // SAFETY: the closure does nothing; it makes the library fork.
                        let exec = unsafe { exec.pre_exec(|| Ok(())) };
                        assert!(exec.status().unwrap().success());
                    }
                    2 => children.push(fork_and_hold(&gate, &mut open)),
                    _ => {
                        let (gate, open) = std::io::pipe().unwrap();
                        let mut open = Some(open);
                        let short_lived = fork_and_hold(&gate, &mut open);
                        drop(open);
                        assert!(short_lived.join());
                    }
                }
            }
            out.finish().unwrap();
            drop(open);
            assert!(children.into_iter().all(Forked::join));
            let (bytes, wrong) = reading.join().unwrap();
            assert_eq!((bytes, wrong), (24 * MIB as u64, 0), "{setting:?}");
        }
    });
}

/// The child has no hole in which its allocator could place memory that its copy of the
/// writer would then mistake for its own.
#[test]
fn a_forked_child_sees_wiped_loans_and_intact_frozen_bytes() {
    in_own_process(|| {
        // Long enough for a copy-on-write check.
        const LEN: usize = 20 * MIB;
        let frozen = Frozen::new(b"as it was").unwrap();
        for setting in safe_settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = std::thread::spawn(move || {
                let mut reader = File::from(reader);
                crate::common::writers::expect(&mut reader, 0, LEN);
                // Keeps the pipe open until the writer has ended.
                reader
            });
            let mut out = setting.builder.open(writer).unwrap();
            send(&mut out, How::Lend, 0, LEN).unwrap();
            let _reader = reading.join().unwrap();
            let there = if out.report().is_zero_copy() { 0 } else { b'x' };
            let mut loan = out.lend(10_000).unwrap();
            loan.fill(b'x');
            let finds = in_child(|| loan.iter().all(|byte| *byte == there));
            assert!(finds, "{setting:?}");
            assert!(in_child(|| frozen.as_bytes() == b"as it was"));
            assert!(
                loan.iter().all(|byte| *byte == b'x'),
                "the parent's is gone"
            );
        }
    });
}

#[test]
fn a_storm_of_signals_loses_no_byte() {
    in_own_process(|| {
        const LEN: usize = 3 * MIB;
        const REPEATED: usize = 100_000;
        for wait in SLEEPING {
            for setting in settings() {
                let (reader, writer) = pipe_of(16 * KIB);
                let builder = setting.builder.wait(wait).keep_capacity();
                let writing = rustix::thread::gettid();
                scope(|scope| {
                    let reading = scope.spawn(move || {
                        let mut file = File::from(reader);
                        let mut at = 0;
                        let mut chunk = vec![0; 20_001];
                        for n in 0.. {
                            // The first signals come while the writer sleeps, later ones at
                            // any time.
                            if n < 40 {
                                until_asleep(writing);
                            }
                            if at < MIB as u64 {
                                until_interrupted();
                            }
                            match file.read(&mut chunk).unwrap() {
                                0 => break,
                                n => {
                                    check(&chunk[..n], at).unwrap();
                                    at += n as u64;
                                }
                            }
                        }
                        at
                    });
                    let storm = Storm::begin();
                    let mut out = builder.open(writer).unwrap();
                    send(&mut out, How::Both, 0, LEN).unwrap();
                    let repeated = Frozen::new(&stream(LEN as u64, REPEATED)).unwrap();
                    out.repeat(&repeated, 1).unwrap();
                    out.flush().unwrap();
                    out.wait_drained().unwrap();
                    drop(storm);
                    drop(out);
                    assert_eq!(reading.join().unwrap(), (LEN + REPEATED) as u64);
                });
            }
        }
    });
}

#[test]
fn an_interruptible_writer_and_reader_end_their_waits_and_lose_nothing() {
    in_own_process(|| {
        for wait in SLEEPING {
            let (reader, writer) = pipe_of(16 * KIB);
            let storm = Storm::begin();
            let mut input = Reader::builder().wait(wait).interruptible(true);
            input = input.buffer(KIB);
            let mut input = input.open(reader).unwrap();
            let error = input.fill_buf().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);

            let settings = Writer::builder().wait(wait).interruptible(true);
            let mut out = settings.keep_capacity().open(writer).unwrap();
            let mut loan = out.lend(64 * KIB).unwrap();
            loan[..64 * KIB].copy_from_slice(&stream(0, 64 * KIB));
            // There is room for a part of it.
            let error = loan.commit(64 * KIB).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert!(out.queued() > 0);
            let mut got = Vec::new();
            while got.len() < 64 * KIB {
                match out.flush() {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
                    Ok(()) => assert_eq!(out.queued(), 0),
                }
                let available = match input.fill_buf() {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => panic!("{error}"),
                };
                got.extend_from_slice(available);
                let n = available.len();
                input.consume(n);
            }
            drop(storm);
            check(&got, 0).unwrap();
        }
    });
}
