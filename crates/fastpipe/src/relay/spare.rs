//! Empty pipes, for the next copy that needs one.
//!
//! A copy in the runtime keeps a pipe only while there are bytes in it. So a thousand connections that
//! wait need none: an unprivileged user's pipes have 64 MiB together before they become small
//! (fs.pipe-user-pages-soft; pipe(7)).

use std::sync::Mutex;

use super::private::PrivatePipe;

/// More are closed.
const MAX_SPARE: usize = 8;

static SPARE: Mutex<Vec<PrivatePipe>> = Mutex::new(Vec::new());

/// Returns an empty pipe, if there is one.
pub(super) fn take() -> Option<PrivatePipe> {
    // Not while another thread has the lock: in a forked child it would have it for ever.
    let mut spare = SPARE.try_lock().ok()?;
    while let Some(pipe) = spare.pop() {
        // A forked child shares its parent's.
        if pipe.is_ours() {
            return Some(pipe);
        }
    }
    None
}

/// Keeps a pipe that must be empty, or closes it.
pub(super) fn put(pipe: PrivatePipe) {
    debug_assert_eq!(pipe.held(), 0);
    if pipe.is_ours()
        && let Ok(mut spare) = SPARE.try_lock()
        && spare.len() < MAX_SPARE
    {
        spare.push(pipe);
    }
}
