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
use crate::pipe;

/// A pipe that no other code knows, and the number of bytes in it.
#[derive(Debug)]
pub(super) struct PrivatePipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: u64,
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
        })
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

    /// Whether the next bytes of the pipe `input` are a packet (O_DIRECT; pipe(2)).
    /// False at the end of the data. This pipe must be empty.
    ///
    /// Only the open file of the writer has the flag. But if the byte duplicated here
    /// belongs to a packet, a read ends with it, although another byte follows.
    ///
    /// # Errors
    /// `AGAIN` if there are no bytes; those of tee(2). After any other one this pipe
    /// may hold bytes.
    pub(super) fn next_is_packet(&mut self, input: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        if rustix::pipe::tee(input, &self.writer, 1, SpliceFlags::NONBLOCK)? == 0 {
            return Ok(false);
        }
        rustix::io::write(&self.writer, b"?")?;
        let mut both = [0; 2];
        let is_packet = rustix::io::read(&self.reader, &mut both)? == 1;
        if is_packet {
            rustix::io::read(&self.reader, &mut both)?;
        }
        Ok(is_packet)
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

    /// Reads bytes that could not be spliced on into `buffer`. Returns their
    /// number.
    ///
    /// # Errors
    /// Those of read(2); none is expected.
    pub(super) fn drain(&mut self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        if self.held == 0 {
            return Ok(0);
        }
        loop {
            match rustix::io::read(&self.reader, &mut *buffer) {
                Err(Errno::INTR) => {}
                Ok(n) => {
                    self.held -= n as u64;
                    return Ok(n);
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}
