//! Reader compared with a cursor over the same bytes.

use std::fs::File;
use std::io::{BufRead, Cursor, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use crate::common::prohibited::{self, failing_connections};
use crate::common::shapes::{cases, sizes, waits};
use crate::common::{assert_same, flags, pattern, pipe_of, write_all};
use fastpipe::pipe;
use fastpipe::reader::Reader;
use fastpipe::wait::Wait;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Act {
    Read(usize),
    ReadExactly(usize),
    FillAndConsume(usize),
    Until(u8),
    IntoParts,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0..70_000_usize).prop_map(Act::Read),
        2 => (0..300_000_usize).prop_map(Act::ReadExactly),
        3 => (0..70_000_usize).prop_map(Act::FillAndConsume),
        3 => any::<u8>().prop_map(Act::Until),
        1 => Just(Act::IntoParts),
    ];
    prop::collection::vec(act, 1..30)
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn any_mixture_of_reads_yields_what_was_written(
        pieces in sizes(),
        acts in acts(),
        wait in waits(),
        size in prop_oneof![1..40_usize, 4000..5000_usize, Just(65_536_usize)],
    ) {
        let bytes = pattern(pieces.iter().sum());
        let mut model = Cursor::new(&bytes[..]);
        let (reader, writer) = pipe_of(16 * 4096);
        let writing = write_all(writer, bytes.clone(), pieces);
        let builder = Reader::builder().wait(wait).buffer(size);
        let mut reader = builder.open(reader).unwrap();
        for act in acts {
            match act {
                // The number of bytes is unspecified, but not their values.
                Act::Read(n) => {
                    let mut got = vec![0; n];
                    let n = reader.read(&mut got).unwrap();
                    let mut expected = vec![0; n];
                    model.read_exact(&mut expected).unwrap();
                    assert_same(&got[..n], &expected);
                    let at_end = model.fill_buf().unwrap().is_empty();
                    prop_assert!(n > 0 || got.is_empty() || at_end);
                }
                Act::ReadExactly(n) => {
                    let (mut got, mut expected) = (vec![], vec![]);
                    (&mut reader).take(n as u64).read_to_end(&mut got).unwrap();
                    (&mut model).take(n as u64).read_to_end(&mut expected).unwrap();
                    assert_same(&got, &expected);
                }
                Act::FillAndConsume(n) => {
                    let there = reader.fill_buf().unwrap();
                    let expected = model.fill_buf().unwrap();
                    prop_assert_eq!(there.is_empty(), expected.is_empty());
                    let n = n.min(there.len());
                    assert_same(there, &expected[..there.len()]);
                    reader.consume(n);
                    model.consume(n);
                }
                Act::Until(byte) => {
                    let (mut got, mut expected) = (vec![], vec![]);
                    reader.read_until(byte, &mut got).unwrap();
                    model.read_until(byte, &mut expected).unwrap();
                    assert_same(&got, &expected);
                }
                Act::IntoParts => {
                    let (fd, unconsumed) = reader.into_parts();
                    assert_same(&unconsumed, &model.fill_buf().unwrap()[..unconsumed.len()]);
                    model.consume(unconsumed.len());
                    reader = builder.open(fd).unwrap();
                }
            }
        }
        let (mut got, mut expected) = (vec![], vec![]);
        reader.read_to_end(&mut got).unwrap();
        model.read_to_end(&mut expected).unwrap();
        assert_same(&got, &expected);
        writing.join().unwrap();
    }
}

#[test]
fn never_fails_with_would_block_on_empty_pipe_without_loss() {
    let (reader, writer) = pipe_of(65_536);
    let before = flags(&reader);
    let mut writer = File::from(writer);
    let mut reader = Reader::builder().wait(Wait::Never).open(reader).unwrap();
    let mut line = Vec::new();
    for piece in [&b"no newline"[..], b" yet", b", now\nrest"] {
        let blocked = reader.read_until(b'\n', &mut line).unwrap_err();
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        writer.write_all(piece).unwrap();
    }
    reader.read_until(b'\n', &mut line).unwrap();
    assert_eq!(line, b"no newline yet, now\n");
    assert_eq!(reader.buffer(), b"rest");
    let mut large = vec![0; 1 << 20];
    assert_eq!(reader.read(&mut large).unwrap(), 4);
    let blocked = reader.read(&mut large).unwrap_err();
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    assert_eq!(flags(&reader), before);
}

#[test]
fn a_read_as_large_as_the_buffer_bypasses_it() {
    let (reader, writer) = pipe_of(65_536);
    File::from(writer).write_all(&pattern(1000)).unwrap();
    let mut reader = Reader::builder().buffer(100).open(reader).unwrap();
    let mut got = vec![0; 500];
    assert_eq!(reader.read(&mut got).unwrap(), 500);
    assert!(reader.buffer().is_empty());
    assert_eq!(reader.counts().moving_calls, 1);
    // Buffered bytes are returned first.
    assert_eq!(reader.fill_buf().unwrap().len(), 100);
    assert_eq!(reader.read(&mut got).unwrap(), 100);
    assert_same(&got[..100], &pattern(1000)[500..600]);
}

#[test]
fn the_pipe_grows_only_on_request_and_never_shrinks() {
    let size = |fd: &OwnedFd| pipe::capacity(fd).unwrap();
    let (reader, _writer) = pipe_of(65_536);
    let before = size(&reader);
    let kept = Reader::builder().open(reader).unwrap();
    assert_eq!(size(kept.get_ref()), before);
    let larger = 4 * before;
    let builder = Reader::builder().capacity(larger);
    let raised = builder.open(kept.into_inner()).unwrap();
    let after = size(raised.get_ref());
    assert!(after >= before);
    if rustix::process::geteuid().is_root() {
        assert_eq!(after, larger);
    }
    let same = Reader::builder().capacity(4096).open(raised.into_inner());
    assert_eq!(size(same.unwrap().get_ref()), after);
}

#[test]
fn a_refused_capacity_is_no_error() {
    let (reader, _writer) = pipe_of(65_536);
    let reader = Reader::builder().capacity(usize::MAX).open(reader).unwrap();
    assert!(pipe::capacity(&reader).unwrap() >= 4096);
}

#[test]
fn error_of_a_socket_that_looks_like_a_refusal_is_no_end() {
    let waits = [Wait::Block, Wait::Poll, Wait::Adaptive];
    let Some((inputs, _peers)) = failing_connections::<3>() else {
        return;
    };
    for (input, wait) in inputs.iter().zip(waits) {
        let mut reader = Reader::builder().wait(wait).open(input).unwrap();
        let mut got = Vec::new();
        let error = reader.read_to_end(&mut got).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(prohibited::ERROR), "{wait:?}");
        assert_eq!(got.len(), prohibited::LEN);
    }
}
