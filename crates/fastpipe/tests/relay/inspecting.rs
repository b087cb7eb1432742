//! Inspected relays: each byte is seen once, in order, when it was given.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use crate::common::ends::going_on_while;
use crate::common::shapes::{cases, chunks};
use crate::common::{Directory, assert_same, pattern, pipe_of, read_all, read_rest, write_all};
use fastpipe::relay::{Activity, End, Flow, Options, Technique, relay, relay_inspecting};
use proptest::prelude::*;

const OFTEN: Duration = Duration::from_millis(1);

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn inspector_can_limit_the_relay_to_a_number_of_lines(
        lines in prop::collection::vec("[a-z]{0,200}\n", 1..60),
        wanted in 1..80_usize,
        chunks in chunks(),
    ) {
        let bytes = lines.concat().into_bytes();
        let (input, feeder) = pipe_of(4096);
        let (reader, output) = pipe_of(4096);
        let len = bytes.len();
        let writing = write_all(feeder, bytes.clone(), vec![len]);
        let reading = read_all(reader, chunks);
        let mut left = wanted as u64;
        let look = |some: &[u8]| {
            left -= some.iter().filter(|byte| **byte == b'\n').count() as u64;
            match left {
                0 => Flow::Stop,
                bytes => Flow::AtMost { bytes, within: None },
            }
        };
        let options = Options::new().interval(Duration::MAX);
        let bytes_at_first = wanted as u64;
        let done = relay_inspecting(&input, &output, &options, look, |_| Flow::AtMost {
            bytes: bytes_at_first,
            within: None,
        })
        .unwrap();
        drop(output);
        let first: usize = lines.iter().take(wanted).map(String::len).sum();
        assert_same(&reading.join().unwrap(), &bytes[..first]);
        prop_assert_eq!(done.taken, first as u64);
        let rest = read_rest(input);
        assert_same(&rest, &bytes[first..]);
        writing.join().unwrap();
    }
}

#[test]
fn undelivered_bytes_are_not_inspected_and_go_back_into_file() {
    let directory = Directory::new();
    let bytes = pattern(1 << 20);
    let mut file = directory.file("in", &bytes);
    let (reader, output) = pipe_of(65_536);
    let mut seen = 0;
    let mut waited = 0;
    let options = Options::new().raise_capacity(false).interval(OFTEN);
    let look = |bytes: &[u8]| {
        seen += bytes.len() as u64;
        Flow::Continue
    };
    let done = relay_inspecting(&file, &output, &options, look, |progress| {
        waited += usize::from(progress.given == 65_536);
        going_on_while(waited < 3)
    })
    .unwrap();
    assert_eq!((done.end, done.given, seen), (End::Stopped, 65_536, 65_536));
    assert_eq!(file.stream_position().unwrap(), 65_536);
    drop(reader);
}

#[test]
fn a_requested_technique_other_than_copy_is_passed_over() {
    let (input, feeder) = pipe_of(65_536);
    let (_reader, output) = pipe_of(65_536);
    File::from(feeder).write_all(b"looked at").unwrap();
    let options = Options::new().technique(Technique::Splice);
    let look = |bytes: &[u8]| {
        assert_eq!(bytes, b"looked at");
        Flow::Continue
    };
    let done = relay_inspecting(&input, &output, &options, look, |_| Flow::Continue).unwrap();
    assert_eq!((done.technique, done.given), (Technique::Copy, 9));
    let over = done.passed_over.iter().map(|over| over.technique);
    assert!(over.collect::<Vec<_>>().contains(&Technique::Splice));
}

#[test]
fn call_after_calls_back_when_its_bytes_are_used_up() {
    for options in [Options::new(), Options::new().copy()] {
        let bytes = pattern(10_500);
        let (input, feeder) = pipe_of(65_536);
        let (reader, output) = pipe_of(65_536);
        File::from(feeder).write_all(&bytes).unwrap();
        let mut calls = Vec::new();
        let options = options.interval(Duration::MAX);
        let done = relay(&input, &output, &options, |progress| {
            if progress.activity != Activity::Ended {
                calls.push(progress.taken);
            }
            Flow::CallAfter {
                bytes: 1000,
                within: None,
            }
        })
        .unwrap();
        drop(output);
        let expected: Vec<u64> = (0..=10).map(|call| call * 1000).collect();
        assert_eq!((done.end, calls), (End::EndOfData, expected));
        assert_same(&read_all(reader, vec![4096]).join().unwrap(), &bytes);
    }
}
