//! Random sequences of relays and of what happens around them, compared with a
//! `Vec<u8>`.

use crate::common::relay_interpreter::run;
use crate::common::shapes::cases;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn relays_lose_and_repeat_nothing(
        program in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        run(&program);
    }
}
