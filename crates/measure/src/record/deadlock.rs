//! Detects that both processes of a session wait for each other, by their state in the
//! kernel.
//!
//! They are deadlocked if, at every check, both report that they are writing, both are
//! asleep (state S or D of proc_pid_stat(5)), and neither has moved a byte: then each
//! waits for the other to read.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A deadlock: both processes sleep in a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deadlock {
    /// Messages whose bytes had all come back.
    pub round_trips: u64,
    /// For how long no byte had been moved when the processes were ended.
    pub seconds: f64,
    /// The capacity of one direction, in words.
    pub capacity: String,
    /// The sender and the echo.
    pub processes: [ProcessState; 2],
}

/// The state of a process at one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// The process.
    pub pid: u32,
    /// The letter of its state in /proc/PID/stat; `None` if it can't be read.
    #[serde(rename = "state")]
    pub letter: Option<char>,
    /// The kernel function in which it sleeps; `None` if it can't be read.
    pub wait_channel: Option<String>,
    /// Bytes it has written so far. A call is counted when it returns.
    pub written: u64,
    /// Bytes it has read so far.
    pub read: u64,
    /// Whether it is in the middle of writing a message.
    pub is_writing: bool,
}

impl ProcessState {
    /// Reads the state of a process. The process itself reports the other values.
    pub(crate) fn read(pid: u32, written: u64, read: u64, is_writing: bool) -> Self {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        ProcessState {
            pid,
            letter: file("stat").as_deref().and_then(state_letter),
            wait_channel: file("wchan").as_deref().and_then(wait_channel),
            written,
            read,
            is_writing,
        }
    }

    /// Bytes it has moved so far.
    pub(crate) fn moved(&self) -> u64 {
        self.written + self.read
    }

    fn is_asleep(&self) -> bool {
        matches!(self.letter, Some('S' | 'D'))
    }

    /// Where it sleeps, in words.
    pub(crate) fn place(&self) -> String {
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
pub(crate) struct Detector {
    /// Bytes that each had moved at the last check.
    moved: Option<[u64; 2]>,
    /// The check since which both have been writing and asleep without moving data.
    since: Option<Instant>,
}

impl Detector {
    /// Updates the detector with the states of both. Returns for how long they have
    /// been deadlocked.
    pub(crate) fn update(&mut self, states: &[ProcessState; 2], now: Instant) -> Option<Duration> {
        let stuck = states.iter().all(|one| one.is_asleep() && one.is_writing);
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

    fn state(letter: char, moved: u64, is_writing: bool) -> ProcessState {
        ProcessState {
            pid: 7,
            letter: Some(letter),
            wait_channel: None,
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
