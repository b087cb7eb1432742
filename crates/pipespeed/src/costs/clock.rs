//! The clock that all threads and processes share.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Keeps the processor busy until that time.
pub fn work_until(ns: u64) {
    while now_ns() < ns {
        std::hint::spin_loop();
    }
}
