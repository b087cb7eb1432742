//! Random sequences of a writer's methods, with any settings, compared with a
//! `Vec<u8>`.

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
