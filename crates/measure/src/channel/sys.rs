//! System calls that rustix lacks: those of message queues.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;

/// Opens or creates a message queue for `messages` messages of `message_bytes` bytes
/// (mq_open(2)). Unlike the C function, the system call takes the name without its
/// leading slash.
///
/// # Errors
/// Those of mq_open(2).
pub(super) fn mq_open(
    name: &CStr,
    flags: c_int,
    messages: usize,
    message_bytes: usize,
) -> rustix::io::Result<OwnedFd> {
    // SAFETY: a struct of numbers, of which all bits may be 0.
    let mut shape: libc::mq_attr = unsafe { std::mem::zeroed() };
    shape.mq_maxmsg = messages as _;
    shape.mq_msgsize = message_bytes as _;
    // SAFETY: the name ends with a 0 and the shape is a struct mq_attr; both
    // are only read, during the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_mq_open,
            name.as_ptr(),
            flags | libc::O_CLOEXEC,
            0o600 as libc::mode_t,
            &raw const shape,
        )
    };
    let fd = checked(fd)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Removes the name of a message queue (mq_unlink(2)).
///
/// # Errors
/// Those of mq_unlink(2).
pub(super) fn mq_unlink(name: &CStr) -> rustix::io::Result<()> {
    // SAFETY: the name ends with a 0 and is only read.
    let outcome = unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    checked(outcome).map(drop)
}

/// Sends a message (mq_timedsend(2)). Times out at `deadline`, on CLOCK_REALTIME.
///
/// # Errors
/// Those of mq_timedsend(2).
pub(super) fn mq_send(
    queue: BorrowedFd<'_>,
    message: &[u8],
    deadline: Option<libc::timespec>,
) -> rustix::io::Result<()> {
    let deadline = deadline.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the message has the length passed, and the deadline is a timespec or
    // null; both are only read, during the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mq_timedsend,
            queue.as_raw_fd(),
            message.as_ptr(),
            message.len(),
            0,
            deadline,
        )
    };
    checked(outcome).map(drop)
}

/// Receives a message (mq_timedreceive(2)) and returns its length. The buffer must be
/// at least as long as the queue's maximum message.
///
/// # Errors
/// Those of mq_timedreceive(2).
pub(super) fn mq_receive(queue: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: the kernel writes no more than the buffer's length to it; a null
    // priority and a null deadline are allowed.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mq_timedreceive,
            queue.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            ptr::null_mut::<u32>(),
            ptr::null::<libc::timespec>(),
        )
    };
    checked(outcome).map(|n| n as usize)
}

fn checked(outcome: c_long) -> rustix::io::Result<c_long> {
    match outcome {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        value => Ok(value),
    }
}
