//! Watches both processes of a trial, ends a naive exchange that has been deadlocked for
//! the whole limit, and explains the deadlock.
//!
//! They are deadlocked if, at every check, both report that they are writing, both are
//! asleep (state S or D of proc_pid_stat(5)), and neither has moved a byte: then each
//! waits for the other to read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::port::{WORDS, WRITING};
use super::spec::{ExchangeMode, Naive, Spec};
use crate::failure::TrialError;
use crate::record::{ProcessState, ReadSleep, TrialDeadlock};
use crate::session::TrialWatch;
use crate::spec::ProcessRole;
use pipespeed_base::{size, text::pluralize};

/// A trial fails if nothing moves for this long.
pub(super) const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two checks of processes that may deadlock.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Checks whether the processes of a trial move data and, in the naive exchange,
/// whether they are deadlocked.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The sender and the echo.
    pids: [u32; 2],
    read_sleep: ReadSleep,
    moved: u64,
    detector: Option<Detector>,
    limit: Duration,
    size: usize,
    /// The capacity of one direction, in words.
    capacity: String,
}

impl Watcher {
    /// Creates a watcher that reports a deadlock once it has lasted for `limit`.
    pub(super) fn new(
        pids: [u32; 2],
        spec: &Spec,
        (limit, read_sleep): (Duration, ReadSleep),
        capacity: String,
    ) -> Self {
        Watcher {
            pids,
            read_sleep,
            moved: 0,
            detector: matches!(spec.mode, ExchangeMode::Naive(_)).then(Detector::default),
            limit,
            size: spec.size,
            capacity,
        }
    }
}

impl TrialWatch for Watcher {
    fn interval(&self) -> Duration {
        match self.detector {
            Some(_) => CHECK_INTERVAL,
            // At the deadline only.
            None => HANG_TIMEOUT,
        }
    }

    fn check(&mut self, words: &[AtomicU64], now: Instant) -> Result<bool, TrialError> {
        let states = [0, 1].map(|at| {
            let word = |offset: usize| words[at * WORDS + offset].load(Ordering::Relaxed);
            ProcessState {
                pid: self.pids[at],
                sleep: (self.read_sleep)(self.pids[at]),
                written: word(0),
                read: word(1),
                is_writing: word(2) == WRITING,
            }
        });
        let moved = states.iter().map(ProcessState::moved).sum();
        let moves = std::mem::replace(&mut self.moved, moved) != moved;
        let stuck = self
            .detector
            .as_mut()
            .and_then(|detector| detector.update(&states, now));
        if stuck.is_some_and(|time| time >= self.limit) {
            let deadlock = TrialDeadlock {
                round_trips: states[ProcessRole::Sender.index()].read / self.size as u64,
                seconds: self.limit.as_secs_f64(),
                capacity: self.capacity.clone(),
                processes: states,
            };
            return Err(TrialError::Deadlock(Box::new(deadlock)));
        }
        Ok(moves)
    }
}

impl TrialDeadlock {
    /// Describes the deadlock of an exchange of messages of `size` bytes.
    pub fn explain(&self, naive: Naive, size: usize) -> String {
        let process = |role: ProcessRole| {
            let state = &self.processes[role.index()];
            format!(
                "the {role} (process {}) has finished writing {} bytes and reading {}, and sleeps {}, \
                 state {}",
                state.pid,
                state.written,
                state.read,
                state.place(),
                state.sleep.letter.unwrap_or('?')
            )
        };
        let (size, capacity) = (size::exact(size as u64), &self.capacity);
        let reason = match naive {
            Naive::ShortReads => format!(
                "one read may return less than the message of {size}, and neither reads again for \
                 the rest, which adds up until each waits in its write for the other to read: \
                 {capacity}"
            ),
            Naive::WriteFirst => format!(
                "each writes its message of {size} before it reads, but {capacity}: the rest of \
                 the message waits for the other process to read"
            ),
        };
        format!(
            "deadlock after {}: {}; {}. Neither has moved a byte for {:.1} s: {reason}. Both were \
             ended.",
            pluralize(self.round_trips as usize, "round trip"),
            process(ProcessRole::Sender),
            process(ProcessRole::Echo),
            self.seconds,
        )
    }
}

/// Detects a deadlock from successive states.
#[derive(Debug, Default)]
struct Detector {
    /// Bytes that each had moved at the last check.
    moved: Option<[u64; 2]>,
    /// The check since which both have been writing and asleep without moving data.
    since: Option<Instant>,
}

impl Detector {
    /// Updates the detector with the states of both. Returns for how long they have
    /// been deadlocked.
    fn update(&mut self, states: &[ProcessState; 2], now: Instant) -> Option<Duration> {
        let stuck = states.iter().all(ProcessState::is_stuck);
        let moved = Some(states.each_ref().map(ProcessState::moved));
        let same = std::mem::replace(&mut self.moved, moved) == moved;
        self.since = match self.since {
            _ if !stuck => None,
            Some(since) if same => Some(since),
            _ => Some(now),
        };
        self.since.map(|since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sleep;

    fn state(letter: char, moved: u64, is_writing: bool) -> ProcessState {
        ProcessState {
            pid: 7,
            sleep: Sleep {
                letter: Some(letter),
                wait_channel: None,
            },
            written: moved,
            read: 0,
            is_writing,
        }
    }

    /// The duration of the deadlock, in ms, after checks 100 ms apart.
    fn stuck_ms(checks: &[[ProcessState; 2]]) -> Option<u128> {
        let started = Instant::now();
        let mut detector = Detector::default();
        let mut seen = None;
        for (at, states) in (0..).zip(checks) {
            let now = started + Duration::from_millis(100) * at;
            seen = detector.update(states, now);
        }
        seen.map(|time| time.as_millis())
    }

    #[test]
    fn only_sleep_in_writes_without_progress_is_a_deadlock() {
        let stuck = [state('S', 65_536, true), state('S', 0, true)];
        assert_eq!(stuck_ms(&[stuck.clone(), stuck.clone(), stuck]), Some(200));
        let stuck = [state('S', 7, true), state('S', 7, true)];
        let cases = [
            ([state('R', 7, true), state('S', 7, true)], None),
            ([state('S', 7, true), state('S', 7, false)], None),
            ([state('Z', 7, true), state('S', 7, true)], None),
            ([state('S', 8, true), state('S', 7, true)], Some(0)),
        ];
        for (other, expected) in cases {
            let checks = [stuck.clone(), stuck.clone(), other.clone()];
            assert_eq!(stuck_ms(&checks), expected, "{other:?}");
            // A later deadlock begins anew.
            let checks = [stuck.clone(), other, stuck.clone()];
            assert_eq!(stuck_ms(&checks), Some(0));
        }
    }

    #[test]
    fn an_unreadable_wait_channel_is_reported() {
        assert!(state('S', 0, true).place().contains("not readable"));
    }

    #[test]
    fn a_deadlock_is_explained_by_its_exchange() {
        let deadlock = crate::fixtures::deadlock();
        let text = deadlock.explain(Naive::ShortReads, 1 << 17);
        assert!(text.starts_with("deadlock after 1 round trip: the sender (process 11)"));
        for words in [
            "the sender (process 11) has finished writing 262144 bytes and reading 131072, and sleeps \
             in pipe_write, state S",
            "for 2.0 s: one read may return less than the message of 128KiB, and neither reads again",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let text = deadlock.explain(Naive::WriteFirst, 1 << 17);
        let words =
            "for 2.0 s: each writes its message of 128KiB before it reads, but each pipe holds";
        assert!(text.contains(words), "{text}");
    }
}
