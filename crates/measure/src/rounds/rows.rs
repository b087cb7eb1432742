//! Which cases run in which round.

use std::collections::BTreeMap;

use super::Measurement;
use crate::runner::Runner;
use pipespeed_stats::schedule::Schedule;

impl<R: Runner> Measurement<R> {
    /// So many trials, spread evenly over the rounds, are all there will be of
    /// the cases named.
    pub fn rarely(&mut self, trials: BTreeMap<String, usize>) {
        self.rare = trials;
    }

    /// A pilot has shown how many seconds trials of the cases named take.
    pub fn expect(&mut self, seconds: &BTreeMap<String, f64>) {
        for case in &mut self.cases {
            case.expected_s = seconds.get(&case.name).copied();
        }
    }

    /// The cases of each round in their order: all that can be run but those
    /// that have no trial in it.
    pub(super) fn rows(&self, schedule: &Schedule, runnable: &[usize]) -> Vec<Vec<usize>> {
        let orders = schedule.orders();
        let row = |(round, order): (usize, &Vec<usize>)| {
            let cases = order.iter().map(|index| runnable[*index]);
            cases
                .filter(|at| self.takes_part(*at, round, orders.len()))
                .collect()
        };
        orders.iter().enumerate().map(row).collect()
    }

    /// Whether a case has a trial in a round of so many.
    fn takes_part(&self, at: usize, round: usize, rounds: usize) -> bool {
        let Some(trials) = self.rare.get(&self.cases[at].name) else {
            return true;
        };
        // The middle of each of so many equal stretches of rounds.
        let due = |round: usize| (2 * round * trials + rounds) / (2 * rounds);
        due(round + 1) > due(round)
    }
}
