//! Whatever happens around a relay, it loses and repeats nothing. The bytes are the
//! program's decisions, one or two each.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/decisions.rs"]
mod decisions;
#[path = "../../tests/common/relay_interpreter.rs"]
mod relay_interpreter;

fuzz_target!(|program: &[u8]| relay_interpreter::run(program));
