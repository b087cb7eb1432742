//! vmsplice, splice and tee compared with plain reads and writes.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;

use crate::common;
use crate::common::ends::unix;
use crate::common::shapes::{capacity, cases, chunks, cut, size, sizes, waits};
use crate::common::state::until_asleep;
use crate::common::vmsplice;
use crate::common::{
    Directory, assert_same, buffer_with, pattern, pipe_of, read_all, read_rest, write_all,
};
use fastpipe::transfer::{Incomplete, Input, Output, SpliceOptions};
use fastpipe::wait::Wait;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(160))]

    #[test]
    fn pieces_and_lists_of_pieces_are_read_as_one_stream(
        capacity in capacity(), sizes in sizes(), offset in 0..5000_usize, chunks in chunks(),
        wait in waits(), as_list in any::<bool>(), gift in any::<bool>(),
    ) {
        if !vmsplice::is_allowed() {
            return Ok(());
        }
        let bytes = pattern(sizes.iter().sum());
        let pages = buffer_with(&bytes, offset);
        let mut at = offset;
        let pieces: Vec<_> = sizes
            .iter()
            .map(|size| {
                at += size;
                pages.slice(at - size..at)
            })
            .collect();
        let options = fastpipe::transfer::VmspliceOptions { gift };
        let (reader, writer) = pipe_of(capacity);
        let reading = read_all(reader, chunks);
        let mut out = Output::new(writer, wait);
        if as_list {
            out.vmsplice(&pieces, options).unwrap();
        } else {
            for piece in pieces {
                out.vmsplice(&[piece], options).unwrap();
            }
        }
        let counts = out.counts();
        prop_assert_eq!(counts.bytes, bytes.len() as u64);
        prop_assert!(counts.moving_calls + counts.polls <= counts.syscalls, "{:?}", counts);
        drop(out.into_inner());
        assert_same(&reading.join().unwrap(), &bytes);
    }

    #[test]
    fn vmsplice_from_a_pipe_fills_the_buffer_until_the_data_ends(
        capacity in capacity(), sizes in sizes(), step in 1..70_000_usize, wait in waits(),
    ) {
        if !vmsplice::is_allowed() {
            return Ok(());
        }
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacity);
        let writing = write_all(writer, bytes.clone(), sizes);
        let mut input = Input::new(reader, wait);
        let mut buffer = buffer_with(&vec![0; step], 0);
        let mut got = Vec::new();
        loop {
            let n = input.vmsplice(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
            if n < step {
                break;
            }
        }
        prop_assert_eq!(input.counts().bytes, bytes.len() as u64);
        assert_same(&got, &bytes);
        writing.join().unwrap();
    }

    #[test]
    fn splice_between_pipes_moves_the_requested_length_or_everything(
        capacities in (capacity(), capacity()), sizes in sizes(), steps in chunks(),
        chunks in chunks(), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (first_reader, first_writer) = pipe_of(capacities.0);
        let (second_reader, second_writer) = pipe_of(capacities.1);
        let writing = write_all(first_writer, bytes.clone(), sizes);
        let reading = read_all(second_reader, chunks);
        let mut input = Input::new(first_reader, wait);
        let mut moved = 0;
        for step in steps {
            let n = input.splice(&second_writer, step as u64, Default::default()).unwrap();
            prop_assert_eq!(n, step.min(bytes.len() - moved) as u64);
            moved += n as usize;
        }
        let n = input.splice(&second_writer, u64::MAX, Default::default()).unwrap();
        prop_assert_eq!(n, (bytes.len() - moved) as u64);
        let counts = input.counts();
        prop_assert_eq!(counts.bytes, bytes.len() as u64);
        prop_assert!(counts.moving_calls <= counts.syscalls);
        drop(second_writer);
        assert_same(&reading.join().unwrap(), &bytes);
        writing.join().unwrap();
    }

    #[test]
    fn splice_some_moves_at_least_a_byte_until_the_data_ends(
        capacities in (capacity(), capacity()), sizes in sizes(), most in chunks(),
        chunks in chunks(), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (first_reader, first_writer) = pipe_of(capacities.0);
        let (second_reader, second_writer) = pipe_of(capacities.1);
        let writing = write_all(first_writer, bytes.clone(), sizes);
        let reading = read_all(second_reader, chunks);
        let mut input = Input::new(first_reader, wait);
        let mut moved = 0;
        for most in most.into_iter().chain([usize::MAX]).cycle() {
            let n = input.splice_some(&second_writer, most, Default::default()).unwrap();
            prop_assert!(n <= most);
            moved += n;
            if n == 0 {
                break;
            }
        }
        prop_assert_eq!(moved, bytes.len());
        prop_assert_eq!(input.counts().bytes, bytes.len() as u64);
        drop(second_writer);
        assert_same(&reading.join().unwrap(), &bytes);
        writing.join().unwrap();
    }

    #[test]
    fn splice_from_a_file_starts_at_its_position(
        capacity in capacity(), len in size(), start in size(), step in size(),
        chunks in chunks(), wait in waits(),
    ) {
        let directory = Directory::new();
        let bytes = pattern(len);
        let mut file = directory.file("in", &bytes);
        let start = start.min(len);
        file.seek(SeekFrom::Start(start as u64)).unwrap();
        let (reader, writer) = pipe_of(capacity);
        let reading = read_all(reader, chunks);
        let mut input = Input::new(&file, wait);
        let first = input.splice(&writer, step as u64, Default::default()).unwrap();
        prop_assert_eq!(first, step.min(len - start) as u64);
        let rest = input.splice(&writer, u64::MAX, Default::default()).unwrap();
        prop_assert_eq!(input.counts().bytes, (len - start) as u64);
        prop_assert_eq!(first + rest, (len - start) as u64);
        drop(writer);
        assert_same(&reading.join().unwrap(), &bytes[start..]);
    }

    #[test]
    fn splice_to_a_file_starts_at_its_position(
        capacity in capacity(), sizes in sizes(), start in 0..5000_usize, wait in waits(),
    ) {
        let directory = Directory::new();
        let bytes = pattern(sizes.iter().sum());
        let mut file = directory.file("out", b"");
        file.write_all(&vec![b'.'; start]).unwrap();
        let (reader, writer) = pipe_of(capacity);
        let writing = write_all(writer, bytes.clone(), sizes);
        let mut input = Input::new(reader, wait);
        let moved = input.splice(&file, u64::MAX, Default::default()).unwrap();
        prop_assert_eq!(moved, bytes.len() as u64);
        let mut got = Vec::new();
        file.seek(SeekFrom::Start(start as u64)).unwrap();
        file.read_to_end(&mut got).unwrap();
        assert_same(&got, &bytes);
        writing.join().unwrap();
    }

    #[test]
    fn tee_and_splice_delivers_the_same_to_both(
        capacities in (capacity(), capacity(), capacity()), sizes in sizes(), step in size(),
        chunks in (chunks(), chunks()), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacities.0);
        let (copy_reader, copy_writer) = pipe_of(capacities.1);
        let (out_reader, out_writer) = pipe_of(capacities.2);
        let writing = write_all(writer, bytes.clone(), sizes);
        let copying = read_all(copy_reader, chunks.0);
        let reading = read_all(out_reader, chunks.1);
        let mut input = Input::new(reader, wait);
        let mut relay = |len| {
            input.tee_and_splice(&copy_writer, &out_writer, len, Default::default()).unwrap()
        };
        let first = relay(step as u64);
        prop_assert_eq!(first, step.min(bytes.len()) as u64);
        prop_assert_eq!(first + relay(u64::MAX), bytes.len() as u64);
        // Each byte counts twice: for tee and for splice.
        prop_assert_eq!(input.counts().bytes, 2 * bytes.len() as u64);
        drop((copy_writer, out_writer));
        assert_same(&copying.join().unwrap(), &bytes);
        assert_same(&reading.join().unwrap(), &bytes);
        writing.join().unwrap();
    }

    #[test]
    fn tee_duplicates_from_the_front_and_consumes_nothing(
        len in 1..60_000_usize, want in size(), wait in waits(),
    ) {
        let bytes = pattern(len);
        let (reader, writer) = pipe_of(65_536);
        let (copy_reader, copy_writer) = pipe_of(65_536);
        File::from(writer).write_all(&bytes).unwrap();
        let mut input = Input::new(&reader, wait);
        for _ in 0..2 {
            let n = input.tee(&copy_writer, want).unwrap();
            prop_assert_eq!(n, want.min(len));
            let mut copy = vec![0; n];
            Input::new(&copy_reader, wait).read(&mut copy).unwrap();
            assert_same(&copy, &bytes[..n]);
        }
        let rest = read_rest(reader);
        assert_same(&rest, &bytes);
    }
}

#[test]
fn more_pieces_than_one_call_accepts_are_all_sent() {
    if !vmsplice::is_allowed() {
        return;
    }
    for wait in common::WAITS {
        // With empty pieces at the start, in between and at the end.
        let sizes: Vec<_> = (0..3000).map(|n| [0, 3, 1, 0, 7][n % 5]).collect();
        let bytes = pattern(sizes.iter().sum());
        let pages = buffer_with(&bytes, 0);
        let mut at = 0;
        let pieces: Vec<_> = cut(&bytes, &sizes)
            .iter()
            .map(|piece| {
                at += piece.len();
                pages.slice(at - piece.len()..at)
            })
            .collect();
        // Neither capacity has a slot for each piece.
        for capacity in [1 << 16, 1 << 20] {
            let (reader, writer) = pipe_of(capacity);
            let reading = read_all(reader, vec![65_536]);
            let mut out = Output::new(writer, wait);
            out.vmsplice(&pieces, Default::default()).unwrap();
            assert_eq!(out.counts().bytes, bytes.len() as u64);
            drop(out.into_inner());
            assert_same(&reading.join().unwrap(), &bytes);
        }
    }
}

#[test]
fn discard_drops_the_requested_length_or_everything() {
    for wait in common::WAITS {
        let bytes = pattern(200_000);
        let (reader, writer) = pipe_of(65_536);
        let writing = write_all(writer, bytes.clone(), vec![]);
        let mut input = Input::new(reader, wait);
        assert_eq!(input.discard(70_001).unwrap(), 70_001);
        let mut got = vec![0; 10_000];
        assert_eq!(input.read(&mut got).unwrap(), 10_000);
        assert_same(&got, &bytes[70_001..80_001]);
        assert_eq!(input.discard(u64::MAX).unwrap(), 119_999);
        assert_eq!(input.counts().bytes, 200_000);
        writing.join().unwrap();
    }
}

#[test]
fn splice_some_does_not_wait_for_more_data() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    for wait in common::ALL_WAITS {
        let (reader, writer) = pipe_of(65_536);
        let (out_reader, out_writer) = pipe_of(65_536);
        let mut input = Input::new(&reader, wait);
        for out in [&out_writer, &null.as_fd().try_clone_to_owned().unwrap()] {
            rustix::io::write(&writer, b"abc").unwrap();
            let mut splice = |most| input.splice_some(out, most, Default::default()).unwrap();
            assert_eq!(
                (splice(0), splice(1), splice(usize::MAX)),
                (0, 1, 2),
                "{wait:?}"
            );
        }
        assert_eq!(fastpipe::pipe::unread(&out_reader).unwrap(), 3);
    }
}

type Move = fn(Input<OwnedFd>, OwnedFd) -> Result<u64, Incomplete>;

const MOVES: [(&str, Move); 3] = [
    ("splice", |mut input, out| {
        input.splice(out, u64::MAX, SpliceOptions::default())
    }),
    ("splice_some", |mut input, out| {
        let moved = input.splice_some(out, 100, SpliceOptions::default());
        moved.map(|n| n as u64)
    }),
    ("tee", |mut input, out| {
        input.tee(out, 100).map(|n| n as u64)
    }),
];

#[test]
fn the_end_of_the_outputs_reader_ends_a_wait_for_input() {
    for (name, splice) in MOVES {
        for wait in [Wait::Poll, Wait::Adaptive] {
            for (to, (reader, output)) in [("pipe", pipe_of(4096)), ("socket", unix())] {
                if (name, to) == ("tee", "socket") {
                    continue;
                }
                let (silent, writer) = pipe_of(4096);
                let (tell, told) = channel();
                let moving = std::thread::spawn(move || {
                    tell.send(rustix::thread::gettid()).unwrap();
                    splice(Input::new(silent, wait), output)
                });
                until_asleep(told.recv().unwrap());
                drop(reader);
                let error = moving.join().unwrap().unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::BrokenPipe,
                    "{name}, {wait:?}, {to}"
                );
                assert_eq!(error.moved, 0);
                drop(writer);
            }
        }
    }
}
