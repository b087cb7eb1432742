//! Compares every code path with the naive one.

use pipespeed_base::Named as _;
use proptest::prelude::*;

use super::naive::lines;
use super::{CodePath, FizzBuzz, LAST};

/// The paths that this processor supports; prints a skip for the others.
fn paths() -> impl Iterator<Item = CodePath> {
    CodePath::VALUES.iter().copied().filter(|path| {
        let supported = path.is_supported();
        if !supported {
            pipespeed_testing::skip(format_args!("this processor has no {}", path.name()));
        }
        supported
    })
}

/// Generates the lines in pieces of these sizes, repeatedly.
fn generate(path: CodePath, from: u64, last: u64, sizes: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut fizzbuzz = FizzBuzz::with_path(path, from, last);
    for size in sizes.iter().cycle() {
        let mut piece = vec![b'?'; *size];
        let n = fizzbuzz.fill(&mut piece);
        out.extend_from_slice(&piece[..n]);
        if n < *size {
            assert_eq!(fizzbuzz.fill(&mut piece), 0, "more after the end");
            break;
        }
    }
    out
}

#[track_caller]
fn assert_like_naive(path: CodePath, from: u64, last: u64, sizes: &[usize]) {
    let (got, expected) = (generate(path, from, last, sizes), lines(from, last));
    let differ = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(
        differ.is_none() && got.len() == expected.len(),
        "{path:?}, {from} to {last} by {sizes:?}: {} bytes for {}, the first difference at \
         {differ:?}",
        got.len(),
        expected.len(),
    );
}

#[test]
fn the_first_lines_are_right() {
    let expected = "1\n2\nFizz\n4\nBuzz\nFizz\n7\n8\nFizz\nBuzz\n11\nFizz\n13\n14\nFizzBuzz\n16\n";
    assert_eq!(lines(1, 16), expected.as_bytes());
    for path in paths() {
        assert_eq!(generate(path, 1, 16, &[1000]), expected.as_bytes());
    }
}

#[test]
fn every_power_of_ten_and_its_neighbours_are_right() {
    for path in paths() {
        for exponent in 0..19 {
            let power = 10u64.pow(exponent);
            for around in [0, 1, 99, 100, 101, 300, 5000] {
                let from = power.saturating_sub(around).max(1);
                assert_like_naive(path, from, power + around, &[4096]);
                assert_like_naive(path, from, power, &[100_000]);
            }
        }
    }
}

/// A carry runs through many digits, but does not add one.
#[test]
fn multiples_of_powers_of_ten_and_their_neighbours_are_right() {
    for path in paths() {
        for exponent in 3..18 {
            for factor in [2, 3, 7, 10, 11, 20, 47, 99] {
                let at = factor * 10u64.pow(exponent);
                if at < LAST - 1000 {
                    assert_like_naive(path, at - 500, at + 500, &[100_000]);
                }
            }
        }
    }
}

#[test]
fn the_last_lines_are_right() {
    for path in paths() {
        assert_like_naive(path, LAST - 3000, LAST, &[8192]);
        // The first of 19 digits is part of the template.
        for first in 2..=9 {
            let change = first * 10u64.pow(18);
            assert_like_naive(path, change - 700, change + 700, &[4096]);
        }
    }
}

#[test]
fn short_and_empty_ranges_are_right() {
    for path in paths() {
        for from in [1, 2, 14, 15, 99, 100, 101, 12_300, 12_345, LAST - 1, LAST] {
            for len in [0, 1, 2, 15, 99, 100, 101] {
                let last = from.saturating_add(len).min(LAST);
                assert_like_naive(path, from, last, &[10_000]);
            }
        }
        assert_eq!(generate(path, 10, 9, &[100]), b"");
    }
}

#[test]
fn lines_beyond_the_last_are_not_generated() {
    assert_eq!(
        generate(CodePath::Portable, LAST, u64::MAX, &[100]),
        lines(LAST, LAST)
    );
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(
        prop_oneof![1..100usize, 1000..5000usize, 1..200_000usize],
        1..6,
    )
}

proptest! {
    #[test]
    fn any_range_in_pieces_of_any_size_is_right(
        exponent in 0..63u32,
        within in any::<u64>(),
        len in 0..3000u64,
        sizes in sizes(),
    ) {
        let from = ((1 << exponent) + within % (1 << exponent)).min(LAST);
        for path in paths() {
            assert_like_naive(path, from, from.saturating_add(len).min(LAST), &sizes);
        }
    }
}
