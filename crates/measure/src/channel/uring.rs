//! A pipe driven by io_uring: one message at a time.
//!
//! Only one, because a pipe keeps the order of bytes only if each request is complete
//! before the next begins: one that has to wait could be overtaken. So each message
//! takes a system call, as with write(2) and read(2). An end that spins polls for the
//! completion in memory.
#![allow(unsafe_code)]

use std::hint;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fastpipe::transfer::Counts;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};

use super::message::Message;
use super::{ChannelEnd, Receiver, Transmitter};
use crate::failure::refusal_or_failure;

/// The capacity of the ring, in requests; one is used.
const ENTRIES: u32 = 2;

/// With this offset a request uses the file's own position.
const CURRENT_POSITION: u64 = u64::MAX;

/// Creates a ring and completes a request without effect. A seccomp filter may allow
/// rings to be created but not entered; a request would then wait forever.
fn tested_ring() -> io::Result<IoUring> {
    let mut ring = IoUring::new(ENTRIES)?;
    // SAFETY: the request does nothing, and refers to nothing.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    // Never full: it is the first one.
    pushed.map_err(|_| Errno::BUSY)?;
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let result = ring.completion().next().map_or(0, |entry| entry.result());
    match result {
        0.. => Ok(ring),
        error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
    }
}

/// Checks that a ring can be created and complete a request.
///
/// # Errors
/// Those of io_uring_setup(2), which may be refused, and of io_uring_enter(2).
pub fn try_out() -> io::Result<()> {
    tested_ring().map(drop)
}

/// An end of a pipe with a ring of requests, one of which is in flight at a time.
pub struct Uring {
    fd: OwnedFd,
    ring: IoUring,
    spins: bool,
    /// RWF_NOWAIT or 0.
    flags: i32,
    counts: Counts,
}

impl Uring {
    /// Creates an end with its ring. If it spins, it polls for completions in memory.
    ///
    /// # Errors
    /// Those of io_uring_setup(2), which may be refused.
    pub fn new(fd: OwnedFd, spins: bool) -> anyhow::Result<Self> {
        Ok(Uring {
            fd,
            ring: tested_ring().map_err(|error| refusal_or_failure("io_uring_setup", error))?,
            spins,
            flags: 0,
            counts: Counts::default(),
        })
    }

    /// Submits a request and waits until it is complete: until then the kernel uses the
    /// request's memory.
    ///
    /// # Safety
    /// Until this returns, the request's descriptor and memory must be valid, and
    /// memory that it writes to must not be accessed by anything else.
    unsafe fn complete(&mut self, request: squeue::Entry) -> rustix::io::Result<usize> {
        // SAFETY: as promised by the caller; `submit_and_wait` returns only when the
        // request is complete.
        let pushed = unsafe { self.ring.submission().push(&request) };
        // Never full: there is one request at a time.
        pushed.map_err(|_| Errno::BUSY)?;
        let result = self.submit_and_wait();
        // A negative result is an error number (io_uring_enter(2)).
        usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()))
    }

    /// Submits the request and waits for its result. Continues if the wait is
    /// interrupted or the kernel is short of memory for a moment.
    fn submit_and_wait(&mut self) -> i32 {
        let want = usize::from(!self.spins);
        loop {
            self.counts.syscalls += 1;
            if self.ring.submit_and_wait(want).is_ok() {
                break;
            }
            if let Some(entry) = self.ring.completion().next() {
                return entry.result();
            }
        }
        if let Some(entry) = self.ring.completion().next() {
            return entry.result();
        }
        self.counts.would_blocks += 1;
        loop {
            if let Some(entry) = self.ring.completion().next() {
                return entry.result();
            }
            hint::spin_loop();
        }
    }
}

impl ChannelEnd for Uring {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    /// Sets RWF_NOWAIT, since io_uring waits even for files with O_NONBLOCK
    /// (io_rw_init_file in io_uring/rw.c).
    fn never_sleep(&mut self) -> io::Result<()> {
        self.flags = ReadWriteFlags::NOWAIT.bits() as i32;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Transmitter for Uring {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let bytes = message.bytes();
        // A request's length has 32 bits; the next request sends the rest.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let request = opcode::Write::new(Fd(self.fd.as_raw_fd()), bytes.as_ptr(), len);
        let request = request
            .offset(CURRENT_POSITION)
            .rw_flags(self.flags)
            .build();
        // SAFETY: descriptor and bytes are borrowed until this returns.
        unsafe { self.complete(request) }
    }

    fn call(&self) -> &'static str {
        "write by io_uring"
    }
}

impl Receiver for Uring {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let len = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let request = opcode::Read::new(Fd(self.fd.as_raw_fd()), into.as_mut_ptr(), len);
        let request = request
            .offset(CURRENT_POSITION)
            .rw_flags(self.flags)
            .build();
        // SAFETY: the descriptor is borrowed until this returns, and so are the
        // bytes, mutably.
        unsafe { self.complete(request) }
    }

    fn call(&self) -> &'static str {
        "read by io_uring"
    }
}
