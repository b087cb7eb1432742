//! `fastpipe::ring`: bytes in memory that both processes have mapped.
//!
//! In place the writer makes a message where the reader uses it; copying, each
//! has a buffer of its own, as with write(2) and read(2). The writer makes the
//! ring once it runs where it is to run, so that the memory is that of its own
//! node, and hands the other end over by the socket that is the channel.
#![allow(unsafe_code)] // Views in place: both ends are this program, and keep to the rules.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fastpipe::pipe::page_size;
use fastpipe::ring;
use fastpipe::transfer::Counts;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::message::Message;
use super::open::{Channel, over_a_socket};
use super::{End, Receiver, Sink, Source, Taken, Transmitter};
use crate::endpoint::data::Producer;
use crate::endpoint::outcome::Setup;
use crate::endpoint::spec::Waiting;
use crate::record::NotRun;
use crate::session::TrialError;
use pipespeed_base::size;

/// The least capacity of a ring, in bytes.
const MIN_CAPACITY: usize = 1 << 20;

/// The capacity of a ring for messages of a size: a message is lent as a whole,
/// and the next one can be made while it is used.
fn capacity(message: usize) -> usize {
    MIN_CAPACITY.max(2 * message)
}

/// What the ends find each other by; the writer makes the ring itself.
///
/// # Errors
/// [`TrialError`]: refused where so large a file may not be written.
pub fn open(message: usize) -> Result<Channel, TrialError> {
    within_file_limit(message, capacity(message))?;
    over_a_socket()
}

/// Whether a ring of this capacity, for messages of that size, may be made here:
/// its memory is a file's, which has a limit (RLIMIT_FSIZE, getrlimit(2)).
///
/// # Errors
/// [`TrialError::NotRun`] if it may not.
pub(crate) fn within_file_limit(message: usize, capacity: usize) -> Result<(), TrialError> {
    let limit = getrlimit(Resource::Fsize).current;
    let file = capacity.next_power_of_two().max(page_size()) + page_size();
    if let Some(most) = limit.filter(|most| file as u64 > *most) {
        return Err(TrialError::NotRun(NotRun::limit(format!(
            "a ring for messages of {} is a file of {file} bytes, and here a file may \
             have {most} (ulimit -f)",
            size::format(message as u64)
        ))));
    }
    Ok(())
}

/// The writing end, a message or a part of it at a time.
#[derive(Debug)]
pub struct RingTransmitter {
    ring: ring::Producer,
    message: usize,
    /// Whether messages are sent as a whole, in a slot of the ring.
    in_place: bool,
    /// Whether the next one is in its slot already.
    is_made: bool,
    /// Whether calls wait by themselves. Else they are made only where they need
    /// not: a ring whose way of waiting changes all the time may miss being woken.
    waits: bool,
    moving_calls: u64,
}

impl RingTransmitter {
    /// An end for messages of one length.
    pub fn new(ring: ring::Producer, message: usize, in_place: bool) -> Self {
        RingTransmitter {
            ring,
            message,
            in_place,
            is_made: false,
            waits: true,
            moving_calls: 0,
        }
    }

    /// Room that the next call needs.
    fn room(&self) -> usize {
        if self.in_place { self.message } else { 1 }
    }

    fn await_room(&mut self) -> rustix::io::Result<()> {
        if self.waits || self.ring.room().map_err(errno)? >= self.room() {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }
}

impl End for RingTransmitter {
    fn never_sleep(&mut self) -> io::Result<()> {
        self.waits = false;
        Ok(())
    }

    fn sleep(&mut self, limit: Option<Duration>) -> rustix::io::Result<()> {
        self.ring.set_timeout(limit);
        let lent = self.ring.lend(self.room()).map(|slot| slot.len());
        self.ring.set_timeout(None);
        slept(lent)
    }

    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl Transmitter for RingTransmitter {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        self.await_room()?;
        if !self.in_place {
            return self.ring.write(message.bytes()).map_err(errno);
        }
        let mut slot = self.ring.lend(self.message).map_err(errno)?;
        if !std::mem::take(&mut self.is_made) {
            slot.write_at(0, message.bytes());
        }
        slot.commit(self.message);
        Ok(self.message)
    }

    fn reclaim(&mut self, _piece: usize) -> rustix::io::Result<()> {
        if self.in_place {
            self.await_room()?;
        }
        Ok(())
    }

    fn make_in_place(
        &mut self,
        make: &mut dyn FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> Option<rustix::io::Result<usize>> {
        self.in_place.then(|| {
            self.await_room()?;
            let mut slot = self.ring.lend(self.message).map_err(errno)?;
            // SAFETY: the other process is this program, and touches only what was
            // committed.
            let bytes = unsafe { slot.bytes_mut() };
            let made = make(&mut bytes[..self.message])?;
            self.is_made = true;
            Ok(made)
        })
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.ring.capacity())
    }

    fn call(&self) -> &'static str {
        if self.in_place {
            "lending from a ring"
        } else {
            "writing to a ring"
        }
    }
}

/// The reading end, a message or a part of it at a time.
#[derive(Debug)]
pub struct RingReceiver {
    ring: ring::Consumer,
    message: usize,
    /// Whether messages are received as a whole, and stay in the ring until the
    /// next one is asked for.
    in_place: bool,
    /// Bytes that were received in place and are not released yet.
    held: usize,
    copies_all: bool,
    /// As of [`RingTransmitter`].
    waits: bool,
    moving_calls: u64,
}

impl RingReceiver {
    /// An end for messages of one length.
    pub fn new(ring: ring::Consumer, message: usize, in_place: bool) -> Self {
        RingReceiver {
            ring,
            message,
            in_place,
            held: 0,
            copies_all: true,
            waits: true,
            moving_calls: 0,
        }
    }

    /// Gives back the room of what was received last. Those bytes are still there,
    /// so this does not wait.
    fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            self.ring.peek(held)?.release(held);
        }
        Ok(())
    }

    fn await_bytes(&mut self, bytes: usize) -> rustix::io::Result<()> {
        if self.waits || self.ring.unread().map_err(errno)? >= bytes {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }
}

impl End for RingReceiver {
    fn never_sleep(&mut self) -> io::Result<()> {
        self.waits = false;
        Ok(())
    }

    fn sleep(&mut self, limit: Option<Duration>) -> rustix::io::Result<()> {
        self.release().map_err(errno)?;
        self.ring.set_timeout(limit);
        let come = self.ring.peek(1).map(|view| view.len());
        self.ring.set_timeout(None);
        slept(come)
    }

    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl Receiver for RingReceiver {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        if !self.in_place {
            self.await_bytes(1)?;
            return self.ring.read(into).map_err(errno);
        }
        self.release().map_err(errno)?;
        self.await_bytes(self.message)?;
        let mut view = self.ring.peek(self.message).map_err(errno)?;
        if view.len() < self.message {
            return Ok(0);
        }
        if self.copies_all {
            view.read_at(0, into);
        } else {
            let (head, last) = (self.message.min(8), self.message - 1);
            view.read_at(0, &mut into[..head]);
            view.read_at(last, &mut into[last..]);
        }
        self.held = self.message;
        Ok(self.message)
    }

    fn copy_all(&mut self, all: bool) {
        self.copies_all = all;
    }

    fn call(&self) -> &'static str {
        if self.in_place {
            "peeking into a ring"
        } else {
            "reading from a ring"
        }
    }
}

/// What came of waiting for room or bytes.
fn slept(outcome: io::Result<usize>) -> rustix::io::Result<()> {
    match outcome {
        Ok(0) => Err(Errno::PIPE),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
        outcome => outcome.map(drop).map_err(errno),
    }
}

/// A peer that was killed is as gone as one that left.
fn errno(error: io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Errno::PIPE,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}

/// The writing end of a throughput trial: makes the ring, and offers its other end
/// over the socket that is the channel.
///
/// # Errors
/// When the memory can't be had or the reader is gone.
pub fn offer(channel: OwnedFd, message: usize, wait: Waiting) -> io::Result<ring::Producer> {
    let mut ring = ring::Producer::offer(&UnixStream::from(channel), capacity(message))?;
    ring.set_wait(wait.into());
    Ok(ring)
}

/// The reading end of a throughput trial.
///
/// # Errors
/// When the end can't be had or the writer is gone.
pub fn accept(channel: OwnedFd, wait: Waiting) -> io::Result<ring::Consumer> {
    let mut ring = ring::Consumer::accept(&UnixStream::from(channel))?;
    ring.set_wait(wait.into());
    Ok(ring)
}

/// Messages are made in place.
impl Sink for RingTransmitter {
    fn send(&mut self, producer: &mut Producer) -> io::Result<()> {
        let mut slot = self.ring.lend(self.message).map_err(errno)?;
        if !producer.is_idle() {
            // SAFETY: the other process is this program, and touches only
            // what was committed.
            let bytes = unsafe { slot.bytes_mut() };
            producer.produce(&mut bytes[..self.message]);
        }
        slot.commit(self.message);
        self.moving_calls += 1;
        Ok(())
    }

    fn setup(&self) -> Setup {
        Setup {
            ring_bytes: self.capacity(),
            ..Setup::default()
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            moving_calls: self.moving_calls,
            ..self.ring.counts()
        }
    }

    fn call(&self) -> &'static str {
        Transmitter::call(self)
    }
}

/// Bytes are used in place, at most a message at a time, and stay in the ring until
/// the next ones are asked for.
impl Source for RingReceiver {
    fn take(&mut self) -> io::Result<Taken<'_>> {
        self.release()?;
        let view = match self.ring.peek(1) {
            // A writer that was killed.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Ok(Taken::Discarded(0));
            }
            view => view?,
        };
        self.held = view.len().min(self.message);
        self.moving_calls += u64::from(self.held > 0);
        // SAFETY: the other process is this program, and writes only to
        // what was released.
        let bytes = unsafe { view.into_bytes() };
        Ok(Taken::Data(&bytes[..self.held]))
    }

    fn counts(&self) -> Counts {
        let counts = self.ring.counts();
        Counts {
            bytes: counts.bytes + self.held as u64,
            moving_calls: self.moving_calls,
            ..counts
        }
    }

    fn call(&self) -> &'static str {
        Receiver::call(self)
    }
}
