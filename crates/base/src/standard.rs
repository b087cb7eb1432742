//! What the program was started with: which of the standard descriptors were
//! closed, and what is not as programs expect it.
//!
//! The standard library opens /dev/null in their place before `main` runs. Who
//! writes there takes it for success, though the data is lost; so it is looked
//! up before that.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::{SigHandler, Signal};

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

/// Has children waited for. A parent may have had SIGCHLD ignored, which exec
/// keeps; the kernel then reaps children by itself, and wait(2) finds none
/// (wait(2), ECHILD).
pub fn wait_for_children() {
    // SAFETY: the default takes the place of whatever is there, and `main` calls
    // this before anything else has set a handler.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// Whether standard input (0), output (1) or error (2) was closed.
pub fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}
