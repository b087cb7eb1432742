//! splice(2) through a pipe of our own, where neither end is one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::direct::{splice, would_sleep};
use super::ends::Place;
use super::options::CAPACITY;
use super::step::{Needs, Step};
use crate::pipe;

/// A pipe that nobody else knows, and what is in it.
#[derive(Debug)]
pub(super) struct PrivatePipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: u64,
}

impl PrivatePipe {
    /// # Errors
    /// EMFILE or ENFILE when no descriptor is left.
    pub(super) fn new(raise_capacity: bool) -> io::Result<Self> {
        // Non-blocking: it is our own open file.
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        if raise_capacity {
            // Smaller is slower, not wrong.
            let _ = pipe::set_capacity_up_to(&writer, CAPACITY);
        }
        Ok(PrivatePipe {
            reader,
            writer,
            held: 0,
        })
    }

    /// Bytes that were taken from the input and wait to be given.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Takes at most `most` bytes, or gives what it holds.
    ///
    /// It takes only when it is empty, so that there is always room, and what
    /// is lost with a broken output is one pipeful at most.
    pub(super) fn step(&mut self, input: &Place<'_>, output: &Place<'_>, most: u64) -> Step {
        if self.held > 0 {
            self.give(output)
        } else {
            self.take(input, output, most)
        }
    }

    fn take(&mut self, input: &Place<'_>, output: &Place<'_>, most: u64) -> Step {
        if let Some(blocked) = would_sleep(input, output) {
            return blocked;
        }
        match splice(input.fd, self.writer.as_fd(), most) {
            Ok(0) => Step::End,
            Ok(n) => {
                self.held = n as u64;
                Step::Moved {
                    taken: self.held,
                    given: 0,
                }
            }
            Err(errno) => Step::of_error(errno, Needs::INPUT),
        }
    }

    fn give(&mut self, output: &Place<'_>) -> Step {
        if output.is_socket() && !output.is_nonblocking() {
            return Step::Refused(Errno::WOULDBLOCK);
        }
        match splice(self.reader.as_fd(), output.fd, self.held) {
            // There are bytes: it can't be the end of them.
            Ok(0) => Step::Refused(Errno::IO),
            Ok(n) => {
                self.held -= n as u64;
                Step::Moved {
                    taken: 0,
                    given: n as u64,
                }
            }
            Err(errno) => Step::of_error(errno, Needs::OUTPUT),
        }
    }

    /// Takes out of it, into `buffer`, what could not be spliced on. Returns the
    /// bytes.
    ///
    /// # Errors
    /// Those of read(2), which is not known to refuse.
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
