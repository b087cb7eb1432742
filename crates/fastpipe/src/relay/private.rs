//! splice(2) through a private pipe, if neither end is a pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::direct::{splice, would_block};
use super::ends::Endpoint;
use super::options::TARGET_CAPACITY;
use super::report::Side;
use super::step::{Needs, Step};
#[cfg(feature = "tokio")]
use crate::fork::Origin;
use crate::pipe;

/// A pipe that no other code knows, and the number of bytes in it.
#[derive(Debug)]
pub(super) struct PrivatePipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: u64,
    /// Where it was created: a forked child shares it.
    #[cfg(feature = "tokio")]
    origin: Origin,
}

impl PrivatePipe {
    /// Creates the pipe.
    ///
    /// # Errors
    /// EMFILE or ENFILE if no descriptor is available.
    pub(super) fn new(raise_capacity: bool) -> io::Result<Self> {
        // No other process shares this open file, so it can be non-blocking.
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        if raise_capacity {
            // Best effort: a smaller pipe is only slower.
            let _ = pipe::set_capacity_up_to(&writer, TARGET_CAPACITY);
        }
        Ok(PrivatePipe {
            reader,
            writer,
            held: 0,
            #[cfg(feature = "tokio")]
            origin: Origin::this_process(),
        })
    }

    /// Whether this process has created it.
    #[cfg(feature = "tokio")]
    pub(super) fn is_ours(&self) -> bool {
        self.origin.is_this_process()
    }

    /// Returns the number of bytes in the pipe.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Takes at most `most` bytes, or gives the bytes it holds.
    ///
    /// It takes only when empty. So there is always room, and at most one pipeful
    /// is lost with a broken output.
    pub(super) fn step(&mut self, input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
        if self.held > 0 {
            self.give(output)
        } else {
            self.take(input, output, most)
        }
    }

    fn take(&mut self, input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
        if let Some(blocked) = would_block(input, output) {
            return blocked;
        }
        self.fill(input, most)
    }

    /// Takes at most `most` bytes from `input`, which must be ready unless it is a
    /// pipe. This pipe must be empty.
    pub(super) fn fill(&mut self, input: &Endpoint<'_>, most: u64) -> Step {
        match splice(input.fd, self.writer.as_fd(), most) {
            Ok(0) => Step::End,
            Ok(n) => {
                self.held = n as u64;
                Step::Moved {
                    taken: self.held,
                    given: 0,
                }
            }
            Err(errno) => Step::of_error(errno, Needs::INPUT, Some(Side::Input)),
        }
    }

    fn give(&mut self, output: &Endpoint<'_>) -> Step {
        if output.is_socket() && !output.is_nonblocking() {
            return Step::Refused(Errno::WOULDBLOCK);
        }
        match splice(self.reader.as_fd(), output.fd, self.held) {
            // There are bytes, so this can't be the end of the data.
            Ok(0) => Step::Refused(Errno::IO),
            Ok(n) => {
                self.held -= n as u64;
                Step::Moved {
                    taken: 0,
                    given: n as u64,
                }
            }
            Err(errno) => Step::of_error(errno, Needs::OUTPUT, Some(Side::Output)),
        }
    }

    /// Reads all bytes, or as many as fit, into `buffer`. Returns their number, which is 0
    /// only if there are none.
    ///
    /// # Errors
    /// Those of read(2), with no byte read; none is expected. `IO` if there are fewer bytes
    /// than there should be.
    pub(super) fn drain(&mut self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let mut end = 0;
        while self.held > 0 && end < buffer.len() {
            match rustix::io::read(&self.reader, &mut buffer[end..]) {
                Ok(n @ 1..) => {
                    self.held -= n as u64;
                    end += n;
                }
                Err(Errno::INTR) => {}
                // The cause will occur again in the next call.
                _ if end > 0 => break,
                Ok(_) => return Err(Errno::IO),
                Err(errno) => return Err(errno),
            }
        }
        Ok(end)
    }
}

/// Whether the next bytes of the pipe `input` are a packet (O_DIRECT; pipe(2)). False at the
/// end of the data.
///
/// Only the open file of the writer has the flag. But a read of two copies of the first byte
/// ends with the first copy if it belongs to a packet.
///
/// # Errors
/// `AGAIN` if there are no bytes; those of pipe2(2), tee(2) and read(2).
pub(super) fn begins_with_packet(input: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    // Not used for anything else, since an error leaves a copy in it.
    let (reader, writer) = rustix::pipe::pipe_with(flags)?;
    for _ in 0..2 {
        if rustix::pipe::tee(input, &writer, 1, SpliceFlags::NONBLOCK)? == 0 {
            return Ok(false);
        }
    }
    Ok(rustix::io::read(&reader, &mut [0; 2])? == 1)
}
