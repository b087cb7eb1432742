//! Transfers under frequent signals, none of which restarts a system call.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use crate::common;
use crate::common::state::until_asleep;
use crate::common::storm::{Storm, until_interrupted};
use crate::common::{WAITS, assert_same, pattern, pipe_of, read_all};
use fastpipe::transfer::Input;
use fastpipe::wait::Wait;
use rustix::process::Pid;

const CAPACITY: usize = 4 * 4096;
const BYTES: usize = 12 * CAPACITY;

/// Waits until a thread sleeps, if it ever does, and then for more signals.
fn until_asleep_and_interrupted(thread: Pid, sleeps: bool) {
    if sleeps {
        until_asleep(thread);
    }
    until_interrupted();
}

/// A reader that lets the other end be interrupted before each piece.
fn slow_reader(reader: OwnedFd, thread: Pid, wait: Wait) -> JoinHandle<Vec<u8>> {
    let sleeps = wait != Wait::Spin;
    std::thread::spawn(move || {
        let mut file = File::from(reader);
        let mut got = Vec::new();
        let mut chunk = [0; CAPACITY / 2 + 1];
        loop {
            if got.len() + CAPACITY < BYTES {
                until_asleep_and_interrupted(thread, sleeps);
            }
            match file.read(&mut chunk).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&chunk[..n]),
            }
        }
    })
}

/// A writer that lets the other end be interrupted before each piece.
fn slow_writer(writer: OwnedFd, thread: Pid, wait: Wait) -> JoinHandle<()> {
    let sleeps = wait != Wait::Spin;
    std::thread::spawn(move || {
        let mut file = File::from(writer);
        for piece in pattern(BYTES).chunks(CAPACITY / 2 + 1) {
            until_asleep_and_interrupted(thread, sleeps);
            file.write_all(piece).unwrap();
        }
    })
}

/// Runs `send` under frequent signals with a slow reader, and checks the bytes.
fn sending(mut send: impl FnMut(OwnedFd, Wait)) {
    for wait in WAITS {
        let (reader, writer) = pipe_of(CAPACITY);
        let storm = Storm::begin();
        let reading = slow_reader(reader, rustix::thread::gettid(), wait);
        send(writer, wait);
        // The reader may still wait for signals.
        let got = reading.join().unwrap();
        drop(storm);
        assert_same(&got, &pattern(BYTES));
    }
}

/// Runs `receive` under frequent signals with a slow writer, and checks the bytes.
fn receiving(mut receive: impl FnMut(OwnedFd, Wait) -> Vec<u8>) {
    for wait in WAITS {
        let (reader, writer) = pipe_of(CAPACITY);
        let storm = Storm::begin();
        let writing = slow_writer(writer, rustix::thread::gettid(), wait);
        let got = receive(reader, wait);
        writing.join().unwrap();
        drop(storm);
        assert_same(&got, &pattern(BYTES));
    }
}

#[test]
fn splice_from_file_loses_no_byte_in_storm_of_signals() {
    let directory = common::Directory::new();
    sending(|writer, wait| {
        let mut input = Input::new(directory.file("in", &pattern(BYTES)), wait);
        let moved = input.splice(writer, u64::MAX, Default::default());
        assert_eq!(moved.unwrap(), BYTES as u64);
    });
}

#[test]
fn read_loses_no_byte_in_a_storm_of_signals() {
    receiving(|reader, wait| {
        let mut got = vec![0; BYTES + 1];
        let n = Input::new(reader, wait).read(&mut got).unwrap();
        got.truncate(n);
        got
    });
}

#[test]
fn splice_to_file_loses_no_byte_in_storm_of_signals() {
    let directory = common::Directory::new();
    receiving(|reader, wait| {
        let out = directory.file("out", b"");
        let mut input = Input::new(reader, wait);
        input.splice(&out, u64::MAX, Default::default()).unwrap();
        std::fs::read(directory.path("out")).unwrap()
    });
}

#[test]
fn tee_and_splice_loses_no_byte_in_storm_of_signals() {
    receiving(|reader, wait| {
        let (copy_reader, copy_writer) = pipe_of(CAPACITY);
        let (out_reader, out_writer) = pipe_of(CAPACITY);
        let copying = read_all(copy_reader, vec![4096]);
        let reading = read_all(out_reader, vec![4096]);
        let mut input = Input::new(reader, wait);
        let moved = input.tee_and_splice(copy_writer, out_writer, u64::MAX, Default::default());
        assert_eq!(moved.unwrap(), BYTES as u64);
        let got = reading.join().unwrap();
        assert_same(&copying.join().unwrap(), &got);
        got
    });
}
