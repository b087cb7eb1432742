//! Transfers by each technique compared with plain reads and writes.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::ends::{nonblocking, noticed, tcp, unix};
use crate::common::shapes::{capacity, cases, chunks, cut, size, sizes, waits};
use crate::common::state::until_asleep;
use crate::common::vmsplice;
use crate::common::{
    Directory, assert_same, buffer_with, pattern, pipe_of, read_all, read_rest, write_all,
};
use fastpipe::transfer::{Counts, Incomplete, Input, Output, SpliceOptions};
use fastpipe::wait::Wait;
use proptest::prelude::*;
use proptest::sample::select;

fn counts_add_up(counts: Counts, bytes: usize) {
    assert_eq!(counts.bytes, bytes as u64);
    assert!(counts.moving_calls <= counts.bytes, "{counts:?}");
    assert!(
        counts.moving_calls + counts.polls <= counts.syscalls,
        "{counts:?}"
    );
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn pieces_are_read_as_one_stream(
        capacity in capacity(), sizes in sizes(), offset in 0..5000_usize, chunks in chunks(),
        wait in waits(), way in select(vec!["write", "pieces", "list"]), gift in any::<bool>(),
    ) {
        if way != "write" && !vmsplice::is_allowed() {
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
        match way {
            "list" => out.vmsplice(&pieces, options).unwrap(),
            "pieces" => pieces.iter().for_each(|piece| out.vmsplice(&[*piece], options).unwrap()),
            _ => cut(&bytes, &sizes).into_iter().for_each(|piece| out.write(piece).unwrap()),
        }
        counts_add_up(out.counts(), bytes.len());
        drop(out.into_inner());
        assert_same(&reading.join().unwrap(), &bytes);
    }

    #[test]
    fn a_buffer_is_filled_as_requested_until_the_data_ends(
        capacity in capacity(), sizes in sizes(), buffers in chunks(), wait in waits(),
        way in select(vec!["read", "read_some", "vmsplice"]),
    ) {
        if way == "vmsplice" && !vmsplice::is_allowed() {
            return Ok(());
        }
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacity);
        let writing = write_all(writer, bytes.clone(), sizes);
        let mut input = Input::new(reader, wait);
        let mut got = Vec::new();
        for size in buffers.iter().cycle() {
            let mut buffer = buffer_with(&vec![0; *size], 0);
            let n = match way {
                "read" => input.read(&mut buffer),
                "read_some" => input.read_some(&mut buffer),
                _ => input.vmsplice(&mut buffer),
            };
            let n = n.unwrap();
            if way != "read_some" {
                prop_assert_eq!(n, (*size).min(bytes.len() - got.len()));
            }
            got.extend_from_slice(&buffer[..n]);
            if n == 0 {
                break;
            }
        }
        prop_assert_eq!(input.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        assert_same(&got, &bytes);
        counts_add_up(input.counts(), bytes.len());
        writing.join().unwrap();
    }

    #[test]
    fn splice_moves_the_requested_length_or_everything(
        capacities in (capacity(), capacity()), sizes in sizes(), steps in chunks(),
        chunks in chunks(), wait in waits(), start in 0..5000_usize, some in any::<bool>(),
        file in select(vec!["none", "input", "output"]),
    ) {
        let directory = Directory::new();
        let bytes = pattern(sizes.iter().sum());
        // A file is read and written at its position.
        let seeked = |content: &[u8]| {
            let before = vec![b'.'; start];
            let mut file = directory.file("file", &[&before, content].concat());
            file.seek(SeekFrom::Start(start as u64)).unwrap();
            file
        };
        let (reader, writer) = pipe_of(capacities.0);
        let (out_reader, out_writer) = pipe_of(capacities.1);
        let (reader, writing) = match file {
            "input" => (seeked(&bytes).into(), None),
            _ => (reader, Some(write_all(writer, bytes.clone(), sizes))),
        };
        let (output, reading): (OwnedFd, _) = match file {
            "output" => (seeked(b"").into(), None),
            _ => (out_writer, Some(read_all(out_reader, chunks))),
        };
        let mut input = Input::new(reader, wait);
        let mut moved = 0;
        for step in steps.into_iter().chain([usize::MAX]).cycle() {
            let left = bytes.len() - moved;
            if some {
                let n = input.splice_some(&output, step, Default::default()).unwrap();
                prop_assert!(n <= step.min(left) && (n > 0 || left == 0));
                moved += n;
            } else {
                let n = input.splice(&output, step as u64, Default::default()).unwrap();
                prop_assert_eq!(n, step.min(left) as u64);
                moved += n as usize;
            }
            if left == 0 {
                break;
            }
        }
        counts_add_up(input.counts(), bytes.len());
        drop(output);
        let got = reading.map_or_else(
            || std::fs::read(directory.path("file")).unwrap()[start..].to_vec(),
            |reading| reading.join().unwrap(),
        );
        assert_same(&got, &bytes);
        if let Some(writing) = writing {
            writing.join().unwrap();
        }
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
fn a_transfer_of_some_does_not_wait_for_more_data() {
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
        rustix::io::write(&writer, b"abc").unwrap();
        let mut buffer = [0; 100];
        let n = input.read_some(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"abc", "{wait:?}");
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
fn end_of_the_outputs_reader_ends_a_wait_for_input() {
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

#[test]
fn an_empty_transfer_needs_no_system_call_and_no_peer() {
    for wait in common::ALL_WAITS {
        let (reader, writer) = pipe_of(65_536);
        let mut out = Output::new(&writer, wait);
        out.write(&[]).unwrap();
        out.vmsplice(&[], Default::default()).unwrap();
        assert_eq!(out.counts(), Counts::default());
        let mut input = Input::new(&reader, wait);
        assert_eq!(input.read(&mut []).unwrap(), 0);
        assert_eq!(input.read_some(&mut []).unwrap(), 0);
        assert_eq!(input.tee(&writer, 0).unwrap(), 0);
        let spliced = input.splice(&writer, 0, Default::default());
        assert_eq!(spliced.unwrap(), 0);
        assert_eq!(input.counts(), Counts::default());
    }
}

/// poll(2) reports the error all the time.
#[test]
fn a_full_socket_with_an_error_queue_is_not_polled_again_and_again() {
    for wait in [Wait::Block, Wait::Poll, Wait::Adaptive] {
        // As if another process had made it so, under `Block`.
        let (to, from) = nonblocking(tcp());
        if !noticed(&to) {
            return;
        }
        let since = Instant::now();
        let sending = std::thread::spawn(move || {
            let mut out = Output::new(to, wait);
            out.write(&vec![0; 64 << 20]).unwrap_err();
            out.counts()
        });
        std::thread::sleep(Duration::from_millis(300));
        drop(from);
        let counts = sending.join().unwrap();
        // 100 without a pause after each success, and one a millisecond.
        let most = 100 * (counts.moving_calls + 1) + since.elapsed().as_millis() as u64;
        assert!(counts.polls < 2 * most, "{wait:?}: {counts:?}");
    }
}
