//! The closed loop: the next message is sent when the previous one has come back. Each
//! end sends only while the other one reads, so messages may be larger than the
//! channel's capacity.

use anyhow::ensure;

use super::histogram::Latencies;
use super::port::Port;
use super::spec::{Length, RoundTripOutcome, Spec};
use crate::endpoint::counters::{Meter, monotonic_ns as now_ns};

/// The warm-up ends after this many trips or nanoseconds.
const WARM_UP_TRIPS: u64 = 500;
const WARM_UP_NS: u64 = 10_000_000;

/// Runs the sender.
pub(super) fn send(port: &mut Port, spec: &Spec) -> anyhow::Result<RoundTripOutcome> {
    let first = warm_up(port)?;
    timed(port, spec, first, |port, number| {
        let ns = round_trip(port, number)?;
        ensure!(port.has_same_ends(number), "{WRONG_MESSAGE}");
        Ok(ns)
    })
}

/// Makes one round trip. Returns its duration in nanoseconds.
pub(super) fn round_trip(port: &mut Port, number: u64) -> anyhow::Result<u64> {
    port.make(number)?;
    let started = now_ns();
    port.send()?;
    port.receive()?;
    Ok(now_ns() - started)
}

/// Makes round trips that are not timed, and verifies every byte. Returns their number.
pub(super) fn warm_up(port: &mut Port) -> anyhow::Result<u64> {
    port.copy_all(true);
    let number = warm_up_with(port, |port, number| {
        round_trip(port, number)?;
        ensure!(port.is_intact(number), "{WRONG_MESSAGE}");
        Ok(())
    })?;
    port.copy_all(false);
    Ok(number)
}

/// Makes round trips that are not timed. Returns their number.
pub(super) fn warm_up_with(
    port: &mut Port,
    mut trip: impl FnMut(&mut Port, u64) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let started = now_ns();
    let mut number = 0;
    // Three are enough for large messages.
    while number < 3 || number < WARM_UP_TRIPS && now_ns() - started < WARM_UP_NS {
        trip(port, number)?;
        number += 1;
    }
    Ok(number)
}

/// The error for a message that differs from the one sent.
pub(super) const WRONG_MESSAGE: &str = "a message came back with different bytes";

/// Makes the timed round trips. `trip` makes one and returns its nanoseconds; the first
/// has the number `number`.
pub(super) fn timed(
    port: &mut Port,
    spec: &Spec,
    mut number: u64,
    mut trip: impl FnMut(&mut Port, u64) -> anyhow::Result<u64>,
) -> anyhow::Result<RoundTripOutcome> {
    let mut latencies = Latencies::default();
    let meter = Meter::default();
    let before = meter.used();
    let started = now_ns();
    let goes_on = |done: u64, now: u64| match spec.length {
        Length::Count(count) => done < count,
        Length::Time(ns) => now - started < ns,
    };
    let mut now = started;
    // At least one, so that there is a result.
    while latencies.is_empty() || goes_on(latencies.len(), now) {
        latencies.record(trip(port, number)?);
        number += 1;
        now = now_ns();
    }
    Ok(RoundTripOutcome {
        counts: latencies.counts(),
        seconds: (now - started) as f64 / 1e9,
        unanswered: 0,
        short_reads: 0,
        run_delay_s: meter.used().since(&before).run_delay_s,
    })
}

/// Runs the echo until the sender leaves.
pub(super) fn echo(port: &mut Port) -> anyhow::Result<RoundTripOutcome> {
    loop {
        port.receive()?;
        port.send()?;
    }
}
