//! A ring against a queue, and a ring whose shared memory somebody else writes
//! to.

mod common;

use common::ring_interpreter::{fixed_programs, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_ring_is_a_queue(mut program in prop::collection::vec(any::<u8>(), 0..600)) {
        // Nobody hostile.
        program.insert(0, 0);
        run(&program);
    }

    #[test]
    fn a_ring_in_hostile_hands_goes_wrong_only_in_ways_that_are_documented(
        mut program in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        program.insert(0, 1);
        run(&program);
    }
}

#[test]
fn no_word_of_the_header_does_harm() {
    for program in fixed_programs() {
        run(&program);
    }
}
