//! Visible skips of tests.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;

/// Lines printed, each once: property tests skip hundreds of times.
static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints that the current test, or a part of it, is skipped: a line
/// `SKIPPED: <test>: <reason>` on standard error, which `.ci/run` collects. Must be
/// called in the test's own thread, which has the test's name.
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unknown test");
    let reason = reason.to_string();
    let reason: Vec<&str> = reason.split_whitespace().collect();
    let line = format!("SKIPPED: {test}: {}\n", reason.join(" "));
    if !PRINTED.lock().unwrap().insert(line.clone()) {
        return;
    }
    // Not eprintln!: the harness shows its output only for failed tests.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
