//! What reading, writing and closing do.

pub(super) mod atomicity;
pub(super) mod bytes;
pub(super) mod closing;
pub(super) mod flags;
pub(super) mod packets;
pub(super) mod readiness;
mod shell;
pub(super) mod sigpipe;
