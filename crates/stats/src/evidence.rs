//! A rank test and the interval it turns into.
//!
//! The sign test and the Mann-Whitney test have one shape. Both count how many
//! of N values lie on one side of a supposed centre: the sign test counts among
//! the N observations, Mann-Whitney among the N = m n differences between two
//! samples (Conover, sections 3.4 and 5.1; Hollander & Wolfe, sections 3.6 and
//! 4.3). With T the count's null distribution, a centre is rejected at level a
//! when 2 P(T <= count) <= a; the centres that are not rejected lie between the
//! k-th smallest and the k-th largest value, k being the largest rank with
//! 2 P(T <= k - 1) <= a. So a test and its interval can never disagree.

use super::interval::{Interval, middle};
use super::tails::Tails;

/// Relative tolerance of a level, so that rounding does not reject one that is
/// attained exactly.
const ROUNDING: f64 = 1e-9;

/// Ordered values around an unknown centre, with the null distribution of their
/// counts.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    values: Values,
    tails: Tails,
}

#[derive(Debug, Clone)]
enum Values {
    /// In ascending order.
    Observed(Vec<f64>),
    /// All `new[j] - old[i]`, both sides in ascending order. They are searched,
    /// never stored: thousands of rounds a side have millions of differences.
    Differences { old: Vec<f64>, new: Vec<f64> },
}

impl Evidence {
    /// Evidence on the median of the distribution of `values`; `None` if empty.
    pub(super) fn of_one_sample(mut values: Vec<f64>) -> Option<Evidence> {
        if values.is_empty() {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        Some(Evidence {
            tails: Tails::binomial(values.len()),
            values: Values::Observed(values),
        })
    }

    /// Evidence on the shift from `old` to `new`; `None` if a side is empty.
    pub(super) fn of_two_samples(mut old: Vec<f64>, mut new: Vec<f64>) -> Option<Evidence> {
        if old.is_empty() || new.is_empty() {
            return None;
        }
        old.sort_unstable_by(f64::total_cmp);
        new.sort_unstable_by(f64::total_cmp);
        Some(Evidence {
            tails: Tails::mann_whitney(old.len(), new.len()),
            values: Values::Differences { old, new },
        })
    }

    /// The estimate of the centre: the median of the values. For differences it is
    /// the Hodges-Lehmann estimate.
    pub(super) fn estimate(&self) -> f64 {
        middle(self.values.len(), |rank| self.values.ranked(rank + 1))
    }

    /// The two-sided p-value of the centre being 0. A value of exactly 0 counts on
    /// both sides, so ties never make a difference significant. (Conover,
    /// section 3.4, drops ties; then test and interval may disagree.)
    pub(super) fn p(&self) -> f64 {
        let not_above = self.values.count(|value| value <= 0.0);
        let not_below = self.values.len() - self.values.count(|value| value < 0.0);
        (2.0 * self.tails.at(not_above.min(not_below))).min(1.0)
    }

    /// The narrowest symmetric interval with a coverage of at least 1 - `alpha`;
    /// `None` if the whole range has less.
    pub(super) fn interval(&self, alpha: f64) -> Option<Interval> {
        let reached = |rank: usize| 2.0 * self.tails.at(rank - 1) <= alpha * (1.0 + ROUNDING);
        // The greatest rank that reaches the level, by bisection.
        let (mut low, mut high) = (0, self.values.len().div_ceil(2));
        while low < high {
            let rank = (low + high).div_ceil(2);
            if reached(rank) {
                low = rank;
            } else {
                high = rank - 1;
            }
        }
        (low > 0).then(|| self.between(low))
    }

    /// The widest interval: from the smallest value to the largest.
    pub(super) fn range(&self) -> Interval {
        self.between(1)
    }

    fn between(&self, rank: usize) -> Interval {
        Interval {
            low: self.values.ranked(rank),
            high: self.values.ranked(self.values.len() + 1 - rank),
            coverage: (1.0 - 2.0 * self.tails.at(rank - 1)).max(0.0),
        }
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Observed(values) => values.len(),
            Values::Differences { old, new } => old.len() * new.len(),
        }
    }

    /// Counts the values that satisfy `small`, which must hold up to some value
    /// and for none above it.
    fn count(&self, small: impl Fn(f64) -> bool) -> usize {
        match self {
            Values::Observed(values) => values.partition_point(|&value| small(value)),
            Values::Differences { old, new } => {
                // The greater the subtrahend, the more differences are small.
                // Rounding keeps that order, so one pass over both sides suffices.
                let mut within = 0;
                old.iter()
                    .map(|x| {
                        while within < new.len() && small(new[within] - x) {
                            within += 1;
                        }
                        within
                    })
                    .sum()
            }
        }
    }

    /// The value of a rank, counted from 1 for the smallest.
    fn ranked(&self, rank: usize) -> f64 {
        match self {
            Values::Observed(values) => values[rank - 1],
            Values::Differences { old, new } => {
                // Bisect between the bit patterns of the extremes: at most 64
                // steps, and the result is exactly one of the differences.
                let mut low = ordinal(new[0] - old[old.len() - 1]);
                let mut high = ordinal(new[new.len() - 1] - old[0]);
                while low < high {
                    let between = low + (high - low) / 2;
                    let limit = from_ordinal(between);
                    if self.count(|value| value <= limit) >= rank {
                        high = between;
                    } else {
                        low = between + 1;
                    }
                }
                from_ordinal(low)
            }
        }
    }
}

/// Maps floats to whole numbers of the same order.
fn ordinal(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn from_ordinal(ordinal: u64) -> f64 {
    f64::from_bits(if ordinal >> 63 == 1 {
        ordinal & !(1 << 63)
    } else {
        !ordinal
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sides() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let side = || prop::collection::vec((-40i32..40).prop_map(|x| f64::from(x) / 8.0), 1..14);
        (side(), side())
    }

    proptest! {
        #[test]
        fn searched_differences_are_those_of_a_sorted_list((old, new) in sides()) {
            let mut all: Vec<f64> = new
                .iter()
                .flat_map(|y| old.iter().map(move |x| y - x))
                .collect();
            all.sort_by(f64::total_cmp);
            let evidence = Evidence::of_two_samples(old, new).unwrap();
            for (i, value) in all.iter().enumerate() {
                prop_assert_eq!(evidence.values.ranked(i + 1), *value);
            }
            prop_assert_eq!(
                evidence.values.count(|v| v < 1.0),
                all.iter().filter(|&&v| v < 1.0).count()
            );
        }

        #[test]
        fn a_test_rejects_exactly_when_its_interval_excludes_the_centre(
            (old, new) in sides(),
            alpha in 0.001f64..0.5,
        ) {
            let one = Evidence::of_one_sample(new.clone()).unwrap();
            let two = Evidence::of_two_samples(old, new).unwrap();
            for evidence in [one, two] {
                let excluded = evidence
                    .interval(alpha)
                    .is_some_and(|i| i.low > 0.0 || i.high < 0.0);
                prop_assert_eq!(evidence.p() <= alpha, excluded);
            }
        }

        #[test]
        fn ordinals_keep_the_order_and_are_reversible(a: f64, b: f64) {
            prop_assert_eq!(from_ordinal(ordinal(a)).to_bits(), a.to_bits());
            prop_assert_eq!(ordinal(a).cmp(&ordinal(b)), a.total_cmp(&b));
        }
    }
}
