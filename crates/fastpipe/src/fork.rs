//! Whether a value is used in the process that made it, or in a forked child.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::Buffer;

/// The process that made a value.
///
/// A word in a page that is wiped on fork (MADV_WIPEONFORK) holds a number that
/// no other process of the same ancestry has. Reading it costs one load. Where
/// pages can't be wiped the process id is asked for, which costs a system call
/// and does not distinguish a child in a new pid namespace that got the same id.
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
        static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
        match MARK.get_or_init(wiped_word) {
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

/// A word that is 0 in a forked child. It lives as long as the process.
fn wiped_word() -> Option<&'static AtomicU64> {
    let page = Buffer::builder().len(8).wiped_on_fork(true).map().ok()?;
    Box::leak(Box::new(page)).words().first()
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
