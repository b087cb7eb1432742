//! Waiting for states of other threads, instead of sleeping.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// Yields until `reached` returns true. The time limit is only a watchdog.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let since = Instant::now();
    while !reached() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "did not happen: {what}"
        );
        rustix::thread::sched_yield();
    }
}

/// Waits until a thread of this process sleeps or has ended.
pub fn until_asleep(thread: Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    until("the thread sleeps", || {
        let Ok(stat) = std::fs::read_to_string(&path) else {
            return true;
        };
        // The name, in brackets, may contain anything.
        let state = stat.rsplit_once(") ").unwrap().1;
        state.starts_with(['S', 'Z', 'X'])
    });
}

/// Waits until a pipe holds at least `bytes`.
pub fn until_unread(fd: impl std::os::fd::AsFd, bytes: usize) {
    until("the bytes are in the pipe", || {
        fastpipe::pipe::unread(&fd).unwrap() >= bytes
    });
}

/// Aborts the test program if nothing calls this for four minutes: a transfer
/// hangs. No transfer comes near this limit.
pub fn watch() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static WATCHED: Once = Once::new();
    CALLS.fetch_add(1, Relaxed);
    WATCHED.call_once(|| {
        std::thread::spawn(|| {
            let mut before = 0;
            while before != CALLS.load(Relaxed) {
                before = CALLS.load(Relaxed);
                std::thread::sleep(Duration::from_secs(240));
            }
            eprintln!("a transfer hangs: aborted");
            std::process::abort();
        });
    });
}
