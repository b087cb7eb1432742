//! Limits the processor time of a process that works in steps.

use std::time::Duration;

/// Share of one processor that is not exceeded for long.
const SHARE: f64 = 0.03;
/// What may be saved up for several steps in a row: when a pipeline starts, its first steps
/// come without delay.
const MAX_SAVED: Duration = Duration::from_millis(10);

/// Processor time that may be spent: grows with time, up to [`MAX_SAVED`].
#[derive(Debug)]
pub(super) struct Budget {
    /// In seconds; negative after too much was spent.
    balance_s: f64,
}

impl Budget {
    /// All is saved that may be.
    pub(super) fn full() -> Self {
        Budget {
            balance_s: MAX_SAVED.as_secs_f64(),
        }
    }

    /// Spends `cost` of processor time, `elapsed` after the last call. Returns how long to wait
    /// until the next step.
    pub(super) fn spend(&mut self, cost: Duration, elapsed: Duration) -> Duration {
        let saved_s = self.balance_s + SHARE * elapsed.as_secs_f64();
        self.balance_s = saved_s.min(MAX_SAVED.as_secs_f64()) - cost.as_secs_f64();
        Duration::from_secs_f64((-self.balance_s / SHARE).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// The waits before steps of 1 ms, each taken as soon as it may be.
    fn waits(budget: &mut Budget, steps: u32) -> Vec<Duration> {
        let mut elapsed = Duration::ZERO;
        let mut next = || {
            elapsed = budget.spend(STEP, elapsed);
            elapsed
        };
        (0..steps).map(|_| next()).collect()
    }

    #[test]
    fn first_steps_are_not_delayed_and_later_ones_keep_share() {
        let mut budget = Budget::full();
        let waits = waits(&mut budget, 1000);
        assert!(waits[..9].iter().all(Duration::is_zero), "{waits:?}");
        let total: Duration = waits.iter().sum();
        let share = (1000.0 * STEP.as_secs_f64() - MAX_SAVED.as_secs_f64()) / total.as_secs_f64();
        assert!((share - SHARE).abs() < 1e-6, "{share}");
    }

    #[test]
    fn long_pause_saves_up_no_more_than_a_few_steps() {
        let mut budget = Budget::full();
        waits(&mut budget, 100);
        let day = Duration::from_secs(86_400);
        assert!(budget.spend(STEP, day).is_zero());
        let waits = waits(&mut budget, 20);
        let undelayed = waits.iter().take_while(|wait| wait.is_zero()).count();
        assert!((8..=9).contains(&undelayed), "{waits:?}");
    }
}
