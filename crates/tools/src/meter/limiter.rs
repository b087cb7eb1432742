//! A limited rate: what may pass now, and when to ask again.

use std::time::Duration;

/// What passes at once, as time at the full rate: large enough not to wake up
/// too often, too small to be called a burst.
const PIECE: Duration = Duration::from_millis(50);

/// What is saved up while nothing comes, beyond a piece: allows for being woken
/// late, and is all that can be caught up after a standstill.
const SAVED: Duration = Duration::from_millis(100);

/// Lets so many units a second pass, in pieces.
///
/// A bucket of tokens: it fills with time, each unit takes one out, and it holds
/// no more than a fraction of a second's worth.
#[derive(Debug, Clone)]
pub struct Limiter {
    rate: f64,
    tokens: f64,
    asked: Duration,
}

/// What a [`Limiter`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// So many units, at least 1; ask again when they have passed.
    Pass(u64),
    /// None now; ask again after this time.
    Wait(Duration),
}

impl Limiter {
    /// `rate` units a second.
    pub fn new(rate: u64) -> Self {
        let rate = rate.max(1) as f64;
        let mut limiter = Limiter {
            rate,
            tokens: 0.0,
            asked: Duration::ZERO,
        };
        limiter.tokens = limiter.piece();
        limiter
    }

    fn piece(&self) -> f64 {
        (self.rate * PIECE.as_secs_f64()).max(1.0)
    }

    /// What may pass from `now` on, where `passed` have since the last time.
    pub fn ask(&mut self, now: Duration, passed: u64) -> Allowance {
        let most = self.piece() + self.rate * SAVED.as_secs_f64();
        let time = now.saturating_sub(self.asked);
        self.asked = now;
        // First filled, then emptied: what passed was allowed before.
        let filled = (self.tokens + time.as_secs_f64() * self.rate).min(most);
        self.tokens = filled - passed as f64;
        let piece = self.piece();
        if self.tokens >= piece {
            return Allowance::Pass(self.tokens as u64);
        }
        let wait = (piece - self.tokens) / self.rate;
        // Never 0, which would be asked again at once and for ever.
        Allowance::Wait(Duration::from_secs_f64(wait).max(Duration::from_micros(100)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a stream that takes all it may at once, until `end`; each wait is
    /// late by `late`. Returns what passed and the most in any call.
    fn greedy(limiter: &mut Limiter, start: Duration, end: Duration, late: Duration) -> (u64, u64) {
        let (mut now, mut passed, mut total, mut most) = (start, 0, 0, 0);
        while now < end {
            match limiter.ask(now, passed) {
                Allowance::Pass(units) => {
                    passed = units;
                    total += units;
                    most = most.max(units);
                }
                Allowance::Wait(time) => {
                    passed = 0;
                    now += time + late;
                }
            }
        }
        (total, most)
    }

    proptest! {
        #[test]
        fn over_ten_seconds_the_rate_is_kept_within_two_per_cent(
            rate in 1..100_000_000_000_u64,
            late in 0..90_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let end = Duration::from_secs(10);
            let (total, most) = greedy(&mut limiter, Duration::ZERO, end, Duration::from_millis(late));
            let expected = rate as f64 * 10.0;
            let off = (total as f64 - expected).abs();
            prop_assert!(off <= expected * 0.02 + 2.0, "{total} of {expected}");
            prop_assert!(most as f64 <= rate as f64 * 0.15 + 1.0);
        }

        #[test]
        fn after_a_standstill_no_more_than_a_fraction_of_a_second_is_caught_up(
            rate in 1000..1_000_000_000_u64,
            still in 1..10_000_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let one = Duration::from_secs(1);
            greedy(&mut limiter, Duration::ZERO, one, Duration::ZERO);
            let begin = one + Duration::from_secs(still);
            let (total, most) = greedy(&mut limiter, begin, begin + one, Duration::ZERO);
            prop_assert!(most as f64 <= rate as f64 * 0.15 + 1.0);
            prop_assert!(total as f64 <= rate as f64 * 1.2 + 2.0);
        }

        #[test]
        fn what_comes_slower_than_the_limit_is_never_held_back_for_longer_than_a_piece(
            rate in 100..1_000_000_u64,
        ) {
            let mut limiter = Limiter::new(rate);
            let mut now = Duration::ZERO;
            for _ in 0..1000 {
                now += Duration::from_secs_f64(2.0 / rate as f64);
                match limiter.ask(now, 1) {
                    Allowance::Pass(units) => prop_assert!(units >= 1),
                    Allowance::Wait(time) => prop_assert!(time <= PIECE + PIECE),
                }
            }
        }
    }

    #[test]
    fn a_byte_a_second_is_a_byte_a_second() {
        let mut limiter = Limiter::new(1);
        assert_eq!(limiter.ask(Duration::ZERO, 0), Allowance::Pass(1));
        let wait = Duration::from_secs(1);
        assert_eq!(limiter.ask(Duration::ZERO, 1), Allowance::Wait(wait));
        assert_eq!(limiter.ask(wait, 0), Allowance::Pass(1));
    }
}
