//! read(2) into a buffer, and write(2) or send(2) out of it: works between any
//! two ends, and tells which of them failed. Messages are taken by recv(2), whole.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::ends::{Kind, Place};
use super::messages::{self, Next};
use super::private::PrivatePipe;
use super::report::Side;
use super::sink::Sink;
use super::step::{Needs, Step};
use crate::buffer::Buffer;
use crate::transfer::Input;
use crate::wait::Wait;

/// A buffer and what is in it.
///
/// Whoever wants to look at the data does so after each [`give`](Self::give):
/// each byte that was given is seen then, once and in order.
#[derive(Debug)]
pub(super) struct Copying<'a> {
    source: Input<BorrowedFd<'a>>,
    takes_messages: bool,
    output: Place<'a>,
    /// Made when first needed: it may have to open something.
    sink: Option<Sink<'a>>,
    size: usize,
    /// Mapped when first needed.
    buffer: Option<Buffer>,
    /// What is taken and not given: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// What comes before anything that is still in the input: left by another
    /// technique.
    before: Option<PrivatePipe>,
}

impl<'a> Copying<'a> {
    pub(super) fn new(input: &Place<'a>, output: &Place<'a>, size: usize) -> Self {
        Copying {
            source: Input::new(input.fd, Wait::Never),
            takes_messages: input.kind == Kind::Messages,
            output: *output,
            sink: None,
            size,
            buffer: None,
            start: 0,
            end: 0,
            before: None,
        }
    }

    /// Has what is left in `pipe` given first.
    pub(super) fn adopt(&mut self, pipe: PrivatePipe) {
        self.before = Some(pipe);
    }

    /// Bytes that were taken from the input and wait to be given.
    pub(super) fn held(&self) -> u64 {
        (self.end - self.start) as u64 + self.before.as_ref().map_or(0, PrivatePipe::held)
    }

    /// Takes at most `most` bytes, or gives what it holds. Of a message what is
    /// beyond is lost.
    pub(super) fn step(&mut self, most: u64) -> Step {
        if self.start == self.end
            && self.held() > 0
            && let Err(error) = self.take_what_was_left()
        {
            return Step::Failed(Side::Input, error);
        }
        if self.start < self.end {
            self.give()
        } else if self.takes_messages {
            self.take_message(most)
        } else {
            self.take(most)
        }
    }

    fn take(&mut self, most: u64) -> Step {
        let room = match self.buffer() {
            Ok(buffer) => buffer.len() as u64,
            Err(error) => return Step::Failed(Side::Input, error),
        };
        let most = most.min(room) as usize;
        let Some(buffer) = &mut self.buffer else {
            unreachable!("it was just made");
        };
        match self.source.read_some(&mut buffer[..most]) {
            Ok(0) => Step::End,
            Ok(n) => {
                (self.start, self.end) = (0, n);
                Step::Moved {
                    taken: n as u64,
                    given: 0,
                }
            }
            Err(incomplete) if incomplete.kind() == ErrorKind::WouldBlock => {
                Step::Blocked(Needs::INPUT)
            }
            Err(incomplete) => Step::Failed(Side::Input, incomplete.source),
        }
    }

    /// Takes the next message whole, however long: the buffer grows with it.
    ///
    /// So much is in the kernel already, within what SO_SNDBUF allowed the sender.
    fn take_message(&mut self, most: u64) -> Step {
        let fd = *self.source.get_ref();
        let len = match messages::next(fd) {
            Ok(Next::Message(len)) => len,
            Ok(Next::End) => return Step::End,
            Err(errno) => return not_taken(errno),
        };
        if len > self.size {
            self.size = len;
            self.buffer = None;
        }
        let buffer = match self.buffer() {
            Ok(buffer) => buffer,
            Err(error) => return Step::Failed(Side::Input, error),
        };
        let room = most.min(buffer.len() as u64) as usize;
        match messages::take(fd, &mut buffer[..room]) {
            // Somebody else has taken the one that was looked at, and this one is
            // longer than any before.
            Ok((n, len)) if n < len && (n as u64) < most => not_taken(Errno::MSGSIZE),
            Ok((n, _)) => {
                (self.start, self.end) = (0, n);
                Step::Moved {
                    taken: n as u64,
                    given: 0,
                }
            }
            Err(errno) => not_taken(errno),
        }
    }

    fn give(&mut self) -> Step {
        let Some(buffer) = &self.buffer else {
            unreachable!("something is in it");
        };
        let data = &buffer[self.start..self.end];
        let output = &self.output;
        let sink = self.sink.get_or_insert_with(|| Sink::new(output));
        match sink.give(data) {
            Ok(0) => Step::Failed(Side::Output, ErrorKind::WriteZero.into()),
            Ok(n) => {
                self.start += n;
                Step::Moved {
                    taken: 0,
                    given: n as u64,
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Step::Blocked(Needs::OUTPUT),
            Err(error) => Step::Failed(Side::Output, error),
        }
    }

    /// The last `n` bytes that were given. No more than the last step gave.
    pub(super) fn last_given(&self, n: usize) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start - n..self.start],
            None => &[],
        }
    }

    fn take_what_was_left(&mut self) -> io::Result<()> {
        self.buffer()?;
        if let (Some(pipe), Some(buffer)) = (&mut self.before, &mut self.buffer) {
            let n = pipe.drain(buffer)?;
            (self.start, self.end) = (0, n);
            if n == 0 {
                // It holds bytes, by our count: never go on without them.
                return Err(Errno::IO.into());
            }
        }
        Ok(())
    }

    /// All that was taken and not given, oldest first, out of here.
    pub(super) fn hand_back(&mut self) -> Vec<u8> {
        let mut all = match &self.buffer {
            Some(buffer) => buffer[self.start..self.end].to_vec(),
            None => Vec::new(),
        };
        (self.start, self.end) = (0, 0);
        if let Some(mut pipe) = self.before.take() {
            let given = all.len();
            all.resize(given + pipe.held() as usize, 0);
            let mut end = given;
            while let Ok(n @ 1..) = pipe.drain(&mut all[end..]) {
                end += n;
            }
            all.truncate(end);
        }
        all
    }

    fn buffer(&mut self) -> io::Result<&mut Buffer> {
        Ok(match &mut self.buffer {
            Some(buffer) => buffer,
            none => none.insert(Buffer::builder().len(self.size).touched(false).map()?),
        })
    }
}

fn not_taken(errno: Errno) -> Step {
    match errno {
        // EWOULDBLOCK is the same number on Linux.
        Errno::AGAIN => Step::Blocked(Needs::INPUT),
        errno => Step::Failed(Side::Input, errno.into()),
    }
}
