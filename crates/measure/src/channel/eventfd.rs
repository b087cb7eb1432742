//! An eventfd: a counter, no data.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use super::OpenChannel;
use crate::failure::{TrialError, open_error};
use crate::record::{Granted, NotRun};

/// Bytes of an eventfd's value (eventfd(2)).
pub const BYTES: usize = 8;

/// Creates an eventfd. EFD_SEMAPHORE makes each read return one message; without it,
/// one read takes all messages written so far (eventfd(2)).
///
/// # Errors
/// [`TrialError`].
pub fn open(message: usize) -> Result<OpenChannel, TrialError> {
    if message != BYTES {
        let reason = format!("a message must have {BYTES} bytes: an eventfd carries one number");
        return Err(NotRun::limit(reason).into());
    }
    let fd: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
        .map_err(open_error("an eventfd"))?;
    Ok(OpenChannel {
        write_end: fd.try_clone().map_err(open_error("an eventfd"))?,
        read_end: fd,
        granted: Granted::default(),
    })
}
