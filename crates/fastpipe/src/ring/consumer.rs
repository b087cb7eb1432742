//! [`Consumer`]: the end that bytes come out at.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::cursor::Role;
use super::ends::both_ends;
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

both_ends!(Consumer, "consumer", "Producer", "producer", "data");

impl Consumer {
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
        match self.side.wait_for(at_least.max(1), wanted)? {
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
