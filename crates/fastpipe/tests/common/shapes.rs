//! Strategies of the property tests.

use std::num::NonZero;

use fastpipe::wait::Wait;
use proptest::prelude::*;
use proptest::test_runner::Config;

/// Divides the number of cases of each property test, for slow (emulated) machines.
const DIVISOR: &str = "FASTPIPE_TEST_DIVISOR";

/// Configures the number of cases; failures are printed but not stored in a file.
pub fn cases(cases: u32) -> Config {
    let divisor = std::env::var(DIVISOR).map_or(1, |value| {
        let divisor: NonZero<u32> = value.parse().expect(DIVISOR);
        divisor.get()
    });
    Config {
        cases: cases.div_ceil(divisor),
        failure_persistence: None,
        ..Config::default()
    }
}

pub fn waits() -> impl Strategy<Value = Wait> {
    prop::sample::select(super::WAITS.to_vec())
}

/// Capacities from 4 KiB to 1 MiB, mostly small, so that the pipe becomes full.
pub fn capacity() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..5_u32, 1 => 5..9_u32].prop_map(|shift| 4096 << shift)
}

/// Sizes from 0 to 300 KiB, at page boundaries and elsewhere.
pub fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => 0..80_usize,
        2 => 4090..4100_usize,
        3 => 0..20_000_usize,
        1 => (1..17_usize).prop_map(|pages| pages * 4096),
        1 => 0..300 * 1024_usize,
    ]
}

/// Sizes of a few pieces.
pub fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(size(), 1..10)
}

/// Sizes of a reader's calls, to be repeated. They include large ones, so that reading
/// half a megabyte is fast.
pub fn chunks() -> impl Strategy<Value = Vec<usize>> {
    let chunk = prop_oneof![1 => 300..5000_usize, 1 => Just(4096_usize), 2 => 1..100_000_usize];
    prop::collection::vec(chunk, 1..5).prop_map(|mut chunks| {
        chunks.push(65_536);
        chunks
    })
}

/// Cuts `bytes` into pieces of these sizes.
pub fn cut<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    sizes
        .iter()
        .map(|size| {
            let (piece, left) = rest.split_at(*size);
            rest = left;
            piece
        })
        .collect()
}
