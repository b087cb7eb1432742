//! Detection of use in a forked child rather than in the process of origin.
#![allow(unsafe_code)]

use std::mem;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::buffer::Buffer;

/// Process that created a value.
///
/// A word in a page that is wiped on fork (MADV_WIPEONFORK) holds a number that
/// is unique among the processes of the same ancestry. Checking it takes one
/// load. If no such page is available (before Linux 4.14, by a seccomp filter,
/// for lack of memory), the process id is used instead; getting it takes a system
/// call, and a child in a new pid namespace may have the same id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    Mark {
        mark: &'static AtomicU64,
        number: u64,
    },
    Pid(u32),
}

impl Origin {
    pub(crate) fn this_process() -> Self {
        match wiped_word() {
            Some(mark) => Origin::Mark {
                mark,
                number: process_number(mark),
            },
            None => Origin::Pid(process::id()),
        }
    }

    #[inline]
    pub(crate) fn is_this_process(self) -> bool {
        match self {
            Origin::Mark { mark, number } => mark.load(Ordering::Relaxed) == number,
            Origin::Pid(pid) => pid == process::id(),
        }
    }
}

/// Returns the word that is 0 in a forked child. It is never freed.
///
/// No lock is held while it is created (as OnceLock would): a child forked
/// meanwhile would wait forever for a thread that it does not have.
fn wiped_word() -> Option<&'static AtomicU64> {
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    let mut word = WORD.load(Ordering::Acquire);
    if word.is_null() {
        let mut page = Buffer::builder().len(8).wiped_on_fork(true).map().ok()?;
        let own = page.as_mut_ptr().cast::<AtomicU64>();
        match WORD.compare_exchange(word, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                mem::forget(page);
                word = own;
            }
            // Another thread was first; this page is unmapped.
            Err(first) => word = first,
        }
    }
    // SAFETY: it points to the first word of a page that is never unmapped, since its
    // buffer was forgotten, and that nothing else refers to. Every bit pattern
    // is an AtomicU64.
    Some(unsafe { &*word })
}

/// Returns the number of this process; chooses one at the first call.
fn process_number(mark: &AtomicU64) -> u64 {
    // Inherited by a child, whose number therefore differs from its ancestors'.
    static LAST: AtomicU64 = AtomicU64::new(0);
    match mark.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            match mark.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(number) => number,
            }
        }
        number => number,
    }
}
