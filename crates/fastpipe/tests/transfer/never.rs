//! Under Wait::Never a transfer reports what was moved, so that it can be resumed. Both
//! ends are in one thread, so any blocking call would hang.

use std::fs::File;
use std::io::ErrorKind::WouldBlock;
use std::os::fd::{AsFd, BorrowedFd};

use crate::common::ends::{Trace, cooked_terminal, file_that_reports_changes, terminal};
use crate::common::seccomp::refuse_ioctl;
use crate::common::shapes::{capacity, cases, sizes};
use crate::common::vmsplice;
use crate::common::{Directory, assert_same, buffer_with, pattern, pipe_of};
use fastpipe::pipe::unread;
use fastpipe::transfer::{Incomplete, Input, Output};
use fastpipe::wait::Wait;
use proptest::prelude::*;

/// Numbers of bytes that the other end reads between two attempts.
fn amounts() -> impl Strategy<Value = Vec<usize>> {
    let amount = prop_oneof![1..40_usize, 4000..4200_usize, 1..70_000_usize];
    prop::collection::vec(amount, 1..8).prop_map(|mut amounts| {
        amounts.push(50_000);
        amounts
    })
}

/// Reads at most `amount` of the available bytes.
fn take(fd: BorrowedFd<'_>, amount: usize, got: &mut Vec<u8>) {
    let there = unread(fd).unwrap().min(amount);
    if there > 0 {
        let mut chunk = vec![0; there];
        let n = rustix::io::read(fd, &mut chunk).unwrap();
        got.extend_from_slice(&chunk[..n]);
    }
}

/// Returns the number of bytes moved, and whether that was everything.
fn progress(result: Result<(), Incomplete>, whole: usize) -> (usize, bool) {
    match result {
        Ok(()) => (whole, true),
        Err(incomplete) => {
            assert_eq!(incomplete.kind(), WouldBlock, "{incomplete}");
            (incomplete.moved as usize, false)
        }
    }
}

/// Calls `attempt` with the number of bytes sent so far until everything is sent. The
/// reader takes an amount after each attempt.
fn send_by_and_by(
    reader: BorrowedFd<'_>,
    amounts: &[usize],
    mut attempt: impl FnMut(usize) -> (usize, bool),
) -> Vec<u8> {
    let mut got = Vec::new();
    let mut sent = 0;
    for amount in amounts.iter().cycle() {
        let (moved, done) = attempt(sent);
        sent += moved;
        assert_eq!(got.len() + unread(reader).unwrap(), sent, "told the truth");
        if done {
            break;
        }
        take(reader, *amount, &mut got);
    }
    take(reader, usize::MAX, &mut got);
    got
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn sending_resumes_after_the_moved_bytes(
        capacity in capacity(), sizes in sizes(), offset in 0..5000_usize, amounts in amounts(),
        by_reference in any::<bool>(),
    ) {
        if by_reference && !vmsplice::is_allowed() {
            return Ok(());
        }
        let len = sizes.iter().sum();
        let bytes = pattern(len);
        let pages = buffer_with(&bytes, offset);
        let (reader, writer) = pipe_of(capacity);
        let mut out = Output::new(&writer, Wait::Never);
        let got = send_by_and_by(reader.as_fd(), &amounts, |sent| {
            if !by_reference {
                return progress(out.write(&bytes[sent..]), len - sent);
            }
            let mut end = 0;
            let rest: Vec<_> = sizes
                .iter()
                .map(|size| {
                    let start = end;
                    end += size;
                    pages.slice(offset + start.max(sent).min(end)..offset + end)
                })
                .collect();
            progress(out.vmsplice(&rest, Default::default()), len - sent)
        });
        assert_same(&got, &bytes);
        prop_assert_eq!(out.counts().bytes, len as u64);
    }

    #[test]
    fn read_resumes_after_the_moved_bytes(
        capacity in capacity(), len in 1..400_000_usize, amounts in amounts(), some in any::<bool>(),
    ) {
        let bytes = pattern(len);
        let (reader, writer) = pipe_of(capacity);
        let capacity = fastpipe::pipe::capacity(&writer).unwrap();
        let mut writer = Some(writer);
        let mut input = Input::new(&reader, Wait::Never);
        let mut got = vec![0; len];
        let (mut have, mut sent) = (0, 0);
        for amount in amounts.iter().cycle() {
            let result = if some { input.read_some(&mut got[have..]) } else { input.read(&mut got[have..]) };
            match result {
                Ok(n) if some => have += n,
                Ok(n) => {
                    prop_assert_eq!(n, len - have);
                    have += n;
                }
                Err(incomplete) => {
                    prop_assert_eq!(incomplete.kind(), WouldBlock);
                    have += incomplete.moved as usize;
                    prop_assert_eq!(have, sent, "all that was there");
                }
            }
            if have == len {
                break;
            }
            if let Some(fd) = &writer {
                // At most what fits into the pipe: otherwise this end would sleep.
                let piece = (*amount).min(capacity).min(len - sent);
                if unread(&reader).unwrap() == 0 {
                    sent += rustix::io::write(fd, &bytes[sent..sent + piece]).unwrap();
                }
                if sent == len {
                    writer = None;
                }
            }
        }
        assert_same(&got, &bytes);
        prop_assert_eq!(input.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn splice_resumes_after_the_moved_bytes_whichever_side_would_block(
        capacities in (capacity(), capacity()), len in 1..200_000_usize,
        feeding in amounts(), amounts in amounts(),
    ) {
        let bytes = pattern(len);
        let (first_reader, first_writer) = pipe_of(capacities.0);
        let (reader, writer) = pipe_of(capacities.1);
        let mut input = Input::new(&first_reader, Wait::Never);
        let mut feeder = Output::new(&first_writer, Wait::Never);
        let mut fed = 0;
        let mut feeding = feeding.iter().cycle();
        let got = send_by_and_by(reader.as_fd(), &amounts, |sent| {
            let piece = (*feeding.next().unwrap()).min(len - fed);
            fed += progress(feeder.write(&bytes[fed..fed + piece]), piece).0;
            let left = (len - sent) as u64;
            progress(input.splice(&writer, left, Default::default()).map(drop), left as usize)
        });
        assert_same(&got, &bytes);
        prop_assert_eq!(input.counts().bytes, len as u64);
    }
}

#[test]
fn an_empty_and_a_full_pipe_would_block() {
    let (reader, writer) = pipe_of(65_536);
    let (_other_reader, other_writer) = pipe_of(65_536);
    let mut input = Input::new(&reader, Wait::Never);
    let tells = |result: Result<u64, Incomplete>| {
        let incomplete = result.unwrap_err();
        assert_eq!((incomplete.kind(), incomplete.moved), (WouldBlock, 0));
    };
    tells(input.read(&mut [0; 9]).map(|n| n as u64));
    tells(input.read_some(&mut [0; 9]).map(|n| n as u64));
    tells(input.tee(&other_writer, 9).map(|n| n as u64));
    tells(input.splice(&other_writer, 9, Default::default()));
    let spliced = input.splice_some(&other_writer, 9, Default::default());
    tells(spliced.map(|n| n as u64));
    assert_eq!(input.counts().would_blocks, 5);
    assert_eq!(input.counts().moving_calls, 0);

    let mut out = Output::new(&writer, Wait::Never);
    let capacity = fastpipe::pipe::capacity(&writer).unwrap();
    out.write(&pattern(capacity)).unwrap();
    tells(out.write(b"x").map(|()| 0));
    assert_eq!(out.counts().would_blocks, 1);
    if !vmsplice::is_allowed() {
        return;
    }
    let pages = buffer_with(b"x", 0);
    tells(
        out.vmsplice(&[pages.slice(..)], Default::default())
            .map(|()| 0),
    );
    assert_eq!(out.counts().would_blocks, 2);
}

#[test]
fn a_terminal_whose_reader_does_not_read_would_block() {
    let (_master, slave) = cooked_terminal();
    let mut out = Output::new(&slave, Wait::Never);
    let (moved, all) = progress(out.write(&[b'\n'; 100_000]), 100_000);
    assert!(!all, "{moved} bytes");
}

/// Where TIOCGDEV is not known, a terminal is still one: writes to it are short.
#[test]
fn a_terminal_is_one_without_its_number() {
    let (_master, slave) = terminal();
    for errno in [libc::ENOTTY, libc::EPERM] {
        let slave = slave.try_clone().unwrap();
        let written = std::thread::spawn(move || {
            refuse_ioctl(libc::TIOCGDEV as u32, errno).then(|| {
                let mut out = Output::new(&slave, Wait::Never);
                out.write(&[b'x'; 1024]).unwrap();
                out.counts().moving_calls
            })
        });
        if let Some(calls) = written.join().unwrap() {
            assert_eq!(calls, 2);
        }
    }
}

#[test]
fn no_file_of_the_kernel_is_polled_without_need() {
    let polls = |file: File| {
        let mut input = Input::new(file, Wait::Never);
        while input.read_some(&mut [0; 4096]).unwrap() > 0 {}
        input.counts().polls
    };
    assert_eq!(polls(File::open("/proc/self/mounts").unwrap()), 0);
    assert_eq!(polls(File::open("/proc/self/status").unwrap()), 0);
    if let Some(file) = file_that_reports_changes() {
        assert_eq!(polls(file), 0);
    }
    let directory = Directory::new();
    assert_eq!(polls(directory.file("empty", b"")), 0);
    assert_eq!(polls(directory.file("full", b"bytes")), 0);
}

#[test]
fn an_empty_trace_would_block() {
    let Some(trace) = Trace::new() else {
        return;
    };
    let mut input = Input::new(trace.open(), Wait::Never);
    let error = input.read_some(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), WouldBlock);
    trace.write("hello");
    assert!(input.read_some(&mut [0; 4096]).unwrap() > 0);
}

/// poll(2) reports such a part once it is half full.
#[test]
fn a_short_part_of_a_trace_is_read() {
    let Some(trace) = Trace::new() else {
        return;
    };
    let processor = trace.write("hello");
    let mut input = Input::new(trace.open_part(processor), Wait::Never);
    assert!(input.read_some(&mut [0; 4096]).unwrap() > 0);
}
