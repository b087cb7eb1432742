//! Rings compared with a queue, also with a hostile peer that writes to the shared memory.

use crate::common::ring_interpreter::{WORDS, run};
use crate::common::shapes::cases;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_ring_is_a_queue(mut program in prop::collection::vec(any::<u8>(), 0..600)) {
        // Without a hostile peer.
        program.insert(0, 0);
        run(&program);
    }

    #[test]
    fn a_hostile_peer_causes_only_documented_errors(
        mut program in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        program.insert(0, 1);
        run(&program);
    }
}

/// Programs that a fuzzer would take long to find: each word of the header is set to each
/// of a few values, before each of a few steps.
fn fixed_programs() -> Vec<Vec<u8>> {
    let mut programs = Vec::new();
    let steps: [&[u8]; 4] = [
        &[0, 9, 2, 6, 7, 2],
        &[3, 200, 2, 2, 9, 100, 2, 2],
        &[12, 0, 12, 1],
        &[0, 255, 3, 0, 255, 3, 6, 255, 3],
    ];
    for word in 0..WORDS.len() as u8 {
        for near in 0..8 {
            for how in 0..4 {
                for (before, after) in steps.iter().zip(steps.iter().cycle().skip(1)) {
                    let poke = [13, word, near, 3, how];
                    let parts: [&[u8]; 5] = [&[1, near, how], before, &poke, after, before];
                    programs.push(parts.concat());
                }
            }
        }
    }
    programs
}

#[test]
fn no_value_in_the_header_does_harm() {
    for program in fixed_programs() {
        run(&program);
    }
}
