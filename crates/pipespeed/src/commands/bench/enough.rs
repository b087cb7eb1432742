//! Whether the time that was asked for is enough, and what to do where it is not.

use pipespeed_measure::suite::Suite;

use super::plan::Plan;

impl Plan {
    /// Checks before anything is run that the timed parts alone fit into a time
    /// that was asked for. Whether all the rest fits too is known after the pilot.
    ///
    /// # Errors
    /// Bad usage, if they don't fit.
    pub(super) fn enough_time(&self) -> anyhow::Result<()> {
        if let Some(plan) = self.search() {
            return self.enough_for_search(&plan);
        }
        // Volumes have a plan of their own.
        if self.rounds.is_some() || self.suite == Suite::Volumes {
            return Ok(());
        }
        let runnable = self.cases.len() - self.refused.len();
        let cases = runnable + usize::from(self.null_control.is_some());
        let parts_s = self.lengths.durations.sum_s();
        let min_rounds = self.min_rounds();
        if self.budget.allows((min_rounds * cases) as f64 * parts_s) {
            return Ok(());
        }
        self.require(self.lengths.of_rounds(min_rounds, cases), cases)
    }

    /// Checks that the fewest rounds of this many cases fit into a time that was
    /// asked for.
    ///
    /// # Errors
    /// Bad usage, with the time needed.
    pub(super) fn require(&self, needed_s: f64, cases: usize) -> anyhow::Result<()> {
        let fewer = match self.suite {
            Suite::Channels => "--channel or --size",
            _ => "--case",
        };
        let quicker = if self.settings.quick {
            ""
        } else {
            ", add --quick"
        };
        let rounds = self.min_rounds();
        self.budget.require(
            needed_s,
            &format!("{rounds} rounds of {cases} trials"),
            &format!("name fewer cases by {fewer}{quicker}, or give --rounds in its place"),
        )
    }
}
