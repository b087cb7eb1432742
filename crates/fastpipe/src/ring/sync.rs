//! Synchronisation of two processes: the standard library's atomics and futex(2).
//! `model/sync.rs` has loom's models of them.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec};

/// The sleepers on a word: the kernel keeps their queue.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Sleepers;

impl Sleepers {
    /// Sleeps while `word` is `value`, for `limit` at most, until woken or
    /// interrupted; may return early.
    pub(super) fn wait(&self, word: &AtomicU32, value: u32, limit: Duration) {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        // Not Flags::PRIVATE: the peer is another process. EAGAIN, EINTR and
        // ETIMEDOUT all mean to check again. No other error is possible, since the
        // word is aligned and mapped. (A peer that provokes one by misusing the
        // word only causes more frequent checks.)
        let _ = rustix::thread::futex::wait(word, Flags::empty(), value, Some(&limit));
    }

    /// Wakes one thread only, since a peer could let any number of threads sleep on
    /// the word.
    pub(super) fn wake(&self, word: &AtomicU32) {
        let _ = rustix::thread::futex::wake(word, Flags::empty(), 1);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use crate::ring::word::Word;

    fn is_asleep(thread: rustix::process::Pid) -> bool {
        let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
        // Not if it is gone.
        std::fs::read_to_string(path)
            .is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('S'))
    }

    #[test]
    fn one_of_many_sleepers_is_woken() {
        let word = Word::default();
        word.set(1);
        thread::scope(|scope| {
            let (sender, sleepers) = std::sync::mpsc::channel();
            let (woken, wakes) = std::sync::mpsc::channel();
            for _ in 0..3 {
                let (word, sender, woken) = (&word, sender.clone(), woken.clone());
                scope.spawn(move || {
                    sender.send(rustix::thread::gettid()).unwrap();
                    word.wait(1, Duration::from_secs(10));
                    // Nobody listens after the first.
                    let _ = woken.send(());
                });
            }
            let sleepers: Vec<_> = sleepers.iter().take(3).collect();
            let since = Instant::now();
            while !sleepers.iter().all(|thread| is_asleep(*thread)) {
                assert!(since.elapsed() < Duration::from_secs(5), "they never slept");
                thread::yield_now();
            }
            word.wake();
            wakes.recv().unwrap();
            assert!(sleepers.iter().filter(|thread| is_asleep(**thread)).count() >= 2);
            word.wake();
            word.wake();
        });
    }
}
