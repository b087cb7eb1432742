//! Messages with boundaries: each begins with its length, in bytes, and a multiple of [`HEADER`] bytes
//! long, so that lengths and contents are aligned.

use std::io::{Error, ErrorKind, Result};

use super::error::RingError;
use super::{Consumer, Producer};

/// Length of a message's length, in bytes.
const HEADER: usize = 8;

/// Number of bytes that a message takes up; `None` if they are more than half of the capacity.
fn frame_len(len: u64, capacity: usize) -> Option<usize> {
    let len = usize::try_from(len).ok()?;
    let whole = len.checked_next_multiple_of(HEADER)?.checked_add(HEADER)?;
    (whole <= capacity / 2).then_some(whole)
}

impl Producer {
    /// Sends a message, which [`Consumer::recv`] returns as a whole. Waits for its room.
    ///
    /// Messages and bytes ([`lend`](Self::lend), [`Write`](std::io::Write)) must not be mixed.
    ///
    /// # Errors
    /// Those of [`Producer`]; `InvalidInput` for a message of more than half of the capacity less 8
    /// bytes.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        let capacity = self.capacity();
        let whole = frame_len(message.len() as u64, capacity).ok_or_else(|| {
            let text = format!(
                "a message of {} bytes in a ring of {capacity}: at most {} are possible",
                message.len(),
                capacity / 2 - HEADER
            );
            Error::new(ErrorKind::InvalidInput, text)
        })?;
        let mut slot = self.lend(whole)?;
        slot.write_at(0, &(message.len() as u64).to_ne_bytes());
        slot.write_at(HEADER, message);
        slot.commit(whole);
        Ok(())
    }
}

impl Consumer {
    /// Receives the next message from [`Producer::send`], in place of what `into` contains. Returns
    /// its length; `None` at the end. Waits for it.
    ///
    /// # Errors
    /// Those of [`Consumer`]; `InvalidData` if the producer has sent anything but messages; `OutOfMemory`, and the
    /// message stays in the ring.
    pub fn recv(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>> {
        let capacity = self.capacity();
        let mut view = self.peek(HEADER)?;
        if view.is_empty() {
            return Ok(None);
        }
        let mut len = [0; HEADER];
        if view.len() < HEADER {
            return Err(RingError::NotAMessage.into());
        }
        view.read_at(0, &mut len);
        // The producer may change it meanwhile: it is read once.
        let len = u64::from_ne_bytes(len);
        let whole = frame_len(len, capacity).ok_or(RingError::NotAMessage)?;
        let mut view = self.peek(whole)?;
        if view.len() < whole {
            return Err(RingError::NotAMessage.into());
        }
        into.clear();
        into.try_reserve(len as usize)?;
        into.resize(len as usize, 0);
        view.read_at(HEADER, into);
        view.release(whole);
        Ok(Some(into.len()))
    }
}
