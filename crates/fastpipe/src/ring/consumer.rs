//! [`Consumer`]: the end that bytes come out at.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::cursor::Role;
use super::error::RingError;
use super::handover;
use super::in_place::View;
use super::memory::Memory;
use super::peer::{Peer, PeerState};
use super::side::{Found, Side};
use crate::transfer::Counts;
use crate::wait::Wait;

/// The end of a ring that bytes come out at.
///
/// Bytes are used in place ([`peek`](Self::peek)) or copied out ([`Read`]). When
/// the producer was dropped and all was read, either comes to an end: an empty
/// view, or `Ok(0)`. A producer that died is not an end but an error, after all
/// that it had committed.
///
/// # Errors
/// Of all that waits for data:
///
/// | kind | [`RingError`] | |
/// |---|---|---|
/// | `ConnectionReset` | `PeerDied` | the producer's process is gone, or its end was dropped by a panic |
/// | `InvalidData` | `Corrupt` | the shared header says what can't be |
/// | `TimedOut` | `TimedOut` | see [`set_timeout`](Self::set_timeout) |
/// | `WouldBlock` | | there is no data, and [`Wait::Never`] |
#[derive(Debug)]
pub struct Consumer {
    side: Side,
}

impl Consumer {
    /// As [`Producer::offer`](super::Producer::offer), the other way round: hands over the
    /// producer's end.
    ///
    /// # Errors
    /// The same.
    pub fn offer(stream: &UnixStream, capacity: usize) -> io::Result<Self> {
        handover::offer(stream, Role::Consumer, capacity).map(|side| Consumer { side })
    }

    /// Takes the consumer's end that the process at the other end of `stream` offers by
    /// [`Producer::offer`](super::Producer::offer).
    ///
    /// # Errors
    /// As [`Producer::accept`](super::Producer::accept).
    pub fn accept(stream: &UnixStream) -> io::Result<Self> {
        handover::accept(stream, Role::Consumer).map(|side| Consumer { side })
    }

    pub(super) fn of(memory: Memory) -> io::Result<Self> {
        Ok(Consumer {
            side: Side::attach(memory, Role::Consumer)?,
        })
    }

    /// As [`Producer::from_fd`](super::Producer::from_fd).
    ///
    /// # Errors
    /// The same.
    pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
        Self::of(Memory::open(file)?)
    }

    /// As [`Producer::into_fd`](super::Producer::into_fd). What was not released is left to the next
    /// consumer.
    ///
    /// # Errors
    /// The same.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        self.side.into_fd()
    }

    /// At least `at_least` bytes, and at least one: all that is known to be
    /// there, in one piece. Waits for them. Fewer come only at the end of the
    /// data, and none after it.
    ///
    /// # Errors
    /// Those of [`Consumer`]; `InvalidInput` for more than half of the capacity: both ends
    /// could wait for each other.
    #[inline]
    pub fn peek(&mut self, at_least: usize) -> io::Result<View<'_>> {
        self.wait_for_data(at_least, at_least)?;
        Ok(View::new(&mut self.side))
    }

    /// Waits for `at_least` bytes or the end; looks for `wanted` first.
    #[inline]
    fn wait_for_data(&mut self, at_least: usize, wanted: usize) -> io::Result<()> {
        self.side.look_for(wanted)?;
        match self.side.wait_for(at_least.max(1))? {
            Found::Enough | Found::Ended(RingError::PeerClosed) => Ok(()),
            // What it did commit comes first.
            Found::Ended(_) if self.side.available() > 0 => Ok(()),
            Found::Ended(end) => Err(end.into()),
        }
    }

    /// Bytes that there are now, committed and not released.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupted.
    pub fn unread(&mut self) -> io::Result<usize> {
        self.side.look_for(usize::MAX)?;
        Ok(self.side.available())
    }

    /// The most bytes that the ring holds.
    pub fn capacity(&self) -> usize {
        self.side.capacity()
    }

    /// What this end did since it was attached: the bytes that went out; the system calls made to
    /// sleep, to wake the producer and to look whether it lives; and, as would-blocks, the times that
    /// there was too little data at first. No system call moves bytes.
    pub fn counts(&self) -> Counts {
        self.side.counts()
    }

    /// How to wait for data; see [`Producer::set_wait`](super::Producer::set_wait).
    pub fn set_wait(&mut self, wait: Wait) {
        self.side.set_wait(wait);
    }

    /// The longest to wait at a time, then the error is `TimedOut`. `None`, at
    /// first: as long as it takes.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.side.set_timeout(timeout);
    }

    /// By what the producer's death is noticed; see [`Producer::watch`](super::Producer::watch).
    pub fn watch(&mut self, peer: Peer) {
        self.side.watch(peer);
    }

    /// How the producer's process is. There may be data left, whatever it is.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupted.
    pub fn peer_state(&self) -> io::Result<PeerState> {
        self.side.peer_state()
    }
}

/// Copies out what there is, at least one byte before the end of the data.
impl Read for Consumer {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        self.wait_for_data(1, into.len())?;
        let n = into.len().min(self.side.available());
        let position = self.side.position();
        self.side.memory_mut().copy_out(position, &mut into[..n]);
        self.side.leave(n);
        Ok(n)
    }
}

/// The shared memory: whoever has it can read and write what is in the ring.
impl AsFd for Consumer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.side.memory().as_fd()
    }
}
