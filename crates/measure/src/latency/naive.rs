//! The exchange as it is written at first: each end sends its message, then
//! reads the other's. Beyond what the channel holds both sleep in their write,
//! and neither gets to reading. The sender does what it does in the closed loop;
//! only the other end does not wait for the message before it answers.

use super::closed::trip;
use super::port::Port;
use super::spec::Outcome;

/// Runs the echo until the sender leaves.
pub(super) fn echo(port: &mut Port) -> anyhow::Result<Outcome> {
    let mut number = 0;
    loop {
        trip(port, number)?;
        number += 1;
    }
}
