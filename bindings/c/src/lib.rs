//! C interface of [`fastpipe`](fastpipe_core). Its documentation is the header `include/fastpipe.h`, which is
//! made of the comments here (`tests/header.rs`).
//!
//! Every function catches panics, checks its pointers for NULL, and returns a negative error number on
//! failure; [`error`] keeps the message.
#![allow(non_camel_case_types, reason = "these are names in C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header says what callers owe"
)]

pub mod copy;
pub mod error;
pub mod options;
pub mod reader;
pub mod ring;
pub mod writer;

use std::ffi::c_void;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use error::invalid;

/// What a handle of the caller's points to.
///
/// # Safety
/// NULL, or from a function that creates one, not freed, and used by no other thread meanwhile.
unsafe fn handle<'a, T>(handle: *mut T) -> io::Result<&'a mut T> {
    // SAFETY: as promised by the caller.
    unsafe { handle.as_mut() }.ok_or_else(|| invalid("NULL for a handle"))
}

/// The variable for a pointer that a function sets: to NULL until it has succeeded.
///
/// # Safety
/// NULL, or a variable of the caller's, perhaps without a value.
unsafe fn result<'a, T>(to: *mut *mut T) -> io::Result<&'a mut *mut T> {
    if to.is_null() {
        return Err(invalid("NULL for a result"));
    }
    // SAFETY: as promised by the caller.
    unsafe { to.write(std::ptr::null_mut()) };
    // SAFETY: as promised by the caller, and it has a value now.
    Ok(unsafe { &mut *to })
}

/// The variable for a length that a function sets: 0 until it has succeeded.
///
/// # Safety
/// That of [`result`].
unsafe fn length<'a>(to: *mut usize) -> io::Result<&'a mut usize> {
    if to.is_null() {
        return Err(invalid("NULL for a result"));
    }
    // SAFETY: as promised by the caller.
    unsafe { to.write(0) };
    // SAFETY: as promised by the caller, and it has a value now.
    Ok(unsafe { &mut *to })
}

/// The caller's bytes.
///
/// # Safety
/// `data` has `length` readable bytes, which nobody changes meanwhile, or `length` is 0.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> io::Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(invalid("NULL for data"));
    }
    if length > isize::MAX as usize {
        return Err(invalid(format!(
            "{length} bytes are more than memory can have"
        )));
    }
    // SAFETY: as promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// Frees a handle. No panic leaves.
///
/// # Safety
/// NULL, or from a function that creates one, and not freed.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as promised by the caller: from `Box::into_raw`.
        let handle = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}
