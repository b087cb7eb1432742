//! Threads, and staying on a processor for a while.

use std::io;
use std::thread::ScopedJoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Does it while this thread stays on one processor.
///
/// # Errors
/// Those of sched_setaffinity(2), and of what is done.
pub(super) fn on_processor<T>(cpu: usize, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    let done = act();
    sched_setaffinity(None, &before)?;
    done
}

/// What a thread came to.
///
/// # Errors
/// Its own, or that it died.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let died = |_| Err(io::Error::other("a thread of a probe has died"));
    thread.join().unwrap_or_else(died)
}
