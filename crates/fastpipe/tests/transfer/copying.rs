//! write and read compared with those of the standard library.

use crate::common;
use crate::common::shapes::{capacity, cases, chunks, cut, sizes, waits};
use crate::common::{assert_same, pattern, pipe_of, read_all, write_all};
use fastpipe::transfer::{Counts, Input, Output};
use fastpipe::wait::Wait;
use proptest::prelude::*;

fn counts_add_up(counts: Counts, bytes: usize) {
    assert_eq!(counts.bytes, bytes as u64);
    assert!(counts.moving_calls <= counts.syscalls, "{counts:?}");
    assert!(counts.moving_calls <= counts.bytes, "{counts:?}");
    assert!(
        counts.moving_calls + counts.polls <= counts.syscalls,
        "{counts:?}"
    );
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn bytes_written_in_pieces_are_read_as_one_stream(
        capacity in capacity(), sizes in sizes(), chunks in chunks(), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacity);
        let reading = read_all(reader, chunks);
        let mut out = Output::new(writer, wait);
        for piece in cut(&bytes, &sizes) {
            out.write(piece).unwrap();
        }
        counts_add_up(out.counts(), bytes.len());
        drop(out.into_inner());
        assert_same(&reading.join().unwrap(), &bytes);
    }

    #[test]
    fn read_fills_the_buffer_unless_the_data_ends(
        capacity in capacity(), sizes in sizes(), buffers in chunks(), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacity);
        let writing = write_all(writer, bytes.clone(), sizes);
        let mut input = Input::new(reader, wait);
        let mut got = Vec::new();
        for size in buffers.iter().cycle() {
            let mut buffer = vec![0; *size];
            let n = input.read(&mut buffer).unwrap();
            prop_assert_eq!(n, (*size).min(bytes.len() - got.len()));
            got.extend_from_slice(&buffer[..n]);
            if n < *size {
                break;
            }
        }
        prop_assert_eq!(input.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        assert_same(&got, &bytes);
        counts_add_up(input.counts(), bytes.len());
        writing.join().unwrap();
    }

    #[test]
    fn read_some_returns_at_least_a_byte_until_the_data_ends(
        capacity in capacity(), sizes in sizes(), buffers in chunks(), wait in waits(),
    ) {
        let bytes = pattern(sizes.iter().sum());
        let (reader, writer) = pipe_of(capacity);
        let writing = write_all(writer, bytes.clone(), sizes);
        let mut input = Input::new(reader, wait);
        let mut got = Vec::new();
        for size in buffers.iter().cycle() {
            let mut buffer = vec![0; *size];
            let n = input.read_some(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
            if n == 0 {
                break;
            }
        }
        prop_assert_eq!(input.read_some(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        assert_same(&got, &bytes);
        counts_add_up(input.counts(), bytes.len());
        writing.join().unwrap();
    }
}

#[test]
fn read_some_does_not_wait_for_more_data() {
    for wait in common::ALL_WAITS {
        let (reader, writer) = pipe_of(65_536);
        rustix::io::write(&writer, b"abc").unwrap();
        let mut buffer = [0; 100];
        let n = Input::new(&reader, wait).read_some(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"abc", "{wait:?}");
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

#[test]
fn wait_and_descriptor_can_be_queried() {
    let (reader, writer) = pipe_of(65_536);
    let out = Output::new(&writer, Wait::Poll);
    let input = Input::new(&reader, Wait::Never);
    assert_eq!((out.wait(), input.wait()), (Wait::Poll, Wait::Never));
    assert!(std::ptr::eq(*out.get_ref(), &writer));
    assert!(std::ptr::eq(input.into_inner(), &reader));
}
