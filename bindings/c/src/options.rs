//! Structures that grow: each begins with its size, as that of openat2(2).

use std::io;
use std::time::Duration;

use fastpipe_core::Wait;
use fastpipe_handles::Descriptor;
use rustix::io::Errno;

use crate::error::invalid;

/// As in sys/types.h: by this name the header has it.
pub type ssize_t = isize;

/// A structure of options from C: plain numbers and nullable pointers, zero of which means the default.
///
/// # Safety
/// All zeroes are a valid value, the first field is its size in bytes as `usize`, and there is no padding.
pub(crate) unsafe trait Options: Sized + Copy {}

/// Reads options written for this version, an older or a newer one.
///
/// # Errors
/// `InvalidInput` if the size is impossible; E2BIG if it sets a field that this version does not know.
///
/// # Safety
/// `options` is NULL, or points to as many readable bytes as its first field says.
pub(crate) unsafe fn read<T: Options>(options: *const T) -> io::Result<T> {
    let mut known = std::mem::MaybeUninit::<T>::zeroed();
    if !options.is_null() {
        // SAFETY: as promised by the caller; the size is the first field.
        let size = unsafe { options.cast::<usize>().read_unaligned() };
        if size < size_of::<usize>() || size > 4096 {
            return Err(invalid(format!(
                "the options' size is {size}: set it to sizeof the structure"
            )));
        }
        // SAFETY: as promised by the caller.
        let given = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), size) };
        let common = size.min(size_of::<T>());
        if given[common..].iter().any(|byte| *byte != 0) {
            return Err(Errno::TOOBIG.into());
        }
        // SAFETY: `known` has room for as many.
        unsafe { std::ptr::copy_nonoverlapping(given.as_ptr(), known.as_mut_ptr().cast(), common) };
    }
    // SAFETY: zeroes are a valid value, and so is what callers put there: numbers and pointers.
    Ok(unsafe { known.assume_init() })
}

/// Fills a structure of results, as much of it as the caller knows: its first field says how much.
///
/// # Errors
/// `InvalidInput` if the pointer is NULL or the size impossible.
///
/// # Safety
/// `to` is NULL, or points to as many writable bytes as its first field says.
pub(crate) unsafe fn fill<T: Options>(to: *mut T, mut value: T) -> io::Result<()> {
    if to.is_null() {
        return Err(invalid("NULL for a result"));
    }
    // SAFETY: as promised by the caller; the size is the first field.
    let size = unsafe { to.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(invalid(format!(
            "the result's size is {size}: set it to sizeof the structure"
        )));
    }
    let common = size.min(size_of::<T>());
    // SAFETY: the first field is the size.
    unsafe { (&raw mut value).cast::<usize>().write_unaligned(common) };
    // SAFETY: both have at least as many bytes, and `value` is our own.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), common) };
    // What this version does not know.
    let rest = to.cast::<u8>().wrapping_add(common);
    // SAFETY: as promised by the caller, the rest has as many bytes.
    unsafe { std::ptr::write_bytes(rest, 0, size - common) };
    Ok(())
}

/// How to wait, by its number in C.
pub(crate) fn wait(number: u32) -> io::Result<Wait> {
    Ok(match number {
        0 => Wait::Block,
        1 => Wait::Poll,
        2 => Wait::Spin,
        3 => Wait::Adaptive,
        4 => Wait::Never,
        _ => return Err(invalid(format!("{number} is no fastpipe_wait"))),
    })
}

/// A descriptor of the caller's.
pub(crate) fn descriptor(fd: i32) -> io::Result<Descriptor> {
    Descriptor::new(fd).ok_or_else(|| Errno::BADF.into())
}

/// A time from C: nanoseconds, of which none mean the default.
pub(crate) fn duration(nanoseconds: u64) -> Option<Duration> {
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}
