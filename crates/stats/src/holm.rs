//! Ratios of several comparisons at once.
//!
//! Without a true difference, one 95 % interval in twenty still excludes 1. A
//! suite makes dozens of comparisons, so Holm's step-down makes the levels
//! stricter: of m comparisons, the one with the smallest p-value is tested at
//! alpha / m, the next at alpha / (m - 1) and so on. After the first that fails,
//! the level stays. A run then makes any false claim of faster or slower with a
//! probability of at most alpha, however the comparisons depend on each other
//! (they share references).
//!
//! Each interval has the level of its comparison's test, so it excludes 1 exactly
//! when the step-down rejects 1. Its coverage is that of this interval alone. It
//! is not guaranteed that all intervals of a run hold at once, so a `same` may be
//! false more often; the tests in `simulation.rs` show how often.

use super::evidence::Evidence;
use super::interval::Interval;
use super::median::{Estimate, MIN_SAMPLES};
use super::ratio::{Doubt, Ratio, logs};

/// The median ratios of all comparisons of a run, each given by its
/// [`super::paired_ratios`], with `confidence` (such as 0.95) for the family.
/// In the order given; `None` for a comparison without ratios.
///
/// Medians are of logarithms. Below [`MIN_SAMPLES`] rounds there is no interval;
/// where the rounds are too few for the corrected level it is the range with its
/// own, lower coverage. In both cases the verdict is undecided.
pub fn holm_ratios(comparisons: &[Vec<f64>], confidence: f64) -> Vec<Option<Ratio>> {
    let comparisons: Vec<_> = comparisons
        .iter()
        .map(|ratios| {
            let logs = logs(ratios);
            let rounds = logs.len();
            Evidence::of_one_sample(logs).map(|evidence| ComparisonTest { rounds, evidence })
        })
        .collect();
    step_down(&comparisons, confidence)
}

/// One comparison, on the scale of logarithms.
pub(super) struct ComparisonTest {
    pub(super) rounds: usize,
    pub(super) evidence: Evidence,
}

impl ComparisonTest {
    fn ratio_at(&self, alpha: f64) -> Ratio {
        match self.evidence.interval(alpha).map(exp) {
            Some(reached) => Ratio::new(self.estimate(Some(reached))),
            None => {
                let range = exp(self.evidence.range());
                Ratio::undecided(self.estimate(Some(range)), Doubt::TooFewRounds)
            }
        }
    }

    fn estimate(&self, interval: Option<Interval>) -> Estimate {
        Estimate {
            median: self.evidence.estimate().exp(),
            interval,
        }
    }
}

pub(super) fn step_down(
    comparisons: &[Option<ComparisonTest>],
    confidence: f64,
) -> Vec<Option<Ratio>> {
    // A comparison too short for an interval can make no false claim, so it does
    // not make the other levels stricter.
    let mut tested: Vec<(f64, usize, &ComparisonTest)> = comparisons
        .iter()
        .enumerate()
        .filter_map(|(index, comparison)| Some((index, comparison.as_ref()?)))
        .filter(|(_, comparison)| comparison.rounds >= MIN_SAMPLES)
        .map(|(index, comparison)| (comparison.evidence.p(), index, comparison))
        .collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));

    let mut ratios: Vec<Option<Ratio>> = comparisons
        .iter()
        .map(|comparison| Some(Ratio::new(comparison.as_ref()?.estimate(None))))
        .collect();
    let mut remaining = tested.len();
    let mut stopped = false;
    for (_, index, comparison) in tested {
        let alpha = (1.0 - confidence) / remaining as f64;
        stopped |= !comparison
            .evidence
            .interval(alpha)
            .is_some_and(|i| i.low > 0.0 || i.high < 0.0);
        ratios[index] = Some(comparison.ratio_at(alpha));
        if !stopped {
            remaining -= 1;
        }
    }
    ratios
}

fn exp(interval: Interval) -> Interval {
    Interval {
        low: interval.low.exp(),
        high: interval.high.exp(),
        coverage: interval.coverage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::sign_test_p;
    use proptest::prelude::*;

    fn around(center: f64, n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| center * (1.0 + 0.01 * (i as f64 / n as f64 - 0.5)))
            .collect()
    }

    /// `n` ratios, `below` of them below 1.
    fn with_below(below: usize, n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| if i < below { 0.8 } else { 1.25 } + i as f64 * 1e-3)
            .collect()
    }

    #[test]
    fn a_comparison_without_ratios_has_none() {
        assert_eq!(holm_ratios(&[vec![]], 0.95), [None]);
        assert_eq!(holm_ratios(&[], 0.95), []);
    }

    #[test]
    fn too_few_rounds_for_the_level_show_their_range_undecided() {
        let ratio = holm_ratios(&[around(1.5, 9)], 0.999)[0].unwrap();
        assert!(ratio.estimate.interval.unwrap().low > 1.0);
        assert!((ratio.estimate.interval.unwrap().coverage - (1.0 - 2.0 / 512.0)).abs() < 1e-12);
        assert_eq!(ratio.verdict, Verdict::Undecided);
    }

    #[test]
    fn levels_step_down_from_the_smallest_p() {
        // Of 30 rounds, 95 % leaves out 9 on either side, 97.5 % and 98.33 % leave
        // out 8, and 98.75 % leaves out 7.
        let below = [9, 2, 8, 8];
        let ratios = holm_ratios(&below.map(|below| with_below(below, 30)), 0.95);
        for (ratio, expected) in ratios.iter().zip([0.9572, 0.9948, 0.9839, 0.9839]) {
            let ratio = ratio.unwrap();
            assert!(
                (ratio.estimate.interval.unwrap().coverage - expected).abs() < 1e-4,
                "{ratio:?}"
            );
            assert_eq!(ratio.verdict, Verdict::Faster);
        }
    }

    #[test]
    fn untestable_comparisons_leave_the_other_levels_alone() {
        let alone = holm_ratios(&[around(1.5, 10)], 0.95)[0];
        let among = holm_ratios(&[vec![], around(0.5, 3), around(1.5, 10)], 0.95)[2];
        assert_eq!(alone, among);
    }

    proptest! {
        #[test]
        fn claims_are_those_of_the_step_down_on_p_values(
            comparisons in prop::collection::vec(
                prop::collection::vec(0.5f64..1.6, 6..40), 1..8),
        ) {
            // The naive model: Holm's procedure as published, on p-values.
            let mut ps: Vec<(f64, usize)> = comparisons
                .iter()
                .enumerate()
                .map(|(i, c)| (sign_test_p(c), i))
                .collect();
            ps.sort_by(|a, b| a.0.total_cmp(&b.0));
            let m = ps.len();
            let rejected: Vec<usize> = ps
                .iter()
                .enumerate()
                .take_while(|(i, (p, _))| *p <= 0.05 / (m - i) as f64)
                .map(|(_, (_, index))| *index)
                .collect();
            for (index, ratio) in holm_ratios(&comparisons, 0.95).iter().enumerate() {
                let ratio = ratio.unwrap();
                let Interval { low, high, .. } = ratio.estimate.interval.unwrap();
                prop_assert!(low <= ratio.estimate.median && ratio.estimate.median <= high);
                let claimed = ratio.verdict != Verdict::Undecided && (low > 1.0 || high < 1.0);
                prop_assert_eq!(claimed, rejected.contains(&index));
            }
        }

        #[test]
        fn exchanging_the_sides_gives_the_reciprocal(
            ratios in prop::collection::vec(0.5f64..2.0, 6..40),
        ) {
            let swapped: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
            let ratio = holm_ratios(&[ratios], 0.95)[0].unwrap();
            let other = holm_ratios(&[swapped], 0.95)[0].unwrap();
            prop_assert!((ratio.estimate.median * other.estimate.median - 1.0).abs() < 1e-12);
            let (interval, turned) = (ratio.estimate.interval.unwrap(), other.estimate.interval.unwrap());
            prop_assert!((interval.low * turned.high - 1.0).abs() < 1e-12);
            prop_assert!((interval.high * turned.low - 1.0).abs() < 1e-12);
            prop_assert_eq!(interval.coverage, turned.coverage);
        }
    }
}
