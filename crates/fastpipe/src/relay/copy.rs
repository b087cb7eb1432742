//! read(2) into a buffer, and write(2) or send(2) out of it. Works between any
//! two ends and shows which of them failed. Messages are taken by recv(2).

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, retry_on_intr};

use super::ends::{Endpoint, FileKind};
use super::messages::{self, Next};
use super::private::PrivatePipe;
use super::report::Side;
use super::step::{Needs, Step};
use crate::buffer::Buffer;
use crate::pipe;
use crate::transfer::{Counts, Input, Nowait, is_trace};
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
    giving: Nowait,
    /// Maximum number of bytes per write, and per read unless the input is a pipe.
    size: usize,
    /// Mapped when first needed, with at least `size` bytes.
    buffer: Option<Buffer>,
    /// Bytes taken and not given: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Bytes [read ahead](Self::take_from_pipe): `buffer[end..ahead_end]`. They count as
    /// taken when they may be given.
    ahead_end: usize,
    /// Pipe of bytes to be given before any others: left by another technique, or
    /// a [part of a pipeful](Self::take_part).
    leftover: Option<PrivatePipe>,
}

impl<'a> Copying<'a> {
    /// `may_block`: a read of a trace may wait.
    pub(super) fn new(
        input: &Endpoint<'a>,
        output: &Endpoint<'a>,
        size: usize,
        may_block: bool,
    ) -> Self {
        let mut source = Input::new(input.fd, Wait::Never);
        // poll(2) does not report the end of a trace that is turned off.
        if may_block && input.is_file() && is_trace(input.fd) {
            source = source.with_plain_reads();
        }
        Copying {
            input: *input,
            source,
            output: *output,
            giving: Nowait::default(),
            size,
            buffer: None,
            start: 0,
            end: 0,
            ahead_end: 0,
            leftover: None,
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

    /// Returns the number of bytes read that do not count as taken yet.
    pub(super) fn ahead(&self) -> u64 {
        (self.ahead_end - self.end) as u64
    }

    /// Takes at most `most` bytes, or gives the bytes it holds. The part of a
    /// message beyond `most` is lost.
    pub(super) fn step(&mut self, most: u64) -> Step {
        if self.start == self.end
            && self.held() > 0
            && let Err(error) = self.drain_leftover()
        {
            return Step::Failed(Side::Input, error);
        }
        if self.start < self.end {
            self.give()
        } else if self.end < self.ahead_end {
            self.advance(most)
        } else if self.input.kind == FileKind::Messages {
            self.take_message(most)
        } else if self.input.is_pipe() {
            self.take_from_pipe(most)
        } else {
            self.take(most.min(self.size as u64), most)
        }
    }

    /// Takes at most `most` bytes of those read ahead.
    fn advance(&mut self, most: u64) -> Step {
        let taken = most.min(self.ahead());
        self.end += taken as usize;
        Step::Moved { taken, given: 0 }
    }

    /// Takes at most `most` bytes from a pipe.
    ///
    /// A read that ends within a packet (O_DIRECT; pipe(2)) loses the rest of it, and any
    /// write to the pipe may be one. No read ends there that has room for all bytes in the
    /// pipe: for its capacity, or for the unread bytes if nobody else reads. A part is
    /// [taken by splice](Self::take_part). If that is refused, the bytes beyond `most` are
    /// read ahead.
    fn take_from_pipe(&mut self, most: u64) -> Step {
        let fd = self.input.fd;
        let capacity = match self.reserve_capacity() {
            Ok(capacity) => capacity as u64,
            Err(error) => return Step::Failed(Side::Input, error),
        };
        if most >= capacity {
            return self.take(most, most);
        }
        // If it is unknown, none is too many.
        let unread = pipe::unread(fd).map_or(u64::MAX, |bytes| bytes as u64);
        if (1..=most).contains(&unread) {
            return self.take(unread, most);
        }
        match self.take_part(most) {
            Step::Refused(_) => self.take(u64::MAX, most),
            step => step,
        }
    }

    /// Takes at most `most` bytes, fewer than are in the pipe, by splice(2), which leaves the
    /// rest of a packet in the pipe.
    ///
    /// They are copied at once: a writer that used vmsplice(2) may change its pages after they
    /// have left the pipe.
    fn take_part(&mut self, most: u64) -> Step {
        let input = self.input;
        let pipe = match &mut self.leftover {
            Some(pipe) => pipe,
            none => match PrivatePipe::new(false) {
                Ok(pipe) => none.insert(pipe),
                Err(error) => return Step::refused(&error),
            },
        };
        let step = pipe.fill(&input, most);
        if self.held() > 0
            && let Err(error) = self.drain_leftover()
        {
            return Step::Failed(Side::Input, error);
        }
        step
    }

    /// Reads at most `room` bytes, of which at most `most` count as taken.
    fn take(&mut self, room: u64, most: u64) -> Step {
        let buffer = match self.buffer() {
            Ok(buffer) => buffer,
            Err(error) => return Step::Failed(Side::Input, error),
        };
        let room = room.min(buffer.len() as u64) as usize;
        let Some(buffer) = &mut self.buffer else {
            unreachable!("the buffer was just created");
        };
        match self.source.read_some(&mut buffer[..room]) {
            Ok(0) => Step::End,
            Ok(n) => {
                (self.start, self.end, self.ahead_end) = (0, 0, n);
                self.advance(most)
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
                self.hold(n);
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
        let end = self.end.min(self.start + self.size);
        let data = &buffer[self.start..end];
        let (output, counts) = (self.output.fd, &mut Counts::default());
        match retry_on_intr(|| self.giving.write(output, data, counts)) {
            Ok(0) => Step::Failed(Side::Output, ErrorKind::WriteZero.into()),
            Ok(n) => {
                self.start += n;
                Step::Moved {
                    taken: 0,
                    given: n as u64,
                }
            }
            // EWOULDBLOCK is the same number on Linux.
            Err(Errno::AGAIN) => Step::Blocked(Needs::OUTPUT),
            Err(errno) => Step::Failed(Side::Output, errno.into()),
        }
    }

    /// Returns the last `n` bytes given, at most those of the last step.
    pub(super) fn last_given(&self, n: usize) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start - n..self.start],
            None => &[],
        }
    }

    /// Reads what fits of the leftover bytes into the buffer, which must be empty but for
    /// bytes read ahead, and those never exist with leftover ones.
    fn drain_leftover(&mut self) -> io::Result<()> {
        self.buffer()?;
        if let (Some(pipe), Some(buffer)) = (&mut self.leftover, &mut self.buffer) {
            let n = pipe.drain(buffer)?;
            self.hold(n);
        }
        Ok(())
    }

    /// The first `n` bytes of the buffer were taken.
    fn hold(&mut self, n: usize) {
        (self.start, self.end, self.ahead_end) = (0, n, n);
    }

    /// Removes and returns all bytes read and not given, oldest first.
    pub(super) fn hand_back(&mut self) -> Vec<u8> {
        let mut all = match &self.buffer {
            Some(buffer) => buffer[self.start..self.ahead_end].to_vec(),
            None => Vec::new(),
        };
        self.hold(0);
        if let Some(mut pipe) = self.leftover.take() {
            let given = all.len();
            all.resize(given + pipe.held() as usize, 0);
            let drained = pipe.drain(&mut all[given..]).unwrap_or(0);
            all.truncate(given + drained);
        }
        all
    }

    /// Makes sure that the buffer, which must be empty, has room for a pipeful of the input.
    /// Returns the capacity.
    fn reserve_capacity(&mut self) -> io::Result<usize> {
        let capacity = pipe::capacity(self.input.fd)?;
        if self.buffer()?.len() < capacity {
            self.buffer = Some(map(capacity)?);
        }
        Ok(capacity)
    }

    fn buffer(&mut self) -> io::Result<&mut Buffer> {
        Ok(match &mut self.buffer {
            Some(buffer) => buffer,
            none => none.insert(map(self.size)?),
        })
    }
}

fn map(len: usize) -> io::Result<Buffer> {
    Ok(Buffer::builder().len(len).touched(false).map()?)
}

fn take_error(errno: Errno) -> Step {
    match errno {
        // EWOULDBLOCK is the same number on Linux.
        Errno::AGAIN => Step::Blocked(Needs::INPUT),
        errno => Step::Failed(Side::Input, errno.into()),
    }
}
