//! Visible reports of tests that can't run on this machine. The unit tests include this
//! file, so it must not depend on others.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

static SKIPPED: AtomicU32 = AtomicU32::new(0);

/// Start of each line that reports a skipped test.
pub const MARK: &str = "SKIPPED: ";

/// Reports that the calling test, or a part of it, can't run on this machine.
pub fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    // The harness names its threads after the tests, except where it runs the only
    // test in the main thread.
    match thread.name() {
        Some("main") | None => report(&format!("{reason}")),
        Some(test) => report(&format!("{test}: {reason}")),
    }
}

/// Passes on the reports in the standard error output of a test's own process.
pub fn forward(test: &str, stderr: &str) {
    for line in stderr.lines() {
        match line.strip_prefix(MARK) {
            Some(reason) if reason.contains(test) => report(reason),
            Some(reason) => report(&format!("{test}: {reason}")),
            None => eprintln!("{line}"),
        }
    }
}

fn report(text: &str) {
    if SKIPPED.fetch_add(1, Ordering::Relaxed) == 0 {
        // SAFETY: the function may be called at exit: it only prints.
        unsafe { libc::atexit(print_count) };
    }
    // Not eprintln!, whose output the harness hides if the test passes.
    let _ = writeln!(std::io::stderr(), "{MARK}{text}");
}

extern "C" fn print_count() {
    let count = SKIPPED.load(Ordering::Relaxed);
    let _ = writeln!(std::io::stderr(), "{count} tests or parts of tests skipped");
}
