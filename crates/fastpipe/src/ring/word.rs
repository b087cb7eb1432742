//! A word on which its owner sleeps.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use super::sync::{AtomicU32, Sleepers};

/// A word on which its owner sleeps until the peer wakes it. What was written
/// before `set` is visible after `get`; everything else is ordered by fences.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Word {
    value: AtomicU32,
    sleepers: Sleepers,
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

    /// Sleeps while the word is `value`, for `limit` at most; may return early.
    pub(super) fn wait(&self, value: u32, limit: Duration) {
        self.sleepers.wait(&self.value, value, limit);
    }

    /// Wakes the owner.
    pub(super) fn wake(&self) {
        self.sleepers.wake(&self.value);
    }
}
