//! Watches both processes of a trial, ends a naive exchange that has been deadlocked for
//! the whole limit, and explains the deadlock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::port::{WORDS, WRITING};
use super::spec::{Mode, Naive, Spec};
use super::trial::HANG_TIMEOUT;
use crate::failure::TrialError;
use crate::record::{Deadlock, Detector, ProcessState};
use crate::session::Watch;
use crate::spec::Role;
use pipespeed_base::{size, text::pluralize};

/// The time between two checks of processes that may deadlock.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Checks whether the processes of a trial move data and, in the naive exchange,
/// whether they are deadlocked.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The sender and the echo.
    pids: [u32; 2],
    moved: u64,
    detector: Option<Detector>,
    limit: Duration,
    size: usize,
    /// The capacity of one direction, in words.
    capacity: String,
}

impl Watcher {
    /// Creates a watcher that reports a deadlock once it has lasted for `limit`.
    pub(super) fn new(pids: [u32; 2], spec: &Spec, limit: Duration, capacity: String) -> Self {
        Watcher {
            pids,
            moved: 0,
            detector: matches!(spec.mode, Mode::Naive(_)).then(Detector::default),
            limit,
            size: spec.size,
            capacity,
        }
    }
}

impl Watch for Watcher {
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
            ProcessState::read(self.pids[at], word(0), word(1), word(2) == WRITING)
        });
        let moved = states.iter().map(ProcessState::moved).sum();
        let moves = std::mem::replace(&mut self.moved, moved) != moved;
        let stuck = self
            .detector
            .as_mut()
            .and_then(|detector| detector.update(&states, now));
        if stuck.is_some_and(|time| time >= self.limit) {
            let deadlock = Deadlock {
                round_trips: states[Role::Sender.index()].read / self.size as u64,
                seconds: self.limit.as_secs_f64(),
                capacity: self.capacity.clone(),
                processes: states,
            };
            return Err(TrialError::Deadlock(Box::new(deadlock)));
        }
        Ok(moves)
    }
}

impl Deadlock {
    /// Describes the deadlock of an exchange of messages of `size` bytes.
    pub fn explain(&self, naive: Naive, size: usize) -> String {
        let process = |role: Role| {
            let state = &self.processes[role.index()];
            format!(
                "the {role} (process {}) has finished writing {} bytes and reading {}, and sleeps {}, \
                 state {}",
                state.pid,
                state.written,
                state.read,
                state.place(),
                state.letter.unwrap_or('?')
            )
        };
        let (size, capacity) = (size::exact(size as u64), &self.capacity);
        let reason = match naive {
            Naive::ShortReads => format!(
                "{capacity}, so one read returns less than the message of {size}. Neither reads \
                 again for the rest, which adds up until each waits in its write for the other \
                 to read"
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
            process(Role::Sender),
            process(Role::Echo),
            self.seconds,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadlock_is_explained_by_its_exchange() {
        let deadlock = crate::fixtures::deadlock();
        let text = deadlock.explain(Naive::ShortReads, 1 << 17);
        assert!(text.starts_with("deadlock after 1 round trip: the sender (process 11)"));
        for words in [
            "the sender (process 11) has finished writing 262144 bytes and reading 131072, and sleeps \
             in pipe_write, state S",
            "for 2.0 s: each pipe holds 64KiB, so one read returns less than the message of 128KiB",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let text = deadlock.explain(Naive::WriteFirst, 1 << 17);
        let words =
            "for 2.0 s: each writes its message of 128KiB before it reads, but each pipe holds";
        assert!(text.contains(words), "{text}");
    }
}
