//! Synchronisation of two processes: the standard library's atomics and futex(2),
//! or loom's models of them to check the memory orderings.

#[cfg(all(test, fastpipe_loom))]
pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(not(all(test, fastpipe_loom)))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// A word on which its owner sleeps until the peer wakes it. What was written
/// before `set` is visible after `get`; everything else is ordered by fences.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Word {
    value: AtomicU32,
    #[cfg(all(test, fastpipe_loom))]
    queue: model::Queue,
}

impl Word {
    #[inline]
    pub(super) fn set(&self, value: u32) {
        self.value.store(value, Release);
    }

    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.value.load(Acquire)
    }
}

#[cfg(not(all(test, fastpipe_loom)))]
impl Word {
    /// Sleeps while the word is `value`, for `limit` at most, until woken or
    /// interrupted; may return early.
    pub(super) fn wait(&self, value: u32, limit: Duration) {
        use rustix::thread::futex::{Flags, Timespec, wait};

        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        // Not Flags::PRIVATE: the peer is another process. EAGAIN, EINTR and
        // ETIMEDOUT all mean to check again. No other error is possible, since the
        // word is aligned and mapped. (A peer that provokes one by misusing the
        // word only causes more frequent checks.)
        let _ = wait(&self.value, Flags::empty(), value, Some(&limit));
    }

    /// Wakes the owner. Only one thread, since a peer could let any number of threads
    /// sleep on the word.
    pub(super) fn wake(&self) {
        use rustix::thread::futex::{Flags, wake};

        let _ = wake(&self.value, Flags::empty(), 1);
    }
}

#[cfg(all(test, fastpipe_loom))]
impl Word {
    /// Without a time limit, so that a lost wake-up is a deadlock, which loom
    /// reports.
    pub(super) fn wait(&self, value: u32, _limit: Duration) {
        self.queue.wait(|| self.get() == value);
    }

    pub(super) fn wake(&self) {
        self.queue.wake();
    }
}

#[cfg(all(test, fastpipe_loom))]
mod model {
    use loom::sync::{Condvar, Mutex};

    /// As in the kernel, the word is compared under the lock that a wake-up takes.
    #[derive(Debug)]
    pub(super) struct Queue {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Default for Queue {
        fn default() -> Self {
            Queue {
                lock: Mutex::new(()),
                sleepers: Condvar::new(),
            }
        }
    }

    impl Queue {
        pub(super) fn wait(&self, unchanged: impl Fn() -> bool) {
            let guard = self.lock.lock().unwrap();
            if unchanged() {
                drop(self.sleepers.wait(guard).unwrap());
            }
        }

        pub(super) fn wake(&self) {
            let _guard = self.lock.lock().unwrap();
            self.sleepers.notify_all();
        }
    }
}

#[cfg(all(test, not(fastpipe_loom)))]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

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
