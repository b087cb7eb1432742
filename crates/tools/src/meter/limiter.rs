//! Limits the rate of a stream.

use std::time::Duration;

/// A piece, which passes at once, is the units of this time at the full rate: long enough
/// for few wake-ups, too short for a noticeable burst.
const PIECE: Duration = Duration::from_millis(50);

/// The tokens of at most this time are saved in addition to a piece. They make up for late
/// wake-ups, but limit the burst after an idle time.
const MAX_SAVED: Duration = Duration::from_millis(100);

/// A token bucket that limits the rate, in pieces.
#[derive(Debug, Clone)]
pub struct Limiter {
    rate: f64,
    tokens: f64,
    updated: Duration,
}

/// What a [`Limiter`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// This many units may pass, at least 1; update again after that.
    Pass(u64),
    /// No unit may pass; update again after this time.
    Wait(Duration),
}

impl Limiter {
    /// Limits to `rate` units per second.
    pub fn new(rate: u64) -> Self {
        let rate = rate.max(1) as f64;
        let mut limiter = Limiter {
            rate,
            tokens: 0.0,
            updated: Duration::ZERO,
        };
        limiter.tokens = limiter.piece();
        limiter
    }

    fn piece(&self) -> f64 {
        (self.rate * PIECE.as_secs_f64()).max(1.0)
    }

    /// Charges the units that `passed` since the last call, and returns how many
    /// may pass at `now`.
    pub fn update(&mut self, now: Duration, passed: u64) -> Allowance {
        let max_tokens = self.piece() + self.rate * MAX_SAVED.as_secs_f64();
        let time = now.saturating_sub(self.updated);
        self.updated = now;
        // Refill before charging: the units that passed were allowed earlier.
        let filled = (self.tokens + time.as_secs_f64() * self.rate).min(max_tokens);
        self.tokens = filled - passed as f64;
        let piece = self.piece();
        if self.tokens >= piece {
            return Allowance::Pass(self.tokens as u64);
        }
        let wait = (piece - self.tokens) / self.rate;
        // At least 100 us, so that the caller does not loop.
        Allowance::Wait(Duration::from_secs_f64(wait).max(Duration::from_micros(100)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Simulates a stream until `end` that passes all allowed units at once, and whose
    /// waits last longer by `late`. Returns the units passed, in total and at most at once.
    fn run_greedily(
        limiter: &mut Limiter,
        start: Duration,
        end: Duration,
        late: Duration,
    ) -> (u64, u64) {
        let (mut now, mut passed, mut total, mut largest) = (start, 0, 0, 0);
        while now < end {
            match limiter.update(now, passed) {
                Allowance::Pass(units) => {
                    passed = units;
                    total += units;
                    largest = largest.max(units);
                }
                Allowance::Wait(time) => {
                    passed = 0;
                    now += time + late;
                }
            }
        }
        (total, largest)
    }

    proptest! {
        #[test]
        fn the_rate_is_kept_within_two_percent_over_ten_seconds(
            rate in 1..100_000_000_000_u64,
            late in 0..90_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let end = Duration::from_secs(10);
            let (total, largest) = run_greedily(&mut limiter, Duration::ZERO, end, Duration::from_millis(late));
            let expected = rate as f64 * 10.0;
            let off = (total as f64 - expected).abs();
            prop_assert!(off <= expected * 0.02 + 2.0, "{total} of {expected}");
            prop_assert!(largest as f64 <= rate as f64 * 0.15 + 1.0);
        }

        #[test]
        fn little_is_caught_up_after_an_idle_time(
            rate in 1000..1_000_000_000_u64,
            idle_s in 1..10_000_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let one = Duration::from_secs(1);
            run_greedily(&mut limiter, Duration::ZERO, one, Duration::ZERO);
            let begin = one + Duration::from_secs(idle_s);
            let (total, largest) = run_greedily(&mut limiter, begin, begin + one, Duration::ZERO);
            prop_assert!(largest as f64 <= rate as f64 * 0.15 + 1.0);
            prop_assert!(total as f64 <= rate as f64 * 1.2 + 2.0);
        }

        #[test]
        fn a_slow_stream_waits_for_two_pieces_at_most(
            rate in 100..1_000_000_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let mut now = Duration::ZERO;
            for _ in 0..1000 {
                now += Duration::from_secs_f64(2.0 / rate as f64);
                match limiter.update(now, 1) {
                    Allowance::Pass(units) => prop_assert!(units >= 1),
                    Allowance::Wait(time) => prop_assert!(time <= PIECE + PIECE),
                }
            }
        }
    }

    #[test]
    fn the_lowest_rate_passes_a_byte_a_second() {
        let mut limiter = Limiter::new(1);
        assert_eq!(limiter.update(Duration::ZERO, 0), Allowance::Pass(1));
        let wait = Duration::from_secs(1);
        assert_eq!(limiter.update(Duration::ZERO, 1), Allowance::Wait(wait));
        assert_eq!(limiter.update(wait, 0), Allowance::Pass(1));
    }
}
