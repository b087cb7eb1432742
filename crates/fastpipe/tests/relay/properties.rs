//! Relays with random parameters, compared with a naive model.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::ends::{tcp, unix};
use crate::common::shapes::{capacity, cases, chunks, sizes, waits};
use crate::common::{assert_same, pattern, pipe_of, read_all, write_all};
use fastpipe::relay::{Activity, End, Flow, Options, Technique, relay};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Pipe,
    Unix,
    Tcp,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Pipe, Kind::Pipe, Kind::Unix, Kind::Tcp])
}

fn techniques() -> impl Strategy<Value = Option<Technique>> {
    prop::sample::select(vec![
        None,
        Some(Technique::Splice),
        Some(Technique::SpliceThroughPipe),
        Some(Technique::Copy),
    ])
}

/// The return values of the callback, repeated.
fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let some = (0..40_000_u64).prop_map(|bytes| Flow::AtMost {
        bytes,
        within: Some(Duration::ZERO),
    });
    let flow = prop_oneof![2 => Just(Flow::Continue), 1 => some];
    prop::collection::vec(flow, 1..6)
}

/// Creates a channel: the end to read from, and the end to write to.
fn way(kind: Kind, capacity: usize) -> (OwnedFd, OwnedFd) {
    match kind {
        Kind::Pipe => pipe_of(capacity),
        Kind::Unix => unix(),
        Kind::Tcp => tcp(),
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn output_equals_input_up_to_the_limit_and_the_rest_remains(
        pieces in sizes(),
        chunks in chunks(),
        from in kind(),
        to in kind(),
        nonblocking in any::<bool>(),
        capacity in capacity(),
        technique in techniques(),
        wait in waits(),
        block in prop::option::of(1000..200_000_usize),
        flows in flows(),
        limit in prop::option::of(0..500_000_u64),
        stop_after in prop::option::weighted(0.3, 0..50_usize),
    ) {
        let bytes = pattern(pieces.iter().sum());
        let (input, feeder) = way(from, capacity);
        let (reader, output) = way(to, capacity);
        if nonblocking {
            // Only this test uses the descriptor, so it may be made non-blocking.
            rustix::io::ioctl_fionbio(&output, true).unwrap();
        }
        let writing = write_all(feeder, bytes.clone(), pieces);
        let reading = read_all(reader, chunks);

        let mut options = Options::new().wait(wait).interval(Duration::ZERO);
        options = limit.map_or(options, |limit| options.limit(limit));
        options = block.map_or(options, |block| options.block(block));
        options = technique.map_or(options, |technique| options.technique(technique));
        let (mut calls, mut taken, mut allowed) = (0, 0, u64::MAX);
        let done = relay(&input, &output, &options, |progress| {
            assert!(progress.taken - taken <= allowed);
            assert!(progress.given <= progress.taken);
            taken = progress.taken;
            calls += 1;
            let flow = flows[calls % flows.len()];
            allowed = match flow {
                Flow::AtMost { bytes, .. } => bytes,
                _ => u64::MAX,
            };
            // With allowances of 0 only, the relay would never end.
            let stuck = flows.iter().all(|flow| matches!(flow, Flow::AtMost { bytes: 0, .. }));
            let stop = stop_after.is_some_and(|after| calls > after) || stuck;
            if stop && progress.activity != Activity::Ended {
                return Flow::Stop;
            }
            flow
        })
        .unwrap();

        drop(output);
        let mut got = reading.join().unwrap();
        prop_assert_eq!(got.len() as u64, done.given);
        prop_assert_eq!(done.taken, done.given + done.undelivered.len() as u64);
        match done.end {
            End::EndOfData => prop_assert_eq!(done.given, bytes.len() as u64),
            End::Limit => prop_assert_eq!(Some(done.given), limit),
            End::Stopped => prop_assert!(limit.is_none_or(|limit| done.taken <= limit)),
        }
        got.extend_from_slice(&done.undelivered);
        File::from(input).read_to_end(&mut got).unwrap();
        assert_same(&got, &bytes);
        writing.join().unwrap();
    }
}
