//! The closed loop: the next message leaves when the last has come back. Each
//! end sends only when the other one reads, so that messages of any size get
//! through, whatever the channel holds.

use anyhow::ensure;

use super::histogram::Latencies;
use super::message::Message;
use super::now_ns;
use super::port::{Port, complaint};
use super::spec::{Length, Outcome, Spec};

/// The warm-up ends after so many trips or nanoseconds.
const WARM_UP_TRIPS: u64 = 500;
const WARM_UP_NS: u64 = 10_000_000;

/// What the sender does.
pub(super) fn send(port: &mut Port, spec: &Spec) -> anyhow::Result<Outcome> {
    let mut number = warm_up(port, spec)?;
    timed(port, spec, &mut number)
}

/// One round trip. Returns its nanoseconds.
pub(super) fn trip(port: &mut Port, message: &Message, back: &mut [u8]) -> anyhow::Result<u64> {
    let started = now_ns();
    port.send(message.bytes()).map_err(complaint)?;
    port.receive(back).map_err(complaint)?;
    Ok(now_ns() - started)
}

/// Trips that don't count, whose every byte is looked at. Returns how many.
pub(super) fn warm_up(port: &mut Port, spec: &Spec) -> anyhow::Result<u64> {
    let mut message = Message::new(spec.kind, spec.size);
    let mut back = vec![0; spec.size];
    let started = now_ns();
    let mut number = 0;
    // Large messages need no more than three.
    while number < 3 || number < WARM_UP_TRIPS && now_ns() - started < WARM_UP_NS {
        message.number(number);
        trip(port, &message, &mut back)?;
        ensure!(message.came_back_whole(&back), "{WRONG}");
        back.fill(0);
        number += 1;
    }
    Ok(number)
}

/// What is wrong where a message is not what was sent.
pub(super) const WRONG: &str = "a message came back with other bytes than it had";

/// The trips that count.
fn timed(port: &mut Port, spec: &Spec, number: &mut u64) -> anyhow::Result<Outcome> {
    let mut message = Message::new(spec.kind, spec.size);
    let mut back = vec![0; spec.size];
    let mut latencies = Latencies::default();
    let started = now_ns();
    let goes_on = |done: u64, now: u64| match spec.length {
        Length::Count(count) => done < count,
        Length::Time(ns) => now - started < ns,
    };
    let mut now = started;
    // One at least, so that there is something to tell.
    while latencies.is_empty() || goes_on(latencies.len(), now) {
        message.number(*number);
        latencies.record(trip(port, &message, &mut back)?);
        ensure!(message.came_back(&back), "{WRONG}");
        *number += 1;
        now = now_ns();
    }
    Ok(Outcome {
        counts: latencies.counts(),
        seconds: (now - started) as f64 / 1e9,
        unanswered: 0,
    })
}

/// What the echo does, until the sender leaves.
pub(super) fn echo(port: &mut Port, spec: &Spec) -> anyhow::Result<Outcome> {
    let mut message = vec![0; spec.size];
    loop {
        port.receive(&mut message).map_err(complaint)?;
        port.send(&message).map_err(complaint)?;
    }
}
