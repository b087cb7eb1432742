//! A system call made again and again until it moves something.

use std::hint;

use fastpipe::transfer::{Counts, Incomplete};
use rustix::io::Errno;

use crate::endpoint::spec::Waiting;

/// Makes calls and counts them. Under [`Waiting::Spin`] a call does not sleep
/// and is made again at once; under anything else it sleeps by itself.
#[derive(Debug)]
pub(super) struct Attempts {
    spins: bool,
    pub(super) counts: Counts,
}

impl Attempts {
    pub(super) fn new(wait: Waiting) -> Self {
        Attempts {
            spins: wait == Waiting::Spin,
            counts: Counts::default(),
        }
    }

    /// Whether calls must not sleep.
    pub(super) fn spins(&self) -> bool {
        self.spins
    }

    /// Calls until something else comes than "interrupted" and, where it spins,
    /// "would block".
    pub(super) fn call<T>(
        &mut self,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        loop {
            self.counts.syscalls += 1;
            match call() {
                Err(Errno::INTR) => {}
                // EWOULDBLOCK is the same number on Linux.
                Err(Errno::AGAIN) if self.spins => {
                    self.counts.would_blocks += 1;
                    hint::spin_loop();
                }
                outcome => return outcome,
            }
        }
    }

    /// Notes that the last call moved so many bytes.
    pub(super) fn moved(&mut self, bytes: usize) {
        if bytes > 0 {
            self.counts.bytes += bytes as u64;
            self.counts.moving_calls += 1;
        }
    }
}

/// An error of a writer of which `moved` bytes of a message have left. That
/// the reader is gone has several numbers, one a kind of socket.
pub(super) fn unsent(moved: usize, errno: Errno) -> Incomplete {
    let errno = match errno {
        Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN => Errno::PIPE,
        other => other,
    };
    Incomplete {
        moved: moved as u64,
        source: errno.into(),
    }
}

/// An error of a reader, with nothing moved.
pub(super) fn unread(errno: Errno) -> Incomplete {
    Incomplete {
        moved: 0,
        source: errno.into(),
    }
}
