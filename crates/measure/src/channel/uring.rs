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

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};

use super::attempt::{unread, unsent};
use super::socket::filled;
use super::{Sink, Source, Taken};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{SinkSpec, SourceSpec, Waiting};

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

/// A ring of requests, of which one is under way at a time.
pub(crate) struct Requests {
    ring: IoUring,
    spins: bool,
    /// RWF_NOWAIT or 0.
    flags: i32,
    counts: Counts,
}

impl Requests {
    /// A ring. Where it spins, a request's end is looked for in memory.
    ///
    /// # Errors
    /// Those of io_uring_setup(2), which may be refused.
    pub(crate) fn new(spins: bool) -> io::Result<Self> {
        Ok(Requests {
            ring: tried_ring()?,
            spins,
            flags: 0,
            counts: Counts::default(),
        })
    }

    /// From now on requests that would wait end with `AGAIN`. O_NONBLOCK does
    /// not bring that about: of such a file io_uring waits all the same
    /// (io_rw_init_file in io_uring/rw.c).
    pub(crate) fn never_wait(&mut self) {
        self.flags = ReadWriteFlags::NOWAIT.bits() as i32;
    }

    /// Writes as much of `from` as there is room for.
    ///
    /// # Errors
    /// Those of write(2).
    pub(crate) fn write(&mut self, to: BorrowedFd<'_>, from: &[u8]) -> rustix::io::Result<usize> {
        // A request's length is 32 bits; what is left goes with the next one.
        let len = u32::try_from(from.len()).unwrap_or(u32::MAX);
        let request = opcode::Write::new(Fd(to.as_raw_fd()), from.as_ptr(), len);
        let request = request
            .offset(CURRENT_POSITION)
            .rw_flags(self.flags)
            .build();
        // SAFETY: descriptor and bytes are borrowed until this returns.
        unsafe { self.make(request) }
    }

    /// Reads what is there, as much as `into` has room for.
    ///
    /// # Errors
    /// Those of read(2).
    pub(crate) fn read(
        &mut self,
        from: BorrowedFd<'_>,
        into: &mut [u8],
    ) -> rustix::io::Result<usize> {
        let len = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let request = opcode::Read::new(Fd(from.as_raw_fd()), into.as_mut_ptr(), len);
        let request = request
            .offset(CURRENT_POSITION)
            .rw_flags(self.flags)
            .build();
        // SAFETY: the descriptor is borrowed until this returns, and so are the
        // bytes, mutably.
        unsafe { self.make(request) }
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
        let moved =
            usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()))?;
        if moved > 0 {
            self.counts.bytes += moved as u64;
            self.counts.moving_calls += 1;
        }
        Ok(moved)
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

/// A ring, one descriptor and one buffer.
struct End {
    requests: Requests,
    fd: OwnedFd,
    buffer: Buffer,
}

impl End {
    fn new(fd: OwnedFd, buffer: Buffer, wait: Waiting) -> io::Result<Self> {
        Ok(End {
            requests: Requests::new(wait == Waiting::Spin)?,
            fd,
            buffer,
        })
    }

    fn write(&mut self, from: usize) -> rustix::io::Result<usize> {
        let (fd, rest) = (self.fd.as_fd(), &self.buffer[from..]);
        until_done(&mut self.requests, |requests| requests.write(fd, rest))
    }

    fn read(&mut self) -> rustix::io::Result<usize> {
        let (fd, room) = (self.fd.as_fd(), &mut self.buffer[..]);
        until_done(&mut self.requests, |requests| requests.read(fd, room))
    }
}

/// Makes a request until it is neither interrupted nor would block.
fn until_done(
    requests: &mut Requests,
    mut request: impl FnMut(&mut Requests) -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    loop {
        match request(requests) {
            Err(Errno::INTR | Errno::AGAIN) => requests.counts.would_blocks += 1,
            outcome => return outcome,
        }
    }
}

/// The writing end.
pub struct UringSink(End);

impl UringSink {
    /// A sink with its ring made and its buffer mapped and filled.
    ///
    /// # Errors
    /// Those of io_uring_setup(2), which may be refused; and when the buffer
    /// can't be had.
    pub fn new(fd: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let buffer = filled(spec.buffer_bytes)?;
        Ok(UringSink(End::new(fd, buffer, spec.wait)?))
    }
}

impl Sink for UringSink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        if !producer.is_idle() {
            producer.produce(&mut self.0.buffer);
        }
        let mut sent = 0;
        while sent < self.0.buffer.len() {
            sent += self.0.write(sent).map_err(|errno| unsent(sent, errno))?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.0.requests.counts
    }

    fn call(&self) -> &'static str {
        "write by io_uring"
    }
}

/// The reading end.
pub struct UringSource(End);

impl UringSource {
    /// A source with its ring made and its buffer mapped.
    ///
    /// # Errors
    /// As for the sink.
    pub fn new(fd: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        let buffer = Buffer::builder().len(spec.buffer_bytes).map()?;
        Ok(UringSource(End::new(fd, buffer, spec.wait)?))
    }
}

impl Source for UringSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        let n = self.0.read().map_err(unread)?;
        Ok(Taken::Data(&self.0.buffer[..n]))
    }

    fn counts(&self) -> Counts {
        self.0.requests.counts
    }

    fn call(&self) -> &'static str {
        "read by io_uring"
    }
}
