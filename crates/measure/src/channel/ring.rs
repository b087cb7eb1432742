//! `fastpipe::ring`: bytes in memory that both processes have mapped.
//!
//! In place, the writer produces a message where the reader uses it. Copying, each has
//! a buffer of its own, as with write(2) and read(2). The writer creates the ring once
//! it is pinned to its processor, so that the memory belongs to its NUMA node, and
//! passes the other end over the channel's socket.
#![allow(unsafe_code)] // Access in place: both ends are this program, and follow the ring's rules.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fastpipe::pipe::page_size;
use fastpipe::ring;
use fastpipe::transfer::Counts;
use rustix::io::Errno;
use rustix::net::SocketType;

use super::message::Message;
use super::{ChannelEnd, Receiver, Sink, Source, Taken, Transmitter};
use super::{OpenChannel, unix};
use crate::data::DataProducer;
use crate::failure::{PeerGone, TrialError, refusal_or_failure};
use crate::record::{Granted, NotRun, Setup};
use crate::spec::{ChannelSizes, Waiting};
use pipespeed_base::limits::{Resource, soft_limit};
use pipespeed_base::size;

const A_RING: &str = "a ring in shared memory";

/// Creates the socket pair over which the writer passes the ring that it creates.
///
/// # Errors
/// [`TrialError`]: not run if the ring would exceed RLIMIT_FSIZE.
pub fn open(sizes: ChannelSizes) -> Result<OpenChannel, TrialError> {
    check_file_limit(sizes)?;
    let socket = unix::open_pair(SocketType::STREAM, 0)?;
    Ok(OpenChannel {
        // The data does not pass through the socket.
        granted: Granted::default(),
        ..socket
    })
}

/// Checks that a ring does not exceed RLIMIT_FSIZE (getrlimit(2)): its memory is a file.
///
/// # Errors
/// [`TrialError::NotRun`] if it does.
fn check_file_limit(sizes: ChannelSizes) -> Result<(), TrialError> {
    let limit = soft_limit(Resource::RLIMIT_FSIZE);
    let file = sizes.ring_bytes.next_multiple_of(page_size()) + page_size();
    if let Some(max) = limit.filter(|max| file as u64 > *max) {
        return Err(TrialError::NotRun(NotRun::limit(format!(
            "a ring for messages of {} needs a file of {file} bytes, but files here are \
             limited to {max} bytes (ulimit -f)",
            size::format(sizes.message_bytes as u64)
        ))));
    }
    Ok(())
}

/// The writing end: sends a message or a part of it per call.
#[derive(Debug)]
pub struct RingTransmitter {
    ring: ring::Producer,
    message: usize,
    /// Whether messages are sent as a whole, in a slot of the ring.
    in_place: bool,
    /// Whether the next message is in its slot already.
    is_made: bool,
    /// Whether calls may block. If not, they are made only when they need not: a ring
    /// whose way of waiting changes between calls may miss a wake-up.
    blocks: bool,
    moving_calls: u64,
}

impl RingTransmitter {
    /// Creates a ring and passes its reading end over the channel's socket.
    ///
    /// # Errors
    /// If the memory can't be mapped or the reader is gone.
    pub fn offer(
        socket: OwnedFd,
        sizes: ChannelSizes,
        wait: Waiting,
        in_place: bool,
    ) -> anyhow::Result<Self> {
        let ring = ring::Producer::offer(&UnixStream::from(socket), sizes.ring_bytes);
        let mut ring = ring.map_err(setup_error)?;
        ring.set_wait(wait.into());
        Ok(RingTransmitter {
            ring,
            message: sizes.message_bytes,
            in_place,
            is_made: false,
            blocks: true,
            moving_calls: 0,
        })
    }

    /// The room that the next call needs.
    fn needed_room(&self) -> usize {
        if self.in_place { self.message } else { 1 }
    }

    /// Fails with `AGAIN` if the next call would block and must not.
    fn check_needed_room(&mut self) -> rustix::io::Result<()> {
        if self.blocks || self.ring.room().map_err(errno)? >= self.needed_room() {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }
}

impl ChannelEnd for RingTransmitter {
    fn never_sleep(&mut self) -> io::Result<()> {
        self.blocks = false;
        Ok(())
    }

    fn sleep(&mut self, limit: Option<Duration>) -> rustix::io::Result<()> {
        self.ring.set_timeout(limit);
        let lent = self.ring.lend(self.needed_room()).map(|slot| slot.len());
        self.ring.set_timeout(None);
        wait_result(lent)
    }

    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl Transmitter for RingTransmitter {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        self.check_needed_room()?;
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

    fn check_room(&mut self) -> rustix::io::Result<()> {
        if self.in_place {
            self.check_needed_room()?;
        }
        Ok(())
    }

    fn make_in_place(
        &mut self,
        make: &mut dyn FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> Option<rustix::io::Result<usize>> {
        self.in_place.then(|| {
            self.check_needed_room()?;
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

/// The reading end: receives a message or a part of it per call.
#[derive(Debug)]
pub struct RingReceiver {
    ring: ring::Consumer,
    message: usize,
    /// Whether messages are received as a whole, and stay in the ring until the next
    /// call.
    in_place: bool,
    /// Bytes received in place that are not released yet.
    held: usize,
    copies_all: bool,
    /// See [`RingTransmitter`].
    blocks: bool,
    moving_calls: u64,
}

impl RingReceiver {
    /// Receives the reading end of the ring, which [`RingTransmitter::offer`] passed over
    /// the channel's socket.
    ///
    /// # Errors
    /// If the ring can't be mapped or the writer is gone.
    pub fn accept(
        socket: OwnedFd,
        sizes: ChannelSizes,
        wait: Waiting,
        in_place: bool,
    ) -> anyhow::Result<Self> {
        let ring = ring::Consumer::accept(&UnixStream::from(socket));
        let mut ring = ring.map_err(setup_error)?;
        ring.set_wait(wait.into());
        Ok(RingReceiver {
            ring,
            message: sizes.message_bytes,
            in_place,
            held: 0,
            copies_all: true,
            blocks: true,
            moving_calls: 0,
        })
    }

    /// Releases the bytes received last. They are still in the ring, so this does not
    /// block.
    fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            self.ring.peek(held)?.release(held);
        }
        Ok(())
    }

    /// Fails with `AGAIN` if the next call would block and must not.
    fn check_bytes(&mut self, bytes: usize) -> rustix::io::Result<()> {
        if self.blocks || self.ring.unread().map_err(errno)? >= bytes {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }
}

impl ChannelEnd for RingReceiver {
    fn never_sleep(&mut self) -> io::Result<()> {
        self.blocks = false;
        Ok(())
    }

    fn sleep(&mut self, limit: Option<Duration>) -> rustix::io::Result<()> {
        self.release().map_err(errno)?;
        self.ring.set_timeout(limit);
        let available = self.ring.peek(1).map(|view| view.len());
        self.ring.set_timeout(None);
        wait_result(available)
    }

    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl Receiver for RingReceiver {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        if !self.in_place {
            self.check_bytes(1)?;
            return self.ring.read(into).map_err(errno);
        }
        self.release().map_err(errno)?;
        self.check_bytes(self.message)?;
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

/// The result of waiting for room or bytes. A timeout is not an error.
fn wait_result(outcome: io::Result<usize>) -> rustix::io::Result<()> {
    match outcome {
        Ok(0) => Err(Errno::PIPE),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
        outcome => outcome.map(drop).map_err(errno),
    }
}

/// Converts an error of a ring. A peer that was killed counts as gone, like one that
/// exited.
fn errno(error: io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Errno::PIPE,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}

/// Converts an error of setting up a ring: [`PeerGone`] if the peer has exited.
fn setup_error(error: io::Error) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof => {
            PeerGone("the other end is gone".to_owned()).into()
        }
        _ => refusal_or_failure(A_RING, error),
    }
}

/// Messages are produced in place.
impl Sink for RingTransmitter {
    fn send(&mut self, producer: &mut DataProducer) -> io::Result<()> {
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

/// Bytes are used in place, at most a message at a time, and stay in the ring until the
/// next call.
impl Source for RingReceiver {
    fn take(&mut self) -> io::Result<Taken<'_>> {
        self.release()?;
        let view = match self.ring.peek(1) {
            // The writer was killed.
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
