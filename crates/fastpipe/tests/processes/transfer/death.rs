//! Transfers whose other end dies.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use crate::common;
use crate::common::process::in_own_process;
use crate::common::shapes::{cases, waits};
use crate::common::state::until_unread;
use crate::common::vmsplice;
use crate::common::{Directory, assert_same, buffer_with, pattern, pipe_of};
use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Incomplete, Input, Output};
use fastpipe::wait::Wait;
use proptest::prelude::*;

const CAPACITY: usize = 16 * 4096;

/// Number of bytes sent: more than fit into the pipe.
const SENT: usize = 3 * CAPACITY;

#[derive(Debug, Clone, Copy)]
enum Technique {
    Write,
    Vmsplice,
    SpliceFromFile,
    SpliceFromPipe,
}

use Technique::{SpliceFromFile, SpliceFromPipe, Vmsplice, Write as ByWrite};

const TECHNIQUES: [Technique; 4] = [ByWrite, Vmsplice, SpliceFromFile, SpliceFromPipe];

/// Whether the technique works here.
fn is_allowed(technique: Technique) -> bool {
    !matches!(technique, Vmsplice) || vmsplice::is_allowed()
}

/// Sends the pattern to a reader that dies.
fn send(technique: Technique, writer: OwnedFd, wait: Wait) -> Incomplete {
    let bytes = pattern(SENT);
    let result = match technique {
        ByWrite => Output::new(writer, wait).write(&bytes),
        Vmsplice => {
            let pages: Buffer = buffer_with(&bytes, 0);
            Output::new(writer, wait).vmsplice(&[pages.slice(..)], Default::default())
        }
        SpliceFromFile => {
            let directory = Directory::new();
            let file = directory.file("in", &bytes);
            let spliced = Input::new(file, wait).splice(writer, SENT as u64, Default::default());
            spliced.map(drop)
        }
        SpliceFromPipe => {
            let (inner, feeder) = pipe_of(CAPACITY);
            // This thread ends when the splice fails.
            std::thread::spawn(move || File::from(feeder).write_all(&bytes));
            // An empty inner pipe would block before the missing reader is noticed.
            until_unread(&inner, 1);
            let spliced = Input::new(inner, wait).splice(writer, SENT as u64, Default::default());
            spliced.map(drop)
        }
    };
    result.unwrap_err()
}

fn is_a_broken_pipe_after(end: &Incomplete, read: usize) {
    assert_eq!(end.kind(), ErrorKind::BrokenPipe, "{end}");
    let moved = end.moved as usize;
    // At least the bytes read were moved, and at most a pipeful more.
    assert!((read..=read + CAPACITY).contains(&moved), "{read}: {end}");
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_reader_closing_at_any_byte_is_a_broken_pipe(
        read in prop_oneof![0..10_usize, 4090..4100_usize, 0..SENT - CAPACITY],
        wait in waits(), technique in prop::sample::select(TECHNIQUES.to_vec()),
    ) {
        if !is_allowed(technique) {
            return Ok(());
        }
        let (reader, writer) = pipe_of(CAPACITY);
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; read];
            // The transfer has started, so this differs from a reader that never existed.
            until_unread(&reader, 1);
            File::from(reader).read_exact(&mut got).unwrap();
            got
        });
        let end = send(technique, writer, wait);
        is_a_broken_pipe_after(&end, read);
        assert_same(&reading.join().unwrap(), &pattern(SENT)[..read]);
    }
}

/// In a process of its own: a child that another test forks meanwhile would have the reader.
#[test]
fn without_a_reader_a_transfer_fails_with_nothing_moved() {
    in_own_process(|| {
        for wait in common::ALL_WAITS {
            for technique in TECHNIQUES.into_iter().filter(|t| is_allowed(*t)) {
                let (reader, writer) = pipe_of(CAPACITY);
                drop(reader);
                let end = send(technique, writer, wait);
                assert_eq!(end.kind(), ErrorKind::BrokenPipe, "{technique:?} {wait:?}");
                assert_eq!(end.moved, 0, "{technique:?} {wait:?}");
            }
        }
    });
}

#[test]
fn tee_to_pipe_without_reader_fails_with_a_broken_pipe() {
    in_own_process(|| {
        for wait in common::ALL_WAITS {
            let (reader, writer) = pipe_of(CAPACITY);
            let (copy_reader, copy_writer) = pipe_of(CAPACITY);
            let (out_reader, out_writer) = pipe_of(CAPACITY);
            File::from(writer).write_all(b"abc").unwrap();
            drop(copy_reader);
            let mut input = Input::new(reader, wait);
            let end = input
                .tee_and_splice(&copy_writer, &out_writer, 3, Default::default())
                .unwrap_err();
            assert_eq!((end.kind(), end.moved), (ErrorKind::BrokenPipe, 0));
            assert_eq!(fastpipe::pipe::unread(&out_reader).unwrap(), 0);
            let mut got = [0; 3];
            assert_eq!(input.read(&mut got).unwrap(), 3, "nothing is lost");
        }
    });
}
