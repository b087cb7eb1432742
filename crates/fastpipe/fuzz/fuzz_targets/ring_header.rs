//! Whatever is done with a ring, it is a queue; and whatever is written to its
//! shared memory, it neither faults nor panics. The bytes are the program's
//! decisions, one or two each.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Each target uses a part of it.
#[allow(dead_code)]
#[path = "../../tests/common/decisions.rs"]
mod decisions;
#[path = "../../tests/common/ring_interpreter.rs"]
mod ring_interpreter;

fuzz_target!(|program: &[u8]| ring_interpreter::run(program));
