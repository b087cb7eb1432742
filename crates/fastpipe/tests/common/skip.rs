//! Visible skips of tests. fastpipe's unit tests and pipespeed-testing include this file, so
//! it must not depend on others.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;

/// Start of each line that reports a skipped test.
pub const MARK: &str = "SKIPPED: ";

/// Lines printed, each once: property tests skip hundreds of times.
static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports that the current test, or a part of it, can't run on this machine: a line
/// `SKIPPED: <test>: <reason>` on standard error, which `.ci/run` collects. Must be called
/// in the test's own thread, which has the test's name.
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let reason = reason.to_string();
    let words: Vec<&str> = reason.split_whitespace().collect();
    let reason = words.join(" ");
    // The harness names its threads after the tests, except where it runs the only test in
    // the main thread.
    match thread.name() {
        Some("main") | None => report(&reason),
        Some(test) => report(&format!("{test}: {reason}")),
    }
}

/// Prints the line of a skip, unless it was printed before.
pub fn report(text: &str) {
    let line = format!("{MARK}{text}\n");
    if PRINTED.lock().unwrap().insert(line.clone()) {
        // Not eprintln!: the harness shows its output only for failed tests.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
