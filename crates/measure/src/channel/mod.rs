//! The channels between two processes, a file a kind.
//!
//! `open` creates a channel of any kind, `transmitter` and `receiver` its ends, in
//! their processes. These make one system call at a time and fail with
//! `AGAIN` where it would have blocked; round trips use them. Throughput trials send
//! whole messages to a [`Sink`] and take them from a [`Source`]. `message.rs` adapts
//! any transmitter and receiver to these; pipes and rings have sinks and sources of their
//! own.

pub mod eventfd;
pub mod fifo;
pub mod library;
pub mod message;
pub mod mqueue;
pub mod name;
pub mod pipe;
pub mod ring;
pub mod socket;
pub mod tcp;
pub mod unix;
pub mod uring;

pub(crate) use self::message::moved;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use fastpipe::transfer::Counts;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::SocketType;

use self::message::Message;
use self::mqueue::MessageQueue;
use self::pipe::{Plain, Vmsplice};
use self::ring::{RingReceiver, RingTransmitter};
use self::socket::Socket;
use self::uring::Uring;
use crate::data::DataProducer;
use crate::failure::{TrialError, open_error};
use crate::record::{Granted, NotRun, Setup};
use crate::spec::{Channel, ChannelSizes, PipeWriter, Waiting};

/// A new channel. If it had a name, the name has been removed.
#[derive(Debug)]
pub struct OpenChannel {
    /// The writer's descriptor.
    pub write_end: OwnedFd,
    /// The reader's descriptor.
    pub read_end: OwnedFd,
    /// The actual sizes and settings.
    pub granted: Granted,
}

/// Creates a channel.
///
/// # Errors
/// [`TrialError`].
pub(crate) fn open(channel: Channel, sizes: ChannelSizes) -> Result<OpenChannel, TrialError> {
    let message = sizes.message_bytes;
    match channel {
        Channel::Pipe(..) | Channel::Uring => {
            let ends = fastpipe::pipe::create().map_err(open_error("a pipe"))?;
            of_pipe(ends, sizes.pipe_bytes)
        }
        Channel::Fifo => of_pipe(
            fifo::open().map_err(open_error("a FIFO"))?,
            sizes.pipe_bytes,
        ),
        Channel::Socketpair => unix::open_pair(SocketType::STREAM, message),
        Channel::Seqpacket => unix::open_pair(SocketType::SEQPACKET, message),
        Channel::Datagram => unix::open_pair(SocketType::DGRAM, message),
        Channel::Unix => unix::open_named(),
        Channel::Tcp => tcp::open(),
        Channel::Mqueue => mqueue::open(message),
        Channel::Ring | Channel::RingCopy => ring::open(sizes),
        Channel::Eventfd => eventfd::open(message),
    }
}

/// Creates the writing end of a channel from its descriptor.
///
/// # Errors
/// [`NotRun`] if this machine does not allow what it needs.
pub(crate) fn transmitter(
    channel: Channel,
    fd: OwnedFd,
    sizes: ChannelSizes,
    wait: Waiting,
) -> anyhow::Result<Box<dyn Transmitter>> {
    Ok(match channel {
        Channel::Pipe(PipeWriter::Vmsplice(_), _) => Box::new(Vmsplice::new(fd)),
        Channel::Pipe(..) | Channel::Fifo | Channel::Eventfd => Box::new(Plain(fd)),
        Channel::Uring => Box::new(Uring::new(fd, wait.spins())?),
        Channel::Socketpair
        | Channel::Seqpacket
        | Channel::Datagram
        | Channel::Unix
        | Channel::Tcp => Box::new(Socket::new(fd, !wait.spins())),
        Channel::Mqueue => Box::new(MessageQueue::new(fd, !wait.spins())?),
        Channel::Ring => Box::new(RingTransmitter::offer(fd, sizes, wait, true)?),
        Channel::RingCopy => Box::new(RingTransmitter::offer(fd, sizes, wait, false)?),
    })
}

/// Creates the reading end of a channel from its descriptor.
///
/// # Errors
/// As [`transmitter`].
pub(crate) fn receiver(
    channel: Channel,
    fd: OwnedFd,
    sizes: ChannelSizes,
    wait: Waiting,
) -> anyhow::Result<Box<dyn Receiver>> {
    Ok(match channel {
        Channel::Pipe(..) | Channel::Fifo | Channel::Eventfd => Box::new(Plain(fd)),
        Channel::Uring => Box::new(Uring::new(fd, wait.spins())?),
        Channel::Socketpair
        | Channel::Seqpacket
        | Channel::Datagram
        | Channel::Unix
        | Channel::Tcp => Box::new(Socket::new(fd, !wait.spins())),
        Channel::Mqueue => Box::new(MessageQueue::new(fd, !wait.spins())?),
        Channel::Ring => Box::new(RingReceiver::accept(fd, sizes, wait, true)?),
        Channel::RingCopy => Box::new(RingReceiver::accept(fd, sizes, wait, false)?),
    })
}

fn of_pipe(ends: (OwnedFd, OwnedFd), bytes: Option<usize>) -> Result<OpenChannel, TrialError> {
    let (read_end, write_end) = ends;
    let granted = match bytes {
        Some(bytes) => fastpipe::pipe::set_capacity(&write_end, bytes)
            .map_err(|error| NotRun::refused(error.to_string()))?,
        None => fastpipe::pipe::capacity(&write_end).map_err(open_error("a pipe"))?,
    };
    Ok(OpenChannel {
        write_end,
        read_end,
        granted: Granted {
            pipe_bytes: Some(granted),
            ..Granted::default()
        },
    })
}

/// An end of a channel that moves messages one system call at a time.
pub trait ChannelEnd {
    /// The descriptor to poll; `None` if [`sleep`](Self::sleep) must be called instead.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes later calls fail with `AGAIN` instead of blocking. The open file
    /// description must belong to this trial only.
    ///
    /// # Errors
    /// Those of fcntl(2).
    fn never_sleep(&mut self) -> io::Result<()> {
        self.fd().map_or(Ok(()), set_nonblocking)
    }

    /// Sleeps until the next call would not block, or until the time limit. May return
    /// early.
    ///
    /// # Errors
    /// `PIPE` if the peer is gone.
    fn sleep(&mut self, _limit: Option<Duration>) -> rustix::io::Result<()> {
        Ok(())
    }

    /// System calls and would-blocks so far; zeros if they are not counted.
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Sets O_NONBLOCK on an open file description that belongs to this trial only.
fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// The writing end of a channel, one system call at a time.
pub trait Transmitter: ChannelEnd {
    /// Sends as much of a message as there is room for. Returns the number of bytes
    /// sent.
    ///
    /// # Errors
    /// Those of the call; `AGAIN` if it would have blocked.
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize>;

    /// Fails with `AGAIN` if the next message has no room yet in the channel's own memory
    /// and [`send`](Self::send) must not block.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn check_room(&mut self) -> rustix::io::Result<()> {
        Ok(())
    }

    /// Calls `make` to produce the next message in the channel's own memory; the next
    /// [`send`](Self::send) sends it. Returns `None` if the channel can't do that.
    ///
    /// # Errors
    /// As [`send`](Self::send), and those of `make`.
    fn make_in_place(
        &mut self,
        _make: &mut dyn FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> Option<rustix::io::Result<usize>> {
        None
    }

    /// The name of the system call, for error messages.
    fn call(&self) -> &'static str;

    /// The capacity of the channel in bytes, if this end creates it.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// See [`Sink::expect_reader_exit`].
    fn expect_reader_exit(&mut self) {}
}

/// The reading end of a channel, one system call at a time.
pub trait Receiver: ChannelEnd {
    /// Receives the available part of a message, up to the length of `into`. Returns
    /// the number of bytes.
    ///
    /// # Errors
    /// Those of the call; `AGAIN` if it would have blocked.
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize>;

    /// Sets whether all received bytes are copied or only the first and last ones.
    /// Ignored by channels that always copy.
    fn copy_all(&mut self, _all: bool) {}

    /// The name of the system call, for error messages.
    fn call(&self) -> &'static str;
}

/// The writing end of a channel in a throughput trial.
pub trait Sink {
    /// Sends the next piece, after `producer` has filled it unless it is idle.
    ///
    /// # Errors
    /// `BrokenPipe` if the reader is gone; `TimedOut` after
    /// [`expect_reader_exit`](Self::expect_reader_exit) if it may be gone.
    fn send(&mut self, producer: &mut DataProducer) -> io::Result<()>;

    /// The actual setup.
    fn setup(&self) -> Setup {
        Setup::default()
    }

    /// Bytes sent so far.
    fn sent(&self) -> u64 {
        self.counts().bytes
    }

    /// Bytes and calls so far.
    fn counts(&self) -> Counts;

    /// The name of the system call in use, for error messages.
    fn call(&self) -> &'static str;

    /// Checks that the sink uses the technique that its case asks for.
    ///
    /// # Errors
    /// The technique that it uses instead.
    fn check_technique(&self) -> Result<(), String> {
        Ok(())
    }

    /// Announces that the reader may exit. If the channel does not show that the reader
    /// is gone, later sends time out.
    fn expect_reader_exit(&mut self) {}
}

/// The reading end of a channel in a throughput trial.
pub trait Source {
    /// Takes the available data, waiting for the first byte. Returns no bytes at the
    /// end of the data.
    ///
    /// # Errors
    /// Those of the call.
    fn take(&mut self) -> io::Result<Taken<'_>>;

    /// Bytes and calls so far at this end of the channel.
    fn counts(&self) -> Counts;

    /// The name of the system call in use, for error messages.
    fn call(&self) -> &'static str;
}

/// Data taken from a source.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Bytes in the reader's memory.
    Data(&'a [u8]),
    /// Number of bytes that were discarded.
    Discarded(usize),
}

impl Taken<'_> {
    /// The number of bytes; 0 at the end of the data.
    pub fn len(&self) -> usize {
        match self {
            Taken::Data(bytes) => bytes.len(),
            Taken::Discarded(n) => *n,
        }
    }

    /// Whether the data has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
