//! The open loop: message i is due at start + i / rate, whatever happened to earlier
//! ones, and its round trip is timed from then.
//!
//! A loop that sends when the previous answer has arrived, or that times a round trip
//! from the send, misses the messages that a stall delays (Gil Tene's "coordinated
//! omission"). Here each of them is late by the rest of the stall at the time it was
//! due.

use anyhow::ensure;
use rustix::event::PollFlags;

use super::closed::{WRONG_MESSAGE, warm_up};
use super::histogram::Latencies;
use super::port::{AttemptOutcome, Port};
use super::spec::{Length, RoundTripOutcome, Spec};
use crate::endpoint::counters::{Meter, monotonic_ns as now_ns};
use crate::spec::Waiting;

/// The sender stops sleeping this long before a message is due, since a timer may
/// be late by tens of microseconds.
const AWAKE_NS: u64 = 200_000;
/// The time beyond three times its plan after which a loop gives up.
const MAX_LATE_NS: u64 = 1_000_000_000;

/// The times at which messages are due, and the latencies of their answers. It does no
/// I/O and does not read the clock.
#[derive(Debug)]
struct SendTimes {
    start_ns: u64,
    rate: f64,
    count: u64,
    sent: u64,
    answered: u64,
    latencies: Latencies,
}

impl SendTimes {
    fn new(start_ns: u64, rate: f64, length: Length) -> Self {
        let count = match length {
            Length::Count(count) => count,
            Length::Time(ns) => (ns as f64 / 1e9 * rate).round() as u64,
        };
        SendTimes {
            start_ns,
            rate,
            count: count.max(1),
            sent: 0,
            answered: 0,
            latencies: Latencies::default(),
        }
    }

    /// The time at which a message is due.
    fn due(&self, number: u64) -> u64 {
        self.start_ns + (number as f64 / self.rate * 1e9) as u64
    }

    /// The time at which the next message is due; `None` if all are sent.
    fn next_due(&self) -> Option<u64> {
        (self.sent < self.count).then(|| self.due(self.sent))
    }

    /// Records the answer to the oldest unanswered message: messages stay in order.
    fn record_answer(&mut self, now: u64) {
        self.latencies
            .record(now.saturating_sub(self.due(self.answered)));
        self.answered += 1;
    }

    fn is_over(&self) -> bool {
        self.answered == self.count
    }

    /// Whether the rate can't be reached: the loop has taken a second longer than three
    /// times its plan.
    fn is_too_slow(&self, now: u64) -> bool {
        let planned = self.due(self.count) - self.start_ns;
        now.saturating_sub(self.start_ns) > 3 * planned + MAX_LATE_NS
    }

    /// The duration of the loop in seconds. It includes the interval after the last
    /// message, even if the last answer arrives earlier.
    fn seconds(&self, now: u64) -> f64 {
        let until = now.max(self.due(self.count));
        (until - self.start_ns) as f64 / 1e9
    }

    /// Records the unanswered messages, with the time they have waited so far. Returns
    /// their number.
    fn abandon(&mut self, now: u64) -> u64 {
        let missing = self.count - self.answered;
        while !self.is_over() {
            self.record_answer(now);
        }
        missing
    }
}

/// Runs the sender. It never blocks in a call and reads whatever has arrived, so that
/// neither end waits for the other to read.
pub(super) fn send(port: &mut Port, spec: &Spec, rate: f64) -> anyhow::Result<RoundTripOutcome> {
    let first = warm_up(port)?;
    port.never_sleep()?;
    let meter = Meter::default();
    let before = meter.used();
    let start = now_ns() + 1_000_000;
    let mut traffic = Traffic {
        times: SendTimes::new(start, rate, spec.length),
        is_made: false,
        first,
    };
    let mut unanswered = 0;
    let mut now = now_ns();
    while !traffic.times.is_over() {
        let received = traffic.receive(port)?;
        now = now_ns();
        if traffic.times.is_too_slow(now) {
            unanswered = traffic.times.abandon(now);
            break;
        }
        let full = traffic.send(port, now)?;
        if !received && spec.wait != Waiting::Spin {
            wait(port, &traffic.times, now, full)?;
        }
    }
    Ok(RoundTripOutcome {
        counts: traffic.times.latencies.counts(),
        seconds: traffic.times.seconds(now),
        unanswered,
        short_reads: 0,
        run_delay_s: meter.used().since(&before).run_delay_s,
    })
}

/// What has no room for the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// The channel is full.
    Channel,
    /// The memory of messages is in use until answers arrive.
    Memory,
}

/// Waits for an answer, for room where the channel is full, or until shortly
/// before the next message is due.
fn wait(port: &mut Port, times: &SendTimes, now: u64, full: Option<Full>) -> anyhow::Result<()> {
    let events = match full {
        Some(Full::Channel) => PollFlags::IN | PollFlags::OUT,
        Some(Full::Memory) | None => PollFlags::IN,
    };
    // Wakes up now and then to check whether the loop is too slow.
    let timeout = match times.next_due() {
        Some(due) if full.is_none() => {
            let early = if port.apart { AWAKE_NS } else { 0 };
            due.saturating_sub(now).saturating_sub(early)
        }
        _ => MAX_LATE_NS / 10,
    };
    if timeout > 0 {
        port.sleep(events, timeout)?;
    }
    Ok(())
}

/// The messages in flight in both directions.
struct Traffic {
    times: SendTimes,
    /// Whether the next message has been produced already.
    is_made: bool,
    /// The number of the first message.
    first: u64,
}

impl Traffic {
    /// Receives what has arrived. Returns whether anything had.
    fn receive(&mut self, port: &mut Port) -> anyhow::Result<bool> {
        let moved = port.try_receive()?;
        if moved == Some(AttemptOutcome::All) {
            let number = self.first + self.times.answered;
            self.times.record_answer(now_ns());
            ensure!(port.has_same_ends(number), "{WRONG_MESSAGE}");
        }
        Ok(moved.is_some())
    }

    /// Makes one call that sends, if a message is due. Returns what blocks it, if anything.
    fn send(&mut self, port: &mut Port, now: u64) -> anyhow::Result<Option<Full>> {
        let times = &mut self.times;
        if times.next_due().is_none_or(|due| due > now) {
            return Ok(None);
        }
        if !self.is_made {
            let in_flight = times.sent - times.answered;
            let room = port.max_in_flight().is_none_or(|max| in_flight < max);
            if !room || !port.try_make(self.first + times.sent)? {
                return Ok(Some(Full::Memory));
            }
            self.is_made = true;
        }
        match port.try_send()? {
            None => return Ok(Some(Full::Channel)),
            Some(AttemptOutcome::Part) => {}
            Some(AttemptOutcome::All) => {
                times.sent += 1;
                self.is_made = false;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A service that answers within 20 us but stalls for a while.
    fn through_a_stall(stall: std::ops::Range<u64>) -> Latencies {
        let mut times = SendTimes::new(5 * MS, 1000.0, Length::Count(1000));
        for number in 0..1000 {
            let due = times.due(number);
            times.sent += 1;
            let served = if stall.contains(&due) { stall.end } else { due };
            times.record_answer(served + 20_000);
        }
        assert!(times.is_over() && times.next_due().is_none());
        times.latencies
    }

    fn longer_than(latencies: &Latencies, ns: u64) -> u64 {
        let counts = latencies.counts();
        let long = counts.iter().filter(|(at, _)| *at > ns);
        long.map(|(_, count)| count).sum()
    }

    #[test]
    fn a_stall_delays_every_message_due_in_it() {
        let latencies = through_a_stall(405 * MS..505 * MS);
        assert_eq!(latencies.len(), 1000);
        assert_eq!(longer_than(&latencies, 100_000), 100);
        assert_eq!(longer_than(&latencies, 50 * MS + MS / 2), 50);
        assert!((latencies.max_us() / 100_020.0 - 1.0).abs() < 0.01);
        assert!((latencies.percentile_us(50.0) - 20.0).abs() < 0.1);
        assert!(latencies.percentile_us(99.0) > 85_000.0);
    }

    #[test]
    fn without_a_stall_nothing_is_late() {
        assert_eq!(longer_than(&through_a_stall(0..0), 21_000), 0);
    }

    #[test]
    fn the_rate_of_few_messages_is_that_of_the_plan() {
        for (count, rate, seconds) in [(1, 1.0, 1.0), (4, 1.0, 4.0), (1000, 1000.0, 1.0)] {
            let times = SendTimes::new(7 * MS, rate, Length::Count(count));
            let last = times.due(count - 1) + 20_000;
            assert_eq!(times.seconds(last), seconds);
            // Late answers make it longer.
            let late = times.due(count) + 500 * MS;
            assert_eq!(times.seconds(late), seconds + 0.5);
        }
    }

    #[test]
    fn unanswered_messages_count_with_the_time_waited() {
        let mut times = SendTimes::new(0, 1000.0, Length::Time(10 * MS));
        assert_eq!(times.count, 10);
        for _ in 0..4 {
            times.record_answer(times.due(times.answered) + 1000);
        }
        assert!(!times.is_too_slow(1000 * MS) && times.is_too_slow(1031 * MS));
        assert_eq!(times.abandon(1031 * MS), 6);
        assert_eq!(times.latencies.len(), 10);
        assert_eq!(longer_than(&times.latencies, 1000 * MS), 6);
    }
}
