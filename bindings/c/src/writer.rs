//! Writers.

use std::ffi::{c_char, c_int, c_void};
use std::io::{self, ErrorKind};

use fastpipe_core::writer::WriterBuilder;
use fastpipe_core::{AssertReaderCopies, Method};
use fastpipe_handles::Writer;

use crate::error::{guard, guard_int, invalid};
use crate::options::{self, Options, descriptor, ssize_t};

/// Output to a pipe, or to anything else that can be written. One thread may use it at a time; it may be
/// passed from thread to thread. A forked child must not use it, except to free it: until then, or until it ends or
/// runs another program, the reader sees no end of the data. Memory lent before the fork may read as zeroes there.
pub struct fastpipe_writer {
    writer: Writer,
    is_interruptible: bool,
    /// What ended a write of which a part was accepted: for the next call.
    failed: Option<io::Error>,
    /// Whether the last call that sends has failed: what is left then is not sent when the writer is freed, which may
    /// come after other bytes have been written in its place.
    has_failed: bool,
}

impl fastpipe_writer {
    /// The writer, unless an error is to be returned first.
    fn next(&mut self) -> io::Result<&mut Writer> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(&mut self.writer),
        }
    }

    /// Runs a call that sends.
    fn send<T>(&mut self, call: impl FnOnce(&mut Writer) -> io::Result<T>) -> io::Result<T> {
        let sent = self.next().and_then(call);
        self.has_failed = sent.as_ref().is_err_and(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => false,
            // Of what the caller passed.
            ErrorKind::InvalidInput => error.raw_os_error().is_some(),
            _ => true,
        });
        sent
    }
}

impl Drop for fastpipe_writer {
    fn drop(&mut self) {
        if self.has_failed {
            self.writer.discard();
        }
    }
}

/// How a writer sends its bytes. All are right for every reader, except FASTPIPE_DRAINED.
#[repr(C)]
pub enum fastpipe_method {
    /// The fastest of the others for this stream and its reader, found on the stream itself, except
    /// FASTPIPE_DRAINED, and FASTPIPE_COW_CHECKED unless FASTPIPE_ALLOW_CLONE is set. The default.
    FASTPIPE_AUTO = 0,
    /// write(2), in pieces of the size that is fastest for a pipe.
    FASTPIPE_COPY = 1,
    /// vmsplice(2), from pages that are never written again.
    FASTPIPE_FRESH = 2,
    /// vmsplice(2), from pages that are written again when nothing refers to them, as found out by
    /// clone(2). Only for small processes that do little else.
    FASTPIPE_COW_CHECKED = 3,
    /// vmsplice(2), from pages that are written again when they have left the pipe. By this choice you
    /// assert that every reader copies, by read(2) for instance, and never passes pages on by splice(2) or
    /// tee(2), as some versions of cat and pv do: they would read newer bytes in place of older ones.
    FASTPIPE_DRAINED = 4,
}

/// How to wait while a pipe or ring is full or empty.
#[repr(C)]
pub enum fastpipe_wait {
    /// Sleep in the system call. The default.
    FASTPIPE_WAIT_BLOCK = 0,
    /// Call poll(2) before each attempt.
    FASTPIPE_WAIT_POLL = 1,
    /// Retry at once, without limit: both ends need a processor of their own.
    FASTPIPE_WAIT_SPIN = 2,
    /// Retry for a while, then sleep.
    FASTPIPE_WAIT_ADAPTIVE = 3,
    /// Don't wait: fail with -EAGAIN.
    FASTPIPE_WAIT_NEVER = 4,
}

/// Flags of fastpipe_writer_options.
#[repr(C)]
pub enum fastpipe_writer_flags {
    /// Leave the pipe's capacity as it is.
    FASTPIPE_KEEP_CAPACITY = 1,
    /// Prepare for zero copy at once, rather than after the first 128 KiB.
    FASTPIPE_AT_ONCE = 2,
    /// FASTPIPE_AUTO may try FASTPIPE_COW_CHECKED.
    FASTPIPE_ALLOW_CLONE = 4,
    /// A signal whose handler was set without SA_RESTART ends a wait with -EINTR, as that of write(2), though
    /// sometimes no signal came. If fastpipe_writer_write had accepted bytes by then, the next call returns -EINTR, at
    /// once. Without this flag, and under FASTPIPE_WAIT_SPIN, waits go on.
    FASTPIPE_INTERRUPTIBLE = 8,
}

/// Settings of a writer. Zero means the default for every field but the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fastpipe_writer_options {
    /// sizeof(fastpipe_writer_options).
    pub size: usize,
    /// One of fastpipe_method.
    pub method: u32,
    /// One of fastpipe_wait.
    pub wait: u32,
    /// Any of fastpipe_writer_flags.
    pub flags: u64,
    /// Capacity to enlarge the pipe to, in bytes; default 1 MiB.
    pub capacity: u64,
    /// Usual length of a loan, in bytes.
    pub loan: u64,
    /// Memory to lend from, in bytes.
    pub region: u64,
    /// Bytes of pages that readers may hold before the writer copies.
    pub max_held: u64,
}

// SAFETY: numbers only, without padding; the first is the size.
unsafe impl Options for fastpipe_writer_options {}

/// What a writer has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fastpipe_report {
    /// sizeof(fastpipe_report), set by the caller.
    pub size: usize,
    /// The method in use: one of fastpipe_method, never FASTPIPE_AUTO.
    pub method: u32,
    /// 1 if pages are handed over rather than copied.
    pub zero_copy: u32,
    /// Bytes sent.
    pub bytes: u64,
    /// Of these, bytes that were handed over rather than copied.
    pub zero_copy_bytes: u64,
    /// System calls.
    pub syscalls: u64,
    /// Attempts that found the pipe full.
    pub would_blocks: u64,
}

// SAFETY: numbers only, without padding; the first is the size.
unsafe impl Options for fastpipe_report {}

fn is_interruptible(options: &fastpipe_writer_options) -> bool {
    options.flags & 8 != 0
}

fn settings(options: &fastpipe_writer_options) -> io::Result<WriterBuilder> {
    let mut settings = fastpipe_core::Writer::builder()
        .wait(options::wait(options.wait)?)
        .method(match options.method {
            0 => Method::Auto,
            1 => Method::copy(),
            2 => Method::Fresh,
            3 => Method::CowChecked,
            4 => Method::Drained(AssertReaderCopies),
            other => return Err(invalid(format!("{other} is no fastpipe_method"))),
        });
    let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    if options.capacity > 0 {
        settings = settings.capacity(bytes(options.capacity));
    }
    if options.loan > 0 {
        settings = settings.loan(bytes(options.loan));
    }
    if options.region > 0 {
        settings = settings.region(bytes(options.region));
    }
    if options.max_held > 0 {
        settings = settings.max_held(options.max_held);
    }
    if options.flags & !15 != 0 {
        return Err(invalid(format!("unknown flags {:#x}", options.flags & !15)));
    }
    if options.flags & 1 != 0 {
        settings = settings.keep_capacity();
    }
    if options.flags & 2 != 0 {
        settings = settings.at_once();
    }
    Ok(settings
        .allow_clone(options.flags & 4 != 0)
        .interruptible(is_interruptible(options)))
}

/// Creates a writer to fd, which remains the caller's: close it after fastpipe_writer_free, and not before.
/// options may be NULL. Sets *writer; on failure to NULL.
///
/// Returns 0; -EBADF for a negative fd; -EINVAL or -E2BIG for options that are not valid; -ENOMEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_open(
    writer: *mut *mut fastpipe_writer,
    fd: c_int,
    options: *const fastpipe_writer_options,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let writer = unsafe { crate::result(writer) }?;
        // SAFETY: NULL, or the caller's structure, which begins with its size.
        let options = unsafe { options::read(options) }?;
        let opened = Writer::open(settings(&options)?, descriptor(fd)?)?;
        *writer = Box::into_raw(Box::new(fastpipe_writer {
            writer: opened,
            is_interruptible: is_interruptible(&options),
            failed: None,
            has_failed: false,
        }));
        Ok(0)
    })
}

/// Lends memory for the next bytes of the stream: at least at_least bytes, of which 0 means as many as
/// suit. Sets *memory to its first byte and *length to its length. It belongs to the caller until the next call with
/// this writer, whatever that is. It holds zeroes or old bytes.
///
/// Returns 0; -EAGAIN under FASTPIPE_WAIT_NEVER while bytes committed before can't be sent; errors of
/// sending these; -ENOMEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_lend(
    writer: *mut fastpipe_writer,
    at_least: usize,
    memory: *mut *mut c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let memory = unsafe { crate::result(memory) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        // SAFETY: NULL, or a writer that no other thread uses.
        let lent = unsafe { crate::handle(writer) }?.send(|writer| writer.lend(at_least))?;
        *memory = lent.start.as_ptr().cast();
        *length = lent.len;
        Ok(0)
    })
}

/// Sends the first n bytes of the memory lent, which is the caller's no more. They have been given to the
/// kernel when it returns, except under FASTPIPE_WAIT_NEVER, where they may be queued.
///
/// Returns 0; -EINTR under FASTPIPE_INTERRUPTIBLE, with bytes queued; -EINVAL, and nothing is sent, if nothing is lent or fewer bytes are; -EPIPE if there is no
/// reader (after SIGPIPE, unless that is ignored); other errors of write(2) and vmsplice(2), after which
/// the bytes that were not sent are kept, and the next call tries again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_commit(writer: *mut fastpipe_writer, n: usize) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        unsafe { crate::handle(writer) }?.send(|writer| writer.commit(n))?;
        Ok(0)
    })
}

/// Writes length bytes: buffers them, and sends full buffers.
///
/// Returns the number of bytes accepted, which is less than length only under FASTPIPE_WAIT_NEVER or
/// FASTPIPE_INTERRUPTIBLE, or before an error that the next call returns; -EAGAIN under FASTPIPE_WAIT_NEVER if none could be; errors as of
/// fastpipe_writer_commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_write(
    writer: *mut fastpipe_writer,
    data: *const c_void,
    length: usize,
) -> ssize_t {
    guard(|| {
        // SAFETY: NULL with length 0, or as many readable bytes.
        let data = unsafe { crate::bytes(data, length) }?;
        // SAFETY: NULL, or a writer that no other thread uses.
        let handle = unsafe { crate::handle(writer) }?;
        handle.next()?;
        let mut written = 0;
        while written < data.len() {
            match handle.send(|writer| writer.write(&data[written..])) {
                Ok(n) => {
                    written += n;
                    // Perhaps by a signal.
                    if handle.is_interruptible {
                        break;
                    }
                }
                Err(error) if written > 0 => {
                    // Who doesn't wait goes on with the rest.
                    let is_error = error.kind() != ErrorKind::WouldBlock;
                    handle.failed = Some(error).filter(|_| is_error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(written as isize)
    })
}

/// Sends what is buffered. Does not wait until it has been read.
///
/// Returns 0, or errors as of fastpipe_writer_commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_flush(writer: *mut fastpipe_writer) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        unsafe { crate::handle(writer) }?.send(Writer::flush)?;
        Ok(0)
    })
}

/// Sends what is buffered and lets go of the output, so that the reader sees the end of the data when
/// the caller closes the descriptor. Only fastpipe_writer_report, _describe, _discard and _free can follow. To
/// finish again does nothing, and so does to discard.
///
/// Returns 0, or errors as of fastpipe_writer_commit, after which it can be called again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_finish(writer: *mut fastpipe_writer) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        unsafe { crate::handle(writer) }?.send(Writer::finish)?;
        Ok(0)
    })
}

/// Fills *report, whose size the caller has set, with what the writer has done. Ends the loan.
///
/// Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_report(
    writer: *mut fastpipe_writer,
    report: *mut fastpipe_report,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        let done = unsafe { crate::handle(writer) }?.writer.report()?;
        let filled = fastpipe_report {
            size: 0,
            method: match done.method {
                Method::Fresh => 2,
                Method::CowChecked => 3,
                Method::Drained(_) => 4,
                _ => 1,
            },
            zero_copy: done.is_zero_copy().into(),
            bytes: done.counts.bytes,
            zero_copy_bytes: done.zero_copy_bytes,
            syscalls: done.counts.syscalls,
            would_blocks: done.counts.would_blocks,
        };
        // SAFETY: NULL, or the caller's structure, which begins with its size.
        unsafe { options::fill(report, filled) }?;
        Ok(0)
    })
}

/// Puts how the writer sends, and why it copies, if it does, into the buffer of size bytes, as far as
/// there is room, with a zero byte at its end: "vmsplice, fresh pages" or "write: the output is a regular
/// file". Ends the loan.
///
/// Returns the length of the whole text, without the zero byte, as snprintf(3) does, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_describe(
    writer: *mut fastpipe_writer,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        let text = unsafe { crate::handle(writer) }?
            .writer
            .report()?
            .to_string();
        if size > 0 {
            if buffer.is_null() {
                return Err(invalid("NULL for a buffer"));
            }
            let n = text.len().min(size - 1);
            // SAFETY: the caller's buffer has `size` bytes, and `n` is less.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), n) };
            // SAFETY: as above.
            unsafe { buffer.wrapping_add(n).write(0) };
        }
        Ok(text.len() as c_int)
    })
}

/// Gives up what was not sent, and lets go of the output, without waiting: as after a call that a signal ended
/// (FASTPIPE_INTERRUPTIBLE). Ends the loan. Only fastpipe_writer_free can follow. Does nothing if the writer is finished.
///
/// Returns 0, or -EINVAL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_discard(writer: *mut fastpipe_writer) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or a writer that no other thread uses.
        unsafe { crate::handle(writer) }?.writer.discard();
        Ok(0)
    })
}

/// Frees the writer. If it is neither finished nor discarded, sends what is buffered and ignores errors; not after a
/// call that failed, except with -EAGAIN or -EINTR. After a call that a signal ended it sends until the reader takes
/// nothing for a second. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_writer_free(writer: *mut fastpipe_writer) {
    // SAFETY: NULL, or from fastpipe_writer_open and not freed yet.
    unsafe { crate::free(writer) };
}
