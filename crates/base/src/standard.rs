//! State inherited from the parent process: closed standard descriptors, an ignored
//! SIGCHLD, and what the environment says of the terminal.
//!
//! Before `main` the standard library opens /dev/null in place of a closed
//! standard descriptor. Writing there succeeds though the data is lost, so closed
//! ones are detected earlier.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::{SigHandler, Signal};

/// Bit mask of the standard descriptors that were closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader before the standard library's start-up code.
#[used]
// SAFETY: the section holds pointers to functions like this one.
#[unsafe(link_section = ".init_array")]
static RECORD_CLOSED: extern "C" fn() = record_closed;

extern "C" fn record_closed() {
    for fd in 0..3 {
        // SAFETY: the descriptor is only passed to F_GETFD, which fails if it is
        // not open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
        if rustix::io::fcntl_getfd(descriptor).is_err() {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Resets SIGCHLD to its default. A parent may have ignored it, which exec keeps;
/// the kernel then reaps children itself and wait(2) fails with ECHILD.
pub fn reset_sigchld() {
    // SAFETY: the default action runs no code of ours, and `main` calls this
    // before any handler is installed.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// Whether standard input (0), output (1) or error (2) was closed.
pub fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Whether terminals understand escape sequences: TERM is set, and not to `dumb`
/// (terminfo(5)).
pub fn has_escapes() -> bool {
    variable("TERM").is_some_and(|term| term != "dumb")
}

/// Whether text on a terminal may be coloured: [`has_escapes`], and NO_COLOR is unset or
/// empty (no-color.org).
pub fn has_colours() -> bool {
    has_escapes() && variable("NO_COLOR").is_none()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
