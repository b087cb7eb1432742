//! Ratios of two rates measured in the same rounds.

use std::collections::HashMap;

use super::evidence::Evidence;
use crate::Verdict;

/// How far from 1 a ratio may lie and still be called the same: 5 %.
pub const EQUIVALENCE: f64 = 0.05;

/// The ratios case / reference of the rounds that have both, in the order of
/// the case's rounds. Each side is a list of (round, rate).
///
/// A round's disturbances hit both sides alike and cancel in the ratio, so only
/// rates of one round are set against each other. A round that is missing on
/// one side is left out, as is a rate that is not a positive number: it has no
/// ratio.
pub fn paired_ratios(case: &[(usize, f64)], reference: &[(usize, f64)]) -> Vec<f64> {
    let reference: HashMap<usize, f64> = reference.iter().copied().collect();
    case.iter()
        .filter_map(|(round, rate)| Some((*rate, *reference.get(round)?)))
        .filter(|&(rate, other)| is_rate(rate) && is_rate(other))
        .map(|(rate, other)| rate / other)
        .collect()
}

/// The two-sided p-value, from 0 to 1, of the sign test against a median ratio
/// of 1; 1 without ratios.
///
/// It is exact. Ratios of exactly 1 count against whichever direction has more
/// ratios, not for it, so that p is at most 1 - c exactly when the interval of
/// [`super::median_interval`] at confidence c excludes 1 (Conover, section 3.4,
/// which drops such ties: less careful, and then test and interval may differ).
pub fn sign_test_p(ratios: &[f64]) -> f64 {
    Evidence::of_one_sample(logs(ratios)).map_or(1.0, |evidence| evidence.p())
}

/// What an interval of a ratio, from `low` to `high`, allows one to say.
///
/// Same comes first: a difference that is certain but within [`EQUIVALENCE`] of
/// 1 is one that nobody should act on.
pub fn verdict(low: f64, high: f64) -> Verdict {
    if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        Verdict::Same
    } else if low > 1.0 {
        Verdict::Faster
    } else if high < 1.0 {
        Verdict::Slower
    } else {
        Verdict::Undecided
    }
}

/// The logarithms of those that have one.
pub(super) fn logs(rates: &[f64]) -> Vec<f64> {
    rates
        .iter()
        .copied()
        .filter(|&rate| is_rate(rate))
        .map(f64::ln)
        .collect()
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::median_interval;
    use proptest::prelude::*;

    #[test]
    fn only_rounds_of_both_sides_are_paired() {
        let case = [(0, 2.0), (1, 3.0), (3, 8.0), (4, 1.0)];
        let reference = [(3, 4.0), (0, 1.0), (2, 9.0), (4, 0.0)];
        assert_eq!(paired_ratios(&case, &reference), [2.0, 2.0]);
    }

    #[test]
    fn the_sign_test_of_six_ratios_above_one_has_a_p_of_two_in_sixty_four() {
        assert!((sign_test_p(&[1.1; 6]) - 2.0 / 64.0).abs() < 1e-15);
        assert_eq!(sign_test_p(&[1.0; 6]), 1.0);
        assert_eq!(sign_test_p(&[]), 1.0);
    }

    #[test]
    fn a_tie_counts_against_the_claim() {
        let with_tie = [1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.0];
        let with_contrary = [1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.9];
        assert_eq!(sign_test_p(&with_tie), sign_test_p(&with_contrary));
    }

    #[test]
    fn a_verdict_follows_from_the_interval_alone() {
        assert_eq!(verdict(0.96, 1.04), Verdict::Same);
        assert_eq!(verdict(1.01, 1.04), Verdict::Same);
        assert_eq!(verdict(1.01, 1.20), Verdict::Faster);
        assert_eq!(verdict(0.80, 0.99), Verdict::Slower);
        assert_eq!(verdict(0.90, 1.01), Verdict::Undecided);
        assert_eq!(verdict(1.00, 1.20), Verdict::Undecided);
    }

    proptest! {
        #[test]
        fn the_sign_test_and_the_interval_agree(
            // Coarse, so that ties with 1 are common.
            ratios in prop::collection::vec((16u32..26).prop_map(|x| f64::from(x) / 20.0), 6..60),
            confidence in 0.5f64..0.999,
        ) {
            let excluded = median_interval(&ratios, confidence)
                .is_some_and(|i| i.low > 1.0 || i.high < 1.0);
            prop_assert_eq!(sign_test_p(&ratios) <= 1.0 - confidence, excluded);
        }

        #[test]
        fn the_sign_test_does_not_care_which_side_is_which(
            ratios in prop::collection::vec(0.5f64..2.0, 1..60),
        ) {
            let swapped: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
            prop_assert_eq!(sign_test_p(&ratios), sign_test_p(&swapped));
        }
    }
}
