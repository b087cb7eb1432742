//! Watches both processes of a trial and distinguishes a deadlock from slowness by
//! their state in the kernel.
//!
//! They are deadlocked if during the whole limit, at every check, both report that they
//! are writing, both are asleep (state S or D of proc_pid_stat(5)), and neither has
//! moved a byte: then each waits for the other to read.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::port::WRITING;
use super::spec::{Mode, Spec};
use super::trial::HANG_TIMEOUT;
use crate::session::{Role, TrialError, Watch};
use pipespeed_base::size;

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
            detector: (spec.mode == Mode::Naive).then(Detector::default),
            limit,
            size: spec.size,
            capacity,
        }
    }

    /// Describes a deadlock.
    fn explain(&self, states: &[State; 2]) -> String {
        let place = |role: Role| {
            let state = &states[role.index()];
            format!(
                "the {role} (process {}) sleeps {}, state {}",
                self.pids[role.index()],
                state.place(),
                state.letter.unwrap_or('?')
            )
        };
        format!(
            "deadlock: {}; {}. Neither has moved a byte for {:.1} s: each writes its message of {} before it \
             reads, but {}: the rest of the message waits for the other process to read. Both were ended.",
            place(Role::Sender),
            place(Role::Echo),
            self.limit.as_secs_f64(),
            size::exact(self.size as u64),
            self.capacity,
        )
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
            let word = |offset: usize| words[at * 2 + offset].load(Ordering::Relaxed);
            State::read(self.pids[at], word(0), word(1) == WRITING)
        });
        let moved = states.iter().map(|state| state.moved).sum();
        let moves = std::mem::replace(&mut self.moved, moved) != moved;
        let stuck = self
            .detector
            .as_mut()
            .and_then(|detector| detector.update(&states, now));
        if stuck.is_some_and(|time| time >= self.limit) {
            return Err(TrialError::Deadlock(self.explain(&states)));
        }
        Ok(moves)
    }
}

/// The state of a process at one check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// The letter of its state in /proc/PID/stat; `None` if it can't be read.
    letter: Option<char>,
    /// The kernel function in which it sleeps; `None` if it can't be read.
    wait_channel: Option<String>,
    /// Bytes it has moved so far.
    moved: u64,
    /// Whether it is in the middle of writing a message.
    is_writing: bool,
}

impl State {
    /// Reads the state of a process. The process itself reports `moved` and
    /// `is_writing`.
    fn read(pid: u32, moved: u64, is_writing: bool) -> State {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        State {
            letter: read("stat").as_deref().and_then(state_letter),
            wait_channel: read("wchan").as_deref().and_then(wait_channel),
            moved,
            is_writing,
        }
    }

    fn is_asleep(&self) -> bool {
        matches!(self.letter, Some('S' | 'D'))
    }

    /// Where it sleeps, in words.
    fn place(&self) -> String {
        match &self.wait_channel {
            Some(name) => format!("in {name}"),
            None => "in its write (/proc/PID/wchan is not readable here)".to_owned(),
        }
    }
}

/// Parses the state in /proc/PID/stat. It follows the name, which is in parentheses and
/// may contain some.
fn state_letter(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Parses /proc/PID/wchan. It is 0 for a running process, and for all processes if
/// access is not allowed (ptrace(2), kptr_restrict).
fn wait_channel(wchan: &str) -> Option<String> {
    let name = wchan.trim();
    (!name.is_empty() && name != "0").then(|| name.to_owned())
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
    fn update(&mut self, states: &[State; 2], now: Instant) -> Option<Duration> {
        let stuck = states.iter().all(|one| one.is_asleep() && one.is_writing);
        let moved = Some(states.each_ref().map(|state| state.moved));
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

    fn state(letter: char, moved: u64, is_writing: bool) -> State {
        State {
            letter: Some(letter),
            wait_channel: None,
            moved,
            is_writing,
        }
    }

    /// The duration of the deadlock, in ms, after checks 100 ms apart.
    fn stuck_ms(checks: &[[State; 2]]) -> Option<u128> {
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
    fn processes_asleep_in_writes_without_progress_are_deadlocked() {
        let stuck = [state('S', 65_536, true), state('S', 0, true)];
        assert_eq!(stuck_ms(&[stuck.clone(), stuck.clone(), stuck]), Some(200));
    }

    #[test]
    fn running_reading_or_progress_is_no_deadlock() {
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
    fn the_state_follows_the_last_parenthesis() {
        let stat = "4242 (a b) R) S 1 4242 4242 0 -1 4194304 120 0";
        assert_eq!(state_letter(stat), Some('S'));
        assert_eq!(state_letter("4242 (pipespeed) D 1 4242"), Some('D'));
        assert_eq!(state_letter(""), None);
    }

    #[test]
    fn an_unreadable_wait_channel_is_reported() {
        assert_eq!(wait_channel("pipe_write"), Some("pipe_write".to_owned()));
        assert_eq!(wait_channel("0"), None);
        assert!(state('S', 0, true).place().contains("not readable"));
    }
}
