//! The closed loop: the next message leaves when the last has come back. Each
//! end sends only when the other one reads, so that messages of any size get
//! through, whatever the channel holds.

use anyhow::ensure;

use super::histogram::Latencies;
use super::port::Port;
use super::spec::{Length, Outcome, Spec};
use crate::endpoint::counters::{Meter, monotonic_ns as now_ns};

/// The warm-up ends after this many trips or nanoseconds.
const WARM_UP_TRIPS: u64 = 500;
const WARM_UP_NS: u64 = 10_000_000;

/// Runs the sender.
pub(super) fn send(port: &mut Port, spec: &Spec) -> anyhow::Result<Outcome> {
    let mut number = warm_up(port)?;
    timed(port, spec, &mut number)
}

/// One round trip. Returns its nanoseconds.
pub(super) fn trip(port: &mut Port, number: u64) -> anyhow::Result<u64> {
    port.make(number)?;
    let started = now_ns();
    port.send()?;
    port.receive()?;
    Ok(now_ns() - started)
}

/// Runs trips that are not timed and compares every byte. Returns how many.
pub(super) fn warm_up(port: &mut Port) -> anyhow::Result<u64> {
    let started = now_ns();
    let mut number = 0;
    port.copy_all(true);
    // Large messages need no more than three.
    while number < 3 || number < WARM_UP_TRIPS && now_ns() - started < WARM_UP_NS {
        trip(port, number)?;
        ensure!(port.is_intact(number), "{WRONG}");
        number += 1;
    }
    port.copy_all(false);
    Ok(number)
}

/// What is wrong where a message is not what was sent.
pub(super) const WRONG: &str = "a message came back with other bytes than it had";

/// Runs the timed trips.
fn timed(port: &mut Port, spec: &Spec, number: &mut u64) -> anyhow::Result<Outcome> {
    let mut latencies = Latencies::default();
    let meter = Meter::new();
    let before = meter.used();
    let started = now_ns();
    let goes_on = |done: u64, now: u64| match spec.length {
        Length::Count(count) => done < count,
        Length::Time(ns) => now - started < ns,
    };
    let mut now = started;
    // One at least, so that there is something to tell.
    while latencies.is_empty() || goes_on(latencies.len(), now) {
        latencies.record(trip(port, *number)?);
        ensure!(port.has_same_ends(*number), "{WRONG}");
        *number += 1;
        now = now_ns();
    }
    Ok(Outcome {
        counts: latencies.counts(),
        seconds: (now - started) as f64 / 1e9,
        unanswered: 0,
        run_delay_s: meter.used().since(&before).run_delay_s,
        zerocopy: port.zerocopy(),
    })
}

/// Runs the echo until the sender leaves.
pub(super) fn echo(port: &mut Port) -> anyhow::Result<Outcome> {
    loop {
        port.receive()?;
        port.send()?;
    }
}
