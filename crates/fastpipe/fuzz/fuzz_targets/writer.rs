//! Whatever is done with a writer, its reader gets exactly that. The bytes are
//! the program's decisions, one or two each.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Each target uses a part of it.
#[allow(dead_code)]
#[path = "../../tests/common/decisions.rs"]
mod decisions;
#[path = "../../tests/common/interpreter.rs"]
mod interpreter;

fuzz_target!(|program: &[u8]| interpreter::run(program));
