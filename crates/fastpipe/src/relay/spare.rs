//! Empty pipes, for the next copy that needs one.
//!
//! A copy in the runtime keeps a pipe only while there are bytes in it. So a thousand connections that
//! wait need none: an unprivileged user's pipes have 16 MiB together before they become small
//! (fs.pipe-user-pages-soft; pipe(7)).

use std::sync::Mutex;

use super::private::PrivatePipe;
use crate::fork::Origin;

/// More are closed.
const MAX_SPARE: usize = 16;

/// With the process that put it here: a forked child shares its parent's pipes.
static SPARE: Mutex<Vec<(Origin, PrivatePipe)>> = Mutex::new(Vec::new());

/// Returns an empty pipe, if there is one.
pub(super) fn take() -> Option<PrivatePipe> {
    // Not while another thread has the lock: in a forked child it would have it for ever.
    let mut spare = SPARE.try_lock().ok()?;
    while let Some((origin, pipe)) = spare.pop() {
        if origin.is_this_process() {
            return Some(pipe);
        }
    }
    None
}

/// Keeps a pipe that must be empty, or closes it.
pub(super) fn put(pipe: PrivatePipe) {
    debug_assert_eq!(pipe.held(), 0);
    if let Ok(mut spare) = SPARE.try_lock()
        && spare.len() < MAX_SPARE
    {
        spare.push((Origin::this_process(), pipe));
    }
}
