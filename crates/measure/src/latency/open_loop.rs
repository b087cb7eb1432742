//! The open loop: message i is due at start + i / rate, whatever became of
//! those before it, and its round trip counts from when it was due.
//!
//! A loop that sends when the last answer has come, or that counts from the
//! sending, leaves out all the messages that a stall would have held up (Gil
//! Tene's "coordinated omission"). Here each of them is late by what was left
//! of the stall when it was due.

use anyhow::ensure;
use rustix::event::PollFlags;

use super::closed::{WRONG, warm_up};
use super::histogram::Latencies;
use super::port::{Moved, Port};
use super::spec::{Length, Outcome, Spec};
use crate::endpoint::counters::{Meter, monotonic_ns as now_ns};
use crate::endpoint::spec::Waiting;

/// The sender stops sleeping this long before a message is due, since a timer may
/// be late by tens of microseconds.
const AWAKE_NS: u64 = 200_000;
/// A loop that is further behind its schedule gives up.
const MAX_LATE_NS: u64 = 1_000_000_000;

/// When messages are due, and how late their answers are: arithmetic only.
#[derive(Debug)]
struct Schedule {
    start_ns: u64,
    rate: f64,
    count: u64,
    sent: u64,
    answered: u64,
    latencies: Latencies,
}

impl Schedule {
    fn new(start_ns: u64, rate: f64, length: Length) -> Self {
        let count = match length {
            Length::Count(count) => count,
            Length::Time(ns) => (ns as f64 / 1e9 * rate).round() as u64,
        };
        Schedule {
            start_ns,
            rate,
            count: count.max(1),
            sent: 0,
            answered: 0,
            latencies: Latencies::default(),
        }
    }

    fn due(&self, number: u64) -> u64 {
        self.start_ns + (number as f64 / self.rate * 1e9) as u64
    }

    /// When the next message is due; none when all are sent.
    fn next(&self) -> Option<u64> {
        (self.sent < self.count).then(|| self.due(self.sent))
    }

    /// An answer has come: messages stay in order.
    fn answer(&mut self, now: u64) {
        self.latencies
            .record(now.saturating_sub(self.due(self.answered)));
        self.answered += 1;
    }

    fn is_over(&self) -> bool {
        self.answered == self.count
    }

    /// Whether the rate can't be reached: the loop has taken a second more than
    /// three times its planned duration.
    fn gives_up(&self, now: u64) -> bool {
        let planned = self.due(self.count) - self.start_ns;
        now.saturating_sub(self.start_ns) > 3 * planned + MAX_LATE_NS
    }

    /// How long it has been under way. All its messages take as long as their
    /// rate says, though the last one's answer comes before the next is due.
    fn seconds(&self, now: u64) -> f64 {
        let until = now.max(self.due(self.count));
        (until - self.start_ns) as f64 / 1e9
    }

    /// Those that were due and did not come back have waited until now, at
    /// least. Returns how many.
    fn abandon(&mut self, now: u64) -> u64 {
        let missing = self.count - self.answered;
        while !self.is_over() {
            self.answer(now);
        }
        missing
    }
}

/// What the sender does: it never sleeps in a call, and reads whatever has
/// come, so that neither end waits for the other to read.
pub(super) fn send(port: &mut Port, spec: &Spec, rate: f64) -> anyhow::Result<Outcome> {
    let first = warm_up(port)?;
    port.never_sleep()?;
    let meter = Meter::new();
    let before = meter.used();
    let start = now_ns() + 1_000_000;
    let mut traffic = Traffic {
        schedule: Schedule::new(start, rate, spec.length),
        made: false,
        first,
    };
    let mut unanswered = 0;
    let mut now = now_ns();
    while !traffic.schedule.is_over() {
        let received = traffic.receive(port)?;
        now = now_ns();
        if traffic.schedule.gives_up(now) {
            unanswered = traffic.schedule.abandon(now);
            break;
        }
        let full = traffic.send(port, now)?;
        if !received && spec.wait != Waiting::Spin {
            idle(port, &traffic.schedule, now, full)?;
        }
    }
    Ok(Outcome {
        counts: traffic.schedule.latencies.counts(),
        seconds: traffic.schedule.seconds(now),
        unanswered,
        run_delay_s: meter.used().since(&before).run_delay_s,
        zerocopy: port.zerocopy(),
    })
}

/// Why nothing more can be sent for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// It can.
    No,
    /// The channel has no room.
    Channel,
    /// The memory of messages is in use until answers have come.
    Memory,
}

/// Waits for an answer, for room where the channel is full, or until shortly
/// before the next message is due.
fn idle(port: &mut Port, schedule: &Schedule, now: u64, full: Full) -> anyhow::Result<()> {
    let events = match full {
        Full::Channel => PollFlags::IN | PollFlags::OUT,
        Full::No | Full::Memory => PollFlags::IN,
    };
    // A look from time to time tells whether it is hopeless.
    let timeout = match schedule.next() {
        Some(due) if full == Full::No => {
            let early = if port.apart() { AWAKE_NS } else { 0 };
            due.saturating_sub(now).saturating_sub(early)
        }
        _ => MAX_LATE_NS / 10,
    };
    if timeout > 0 {
        port.sleep(events, timeout)?;
    }
    Ok(())
}

/// The messages under way in both directions.
struct Traffic {
    schedule: Schedule,
    /// Whether the message to be sent next is there already.
    made: bool,
    /// The number of the first message.
    first: u64,
}

impl Traffic {
    /// Takes what has come. Returns whether anything had.
    fn receive(&mut self, port: &mut Port) -> anyhow::Result<bool> {
        let moved = port.try_receive()?;
        if moved == Some(Moved::All) {
            let number = self.first + self.schedule.answered;
            self.schedule.answer(now_ns());
            ensure!(port.has_same_ends(number), "{WRONG}");
        }
        Ok(moved.is_some())
    }

    /// Sends what is due, one call.
    fn send(&mut self, port: &mut Port, now: u64) -> anyhow::Result<Full> {
        let schedule = &mut self.schedule;
        if schedule.next().is_none_or(|due| due > now) {
            return Ok(Full::No);
        }
        if !self.made {
            let under_way = schedule.sent - schedule.answered;
            let room = port.max_in_flight().is_none_or(|most| under_way < most);
            if !room || !port.try_make(self.first + schedule.sent)? {
                return Ok(Full::Memory);
            }
            self.made = true;
        }
        match port.try_send()? {
            None => return Ok(Full::Channel),
            Some(Moved::Part) => {}
            Some(Moved::All) => {
                schedule.sent += 1;
                self.made = false;
            }
        }
        Ok(Full::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A service that answers within 20 us but stalls for a while.
    fn through_a_stall(stall: std::ops::Range<u64>) -> Latencies {
        let mut schedule = Schedule::new(5 * MS, 1000.0, Length::Count(1000));
        for number in 0..1000 {
            let due = schedule.due(number);
            schedule.sent += 1;
            let served = if stall.contains(&due) { stall.end } else { due };
            schedule.answer(served + 20_000);
        }
        assert!(schedule.is_over() && schedule.next().is_none());
        schedule.latencies
    }

    fn longer_than(latencies: &Latencies, ns: u64) -> u64 {
        let counts = latencies.counts();
        let long = counts.iter().filter(|(at, _)| *at > ns);
        long.map(|(_, count)| count).sum()
    }

    #[test]
    fn a_stall_is_seen_by_every_message_that_was_due_in_it() {
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
    fn few_messages_make_no_higher_rate_than_they_were_sent_at() {
        for (count, rate, seconds) in [(1, 1.0, 1.0), (4, 1.0, 4.0), (1000, 1000.0, 1.0)] {
            let schedule = Schedule::new(7 * MS, rate, Length::Count(count));
            let last = schedule.due(count - 1) + 20_000;
            assert_eq!(schedule.seconds(last), seconds);
            // Those that come late take longer.
            let late = schedule.due(count) + 500 * MS;
            assert_eq!(schedule.seconds(late), seconds + 0.5);
        }
    }

    #[test]
    fn what_never_came_back_counts_with_the_time_it_has_waited() {
        let mut schedule = Schedule::new(0, 1000.0, Length::Time(10 * MS));
        assert_eq!(schedule.count, 10);
        for _ in 0..4 {
            schedule.answer(schedule.due(schedule.answered) + 1000);
        }
        assert!(!schedule.gives_up(1000 * MS) && schedule.gives_up(1031 * MS));
        assert_eq!(schedule.abandon(1031 * MS), 6);
        assert_eq!(schedule.latencies.len(), 10);
        assert_eq!(longer_than(&schedule.latencies, 1000 * MS), 6);
    }
}
