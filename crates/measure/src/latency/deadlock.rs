//! Watches both processes of a trial, and tells a deadlock from slowness by what
//! the kernel says of them.
//!
//! Both have said that they write, both are asleep (state S or D of
//! proc_pid_stat(5)), and neither has moved a byte, at every look for as long as
//! the limit: then each waits for the other to read.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::port::WRITING;
use super::spec::{Mode, Spec};
use super::trial::PATIENCE;
use crate::session::{Role, TrialError, Watch};
use pipespeed_base::size;

/// How often both processes are looked at where they may deadlock.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Looks at the processes of a trial: whether anything moves and, in the naive
/// exchange, whether they are deadlocked.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The sender and the echo.
    pids: [u32; 2],
    moved: u64,
    detector: Option<Detector>,
    limit: Duration,
    size: usize,
    /// What one direction holds, in words.
    holds: String,
}

impl Watcher {
    /// Calls it a deadlock when it has lasted for `limit`.
    pub(super) fn new(pids: [u32; 2], spec: &Spec, limit: Duration, holds: String) -> Self {
        Watcher {
            pids,
            moved: 0,
            detector: (spec.mode == Mode::Naive).then(Detector::default),
            limit,
            size: spec.size,
            holds,
        }
    }

    /// A deadlock in words.
    fn explain(&self, looks: &[Look; 2]) -> String {
        let place = |role: Role| {
            let look = &looks[role.index()];
            format!(
                "the {role} (process {}) sleeps {}, state {}",
                self.pids[role.index()],
                look.place(),
                look.state.unwrap_or('?')
            )
        };
        format!(
            "deadlock: {}; {}. Neither has moved a byte for {:.1} s: each writes its message of {} first and reads \
             only then, but {}; what is beyond waits for a reader, who is writing too. Both were ended.",
            place(Role::Sender),
            place(Role::Echo),
            self.limit.as_secs_f64(),
            size::exact(self.size as u64),
            self.holds,
        )
    }
}

impl Watch for Watcher {
    fn interval(&self) -> Duration {
        match self.detector {
            Some(_) => LOOK_INTERVAL,
            // At the deadline only.
            None => PATIENCE,
        }
    }

    fn look(&mut self, words: &[AtomicU64], now: Instant) -> Result<bool, TrialError> {
        let looks = [0, 1].map(|at| {
            let word = |offset: usize| words[at * 2 + offset].load(Ordering::Relaxed);
            Look::at(self.pids[at], word(0), word(1) == WRITING)
        });
        let moved = looks.iter().map(|look| look.moved).sum();
        let moves = std::mem::replace(&mut self.moved, moved) != moved;
        let stuck = self
            .detector
            .as_mut()
            .and_then(|detector| detector.look(looks.clone(), now));
        if stuck.is_some_and(|time| time >= self.limit) {
            return Err(TrialError::Deadlock(self.explain(&looks)));
        }
        Ok(moves)
    }
}

/// One process, at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    /// The letter of its state; none if it can't be read.
    state: Option<char>,
    /// Where in the kernel it sleeps; none if that can't be read.
    wait_channel: Option<String>,
    /// Bytes it has moved so far.
    moved: u64,
    /// Whether it is in the middle of writing a message.
    writes: bool,
}

impl Look {
    /// Looks at a process. What it has moved and whether it writes it says
    /// itself.
    fn at(pid: u32, moved: u64, writes: bool) -> Look {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        Look {
            state: read("stat").as_deref().and_then(state),
            wait_channel: read("wchan").as_deref().and_then(wait_channel),
            moved,
            writes,
        }
    }

    fn is_asleep(&self) -> bool {
        matches!(self.state, Some('S' | 'D'))
    }

    /// Where it sleeps, in words.
    fn place(&self) -> String {
        match &self.wait_channel {
            Some(name) => format!("in {name}"),
            None => "in its write (/proc/PID/wchan is not readable here)".to_owned(),
        }
    }
}

/// The state of /proc/PID/stat: behind the name, which is in parentheses and
/// may have some of its own.
fn state(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// A name of /proc/PID/wchan. It is 0 for a process that runs, and for all
/// where they may not be seen (ptrace(2), kptr_restrict).
fn wait_channel(wchan: &str) -> Option<String> {
    let name = wchan.trim();
    (!name.is_empty() && name != "0").then(|| name.to_owned())
}

/// Looks again and again.
#[derive(Debug, Default)]
struct Detector {
    last: Option<[Look; 2]>,
    /// When both were first seen as they still are.
    since: Option<Instant>,
}

impl Detector {
    /// Takes a look at both into account. Returns for how long they have been
    /// deadlocked.
    fn look(&mut self, looks: [Look; 2], now: Instant) -> Option<Duration> {
        let stuck = looks.iter().all(|look| look.is_asleep() && look.writes);
        let moved = |looks: &[Look; 2]| looks.each_ref().map(|look| look.moved);
        let same = self
            .last
            .as_ref()
            .is_some_and(|last| moved(last) == moved(&looks));
        self.since = match (stuck, self.since) {
            (false, _) => None,
            (true, Some(since)) if same => Some(since),
            (true, _) => Some(now),
        };
        self.last = Some(looks);
        self.since.map(|since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(state: char, moved: u64, writes: bool) -> Look {
        Look {
            state: Some(state),
            wait_channel: None,
            moved,
            writes,
        }
    }

    /// For how long the detector sees a deadlock after looks 100 ms apart.
    fn after(looks: &[[Look; 2]]) -> Option<u128> {
        let started = Instant::now();
        let mut detector = Detector::default();
        let mut seen = None;
        for (at, looks) in (0..).zip(looks) {
            let now = started + Duration::from_millis(100) * at;
            seen = detector.look(looks.clone(), now);
        }
        seen.map(|time| time.as_millis())
    }

    #[test]
    fn two_that_sleep_in_their_writes_without_moving_anything_are_deadlocked() {
        let stuck = [look('S', 65_536, true), look('S', 0, true)];
        assert_eq!(after(&[stuck.clone(), stuck.clone(), stuck]), Some(200));
    }

    #[test]
    fn whoever_runs_reads_or_moves_is_not() {
        let stuck = [look('S', 7, true), look('S', 7, true)];
        let cases = [
            ([look('R', 7, true), look('S', 7, true)], None),
            ([look('S', 7, true), look('S', 7, false)], None),
            ([look('Z', 7, true), look('S', 7, true)], None),
            ([look('S', 8, true), look('S', 7, true)], Some(0)),
        ];
        for (other, expected) in cases {
            let looks = [stuck.clone(), stuck.clone(), other.clone()];
            assert_eq!(after(&looks), expected, "{other:?}");
            // Seen anew only from then on.
            let looks = [stuck.clone(), other, stuck.clone()];
            assert_eq!(after(&looks), Some(0));
        }
    }

    #[test]
    fn the_state_stands_behind_the_last_parenthesis() {
        let stat = "4242 (a b) R) S 1 4242 4242 0 -1 4194304 120 0";
        assert_eq!(state(stat), Some('S'));
        assert_eq!(state("4242 (pipespeed) D 1 4242"), Some('D'));
        assert_eq!(state(""), None);
    }

    #[test]
    fn a_wait_channel_that_may_not_be_seen_is_said_to_be_unreadable() {
        assert_eq!(wait_channel("pipe_write"), Some("pipe_write".to_owned()));
        assert_eq!(wait_channel("0"), None);
        assert!(look('S', 0, true).place().contains("not readable"));
    }
}
