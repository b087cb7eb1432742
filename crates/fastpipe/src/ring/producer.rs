//! [`Producer`]: the end that puts bytes into a ring.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::cursor::Role;
use super::ends::both_ends;
use super::handover;
use super::in_place::Slot;
use super::memory::Memory;
use super::peer::{Peer, PeerState};
use super::side::{RingSide, WaitOutcome};
use crate::transfer::Counts;
use crate::wait::Wait;

/// The end that puts bytes into a ring.
///
/// Bytes are made in place ([`lend`](Self::lend)) or copied ([`Write`]). The
/// consumer can read them at once; there is nothing to flush.
///
/// Dropping the producer marks the end of the data. Dropping it while panicking,
/// and the death of its process, show the consumer that the data is incomplete.
///
/// # Errors
/// Of all methods that wait for room:
///
/// | kind | [`RingError`](super::RingError) | |
/// |---|---|---|
/// | `BrokenPipe` | `PeerClosed` | the consumer was dropped |
/// | `ConnectionReset` | `PeerDied` | the consumer's process has died (noticed while there is no room), or it dropped its end while panicking |
/// | `InvalidData` | `Corrupt` | the shared header is invalid |
/// | `TimedOut` | `TimedOut` | see [`set_timeout`](Self::set_timeout) |
/// | `WouldBlock` | | there is no room, under [`Wait::Never`] |
#[derive(Debug)]
pub struct Producer {
    side: RingSide,
}

both_ends!(Producer, "producer", "Consumer", "consumer", "room");

impl Producer {
    /// Lends room for at least `at_least` bytes, and at least one: all room known to
    /// be free, contiguous. Waits for it.
    ///
    /// # Errors
    /// Those of [`Producer`]; `InvalidInput` for more than half of the capacity,
    /// since both ends could then wait for each other.
    #[inline]
    pub fn lend(&mut self, at_least: usize) -> io::Result<Slot<'_>> {
        self.wait_for_room(at_least, at_least)?;
        Ok(Slot::new(&mut self.side))
    }

    /// Waits for room for `at_least` bytes; refreshes the position if fewer than
    /// `wanted` are known to be free.
    #[inline]
    fn wait_for_room(&mut self, at_least: usize, wanted: usize) -> io::Result<()> {
        if let Some(end) = self.side.check_end()? {
            return Err(end.into());
        }
        match self.side.wait_for(at_least.max(1), wanted)? {
            WaitOutcome::Enough => Ok(()),
            WaitOutcome::Ended(end) => Err(end.into()),
        }
    }

    /// Waits until the consumer has released all bytes. Dropping the producer does not wait, so bytes
    /// that the consumer never takes are lost without an error.
    ///
    /// # Errors
    /// Those of [`Producer`].
    pub fn wait_drained(&mut self) -> io::Result<()> {
        match self.side.wait_for_all()? {
            WaitOutcome::Enough => Ok(()),
            WaitOutcome::Ended(end) => Err(end.into()),
        }
    }

    /// Returns the number of free bytes, at the moment.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupt.
    pub fn room(&mut self) -> io::Result<usize> {
        self.side.refresh_for(usize::MAX)?;
        Ok(self.side.available())
    }
}

/// Copies as many bytes as there is room for, at least one. Flushing does nothing.
impl Write for Producer {
    #[inline]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        self.wait_for_room(1, data.len())?;
        let n = data.len().min(self.side.available());
        let offset = self.side.offset();
        self.side.memory_mut().copy_in(offset, &data[..n]);
        self.side.publish(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
