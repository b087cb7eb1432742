//! Whether a value is used in the process that made it, or in a forked child.
#![allow(unsafe_code)]

use std::mem;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::buffer::Buffer;

/// The process that made a value.
///
/// A word in a page that is wiped on fork (MADV_WIPEONFORK) holds a number that
/// no other process of the same ancestry has. Reading it costs one load. Where
/// such a page is not to be had (before Linux 4.14, by a seccomp filter, for
/// lack of memory), which is tried anew for each value, it is the process id.
/// To ask for that costs a system call, and does not distinguish a child in a
/// new pid namespace that got the same id.
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
                number: number(mark),
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

/// The word that is 0 in a forked child. It lives as long as the process.
///
/// No lock is held while it is made (as by OnceLock): a child that is forked
/// meanwhile would wait for a thread that it does not have.
fn wiped_word() -> Option<&'static AtomicU64> {
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    let mut word = WORD.load(Ordering::Acquire);
    if word.is_null() {
        let mut page = Buffer::builder().len(8).wiped_on_fork(true).map().ok()?;
        let own = ptr::from_ref(page.words().first()?).cast_mut();
        match WORD.compare_exchange(word, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                mem::forget(page);
                word = own;
            }
            // Another thread was first; this page is unmapped.
            Err(first) => word = first,
        }
    }
    // SAFETY: it points to a word of a page that is never unmapped, since its
    // buffer was forgotten, and that nothing else refers to. Every bit pattern
    // is an AtomicU64.
    Some(unsafe { &*word })
}

/// The number of this process, which it takes when it first asks.
fn number(mark: &AtomicU64) -> u64 {
    // A child inherits it, so that its number differs from all its ancestors'.
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
