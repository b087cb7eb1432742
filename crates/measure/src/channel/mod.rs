//! What lies between two processes: one file a channel.
//!
//! A transmitter and a receiver make one system call at a time, and say where it
//! would have slept: round trips go through them. Throughput trials send whole
//! messages by a [`Sink`] and take them from a [`Source`], which `message.rs` makes
//! of any transmitter and receiver; some channels have sinks of their own.

pub mod eventfd;
pub mod fifo;
pub mod library;
pub mod message;
pub mod mqueue;
pub mod name;
mod open;
pub mod pipe;
pub mod ring;
pub mod socket;
mod sys;
pub mod tcp;
pub mod transport;
pub mod unix;
pub mod uring;
pub mod vm_readv;

pub(crate) use self::message::moved;
pub use self::open::{Channel, Granted, open};
pub(crate) use self::open::{cant, open_kind};

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fastpipe::transfer::Counts;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::{Deserialize, Serialize};

use self::message::Message;

use crate::endpoint::data::Producer;
use crate::endpoint::outcome::Setup;

/// An end of a channel that moves messages one system call at a time.
pub trait End {
    /// The descriptor to poll; none where [`sleep`](Self::sleep) stands in for
    /// that.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes later calls fail with `AGAIN` instead of sleeping. The open file must
    /// belong to this trial only.
    ///
    /// # Errors
    /// Those of fcntl(2).
    fn never_sleep(&mut self) -> io::Result<()> {
        self.fd().map_or(Ok(()), set_nonblocking)
    }

    /// Sleeps until the next call would not, or the time is over. May wake up
    /// early.
    ///
    /// # Errors
    /// `PIPE` where the other end is gone.
    fn sleep(&mut self, _limit: Option<Duration>) -> rustix::io::Result<()> {
        Ok(())
    }

    /// System calls and would-blocks so far, where they are counted.
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Sets O_NONBLOCK on an open file that belongs to this trial only.
fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// The writing end of a channel, one system call at a time.
pub trait Transmitter: End {
    /// Sends what there is room for of a message. Returns how many bytes.
    ///
    /// # Errors
    /// Those of the call: `AGAIN` where it would have slept.
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize>;

    /// Waits until nobody needs the memory of a piece any more, where its reader
    /// does not say so by an answer.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn reclaim(&mut self, _piece: usize) -> rustix::io::Result<()> {
        Ok(())
    }

    /// Has the next message made by `make` where the reader will find it, if the
    /// channel can do that: [`send`](Self::send) then sends that one.
    ///
    /// # Errors
    /// As [`send`](Self::send), and those of `make`.
    fn make_in_place(
        &mut self,
        _make: &mut dyn FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> Option<rustix::io::Result<usize>> {
        None
    }

    /// Takes what would keep poll(2) from sleeping. Returns whether there was
    /// anything.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn take_notices(&mut self) -> rustix::io::Result<bool> {
        Ok(false)
    }

    /// The system call, for messages.
    fn call(&self) -> &'static str;

    /// The capacity of the channel in bytes, where it is made by this end.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// See [`Sink::expect_leaving`].
    fn expect_leaving(&mut self) {}

    /// See [`Sink::zerocopy`].
    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        None
    }
}

/// The reading end of a channel, one system call at a time.
pub trait Receiver: End {
    /// Receives what has come of a message, as far as there is room. Returns how
    /// many bytes.
    ///
    /// # Errors
    /// Those of the call: `AGAIN` where it would have slept.
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize>;

    /// Whether every byte that is received is to be copied, not just the first and
    /// last ones, where that is not done anyway.
    fn copy_all(&mut self, _all: bool) {}

    /// The system call, for messages.
    fn call(&self) -> &'static str;
}

/// The writing end of a channel, as a throughput trial drives it.
pub trait Sink {
    /// Has the next piece made by `producer`, where it makes anything, and
    /// sends it.
    ///
    /// # Errors
    /// `BrokenPipe` where the reader is gone, `TimedOut` after
    /// [`expect_leaving`](Self::expect_leaving) where it may be.
    fn send(&mut self, producer: &mut Producer) -> io::Result<()>;

    /// What took effect.
    fn setup(&self) -> Setup {
        Setup::default()
    }

    /// Bytes sent so far.
    fn sent(&self) -> u64 {
        self.counts().bytes
    }

    /// What was done so far.
    fn counts(&self) -> Counts;

    /// The system call in use, for messages.
    fn call(&self) -> &'static str;

    /// Whether the sink does what its case says.
    ///
    /// # Errors
    /// What it does instead, and why.
    fn as_asked(&self) -> Result<(), String> {
        Ok(())
    }

    /// Tells the sink that the reader may leave: where the channel does not show that,
    /// later sends wait for a bounded time.
    fn expect_leaving(&mut self) {}

    /// What the completions of MSG_ZEROCOPY say; none where it is not used.
    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        None
    }
}

/// What the completions of sends with MSG_ZEROCOPY say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZerocopyCounts {
    /// Sends completed.
    pub completed: u64,
    /// Those of them that the kernel copied all the same.
    pub copied: u64,
}

/// The reading end of a channel, as a throughput trial drives it.
pub trait Source {
    /// Takes what is there, waiting for the first byte of it; nothing at the
    /// end of the data.
    ///
    /// # Errors
    /// Those of the call.
    fn take(&mut self) -> io::Result<Taken<'_>>;

    /// What was done so far at this end of the channel.
    fn counts(&self) -> Counts;

    /// The system call in use, for messages.
    fn call(&self) -> &'static str;
}

/// What a source took.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Bytes in the reader's memory.
    Data(&'a [u8]),
    /// Number of bytes that were discarded unseen.
    Discarded(usize),
}

impl Taken<'_> {
    /// How many bytes; 0 at the end of the data.
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
