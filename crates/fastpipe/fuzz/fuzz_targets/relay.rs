//! Whatever happens around a relay, it loses and repeats nothing. The bytes are the
//! program's decisions, one or two each.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Each target uses a part of it.
#[allow(dead_code)]
#[path = "../../tests/common/decisions.rs"]
mod decisions;
#[path = "../../tests/common/relay_interpreter.rs"]
mod relay_interpreter;

fuzz_target!(
    // As in Rust programs, which libFuzzer's is not: a relay to a pipe without reader is an
    // error and not the end of the process.
    // SAFETY: no handler is installed.
    init: assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) }, libc::SIG_ERR),
    |program: &[u8]| relay_interpreter::run(program)
);
