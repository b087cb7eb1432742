//! Two rings in shared memory, one each way: the library's, in place or
//! copying.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fastpipe::ring::{Consumer, Producer};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{Link, Needs, some};
use crate::latency::memory::Messages;
use crate::latency::spec::Wait;

/// Bytes that are copied from one ring to the other at a time: they stay in the
/// first cache.
const CHUNK: usize = 4096;

/// The ends of both rings that one process has.
#[derive(Debug)]
struct Ends {
    output: Producer,
    input: Consumer,
    /// Whether calls wait by themselves. Else they are made only where they
    /// need not: a ring whose way of waiting changes all the time may miss
    /// being woken.
    waits: bool,
}

impl Ends {
    fn new(needs: Needs, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let mut ends = Ends {
            output: Producer::from_fd(output)?,
            input: Consumer::from_fd(input)?,
            waits: true,
        };
        if needs.wait == Wait::Spin {
            ends.output.set_wait(fastpipe::wait::Wait::Spin);
            ends.input.set_wait(fastpipe::wait::Wait::Spin);
        }
        Ok(ends)
    }

    /// Goes on where there is so much room, or where that may be waited for.
    fn room(&mut self, bytes: usize) -> io::Result<()> {
        if self.waits || self.output.room()? >= bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    /// The same of so many bytes that have come.
    fn data(&mut self, bytes: usize) -> io::Result<()> {
        if self.waits || self.input.unread()? >= bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    /// A ring has nothing to poll: waits until something has come or, where
    /// only room is wanted, until there is so much.
    fn sleep(&mut self, events: PollFlags, room: usize, ns: Option<u64>) -> Result<(), Errno> {
        let limit = ns.map(Duration::from_nanos);
        let outcome = if events.contains(PollFlags::IN) {
            self.input.set_timeout(limit);
            let come = self.input.peek(1).map(|view| view.len());
            self.input.set_timeout(None);
            come
        } else {
            self.output.set_timeout(limit);
            let lent = self.output.lend(room).map(|slot| slot.len());
            self.output.set_timeout(None);
            lent
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            outcome => some(outcome.map_err(|error| errno(&error))).map(drop),
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Errno::PIPE,
        _ => Errno::from_io_error(error).unwrap_or(Errno::IO),
    }
}

/// Messages are copied into the ring and out of it.
#[derive(Debug)]
pub(super) struct RingCopy(Ends);

impl RingCopy {
    /// # Errors
    /// Those of taking the ends.
    pub(super) fn new(needs: Needs, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        Ends::new(needs, input, output).map(RingCopy)
    }
}

impl Link for RingCopy {
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno> {
        let rest = &messages.bytes(turn)[at..];
        let sent = self.0.room(1).and_then(|()| self.0.output.write(rest));
        sent.map_err(|error| errno(&error))
    }

    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno> {
        let rest = &mut message[at..];
        let received = self.0.data(1).and_then(|()| self.0.input.read(rest));
        some(received.map_err(|error| errno(&error)))
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.0.waits = false;
        Ok(())
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        self.0.sleep(events, 1, ns)
    }

    fn call(&self) -> &'static str {
        "a ring's write"
    }
}

/// A message is made in the ring and looked at there; the answer is made in the
/// other ring of what lies in the first.
#[derive(Debug)]
pub(super) struct InPlace {
    ends: Ends,
    size: usize,
    answers: bool,
    /// Whether a received message has not been released yet.
    holds: bool,
    all: bool,
}

impl InPlace {
    /// # Errors
    /// Those of taking the ends.
    pub(super) fn new(needs: Needs, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        Ok(InPlace {
            ends: Ends::new(needs, input, output)?,
            size: needs.size,
            answers: needs.answers,
            holds: false,
            all: false,
        })
    }

    /// The message that was received is not needed any more.
    fn release(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.holds) {
            self.ends.input.peek(self.size)?.release(self.size);
        }
        Ok(())
    }

    fn make(&mut self, message: &[u8]) -> io::Result<()> {
        self.ends.room(self.size)?;
        let mut slot = self.ends.output.lend(self.size)?;
        if self.answers {
            let mut view = self.ends.input.peek(self.size)?;
            let mut chunk = [0; CHUNK];
            for at in (0..self.size).step_by(CHUNK) {
                let chunk = &mut chunk[..CHUNK.min(self.size - at)];
                view.read_at(at, chunk);
                slot.write_at(at, chunk);
            }
        } else {
            slot.write_at(0, message);
        }
        slot.commit(self.size);
        Ok(())
    }

    fn look(&mut self, message: &mut [u8]) -> io::Result<usize> {
        self.release()?;
        self.ends.data(self.size)?;
        let mut view = self.ends.input.peek(self.size)?;
        if view.len() < self.size {
            return Ok(0);
        }
        match (self.answers, self.all) {
            (true, _) => {}
            (false, true) => view.read_at(0, message),
            (false, false) => {
                let (head, last) = (self.size.min(8), self.size - 1);
                view.read_at(0, &mut message[..head]);
                view.read_at(last, &mut message[last..]);
            }
        }
        self.holds = true;
        Ok(self.size)
    }
}

impl Link for InPlace {
    fn send(&mut self, messages: &Messages, turn: usize, _: usize) -> Result<usize, Errno> {
        let made = self.make(messages.bytes(turn));
        made.map(|()| self.size).map_err(|error| errno(&error))
    }

    fn receive(&mut self, message: &mut [u8], _: usize) -> Result<usize, Errno> {
        some(self.look(message).map_err(|error| errno(&error)))
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.ends.waits = false;
        Ok(())
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        if events.contains(PollFlags::IN) {
            self.release().map_err(|error| errno(&error))?;
        }
        self.ends.sleep(events, self.size, ns)
    }

    fn call(&self) -> &'static str {
        "a ring's lend"
    }

    fn look_at_all(&mut self, all: bool) {
        self.all = all;
    }
}
