//! Readers.

use std::ffi::{c_int, c_void};
use std::io::{BufRead, Read};

use fastpipe_core::Reader;
use fastpipe_handles::Descriptor;

use crate::error::{guard, guard_int, invalid};
use crate::options::{self, Options, descriptor, ssize_t};

/// Buffered input with few, large reads, from a pipe or anything else that can be read. One thread may
/// use it at a time.
pub struct fastpipe_reader(Reader<Descriptor>);

/// Flags of fastpipe_reader_options.
#[repr(C)]
pub enum fastpipe_reader_flags {
    /// A signal whose handler was set without SA_RESTART ends a wait with -EINTR, as that of read(2), except
    /// under FASTPIPE_WAIT_SPIN. Without this flag waits go on.
    FASTPIPE_READER_INTERRUPTIBLE = 1,
}

/// Settings of a reader. Zero means the default for every field but the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fastpipe_reader_options {
    /// sizeof(fastpipe_reader_options).
    pub size: usize,
    /// One of fastpipe_wait.
    pub wait: u32,
    /// Any of fastpipe_reader_flags.
    pub flags: u32,
    /// Size of the buffer, in bytes; default 256 KiB.
    pub buffer: u64,
    /// Capacity to enlarge the pipe to, in bytes; by default it is left as it is. Don't, if the writer uses
    /// vmsplice(2) and relies on the pipe's size.
    pub capacity: u64,
}

// SAFETY: numbers only, without padding; the first is the size.
unsafe impl Options for fastpipe_reader_options {}

/// Creates a reader from fd, which remains the caller's: close it after fastpipe_reader_free, and not
/// before. options may be NULL. Sets *reader; on failure to NULL.
///
/// Returns 0; -EBADF; -EINVAL or -E2BIG for options that are not valid; -ENOMEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_reader_open(
    reader: *mut *mut fastpipe_reader,
    fd: c_int,
    options: *const fastpipe_reader_options,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let reader = unsafe { crate::result(reader) }?;
        // SAFETY: NULL, or the caller's structure, which begins with its size.
        let options = unsafe { options::read(options) }?;
        if options.flags & !1 != 0 {
            return Err(invalid(format!("unknown flags {:#x}", options.flags & !1)));
        }
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut settings = Reader::builder()
            .wait(options::wait(options.wait)?)
            .interruptible(options.flags & 1 != 0);
        if options.buffer > 0 {
            settings = settings.buffer(bytes(options.buffer));
        }
        if options.capacity > 0 {
            settings = settings.capacity(bytes(options.capacity));
        }
        let opened = settings.open(descriptor(fd)?)?;
        *reader = Box::into_raw(Box::new(fastpipe_reader(opened)));
        Ok(0)
    })
}

/// Reads at least one byte and at most size bytes into the buffer.
///
/// Returns the number of bytes; 0 at the end of the data, or if size is 0; -EAGAIN under
/// FASTPIPE_WAIT_NEVER if there are none; -EINTR under FASTPIPE_READER_INTERRUPTIBLE; errors of read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_reader_read(
    reader: *mut fastpipe_reader,
    buffer: *mut c_void,
    size: usize,
) -> ssize_t {
    guard(|| {
        // SAFETY: NULL, or a reader that no other thread uses.
        let reader = unsafe { crate::handle(reader) }?;
        if size == 0 {
            return Ok(0);
        }
        if buffer.is_null() {
            return Err(invalid("NULL for a buffer"));
        }
        let size = size.min(isize::MAX as usize);
        // SAFETY: the caller's buffer, which is only written to: bytes without a value are not read.
        let into = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        Ok(reader.0.read(into)? as isize)
    })
}

/// Shows the bytes that were read and not consumed yet; reads more if there are none. Sets *data and *length,
/// which is 0 at the end of the data. They are valid until the next call with this reader.
///
/// Returns 0, or errors as of fastpipe_reader_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_reader_fill(
    reader: *mut fastpipe_reader,
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable; a pointer to constant bytes is as large.
        let data = unsafe { crate::result(data.cast::<*mut c_void>()) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        // SAFETY: NULL, or a reader that no other thread uses.
        let bytes = unsafe { crate::handle(reader) }?.0.fill_buf()?;
        *data = bytes.as_ptr().cast_mut().cast();
        *length = bytes.len();
        Ok(0)
    })
}

/// Consumes the first n of the bytes shown.
///
/// Returns 0, or -EINVAL if there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_reader_consume(reader: *mut fastpipe_reader, n: usize) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a reader that no other thread uses.
        let reader = &mut unsafe { crate::handle(reader) }?.0;
        let available = reader.buffer().len();
        if n > available {
            return Err(invalid(format!("{n} bytes of {available} that were read")));
        }
        reader.consume(n);
        Ok(0)
    })
}

/// Frees the reader, with the bytes that were read and not consumed. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_reader_free(reader: *mut fastpipe_reader) {
    // SAFETY: NULL, or from fastpipe_reader_open and not freed yet.
    unsafe { crate::free(reader) };
}
