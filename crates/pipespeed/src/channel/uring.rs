//! A pipe driven by io_uring: one message at a time.
//!
//! One, because a pipe keeps the order of bytes only if each request is over
//! before the next begins: of several, one that has to wait would be overtaken.
//! So there is a system call a message, as with write(2) and read(2); an end
//! that spins looks for the completion in memory.
#![allow(unsafe_code)]

use std::hint;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use io_uring::{IoUring, opcode, squeue, types::Fd};
use rustix::io::Errno;

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

/// A ring, one descriptor and one buffer.
struct Requests {
    ring: IoUring,
    fd: OwnedFd,
    buffer: Buffer,
    spins: bool,
    counts: Counts,
}

impl Requests {
    fn new(fd: OwnedFd, buffer: Buffer, wait: Waiting) -> io::Result<Self> {
        Ok(Requests {
            ring: tried_ring()?,
            fd,
            buffer,
            spins: wait == Waiting::Spin,
            counts: Counts::default(),
        })
    }

    fn write(&mut self, from: usize) -> rustix::io::Result<usize> {
        let rest = &self.buffer[from..];
        // A request's length is 32 bits; what is left goes with the next one.
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let request = opcode::Write::new(Fd(self.fd.as_raw_fd()), rest.as_ptr(), len);
        self.make(request.offset(CURRENT_POSITION).build())
    }

    fn read(&mut self) -> rustix::io::Result<usize> {
        let len = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX);
        let room = self.buffer.as_mut_ptr();
        let request = opcode::Read::new(Fd(self.fd.as_raw_fd()), room, len);
        self.make(request.offset(CURRENT_POSITION).build())
    }

    /// Makes a request of this module's and returns when it is over, not
    /// before: until then the kernel uses the buffer.
    fn make(&mut self, request: squeue::Entry) -> rustix::io::Result<usize> {
        loop {
            // SAFETY: the request is about `fd` and `buffer`, which belong to
            // self; nobody touches them before `completion` has returned.
            let pushed = unsafe { self.ring.submission().push(&request) };
            // Never full: there is one request at a time.
            pushed.map_err(|_| Errno::BUSY)?;
            let result = self.completion();
            if let Ok(n) = usize::try_from(result) {
                if n > 0 {
                    self.counts.bytes += n as u64;
                    self.counts.moving_calls += 1;
                }
                return Ok(n);
            }
            // What is below 0 is the number of an error (io_uring_enter(2)).
            match Errno::from_raw_os_error(result.wrapping_neg()) {
                Errno::INTR | Errno::AGAIN => self.counts.would_blocks += 1,
                errno => return Err(errno),
            }
        }
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

/// The writing end.
pub struct UringSink(Requests);

impl UringSink {
    /// A sink with its ring made and its buffer mapped and filled.
    ///
    /// # Errors
    /// Those of io_uring_setup(2), which may be refused; and when the buffer
    /// can't be had.
    pub fn new(fd: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let buffer = filled(spec.buffer_bytes)?;
        Ok(UringSink(Requests::new(fd, buffer, spec.wait)?))
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

    fn sent(&self) -> u64 {
        self.0.counts.bytes
    }

    fn counts(&self) -> Counts {
        self.0.counts
    }

    fn call(&self) -> &'static str {
        "write by io_uring"
    }
}

/// The reading end.
pub struct UringSource(Requests);

impl UringSource {
    /// A source with its ring made and its buffer mapped.
    ///
    /// # Errors
    /// As for the sink.
    pub fn new(fd: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        let buffer = Buffer::builder().len(spec.buffer_bytes).map()?;
        Ok(UringSource(Requests::new(fd, buffer, spec.wait)?))
    }
}

impl Source for UringSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        let n = self.0.read().map_err(unread)?;
        Ok(Taken::Data(&self.0.buffer[..n]))
    }

    fn counts(&self) -> Counts {
        self.0.counts
    }

    fn call(&self) -> &'static str {
        "read by io_uring"
    }
}
