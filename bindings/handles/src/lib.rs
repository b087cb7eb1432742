//! Writers and ring ends that keep their loans between two calls, for languages without lifetimes.
//!
//! In Rust a loan borrows its writer, so the compiler sees that nothing else is done with the writer
//! meanwhile. Here the handle holds both, and any other call ends the loan first: bytes that were not
//! committed are not sent.

mod error;
mod lending;
mod ring;
mod writer;

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::ptr::NonNull;

pub use self::error::{errno, message};
pub use self::ring::{Consumer, Producer};
pub use self::writer::Writer;

/// Memory lent to the caller, until the handle's next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lent {
    /// Its first byte.
    pub start: NonNull<u8>,
    /// Its length, in bytes.
    pub len: usize,
}

// SAFETY: an address and a length, of memory that any thread may use.
unsafe impl Send for Lent {}

/// A descriptor that belongs to the caller, who closes it, and not before the handle is gone.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor(RawFd);

impl Descriptor {
    /// `None` for a negative number.
    pub fn new(fd: RawFd) -> Option<Self> {
        (fd >= 0).then_some(Descriptor(fd))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it isn't -1. That it is open is up to the caller, as in every call by number: if it
        // isn't, system calls fail with EBADF or use another file, and no memory depends on it.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}
