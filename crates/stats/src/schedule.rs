//! The order in which the cases of a suite run, round by round.
//!
//! A trial affects the next one: by warm caches, the clock rate, the state of the
//! page allocator. In a Williams design (E. J. Williams, "Experimental designs
//! balanced for the estimation of residual effects of treatments", *Australian
//! Journal of Scientific Research* A 2, 1949) every case follows every other
//! equally often and stands in every position equally often, so these effects
//! fall on all cases alike. This holds within rounds; the effect of a round's
//! last trial on the next round is not balanced, but random.
//!
//! For n cases the design has n rows (n even) or 2 n (n odd). For every complete
//! set of rows, the cases get new random places in the design and the rows a
//! random order, so that the schedule stays out of step with anything periodic.

use crate::Rng;

/// Share of the rounds that may be dropped to end with a complete set.
const SET_TOLERANCE: f64 = 0.15;

/// Limit on the rounds of a budget, in case someone asks for years.
const MAX_ROUNDS: usize = 100_000;

/// The order of the cases in each round. Equal arguments give the same schedule
/// on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    cases: usize,
    /// The order of each round: the indices of all cases, each once.
    pub orders: Vec<Vec<usize>>,
}

impl Schedule {
    /// The schedule of `rounds` rounds of `cases` cases each.
    pub fn new(cases: usize, rounds: usize, seed: u64) -> Schedule {
        let mut rng = Rng::new(seed);
        let design = williams(cases);
        let mut orders = Vec::with_capacity(rounds);
        while orders.len() < rounds {
            let mut labels: Vec<usize> = (0..cases).collect();
            rng.shuffle(&mut labels);
            let mut rows: Vec<&Vec<usize>> = design.iter().collect();
            rng.shuffle(&mut rows);
            // The last set may be cut short: it is shuffled, so that a random part
            // of it remains.
            rows.truncate(rounds - orders.len());
            orders.extend(
                rows.into_iter()
                    .map(|row| row.iter().map(|&place| labels[place]).collect()),
            );
        }
        Schedule { cases, orders }
    }

    /// Description of the order for the record:
    /// `williams, 1 complete set and 12 of 18 rows`.
    pub fn description(&self) -> String {
        let rows = design_rows(self.cases);
        let (sets, rest) = (self.orders.len() / rows, self.orders.len() % rows);
        let complete = match sets {
            1 => "1 complete set".to_owned(),
            _ => format!("{sets} complete sets"),
        };
        match (sets, rest) {
            _ if self.cases < 2 => "one case".to_owned(),
            (_, 0) => format!("williams, {complete}"),
            (0, _) => format!("williams, {rest} of {rows} rows"),
            _ => format!("williams, {complete} and {rest} of {rows} rows"),
        }
    }
}

/// The number of rounds in one complete set of a design for `cases` cases.
fn design_rows(cases: usize) -> usize {
    match cases {
        0 | 1 => 1,
        n if n.is_multiple_of(2) => n,
        n => 2 * n,
    }
}

/// The number of rounds to plan for a budget.
///
/// As many as fit into `budget_s` seconds when a round takes `per_round_s`
/// seconds, but at least `minimum` (and 1). Up to 15 % of them are dropped, but
/// not below `minimum`, to end with a complete set of the design for `cases`
/// cases. A `per_round_s` that is not a positive number gives `minimum`.
pub fn rounds_for_budget(per_round_s: f64, budget_s: f64, cases: usize, minimum: usize) -> usize {
    let minimum = minimum.max(1);
    // The cast turns a negative float or NaN into 0.
    let fit = if per_round_s > 0.0 {
        ((budget_s / per_round_s) as usize).min(MAX_ROUNDS)
    } else {
        0
    };
    let fit = fit.max(minimum);
    let rows = design_rows(cases);
    let down = fit / rows * rows;
    let slack = SET_TOLERANCE * fit as f64;
    if down >= minimum && (fit - down) as f64 <= slack {
        down
    } else {
        fit
    }
}

/// The rows of a Williams design for `n` cases.
///
/// The first row zigzags, 0, n - 1, 1, n - 2 and so on, so that the steps from
/// one place to the next are n - 1, 2, n - 3, 4, ... modulo n: each once when n
/// is even. The other rows add 1, 2, ... modulo n, so that every ordered pair of
/// neighbours occurs once. When n is odd each step occurs twice and others are
/// missing; the reversed rows supply those, so that every pair occurs twice.
fn williams(n: usize) -> Vec<Vec<usize>> {
    let zigzag: Vec<usize> = (0..n)
        .map(|i| {
            if i.is_multiple_of(2) {
                i / 2
            } else {
                n - 1 - i / 2
            }
        })
        .collect();
    let mut rows: Vec<Vec<usize>> = (0..n.max(1))
        .map(|shift| zigzag.iter().map(|&place| (place + shift) % n).collect())
        .collect();
    if rows.len() < design_rows(n) {
        let backwards: Vec<Vec<usize>> = rows
            .iter()
            .map(|row| row.iter().rev().copied().collect())
            .collect();
        rows.extend(backwards);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts how often each case stands in each position, and how often each
    /// case follows each.
    fn count(cases: usize, orders: &[Vec<usize>]) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let mut positions = vec![vec![0; cases]; cases];
        let mut pairs = vec![vec![0; cases]; cases];
        for order in orders {
            for (position, &case) in order.iter().enumerate() {
                positions[case][position] += 1;
            }
            for pair in order.windows(2) {
                pairs[pair[0]][pair[1]] += 1;
            }
        }
        (positions, pairs)
    }

    #[test]
    fn in_complete_sets_every_case_follows_every_other_equally_often() {
        for cases in 2..=12 {
            for sets in [1, 3] {
                let rows = design_rows(cases);
                let schedule = Schedule::new(cases, sets * rows, 99);
                let (positions, pairs) = count(cases, &schedule.orders);
                let each = sets * rows / cases;
                assert!(positions.iter().flatten().all(|&c| c == each));
                for (before, after) in pairs.iter().enumerate() {
                    for (case, &times) in after.iter().enumerate() {
                        let expected = if case == before { 0 } else { each };
                        assert_eq!(times, expected, "{before} then {case} of {cases}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order_and_another_seed_another() {
        assert_eq!(Schedule::new(7, 30, 1), Schedule::new(7, 30, 1));
        assert_ne!(Schedule::new(7, 30, 1), Schedule::new(7, 30, 2));
    }

    #[test]
    fn sets_are_labelled_and_ordered_anew() {
        let schedule = Schedule::new(6, 12, 1);
        assert_ne!(schedule.orders[..6], schedule.orders[6..]);
    }

    #[test]
    fn schedules_of_up_to_two_cases_work() {
        assert_eq!(
            Schedule::new(0, 2, 1).orders,
            [Vec::<usize>::new(), Vec::new()]
        );
        assert_eq!(Schedule::new(1, 3, 1).orders, [[0], [0], [0]]);
        let schedule = Schedule::new(2, 10, 1);
        let first: usize = schedule.orders.iter().filter(|o| o[0] == 0).count();
        assert_eq!(first, 5);
    }

    #[test]
    fn the_name_says_how_many_sets_are_complete() {
        let name = |cases, rounds| Schedule::new(cases, rounds, 1).description();
        assert_eq!(name(10, 30), "williams, 3 complete sets");
        assert_eq!(name(30, 30), "williams, 1 complete set");
        assert_eq!(name(9, 30), "williams, 1 complete set and 12 of 18 rows");
        assert_eq!(name(9, 5), "williams, 5 of 18 rows");
        assert_eq!(name(2, 31), "williams, 15 complete sets and 1 of 2 rows");
        assert_eq!(name(1, 30), "one case");
    }

    #[test]
    fn a_budget_gives_the_rounds_that_fit_above_the_minimum() {
        assert_eq!(rounds_for_budget(1.0, 47.5, 1, 30), 47);
        assert_eq!(rounds_for_budget(1.0, 10.0, 1, 30), 30);
        assert_eq!(rounds_for_budget(1.0, 0.0, 0, 0), 1);
        assert_eq!(rounds_for_budget(0.0, 60.0, 4, 12), 12);
        assert_eq!(rounds_for_budget(f64::NAN, 60.0, 4, 12), 12);
        assert_eq!(rounds_for_budget(1e-300, 1e300, 1, 30), MAX_ROUNDS);
    }

    #[test]
    fn rounds_end_with_a_complete_set_if_near() {
        // 8 cases, 8 rows: 44 fit, 40 are five sets.
        assert_eq!(rounds_for_budget(1.0, 44.0, 8, 30), 40);
        // 30 fit and are the minimum: 24 are too few, 32 are four sets.
        assert_eq!(rounds_for_budget(1.0, 30.0, 8, 30), 30);
        // 9 cases, 18 rows: 30 fit, 18 and 36 are both too far off.
        assert_eq!(rounds_for_budget(1.0, 30.0, 9, 10), 30);
        // A complete set is more than there is time for.
        assert_eq!(rounds_for_budget(1.0, 30.0, 25, 30), 30);
    }

    proptest! {
        #[test]
        fn every_round_runs_every_case_once(
            cases in 0usize..40, rounds in 0usize..90, seed: u64,
        ) {
            let schedule = Schedule::new(cases, rounds, seed);
            prop_assert_eq!(schedule.orders.len(), rounds);
            for order in schedule.orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..cases).collect::<Vec<_>>());
            }
        }

        #[test]
        fn part_of_a_set_repeats_no_pair_more_often(
            cases in 2usize..20, rounds in 1usize..20, seed: u64,
        ) {
            let rounds = rounds.min(design_rows(cases));
            let (_, pairs) = count(cases, &Schedule::new(cases, rounds, seed).orders);
            let max = design_rows(cases) / cases;
            prop_assert!(pairs.iter().flatten().all(|&times| times <= max));
        }

        #[test]
        fn planned_rounds_stay_near_the_budget(
            per_round in 0.1f64..10.0, budget in 1.0f64..600.0, cases in 1usize..40,
            minimum in 1usize..60,
        ) {
            let rounds = rounds_for_budget(per_round, budget, cases, minimum);
            prop_assert!(rounds >= minimum);
            let fit = ((budget / per_round) as usize).max(minimum) as f64;
            prop_assert!(rounds as f64 <= fit * 1.15 && rounds as f64 >= fit * 0.85);
        }
    }
}
