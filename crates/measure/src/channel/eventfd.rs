//! An eventfd: a counter, no data.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use super::open::{Channel, cant, over_limit};
use crate::session::TrialError;

/// Bytes of an eventfd's value (eventfd(2)).
pub const BYTES: usize = 8;

/// An eventfd for messages of its size. As a semaphore, so that each message is read
/// by itself: otherwise one read takes all that were written (eventfd(2)).
///
/// # Errors
/// [`TrialError`].
pub fn open(message: usize) -> Result<Channel, TrialError> {
    if message != BYTES {
        return Err(over_limit(
            BYTES,
            "and at least: an eventfd carries one 64-bit number, no data",
        ));
    }
    let made: OwnedFd =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE).map_err(cant("an eventfd"))?;
    Ok(Channel {
        write_end: Some(made.try_clone().map_err(cant("an eventfd"))?),
        read_end: Some(made),
        ..Channel::default()
    })
}
