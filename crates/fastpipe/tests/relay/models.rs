//! Random sequences of relays and of what happens around them, compared with a
//! `Vec<u8>`.

use crate::common;
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

/// The same programs in each run.
#[test]
fn hundreds_of_fixed_relay_programs_are_right() {
    common::state::watch();
    for seed in 0..400_u64 {
        let len = 20 + seed as usize % 300;
        run(&common::writers::stream(seed << 20, len));
    }
}
