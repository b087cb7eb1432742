//! Writers whose readers die at any byte, or stop for a while.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common;
use crate::common::pipe_of;
use crate::common::process::{is_child, spawn};
use crate::common::state::until_asleep;
use crate::common::writers::{HOWS, How, KIB, MIB, SLEEPING, expect, expect_all, send, settings};
use fastpipe::writer::{Frozen, Writer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Checks a writer after its reader's death.
fn is_sane_and_broken(mut out: Writer<OwnedFd>) {
    if out.queued() == 0 {
        // A long write was refused completely.
        let kind = out.lend(10).unwrap().commit(10).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::BrokenPipe);
    }
    let queued = out.queued();
    assert!(queued > 0);
    for _ in 0..2 {
        assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
        let frozen = Frozen::new(b"more").unwrap();
        assert_eq!(
            out.repeat(&frozen, 2).unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        assert_eq!(
            out.lend(1).map(drop).unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        assert_eq!(
            out.wait_drained().unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }
    assert_eq!(
        out.queued(),
        queued,
        "claimed to be sent, or taken after all"
    );
    let failed = out.finish().unwrap_err();
    assert_eq!(failed.error().kind(), ErrorKind::BrokenPipe);
    // Dropping the writer tries to send again, and fails.
    assert_eq!(failed.abandon().kind(), ErrorKind::BrokenPipe);
}

/// Sends until an error occurs, and returns its kind.
fn send_to_the_end(out: &mut Writer<OwnedFd>, how: How) -> ErrorKind {
    loop {
        let at = u64::try_from(u128::from(out.report().counts.bytes) + out.queued()).unwrap();
        if let Err(error) = send(out, how, at, 3 * MIB) {
            return error.kind();
        }
    }
}

#[test]
fn a_reader_closing_at_any_byte_is_a_broken_pipe() {
    let ends = [
        0,
        1,
        4095,
        4097,
        65_537,
        131_072,
        150_001,
        MIB,
        2 * MIB - 1,
        5 * MIB + 3,
    ];
    for (n, end) in ends.into_iter().enumerate() {
        for setting in settings() {
            for wait in [SLEEPING[n % 3], SLEEPING[(n + 1) % 3]] {
                let (reader, writer) = pipe_of(64 * KIB);
                let reading = std::thread::spawn(move || expect(&mut File::from(reader), 0, end));
                let mut out = setting.builder.wait(wait).open(writer).unwrap();
                let kind = send_to_the_end(&mut out, HOWS[n % 3]);
                assert_eq!(kind, ErrorKind::BrokenPipe, "{setting:?}");
                reading.join().unwrap();
                let counts = out.report().counts;
                assert!(counts.bytes >= end as u64);
                is_sane_and_broken(out);
            }
        }
    }
}

/// Child process: reads and checks this number of bytes, then waits to be killed.
fn reader_to_be_killed(bytes: usize) -> ! {
    expect(&mut std::io::stdin().lock(), 0, bytes);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_reader_breaks_the_pipe_of_a_writer() {
    const NAME: &str = "a_killed_reader_breaks_the_pipe_of_a_writer";
    const ENDS: [usize; 3] = [1, 200_001, 6 * MIB];
    for end in ENDS {
        if is_child(&end.to_string()) {
            reader_to_be_killed(end);
        }
    }
    for (n, setting) in settings().into_iter().enumerate() {
        let end = ENDS[n % 3];
        let (reader, writer) = pipe_of(64 * KIB);
        let mut child = spawn(NAME, &end.to_string(), reader, Stdio::inherit());
        let writing = rustix::thread::gettid();
        let killing = std::thread::spawn(move || {
            // The child has read its bytes or waits for more.
            let stat = format!("/proc/{}/stat", child.id());
            common::state::until("both sleep", || {
                until_asleep(writing);
                let stat = std::fs::read_to_string(&stat).unwrap();
                stat.rsplit_once(") ").unwrap().1.starts_with('S')
            });
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut out = setting.builder.open(writer).unwrap();
        let kind = send_to_the_end(&mut out, HOWS[n % 3]);
        killing.join().unwrap();
        assert_eq!(kind, ErrorKind::BrokenPipe);
        is_sane_and_broken(out);
    }
}

#[test]
fn a_reader_that_stops_and_continues_gets_every_byte() {
    const NAME: &str = "a_reader_that_stops_and_continues_gets_every_byte";
    if is_child(NAME) {
        let mut input = std::io::stdin().lock();
        expect_all(&mut input, 0, &[50_000, 4097]);
        assert_eq!(input.read(&mut [0]).unwrap(), 0);
        return;
    }
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let child = spawn(NAME, NAME, reader, Stdio::inherit());
        let writing = rustix::thread::gettid();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| {
                let mut child = child;
                let id = Pid::from_child(&child);
                for _ in 0..3 {
                    kill_process(id, Signal::STOP).unwrap();
                    let (_, status) = waitpid(Some(id), WaitOptions::UNTRACED).unwrap().unwrap();
                    assert!(status.stopped());
                    until_asleep(writing);
                    kill_process(id, Signal::CONT).unwrap();
                }
                done.store(true, Ordering::Relaxed);
                move || child.wait().unwrap()
            });
            let mut out = setting.builder.open(writer).unwrap();
            let mut at = 0;
            while !done.load(Ordering::Relaxed) {
                send(&mut out, How::Both, at, MIB).unwrap();
                at += MIB as u64;
            }
            drop(out);
            let mut wait = stopping.join().unwrap();
            assert!(
                wait().success(),
                "{setting:?}: the child found a difference"
            );
        });
    }
}
