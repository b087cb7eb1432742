//! read(2) into a buffer, and write(2) or send(2) out of it. Works between any
//! two ends and shows which of them failed. Messages are taken by recv(2).

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::ends::{Endpoint, FileKind};
use super::messages::{self, Next};
use super::private::PrivatePipe;
use super::report::Side;
use super::sink::RelaySink;
use super::step::{Needs, Step};
use crate::buffer::Buffer;
use crate::pipe::page_size;
use crate::transfer::Input;
use crate::wait::Wait;

/// Copying through a buffer.
///
/// After each [`give`](Self::give) the bytes given can be inspected, so that each
/// byte is seen once and in order.
#[derive(Debug)]
pub(super) struct Copying<'a> {
    input: Endpoint<'a>,
    source: Input<BorrowedFd<'a>>,
    output: Endpoint<'a>,
    /// Created when first needed, since it may have to open something.
    sink: Option<RelaySink<'a>>,
    size: usize,
    /// Mapped when first needed.
    buffer: Option<Buffer>,
    /// Bytes taken and not given: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Pipe of bytes to be given before any others: left by another technique, or
    /// a [part of a packet](Self::take_part).
    leftover: Option<PrivatePipe>,
    /// Whether packets can't be [taken in parts](Self::take_part): for lack of
    /// descriptors, or because tee(2) or splice(2) is refused.
    reads_parts: bool,
}

impl<'a> Copying<'a> {
    pub(super) fn new(input: &Endpoint<'a>, output: &Endpoint<'a>, size: usize) -> Self {
        Copying {
            input: *input,
            source: Input::new(input.fd, Wait::Never),
            output: *output,
            sink: None,
            size,
            buffer: None,
            start: 0,
            end: 0,
            leftover: None,
            reads_parts: false,
        }
    }

    /// Adopts the bytes in `pipe`, which are given first.
    pub(super) fn adopt(&mut self, pipe: PrivatePipe) {
        self.leftover = Some(pipe);
    }

    /// Returns the number of bytes taken and not given.
    pub(super) fn held(&self) -> u64 {
        (self.end - self.start) as u64 + self.leftover.as_ref().map_or(0, PrivatePipe::held)
    }

    /// Takes at most `most` bytes, or gives the bytes it holds. The part of a
    /// message beyond `most` is lost.
    pub(super) fn step(&mut self, most: u64) -> Step {
        if self.start == self.end
            && self.held() > 0
            && let Err(error) = self.take_from_pipe()
        {
            return Step::Failed(Side::Input, error);
        }
        if self.start < self.end {
            self.give()
        } else if self.input.kind == FileKind::Messages {
            self.take_message(most)
        } else if self.input.is_pipe()
            && most.min(self.size as u64) < page_size() as u64
            && !self.reads_parts
        {
            self.take_part(most.min(self.size as u64))
        } else {
            self.take(most)
        }
    }

    /// Takes at most `most` bytes, less than a page, from a pipe.
    ///
    /// In packet mode (O_DIRECT; pipe(2)) a read loses the part of a packet, which is
    /// up to a page, that does not fit. splice(2) leaves it in the pipe. Other bytes
    /// are read: by splice, a writer that used vmsplice(2) could change them after
    /// they have left the pipe. The pages of packets are never a writer's own.
    fn take_part(&mut self, most: u64) -> Step {
        let input = self.input;
        let taken = self.own_pipe().and_then(|pipe| {
            let packet = pipe.next_is_packet(input.fd)?;
            Ok(packet.then(|| pipe.fill(&input, most)))
        });
        match taken {
            Ok(Some(Step::Refused(_))) => {}
            Ok(Some(step)) => return step,
            Ok(None) => return self.take(most),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Step::Blocked(Needs::INPUT);
            }
            Err(_) => {}
        }
        self.leftover = None;
        self.reads_parts = true;
        self.take(most)
    }

    fn own_pipe(&mut self) -> io::Result<&mut PrivatePipe> {
        Ok(match &mut self.leftover {
            Some(pipe) => pipe,
            none => none.insert(PrivatePipe::new(false)?),
        })
    }

    fn take(&mut self, most: u64) -> Step {
        let room = match self.buffer() {
            Ok(buffer) => buffer.len() as u64,
            Err(error) => return Step::Failed(Side::Input, error),
        };
        let most = most.min(room) as usize;
        let Some(buffer) = &mut self.buffer else {
            unreachable!("the buffer was just created");
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

    /// Takes the next message as a whole. The buffer grows to its length, which is
    /// limited by the sender's SO_SNDBUF.
    fn take_message(&mut self, most: u64) -> Step {
        let fd = *self.source.get_ref();
        let len = match messages::next(fd) {
            Ok(Next::Message(len)) => len,
            Ok(Next::End) => return Step::End,
            Err(errno) => return take_error(errno),
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
            // Somebody else took the message that was examined, and this one is
            // longer.
            Ok((n, len)) if n < len && (n as u64) < most => take_error(Errno::MSGSIZE),
            Ok((n, _)) => {
                (self.start, self.end) = (0, n);
                Step::Moved {
                    taken: n as u64,
                    given: 0,
                }
            }
            Err(errno) => take_error(errno),
        }
    }

    fn give(&mut self) -> Step {
        let Some(buffer) = &self.buffer else {
            unreachable!("there are bytes in the buffer");
        };
        let data = &buffer[self.start..self.end];
        let output = &self.output;
        let sink = self.sink.get_or_insert_with(|| RelaySink::new(output));
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

    /// Returns the last `n` bytes given, at most those of the last step.
    pub(super) fn last_given(&self, n: usize) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start - n..self.start],
            None => &[],
        }
    }

    fn take_from_pipe(&mut self) -> io::Result<()> {
        self.buffer()?;
        if let (Some(pipe), Some(buffer)) = (&mut self.leftover, &mut self.buffer) {
            let n = pipe.drain(buffer)?;
            (self.start, self.end) = (0, n);
            if n == 0 {
                // The pipe must hold bytes, so this is an error and not the end.
                return Err(Errno::IO.into());
            }
        }
        Ok(())
    }

    /// Removes and returns all bytes taken and not given, oldest first.
    pub(super) fn hand_back(&mut self) -> Vec<u8> {
        let mut all = match &self.buffer {
            Some(buffer) => buffer[self.start..self.end].to_vec(),
            None => Vec::new(),
        };
        (self.start, self.end) = (0, 0);
        if let Some(mut pipe) = self.leftover.take() {
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

fn take_error(errno: Errno) -> Step {
    match errno {
        // EWOULDBLOCK is the same number on Linux.
        Errno::AGAIN => Step::Blocked(Needs::INPUT),
        errno => Step::Failed(Side::Input, errno.into()),
    }
}
