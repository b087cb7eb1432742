//! The time since the beginning, without standstill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGCONT;

/// The time since the beginning without that in which the process was stopped.
#[derive(Debug)]
pub struct Clock {
    started: Option<Instant>,
    stopped: Duration,
    asked: Instant,
    /// When it is to be asked again at the latest, from then on.
    within: Duration,
    /// Whether SIGCONT has come.
    continued: Arc<AtomicBool>,
}

impl Clock {
    /// Starts now, or when it is told to.
    pub fn new(starts: bool) -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        // Else the time counts like any other.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        let now = Instant::now();
        Clock {
            started: starts.then_some(now),
            stopped: Duration::ZERO,
            asked: now,
            within: Duration::MAX,
            continued,
        }
    }

    /// Starts now.
    pub fn start(&mut self) {
        self.started = Some(Instant::now());
        self.stopped = Duration::ZERO;
    }

    /// Says within which time it will be asked again; none if nobody knows.
    pub fn expect(&mut self, within: Option<Duration>) {
        self.within = within.unwrap_or(Duration::MAX);
    }

    /// The time since it was started; none before. If the process was stopped
    /// since it was asked last, what is beyond the time expected was standstill.
    pub fn now(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let since = now - self.asked;
        self.asked = now;
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
    fn only_after_a_stop_is_time_beyond_the_expected_left_out() {
        let mut clock = Clock::new(true);
        clock.expect(Some(Duration::ZERO));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {}
        let before = clock.now().unwrap();
        assert!(before >= Duration::from_millis(2));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {}
        clock.continued.store(true, Ordering::Relaxed);
        // All of it was more than expected.
        assert_eq!(clock.now().unwrap(), before);
        assert_eq!(Clock::new(false).now(), None);
    }
}
