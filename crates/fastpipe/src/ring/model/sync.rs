//! Loom's models of what `ring/sync.rs` has.

pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

#[derive(Debug)]
pub(super) struct Sleepers {
    lock: Mutex<()>,
    wakes: Condvar,
}

impl Default for Sleepers {
    fn default() -> Self {
        Sleepers {
            lock: Mutex::new(()),
            wakes: Condvar::new(),
        }
    }
}

impl Sleepers {
    /// As in the kernel, the word is compared under the lock that a wake-up takes.
    /// Without a time limit, so that a lost wake-up is a deadlock, which loom reports.
    pub(super) fn wait(&self, word: &AtomicU32, value: u32, _limit: Duration) {
        let guard = self.lock.lock().unwrap();
        if word.load(Acquire) == value {
            drop(self.wakes.wait(guard).unwrap());
        }
    }

    pub(super) fn wake(&self, _word: &AtomicU32) {
        let _guard = self.lock.lock().unwrap();
        self.wakes.notify_all();
    }
}
