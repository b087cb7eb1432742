//! Errors: a negative number, and a message that the thread keeps.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Returns the version of the library, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn fastpipe_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns what went wrong in the last function of this library that failed in the calling thread, as one
/// line without a newline; "" if none has. Valid until the next one fails in this thread. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastpipe_error() -> *const c_char {
    MESSAGE
        .try_with(|message| message.borrow().as_ptr())
        // The thread is ending.
        .unwrap_or(c"".as_ptr())
}

/// Runs `body`, and returns its result or a negative error number. No panic leaves.
pub(crate) fn guard(body: impl FnOnce() -> io::Result<isize>) -> isize {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(_) => io::Error::other("internal error of fastpipe: please report it"),
    };
    let number = fastpipe_handles::errno(&error);
    keep(&error);
    -(number as isize)
}

/// As [`guard`], for functions that return an int.
pub(crate) fn guard_int(body: impl FnOnce() -> io::Result<c_int>) -> c_int {
    guard(|| Ok(body()? as isize)) as c_int
}

/// Keeps the message of an error.
fn keep(error: &io::Error) {
    let mut text = fastpipe_handles::message(error);
    text.retain(|c| c != '\0');
    let text = CString::new(text).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = text);
}

/// The error of an argument.
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, reason.into())
}
