//! Which of the standard descriptors were closed when the program was started.
//!
//! The standard library opens /dev/null in their place before `main` runs. Who
//! writes there takes it for success, though the data is lost; so it is looked
//! up before that.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of the three.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader before the standard library has done anything.
#[used]
// SAFETY: the section holds pointers to functions like this one.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: the number is only asked about, and nothing is done with it
        // where it is not open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
        if rustix::io::fcntl_getfd(descriptor).is_err() {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether standard input (0), output (1) or error (2) was closed.
pub fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}
