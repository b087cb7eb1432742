//! How the time of a run is shared out between a search and the rounds after
//! it. Pure.

use crate::case::Durations;
use crate::schedule::rounds_for_budget;

/// The share of the time that the search gets at most; the rest is for
/// measuring afresh what it found.
pub const SEARCH: f64 = 2.0 / 3.0;

/// And what it gets at least, where trials take so long that the rounds would
/// need more than the rest.
const LEAST: f64 = 1.0 / 3.0;

/// Rounds in a little more time than there is are better than too few of them.
const OVER: f64 = 0.05;

/// The time there is, and what the rounds take of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// For the search and the rounds, in seconds.
    pub whole_s: f64,
    /// Rounds that were asked for, whatever time they take.
    pub rounds: Option<usize>,
    /// The fewest rounds that allow verdicts.
    pub least_rounds: usize,
    /// How long the parts of a round's trials last.
    pub durations: Durations,
}

impl Budget {
    /// What the search may take where `cases` are measured afresh and a trial
    /// takes so many seconds besides its parts. In seconds.
    pub fn search_s(&self, cases: usize, overhead_s: f64) -> f64 {
        let most = SEARCH * self.whole_s;
        // The pilot, and one in reserve.
        let rounds = (self.least_rounds + 2) as f64 * self.round_s(cases, overhead_s);
        match self.rounds {
            Some(_) => most,
            None => (self.whole_s - rounds).clamp(LEAST * self.whole_s, most),
        }
    }

    /// Whether a pilot and a round find room in the seconds that are left.
    pub fn affords_rounds(&self, left_s: f64, cases: usize, overhead_s: f64) -> bool {
        self.rounds.is_some() || 2.0 * self.round_s(cases, overhead_s) <= left_s
    }

    /// How many rounds to run in the seconds that are left, where the pilot's
    /// took so long: those that allow verdicts if there is nearly time for them.
    pub fn rounds(&self, left_s: f64, round_s: f64, cases: usize) -> usize {
        let fits = self.least_rounds as f64 * round_s <= left_s * (1.0 + OVER);
        let least = if fits { self.least_rounds } else { 1 };
        let fit = || rounds_for_budget(round_s, left_s, cases, least);
        self.rounds.unwrap_or_else(fit)
    }

    fn round_s(&self, cases: usize, overhead_s: f64) -> f64 {
        let parts = self.durations.warm_up_s + self.durations.timed_s;
        cases as f64 * (parts + overhead_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(whole_s: f64) -> Budget {
        Budget {
            whole_s,
            rounds: None,
            least_rounds: 10,
            durations: Durations {
                warm_up_s: 0.015,
                timed_s: 0.1,
            },
        }
    }

    #[test]
    fn the_search_leaves_as_much_as_the_rounds_need_and_never_all() {
        let budget = budget(114.0);
        assert_eq!(budget.search_s(19, 0.01), 76.0);
        let slow = budget.search_s(19, 0.15);
        assert!(
            (slow - (114.0 - 12.0 * 19.0 * 0.265)).abs() < 1e-9,
            "{slow}"
        );
        assert_eq!(budget.search_s(19, 2.0), 38.0);
        let asked = Budget {
            rounds: Some(500),
            ..budget
        };
        assert_eq!(asked.search_s(19, 2.0), 76.0);
    }

    #[test]
    fn there_are_as_many_rounds_as_fit_and_enough_for_verdicts_if_nearly_so() {
        let budget = budget(114.0);
        assert_eq!(budget.rounds(100.0, 1.0, 1), 100);
        assert_eq!(budget.rounds(9.6, 1.0, 1), 10);
        assert_eq!(budget.rounds(9.0, 1.0, 1), 9);
        assert_eq!(budget.rounds(0.5, 1.0, 1), 1);
        assert!(budget.affords_rounds(5.0, 10, 0.01));
        assert!(!budget.affords_rounds(5.0, 10, 0.2));
    }
}
