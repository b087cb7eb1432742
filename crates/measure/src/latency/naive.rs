//! The exchanges that deadlock if a message is larger than the channel's capacity.
//!
//! With short reads, the sender writes a message and reads once, the echo reads once and
//! answers with the bytes it got. No read is repeated for the rest of a message, so the
//! rests add up until both ends block in their write: neither reads again.
//!
//! If both ends write first, each blocks in its first write that exceeds the capacity.
//! The sender is that of the closed loop. The echo sends without waiting for a message.

use anyhow::ensure;

use super::closed::{WRONG_MESSAGE, round_trip, timed, warm_up_with};
use super::port::Port;
use super::spec::{Outcome, Spec};
use crate::endpoint::counters::monotonic_ns as now_ns;

/// Runs the sender that reads once in a round trip.
pub(super) fn send_with_short_reads(port: &mut Port, spec: &Spec) -> anyhow::Result<Outcome> {
    let mut short_reads = 0;
    let mut trip = |port: &mut Port, number| {
        port.make(number)?;
        let started = now_ns();
        port.send()?;
        let bytes = port.receive_once()?;
        let ns = now_ns() - started;
        short_reads += u64::from(bytes < spec.size);
        // After a short read, what is read begins in the middle of a message.
        ensure!(
            short_reads > 0 || port.has_same_ends(number),
            "{WRONG_MESSAGE}"
        );
        Ok((ns, short_reads))
    };
    let mut before = 0;
    let first = warm_up_with(port, |port, number| {
        (_, before) = trip(port, number)?;
        Ok(())
    })?;
    let mut after = before;
    let outcome = timed(port, spec, first, |port, number| {
        let (ns, short_reads) = trip(port, number)?;
        after = short_reads;
        Ok(ns)
    })?;
    Ok(Outcome {
        short_reads: after - before,
        ..outcome
    })
}

/// Runs the echo that reads once before each answer, until the sender leaves.
pub(super) fn echo_with_short_reads(port: &mut Port) -> anyhow::Result<Outcome> {
    loop {
        let bytes = port.receive_once()?;
        port.send_first(bytes)?;
    }
}

/// Runs the echo that writes first, until the sender leaves.
pub(super) fn echo_writing_first(port: &mut Port) -> anyhow::Result<Outcome> {
    let mut number = 0;
    loop {
        round_trip(port, number)?;
        number += 1;
    }
}
