//! Copies between descriptors.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

use fastpipe_core::relay::{self, Flow, Options as Settings, Progress};
use rustix::io::Errno;

use crate::error::{guard, guard_int, invalid};
use crate::options::{self, Options, descriptor};

thread_local! {
    /// Bytes that the thread's last copy took and did not give.
    static UNDELIVERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Progress of a copy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fastpipe_progress {
    /// sizeof(fastpipe_progress), as the library knows it.
    pub size: usize,
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output.
    pub given: u64,
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
}

/// Called during a copy, with the options' data: at the start, at the interval, and at the end. A copy is ended
/// by any other result than 0.
pub type fastpipe_progress_function =
    Option<unsafe extern "C" fn(data: *mut c_void, progress: *const fastpipe_progress) -> c_int>;

/// Flags of fastpipe_copy_options.
#[repr(C)]
pub enum fastpipe_copy_flags {
    /// Only read and write: for inputs whose pages may change while they are in a pipe, as those of a file
    /// that is being modified, and for pipes that may have packets (O_DIRECT) after other bytes.
    FASTPIPE_COPY_BYTES = 1,
    /// Leave the output pipe's capacity as it is.
    FASTPIPE_COPY_KEEP_CAPACITY = 2,
}

/// Settings of a copy. Zero means the default for every field but the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fastpipe_copy_options {
    /// sizeof(fastpipe_copy_options).
    pub size: usize,
    /// One of fastpipe_wait.
    pub wait: u32,
    /// Any of fastpipe_copy_flags.
    pub flags: u32,
    /// Ends after this many bytes; default at the end of the data.
    pub limit: u64,
    /// Nanoseconds between two calls of progress; default 100 ms.
    pub interval_ns: u64,
    /// Called meanwhile, in this thread, if not NULL.
    pub progress: fastpipe_progress_function,
    /// For progress.
    pub data: *mut c_void,
}

// SAFETY: numbers and nullable pointers only, without padding; the first is the size.
unsafe impl Options for fastpipe_copy_options {}

/// Moves bytes from any descriptor to any other until the input ends, by splice(2), sendfile(2),
/// copy_file_range(2), or reads and writes, whichever is fastest between the two. options may be NULL.
///
/// Returns the number of bytes given to the output, also if progress ended it; -EBADF; -EINVAL for options
/// that are not valid, or an output that is also the input; -EPIPE if the output has no reader; errors of
/// the calls it makes. If bytes were taken that the output did not get, fastpipe_copy_undelivered has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_copy(
    input: c_int,
    output: c_int,
    options: *const fastpipe_copy_options,
) -> i64 {
    let copied = guard(|| {
        UNDELIVERED.take();
        // SAFETY: NULL, or the caller's structure, which begins with its size.
        let options = unsafe { options::read(options) }?;
        if options.flags & !3 != 0 {
            return Err(invalid(format!("unknown flags {:#x}", options.flags & !3)));
        }
        let mut settings = Settings::new().wait(options::wait(options.wait)?);
        if options.flags & 1 != 0 {
            settings = settings.copy();
        }
        settings = settings.raise_capacity(options.flags & 2 == 0);
        if options.limit > 0 {
            settings = settings.limit(options.limit);
        }
        match (options.progress, options::duration(options.interval_ns)) {
            (None, _) => settings = settings.interval(Duration::MAX),
            (Some(_), Some(interval)) => settings = settings.interval(interval),
            (Some(_), None) => {}
        }
        let report = |progress: &Progress<'_>| {
            let Some(function) = options.progress else {
                return Flow::Continue;
            };
            let progress = fastpipe_progress {
                size: size_of::<fastpipe_progress>(),
                taken: progress.taken,
                given: progress.given,
                elapsed_ns: u64::try_from(progress.elapsed.as_nanos()).unwrap_or(u64::MAX),
            };
            // SAFETY: the caller's function, with the caller's data.
            match unsafe { function(options.data, &progress) } {
                0 => Flow::Continue,
                _ => Flow::Stop,
            }
        };
        let done = relay::relay(descriptor(input)?, descriptor(output)?, &settings, report);
        let (given, undelivered, error) = match done {
            Ok(done) => (done.given, done.undelivered, None),
            Err(error) => (error.given, error.undelivered, Some(error.source)),
        };
        UNDELIVERED.set(undelivered);
        match error {
            None => isize::try_from(given).map_err(|_| Errno::OVERFLOW.into()),
            Some(error) => Err(error),
        }
    });
    copied as i64
}

/// Sets *data and *length to the bytes that the last fastpipe_copy of this thread took from its input, and
/// that its output did not get: it failed, progress ended the copy, or they lie beyond the limit (of a pipe all
/// may have to be read at once). *length is 0 if there are none: a file's
/// position is set back instead. Valid until the next fastpipe_copy of this thread.
///
/// Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_copy_undelivered(
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable; a pointer to constant bytes is as large.
        let data = unsafe { crate::result(data.cast::<*mut c_void>()) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        UNDELIVERED.with_borrow(|bytes| {
            *data = bytes.as_ptr().cast_mut().cast();
            *length = bytes.len();
        });
        Ok(0)
    })
}
