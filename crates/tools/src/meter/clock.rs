//! Elapsed time, without the time in which the process was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGCONT;

/// Measures elapsed time, without the time in which the process was stopped.
#[derive(Debug)]
pub struct Clock {
    started: Option<Instant>,
    stopped: Duration,
    last_read: Instant,
    /// The next reading is expected within this time of the last one.
    within: Duration,
    /// Whether SIGCONT was received since the last reading.
    continued: Arc<AtomicBool>,
}

impl Clock {
    /// Starts now if `starts_now`, else with [`start`](Self::start).
    pub fn new(starts_now: bool) -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        // If that fails, stopped time counts as elapsed.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        let now = Instant::now();
        Clock {
            started: starts_now.then_some(now),
            stopped: Duration::ZERO,
            last_read: now,
            within: Duration::MAX,
            continued,
        }
    }

    /// Starts now.
    pub fn start(&mut self) {
        self.started = Some(Instant::now());
        self.stopped = Duration::ZERO;
    }

    /// Sets the time within which the next reading is expected; `None` if unknown.
    pub fn expect(&mut self, within: Option<Duration>) {
        self.within = within.unwrap_or(Duration::MAX);
    }

    /// The elapsed time; `None` before the start. If the process was stopped since the last
    /// reading, time beyond the expected interval does not count.
    pub fn now(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let since = now - self.last_read;
        self.last_read = now;
        if self.continued.swap(false, Ordering::Relaxed) {
            self.stopped += since.saturating_sub(self.within);
        }
        Some((now - self.started?).saturating_sub(self.stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_beyond_the_expected_is_excluded_after_a_stop() {
        let mut clock = Clock::new(true);
        clock.expect(Some(Duration::ZERO));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {}
        let before = clock.now().unwrap();
        assert!(before >= Duration::from_millis(2));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {}
        clock.continued.store(true, Ordering::Relaxed);
        // The expected interval is 0.
        assert_eq!(clock.now().unwrap(), before);
        assert_eq!(Clock::new(false).now(), None);
    }
}
