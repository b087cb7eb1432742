//! The naive exchange: each end sends its message, then reads the other's. If a message
//! is larger than the channel's capacity, both ends block in their write and neither
//! reads. The sender is that of the closed loop. Only the echo differs: it sends
//! without waiting for a message.

use super::closed::round_trip;
use super::port::Port;
use super::spec::Outcome;

/// Runs the echo until the sender leaves.
pub(super) fn echo(port: &mut Port) -> anyhow::Result<Outcome> {
    let mut number = 0;
    loop {
        round_trip(port, number)?;
        number += 1;
    }
}
