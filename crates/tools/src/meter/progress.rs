//! Computes rates and remaining times from samples.

use std::collections::VecDeque;
use std::ops::Sub;
use std::time::Duration;

/// The unit of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Bytes; shown in powers of 1024.
    #[default]
    Bytes,
    /// Lines; shown in powers of 1000.
    Lines {
        /// The byte that ends a line: a newline or NUL.
        end: u8,
    },
}

/// The current rate is the average over this time, unless the stream stalls.
pub const WINDOW: Duration = Duration::from_secs(4);

/// Maximum number of samples in a window.
const MAX_SAMPLES: u32 = 64;

/// The latest points of a growing count over time or bytes, at a minimum spacing.
#[derive(Debug, Clone)]
pub struct Trail<X> {
    /// Positions and the counts there, oldest first.
    pub points: VecDeque<(X, u64)>,
    spacing: X,
    span: X,
}

impl<X: Copy + Ord + Sub<Output = X>> Trail<X> {
    /// Starts with one point. Points closer than `spacing` are thinned out. Of the points
    /// `span` or more behind the newest, only the last is kept.
    pub fn new(first: (X, u64), spacing: X, span: X) -> Self {
        Trail {
            points: VecDeque::from([first]),
            spacing,
            span,
        }
    }

    /// Adds a point. An `x` before the last one counts as equal.
    pub fn add(&mut self, x: X, count: u64) {
        let x = self.points.back().map_or(x, |newest| x.max(newest.0));
        // Measured from the second to last point: measured from the last one, each new
        // point of a dense series would replace it.
        let before = self.points.iter().nth_back(1);
        if before.is_some_and(|before| x - before.0 < self.spacing) {
            self.points.pop_back();
        }
        self.points.push_back((x, count));
        let is_old = |second: &(X, u64)| x - second.0 >= self.span;
        while self.points.get(1).is_some_and(is_old) {
            self.points.pop_front();
        }
    }
}

/// Samples of the count over the last [`WINDOW`].
pub type History = Trail<Duration>;

impl History {
    /// Starts with a count of 0 at time 0.
    pub fn begin() -> Self {
        Trail::new((Duration::ZERO, 0), WINDOW / MAX_SAMPLES, WINDOW)
    }

    /// Adds the count at a drawing. Without progress since the last one the rate is 0, as
    /// with pv, and once the count grows again it is measured from there.
    pub fn sample(&mut self, at: Duration, count: u64) {
        let last = self.points.back().copied();
        let stalled = |(first, second): (&(Duration, u64), &(Duration, u64))| first.1 == second.1;
        if let Some(last) = last.filter(|last| last.1 == count) {
            self.points = VecDeque::from([last]);
        } else if self
            .points
            .front()
            .zip(self.points.get(1))
            .is_some_and(stalled)
        {
            self.points.pop_front();
        }
        self.add(at, count);
    }

    /// Units per second over the window, or since the beginning. `None` at time 0.
    pub fn rate(&self) -> Option<f64> {
        let (oldest, newest) = (self.points.front()?, self.points.back()?);
        per_second(newest.1.saturating_sub(oldest.1), newest.0 - oldest.0)
    }
}

/// `count` divided by `time` in seconds; `None` if `time` is zero.
pub fn per_second(count: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

/// The progress at one moment. Counts are in units unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The name of the stream.
    pub name: Option<String>,
    /// The count.
    pub done: u64,
    /// The expected count at the end.
    pub size: Option<u64>,
    /// Time since the beginning.
    pub elapsed: Duration,
    /// Current rate in units per second.
    pub rate: Option<f64>,
    /// Bytes passed, whatever the unit.
    pub bytes: u64,
    /// Unread bytes in the output pipe.
    pub unread: Option<u64>,
    /// Fill of the output pipe, from 0 to 1.
    pub fill: Option<f64>,
    /// Number of drawings with progress, which moves the indicator.
    pub beats: u64,
    /// The technique in use.
    pub technique: Option<&'static str>,
    /// The reason for the end, in the last snapshot.
    pub ending: Option<Ending>,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// The reason for the end.
    pub end: &'static str,
    /// The exit status.
    pub status: u8,
    /// The techniques not used, with reasons.
    pub passed_over: Vec<String>,
}

impl Snapshot {
    /// Units per second since the beginning.
    pub fn average(&self) -> Option<f64> {
        per_second(self.done, self.elapsed)
    }

    /// The rate to show: the current one, or at the end the average.
    pub fn shown_rate(&self) -> Option<f64> {
        match self.ending {
            Some(_) => self.average(),
            None => self.rate,
        }
    }

    /// The count divided by the size; may exceed 1.
    pub fn share(&self) -> Option<f64> {
        let size = self.size.filter(|size| *size > 0)?;
        Some(self.done as f64 / size as f64)
    }

    /// The percentage, rounded down: 100 means complete.
    pub fn percent(&self) -> Option<u64> {
        let size = self.size.filter(|size| *size > 0)?;
        u64::try_from(u128::from(self.done) * 100 / u128::from(size)).ok()
    }

    /// Remaining time at the current rate. `None` if the rate is 0 or the size
    /// unknown.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.size?.saturating_sub(self.done);
        if left == 0 {
            return Some(Duration::ZERO);
        }
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(left as f64 / rate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn the_rate_covers_the_window() {
        let mut history = History::begin();
        for second in 1..=100_u64 {
            history.sample(seconds(second as f64), second * 1000);
        }
        assert_eq!(history.rate(), Some(1000.0));
        // Slower, for a quarter of the window.
        history.sample(seconds(101.0), 100_200);
        assert_eq!(history.rate(), Some(800.0));
    }

    #[test]
    fn without_progress_the_rate_is_zero_and_then_begins_anew() {
        let mut history = History::begin();
        for (at, count) in [(1.0, 0), (2.0, 1000), (3.0, 2000)] {
            history.sample(seconds(at), count);
        }
        // The second before the first byte does not count.
        assert_eq!(history.rate(), Some(1000.0));
        for at in [4.0, 5.0, 12.0] {
            history.sample(seconds(at), 2000);
            assert_eq!(history.rate(), Some(0.0));
        }
        history.sample(seconds(13.0), 2700);
        assert_eq!(history.rate(), Some(700.0));
    }

    #[test]
    fn a_rate_needs_time() {
        let mut history = History::begin();
        assert_eq!(history.rate(), None);
        history.sample(Duration::ZERO, 10);
        assert_eq!(history.rate(), None);
        history.sample(seconds(0.5), 20);
        assert_eq!(history.rate(), Some(40.0));
    }

    #[test]
    fn time_left_follows_the_current_rate() {
        let mut snapshot = Snapshot {
            done: 500,
            size: Some(1500),
            elapsed: seconds(100.0),
            rate: Some(100.0),
            ..Snapshot::default()
        };
        assert_eq!(snapshot.time_left(), Some(seconds(10.0)));
        assert_eq!(snapshot.average(), Some(5.0));
        assert_eq!(snapshot.percent(), Some(33));
        snapshot.rate = Some(0.0);
        assert_eq!(snapshot.time_left(), None);
        snapshot.rate = Some(1e-300);
        assert_eq!(snapshot.time_left(), None);
        snapshot.done = 2000;
        assert_eq!(snapshot.time_left(), Some(Duration::ZERO));
        assert_eq!(snapshot.percent(), Some(133));
        snapshot.size = None;
        assert_eq!((snapshot.time_left(), snapshot.percent()), (None, None));
    }

    proptest! {
        #[test]
        fn the_rate_lies_between_the_slowest_and_the_fastest_step(
            steps in prop::collection::vec((0.001..5.0_f64, 0..1_000_000_u64), 1..300),
        ) {
            let mut history = History::begin();
            let (mut at, mut count) = (0.0, 0);
            let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
            for (time, more) in steps {
                at += time;
                count += more;
                history.sample(seconds(at), count);
                low = low.min(more as f64 / time);
                high = high.max(more as f64 / time);
                prop_assert!(history.points.len() <= MAX_SAMPLES as usize * 2 + 3);
                let rate = history.rate().unwrap();
                prop_assert!(rate >= low * 0.999 && rate <= high * 1.001);
                let spanned = history.points.back().unwrap().0 - history.points[1].0;
                prop_assert!(spanned < WINDOW);
            }
        }

        #[test]
        fn a_steady_stream_has_its_rate_at_any_interval(
            // Some units in every interval.
            rate in 200..1_000_000_000_u64,
            interval in 0.01..20.0_f64,
        ) {
            let mut history = History::begin();
            for step in 1..200 {
                let at = seconds(interval * f64::from(step));
                history.sample(at, (at.as_secs_f64() * rate as f64) as u64);
            }
            let found = history.rate().unwrap();
            prop_assert!((found - rate as f64).abs() <= rate as f64 * 0.01 + 1.0);
        }
    }
}
