//! [`Producer`]: the end that bytes go in at.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::cursor::Role;
use super::handover;
use super::in_place::Slot;
use super::memory::Memory;
use super::peer::{Peer, PeerState};
use super::side::{Found, Side};
use crate::transfer::Counts;
use crate::wait::Wait;

/// The end of a ring that bytes go in at.
///
/// Bytes are made in place ([`lend`](Self::lend)) or copied in ([`Write`]).
/// Either way the consumer can have them at once; there is nothing to flush.
///
/// Dropping it tells the consumer that the data ends here. A drop in a panic, and the death of
/// the process, tell it that the data is not whole.
///
/// # Errors
/// Of all that waits for room:
///
/// | kind | [`RingError`](super::RingError) | |
/// |---|---|---|
/// | `BrokenPipe` | `PeerClosed` | the consumer was dropped |
/// | `ConnectionReset` | `PeerDied` | the consumer's process is gone. Noticed while there is no room |
/// | `InvalidData` | `Corrupt` | the shared header says what can't be |
/// | `TimedOut` | `TimedOut` | see [`set_timeout`](Self::set_timeout) |
/// | `WouldBlock` | | there is no room, and [`Wait::Never`] |
#[derive(Debug)]
pub struct Producer {
    side: Side,
}

impl Producer {
    /// Makes a ring of `capacity` bytes, rounded up to a power of two of whole pages, and hands the
    /// consumer's end to the process at the other end of `stream`, which calls
    /// [`Consumer::accept`](super::Consumer::accept). Waits until it did, or for as long as the
    /// stream's read timeout says.
    ///
    /// Each of them keeps a duplicate of the stream, which is not to be shut down; the stream itself
    /// may be used on, or dropped.
    ///
    /// # Errors
    /// `InvalidInput` for no capacity and for more than [`MOST_CAPACITY`](super::MOST_CAPACITY);
    /// `ConnectionRefused` if the other process would not have it; `UnexpectedEof` if it hung up;
    /// those of memfd_create(2), fallocate(2), mmap(2), sendmsg(2) and recvmsg(2).
    pub fn offer(stream: &UnixStream, capacity: usize) -> io::Result<Self> {
        handover::offer(stream, Role::Producer, capacity).map(|side| Producer { side })
    }

    /// Takes the producer's end that the process at the other end of `stream` offers by
    /// [`Consumer::offer`](super::Consumer::offer).
    ///
    /// # Errors
    /// `InvalidData` for anything but the memory of a ring that is safe to use: sealed against
    /// resizing, of ordinary pages, of the right size, with a sane header; `ResourceBusy` if that end
    /// is in use; `UnexpectedEof` if the other process hung up; EMFILE where this process may not
    /// have another descriptor; those of recvmsg(2) and mmap(2).
    pub fn accept(stream: &UnixStream) -> io::Result<Self> {
        handover::accept(stream, Role::Producer).map(|side| Producer { side })
    }

    pub(super) fn of(memory: Memory) -> io::Result<Self> {
        Ok(Producer {
            side: Side::attach(memory, Role::Producer)?,
        })
    }

    /// Takes the producer's end of the ring in `file`, which was inherited or came in some other way.
    /// [`watch`](Self::watch) the other process, so that its death is noticed.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), but for the socket.
    pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
        Self::of(Memory::open(file)?)
    }

    /// Gives this end up to whoever takes it by [`from_fd`](Self::from_fd), in this process or
    /// another one. The descriptor is close-on-exec;
    /// [`Stdio`](std::process::Stdio) hands it to a child all the same.
    ///
    /// # Errors
    /// Those of duplicating a descriptor. The end is closed then.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        self.side.into_fd()
    }

    /// Room for at least `at_least` bytes, and at least one: all that is known
    /// to be there, in one piece. Waits for it.
    ///
    /// # Errors
    /// Those of [`Producer`]; `InvalidInput` for more than half of the capacity: both ends
    /// could wait for each other.
    #[inline]
    pub fn lend(&mut self, at_least: usize) -> io::Result<Slot<'_>> {
        self.wait_for_room(at_least, at_least)?;
        Ok(Slot::new(&mut self.side))
    }

    /// Waits for room for `at_least` bytes; looks for `wanted` first.
    #[inline]
    fn wait_for_room(&mut self, at_least: usize, wanted: usize) -> io::Result<()> {
        if let Some(end) = self.side.ended()? {
            return Err(end.into());
        }
        self.side.look_for(wanted)?;
        match self.side.wait_for(at_least.max(1))? {
            Found::Enough => Ok(()),
            Found::Ended(end) => Err(end.into()),
        }
    }

    /// Bytes that there is room for now.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupted.
    pub fn room(&mut self) -> io::Result<usize> {
        self.side.look_for(usize::MAX)?;
        Ok(self.side.available())
    }

    /// The most bytes that the ring holds.
    pub fn capacity(&self) -> usize {
        self.side.capacity()
    }

    /// What this end did since it was attached: the bytes that went in; the system calls made to
    /// sleep, to wake the consumer and to look whether it lives; and, as would-blocks, the times that
    /// there was too little room at first. No system call moves bytes.
    pub fn counts(&self) -> Counts {
        self.side.counts()
    }

    /// How to wait for room; [`Wait::Block`] at first. [`Wait::Poll`] is the same here:
    /// there is no descriptor to poll.
    pub fn set_wait(&mut self, wait: Wait) {
        self.side.set_wait(wait);
    }

    /// The longest to wait at a time, then the error is `TimedOut`. `None`, at
    /// first: as long as it takes.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.side.set_timeout(timeout);
    }

    /// By what the consumer's death is noticed. An end that was offered and accepted
    /// knows it already; without any, the death of a consumer is not noticed.
    pub fn watch(&mut self, peer: Peer) {
        self.side.watch(peer);
    }

    /// How the consumer's process is.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupted.
    pub fn peer_state(&self) -> io::Result<PeerState> {
        self.side.peer_state()
    }
}

/// Copies in what there is room for, at least one byte. Flushing does nothing.
impl Write for Producer {
    #[inline]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        self.wait_for_room(1, data.len())?;
        let n = data.len().min(self.side.available());
        let position = self.side.position();
        self.side.memory_mut().copy_in(position, &data[..n]);
        self.side.leave(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The shared memory: whoever has it can read and write what is in the ring.
impl AsFd for Producer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.side.memory().as_fd()
    }
}
