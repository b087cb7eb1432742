//! Random sequences of a writer's methods, with any settings, compared with a
//! `Vec<u8>`.

use crate::common;
use crate::common::interpreter::run;
use crate::common::shapes::cases;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn the_reader_gets_exactly_what_any_program_of_calls_sends(
        program in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        run(&program);
    }
}

/// The same programs in each run.
#[test]
fn hundreds_of_fixed_programs_are_right() {
    common::state::watch();
    for seed in 0..250_u64 {
        let len = 40 + seed as usize % 260;
        run(&common::writers::stream(seed << 20, len));
    }
}

/// Short programs end when few bytes have been sent.
#[test]
fn hundreds_of_short_programs_are_right() {
    for seed in 0..600_u64 {
        run(&common::writers::stream(
            seed << 20 | 3,
            10 + seed as usize % 30,
        ));
    }
}
