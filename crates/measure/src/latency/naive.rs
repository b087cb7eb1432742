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
use super::spec::{RoundTripOutcome, Spec};
use crate::endpoint::counters::monotonic_ns as now_ns;

/// Runs the sender that reads once in a round trip.
pub(super) fn send_with_short_reads(
    port: &mut Port,
    spec: &Spec,
) -> anyhow::Result<RoundTripOutcome> {
    let mut short_reads = 0;
    let first = warm_up_with(port, |port, number| {
        trip_with_short_reads(port, number, spec.size, &mut short_reads).map(drop)
    })?;
    let in_warm_up = short_reads;
    let outcome = timed(port, spec, first, |port, number| {
        trip_with_short_reads(port, number, spec.size, &mut short_reads)
    })?;
    Ok(RoundTripOutcome {
        short_reads: short_reads - in_warm_up,
        ..outcome
    })
}

/// Makes one round trip with messages of `size` bytes, and counts its read if it is short.
/// Returns the duration in nanoseconds.
fn trip_with_short_reads(
    port: &mut Port,
    number: u64,
    size: usize,
    short_reads: &mut u64,
) -> anyhow::Result<u64> {
    port.make(number)?;
    let started = now_ns();
    port.send()?;
    let bytes = port.receive_once()?;
    let ns = now_ns() - started;
    *short_reads += u64::from(bytes < size);
    // After a short read, what is read begins in the middle of a message.
    ensure!(
        *short_reads > 0 || port.has_same_ends(number),
        "{WRONG_MESSAGE}"
    );
    Ok(ns)
}

/// Runs the echo that reads once before each answer, until the sender leaves.
pub(super) fn echo_with_short_reads(port: &mut Port) -> anyhow::Result<RoundTripOutcome> {
    loop {
        let bytes = port.receive_once()?;
        port.send_first(bytes)?;
    }
}

/// Runs the echo that writes first, until the sender leaves.
pub(super) fn echo_writing_first(port: &mut Port) -> anyhow::Result<RoundTripOutcome> {
    let mut number = 0;
    loop {
        round_trip(port, number)?;
        number += 1;
    }
}
