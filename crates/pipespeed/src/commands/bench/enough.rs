//! Whether the time that was asked for is enough, and what to do where it is not.

use pipespeed_base::failure::usage;
use pipespeed_measure::suite::Suite;

use super::lengths::Lengths;
use super::plan::Plan;

impl Plan {
    /// Before anything is run: whether the timed parts alone would take longer
    /// than the time that was asked for. Whether all the rest fits too is known
    /// after the pilot.
    ///
    /// # Errors
    /// Bad usage, if they would.
    pub(super) fn enough_time(&self) -> anyhow::Result<()> {
        if let Some(plan) = self.search() {
            return self.enough_for_search(&plan);
        }
        // Volumes have a plan of their own.
        let by_rounds = self.suite != Suite::Volumes;
        if !self.time_given || self.rounds.is_some() || !by_rounds {
            return Ok(());
        }
        let runnable = self.cases.len() - self.refused.len();
        let trials = runnable + usize::from(self.null_control.is_some());
        let least = self.lengths.least_in_time;
        if !cannot_do(&self.lengths, least, trials, self.budget_s) {
            return Ok(());
        }
        let needed = self.lengths.of_rounds(least, trials);
        Err(usage(self.too_little_time(trials, needed)))
    }

    /// That the time asked for is too little for so many trials a round, and what
    /// to do about it.
    pub(super) fn too_little_time(&self, trials: usize, needed_s: f64) -> String {
        let fewer = match self.suite {
            Suite::Channels => "--channel or --size",
            _ => "--case",
        };
        let quicker = if self.settings.quick {
            ""
        } else {
            ", add --quick"
        };
        format!(
            "--time {}: {trials} trials a round and {} rounds take about {needed_s:.0} s: allow \
             more, name fewer cases by {fewer}{quicker}, or give --rounds in its place",
            self.budget_s, self.lengths.least_in_time
        )
    }
}

/// Whether so many rounds take longer than `budget_s` for certain.
fn cannot_do(lengths: &Lengths, rounds: usize, trials: usize, budget_s: f64) -> bool {
    let parts = lengths.durations;
    (rounds * trials) as f64 * (parts.warm_up_s + parts.timed_s) > budget_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_not_be_done_at_all_is_refused_before_it_is_begun() {
        let lengths = Lengths::of(Suite::Channels, false);
        // 9 rounds of 73 trials of 0.11 s.
        assert!(cannot_do(&lengths, 9, 73, 3.0));
        assert!(cannot_do(&lengths, 9, 73, 72.0));
        assert!(!cannot_do(&lengths, 9, 73, 73.0));
        assert!(!cannot_do(&lengths, 9, 0, 0.1));
    }
}
