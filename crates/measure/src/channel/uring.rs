//! A pipe driven by io_uring: one message at a time.
//!
//! One, because a pipe keeps the order of bytes only if each request is over
//! before the next begins: of several, one that has to wait would be overtaken.
//! So there is a system call a message, as with write(2) and read(2); an end
//! that spins looks for the completion in memory.
#![allow(unsafe_code)]

use std::hint;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fastpipe::transfer::Counts;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};

use super::message::Message;
use super::{End, Receiver, Transmitter};
use crate::session::refusal_or_failure;

/// Requests that the ring has room for; one is used.
const ENTRIES: u32 = 2;

/// With this offset a request uses the file's own position.
const CURRENT_POSITION: u64 = u64::MAX;

/// A ring that was entered once: a filter that lets rings be made but not
/// entered would leave a request waiting for ever.
fn tried_ring() -> io::Result<IoUring> {
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

/// Makes a ring and has it do a request without effect.
///
/// # Errors
/// Those of io_uring_setup(2), which may be refused, and of io_uring_enter(2).
pub fn try_out() -> io::Result<()> {
    tried_ring().map(drop)
}

/// An end of a pipe with a ring of requests, of which one is under way at a time.
pub struct Uring {
    fd: OwnedFd,
    ring: IoUring,
    spins: bool,
    /// RWF_NOWAIT or 0.
    flags: i32,
    counts: Counts,
}

impl Uring {
    /// An end with its ring. Where it spins, a request's end is looked for in
    /// memory.
    ///
    /// # Errors
    /// Those of io_uring_setup(2), which may be refused.
    pub fn new(fd: OwnedFd, spins: bool) -> anyhow::Result<Self> {
        Ok(Uring {
            fd,
            ring: tried_ring().map_err(|error| refusal_or_failure("io_uring_setup", error))?,
            spins,
            flags: 0,
            counts: Counts::default(),
        })
    }

    /// Makes a request and returns when it is over, not before: until then the
    /// kernel uses the memory that it names.
    ///
    /// # Safety
    /// The request's descriptor and memory are valid, and the caller's alone
    /// where it writes to them, until this returns.
    unsafe fn make(&mut self, request: squeue::Entry) -> rustix::io::Result<usize> {
        // SAFETY: as promised by the caller; `completion` returns only when the
        // request is over.
        let pushed = unsafe { self.ring.submission().push(&request) };
        // Never full: there is one request at a time.
        pushed.map_err(|_| Errno::BUSY)?;
        let result = self.completion();
        // What is below 0 is the number of an error (io_uring_enter(2)).
        usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()))
    }

    /// Submits, and waits for the result. That waiting is interrupted, or that
    /// the kernel is short of memory for a moment, is no reason to return.
    fn completion(&mut self) -> i32 {
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

impl End for Uring {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    /// O_NONBLOCK would not bring that about: io_uring waits all the same for such
    /// a file (io_rw_init_file in io_uring/rw.c).
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
        // A request's length is 32 bits; the rest goes with the next one.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let request = opcode::Write::new(Fd(self.fd.as_raw_fd()), bytes.as_ptr(), len);
        let request = request
            .offset(CURRENT_POSITION)
            .rw_flags(self.flags)
            .build();
        // SAFETY: descriptor and bytes are borrowed until this returns.
        unsafe { self.make(request) }
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
        unsafe { self.make(request) }
    }

    fn call(&self) -> &'static str {
        "read by io_uring"
    }
}
