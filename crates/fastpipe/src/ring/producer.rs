//! [`Producer`]: the end that bytes go in at.

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

both_ends!(Producer, "producer", "Consumer", "consumer", "room");

impl Producer {
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
        match self.side.wait_for(at_least.max(1), wanted)? {
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
