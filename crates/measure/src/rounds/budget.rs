//! The time for a whole run.

use std::time::Instant;

use pipespeed_base::failure::usage;

/// Time reserved for the report, and for trials that take longer than those of the
/// pilot: a share of the time, and a constant in seconds.
const RESERVE: f64 = 0.04;
const RESERVE_S: f64 = 0.3;

/// A run may exceed its time by this share or this constant, whichever is more.
const TOLERANCE: f64 = 0.1;
const TOLERANCE_S: f64 = 1.0;

/// The time for a whole run, from its start to its exit.
#[derive(Debug, Clone, Copy)]
pub struct TimeBudget {
    /// In seconds.
    pub time_s: f64,
    /// Whether the user set it. Then the run must keep it.
    pub is_given: bool,
    started: Instant,
}

impl TimeBudget {
    /// The budget of a run that starts now.
    pub fn new(time_s: f64, is_given: bool) -> Self {
        TimeBudget {
            time_s,
            is_given,
            started: Instant::now(),
        }
    }

    /// The time for trials in all, in seconds.
    pub fn trials_s(&self) -> f64 {
        self.time_s * (1.0 - RESERVE) - RESERVE_S
    }

    /// The time left for trials, in seconds.
    pub fn remaining_s(&self) -> f64 {
        self.trials_s() - self.elapsed_s()
    }

    /// Whether trials of `needed_s` seconds still fit.
    pub fn allows(&self, needed_s: f64) -> bool {
        self.elapsed_s() + needed_s <= self.latest_s()
    }

    /// Checks that trials of `needed_s` seconds still fit, if the user set the time.
    /// `what` names the trials in the plural; `remedy` says what takes less time.
    ///
    /// # Errors
    /// Bad usage, with the time needed.
    pub fn require(&self, needed_s: f64, what: &str, remedy: &str) -> anyhow::Result<()> {
        if !self.is_given || self.allows(needed_s) {
            return Ok(());
        }
        let needed_s = (self.elapsed_s() + needed_s + RESERVE_S) / (1.0 - RESERVE);
        let needed_s = needed_s.ceil();
        Err(usage(format!(
            "--time {}: {what} take about {needed_s} s: allow --time {needed_s}, or {remedy}",
            self.time_s
        )))
    }

    fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn latest_s(&self) -> f64 {
        let tolerance_s = (TOLERANCE * self.time_s).max(TOLERANCE_S);
        self.time_s + tolerance_s - RESERVE_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_too_short_is_refused_if_given() {
        let given = TimeBudget::new(10.0, true);
        assert!(given.require(10.5, "9 rounds", "name fewer").is_ok());
        let error = given.require(30.0, "9 rounds", "name fewer").unwrap_err();
        let expected = "--time 10: 9 rounds take about 32 s: allow --time 32, or name fewer";
        assert_eq!(error.to_string(), expected);
        let default = TimeBudget::new(10.0, false);
        assert!(default.require(30.0, "9 rounds", "name fewer").is_ok());
    }
}
