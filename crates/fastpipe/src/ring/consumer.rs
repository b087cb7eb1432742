//! [`Consumer`]: the end that takes bytes out of a ring.

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
use super::side::{RingSide, WaitOutcome};
use crate::transfer::Counts;
use crate::wait::Wait;

/// The end that takes bytes out of a ring.
///
/// Bytes are used in place ([`peek`](Self::peek)) or copied ([`Read`]). When the
/// producer has been dropped and everything was read, these return an empty view
/// and `Ok(0)`. If the producer died there is an error instead, after all bytes
/// that it had committed.
///
/// # Errors
/// Of all methods that wait for data:
///
/// | kind | [`RingError`] | |
/// |---|---|---|
/// | `ConnectionReset` | `PeerDied` | the producer's process has died, or it dropped its end while panicking |
/// | `InvalidData` | `Corrupt` | the shared header is invalid |
/// | `TimedOut` | `TimedOut` | see [`set_timeout`](Self::set_timeout) |
/// | `WouldBlock` | | there is no data, under [`Wait::Never`] |
#[derive(Debug)]
pub struct Consumer {
    side: RingSide,
}

both_ends!(Consumer, "consumer", "Producer", "producer", "data");

impl Consumer {
    /// Returns at least `at_least` bytes, and at least one: all that are known to be
    /// there, contiguous. Waits for them. There are fewer only at the end of the
    /// data, and none after it.
    ///
    /// # Errors
    /// Those of [`Consumer`]; `InvalidInput` for more than half of the capacity,
    /// since both ends could then wait for each other.
    #[inline]
    pub fn peek(&mut self, at_least: usize) -> io::Result<View<'_>> {
        self.wait_for_data(at_least, at_least)?;
        Ok(View::new(&mut self.side))
    }

    /// Waits for `at_least` bytes or the end; refreshes the position if fewer than
    /// `wanted` are known to be there.
    #[inline]
    fn wait_for_data(&mut self, at_least: usize, wanted: usize) -> io::Result<()> {
        match self.side.wait_for(at_least.max(1), wanted)? {
            WaitOutcome::Enough | WaitOutcome::Ended(RingError::PeerClosed) => Ok(()),
            // Committed bytes come before the error.
            WaitOutcome::Ended(_) if self.side.available() > 0 => Ok(()),
            WaitOutcome::Ended(end) => Err(end.into()),
        }
    }

    /// Returns the number of bytes committed and not released, at the moment.
    ///
    /// # Errors
    /// `InvalidData` if the shared header is corrupt.
    pub fn unread(&mut self) -> io::Result<usize> {
        self.side.refresh_for(usize::MAX)?;
        Ok(self.side.available())
    }
}

/// Copies the available bytes, at least one before the end of the data.
impl Read for Consumer {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        self.wait_for_data(1, into.len())?;
        let n = into.len().min(self.side.available());
        let offset = self.side.offset();
        self.side.memory_mut().copy_out(offset, &mut into[..n]);
        self.side.publish(n);
        Ok(n)
    }
}
