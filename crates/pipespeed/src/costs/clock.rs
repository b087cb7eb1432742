//! The clock that all threads and processes share.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nothing that one thread waits for another one takes so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Spins until it is so, or fails.
///
/// # Errors
/// Those of `is_so`; `TimedOut` after five seconds, not counting those in which
/// this process was stopped, or its machine.
pub fn spin_until(is_so: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let mut patience = PATIENCE;
    let mut before = Instant::now();
    loop {
        for _ in 0..1 << 12 {
            if is_so()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        // Nobody spins for so long without looking: this thread did not run.
        patience = patience.saturating_sub((now - before).min(PATIENCE / 100));
        if patience.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        before = now;
    }
}

/// Keeps the processor busy until that time.
pub fn work_until(ns: u64) {
    while now_ns() < ns {
        std::hint::spin_loop();
    }
}
