//! Ratios of two rates and their verdicts.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::interval::Interval;
use super::median::Estimate;

/// Ratios within this distance of 1 count as the same.
pub const EQUIVALENCE: f64 = 0.05;

/// The ratio of two rates with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median ratio. The coverage of its interval is the one after the
    /// correction for several comparisons.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The conclusion from the interval, and of a run's comparison also from its null
    /// control.
    pub verdict: Verdict,
    /// Why the verdict is undecided; null if it is not.
    #[serde(default)]
    pub reason: Option<Doubt>,
}

impl Ratio {
    /// A ratio with the verdict on its interval. Without one it is undecided.
    pub fn new(estimate: Estimate) -> Ratio {
        match estimate.interval {
            Some(Interval { low, high, .. }) => {
                let verdict = verdict(low, high);
                let reason = (verdict == Verdict::Undecided).then_some(Doubt::Interval);
                Ratio {
                    estimate,
                    verdict,
                    reason,
                }
            }
            None => Ratio::undecided(estimate, Doubt::TooFewRounds),
        }
    }

    /// A ratio without a verdict.
    pub fn undecided(estimate: Estimate, reason: Doubt) -> Ratio {
        Ratio {
            estimate,
            verdict: Verdict::Undecided,
            reason: Some(reason),
        }
    }

    /// Whether the interval has the coverage that a verdict requires.
    pub fn is_tested(&self) -> bool {
        self.reason != Some(Doubt::TooFewRounds)
    }

    /// Of a null control: the largest difference of a case from itself that it does not exclude, as
    /// a logarithm. That is the end of its interval farther from 1, or 0 if its verdict is `same`.
    pub fn tolerance(&self) -> f64 {
        match self.estimate.interval {
            Some(Interval { low, high, .. }) if self.verdict != Verdict::Same => {
                low.ln().abs().max(high.ln().abs())
            }
            _ => 0.0,
        }
    }

    /// The ratio after allowing for a null control in which a case differs from itself by
    /// up to `tolerance`, a logarithm: a verdict that the interval widened by as much does
    /// not have is withdrawn.
    ///
    /// This also finds the reason of an undecided verdict that was saved without one. Doing
    /// it twice makes no difference.
    pub fn allowing_for(self, tolerance: f64) -> Ratio {
        let Some(Interval { low, high, .. }) = self.estimate.interval else {
            return Ratio::undecided(self.estimate, Doubt::TooFewRounds);
        };
        if self.verdict == Verdict::Undecided {
            // The interval of a tested comparison without a verdict includes 1.
            let is_tested = self.reason.is_some() || (low <= 1.0 && high >= 1.0);
            let found = if is_tested {
                Doubt::Interval
            } else {
                Doubt::TooFewRounds
            };
            return Ratio::undecided(self.estimate, self.reason.unwrap_or(found));
        }
        let widened = verdict(low * (-tolerance).exp(), high * tolerance.exp());
        if widened == self.verdict {
            return self;
        }
        Ratio::undecided(self.estimate, Doubt::NullControl)
    }
}

/// Conclusion from a ratio's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies above 1, and not within 5 % of it.
    Faster,
    /// The whole interval lies below 1, and not within 5 % of it.
    Slower,
    /// The whole interval lies within 5 % of 1.
    Same,
    /// None of these.
    Undecided,
}

impl Verdict {
    /// The word used in data and tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        }
    }
}

/// Why a verdict is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The rounds are too few for an interval of the required coverage.
    TooFewRounds,
    /// The interval includes 1 and reaches beyond 5 %.
    Interval,
    /// The interval has a verdict, but the null control's differs from 1 by as much.
    NullControl,
    /// The interval excludes 1, but does not lie beyond 5 %, as runs that can't be paired
    /// require.
    WithinMargin,
}

impl Doubt {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Doubt::TooFewRounds => "too few rounds",
            Doubt::Interval => "the interval includes 1",
            Doubt::NullControl => "the null control allows as much",
            Doubt::WithinMargin => "not wholly beyond 5 %",
        }
    }
}

/// The ratios case / reference of the rounds that have both, in the order of
/// the case's rounds. Each side is a list of (round, rate).
///
/// A round's disturbances affect both sides alike and cancel in the ratio, so
/// only rates of the same round are compared. Rounds missing on one side and
/// rates that are not positive numbers are left out.
pub fn paired_ratios(case: &[(usize, f64)], reference: &[(usize, f64)]) -> Vec<f64> {
    let reference: HashMap<usize, f64> = reference.iter().copied().collect();
    case.iter()
        .filter_map(|(round, rate)| Some((*rate, *reference.get(round)?)))
        .filter(|&(rate, other)| is_rate(rate) && is_rate(other))
        .map(|(rate, other)| rate / other)
        .collect()
}

/// The verdict on a ratio with the interval from `low` to `high`.
///
/// A difference that is certain but within [`EQUIVALENCE`] of 1 is too small to
/// matter: the verdict is `Same`.
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

/// The logarithms of all positive, finite rates.
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
    use crate::testing::sign_test_p;
    use proptest::prelude::*;

    #[test]
    fn only_rounds_of_both_sides_are_paired() {
        let case = [(0, 2.0), (1, 3.0), (3, 8.0), (4, 1.0)];
        let reference = [(3, 4.0), (0, 1.0), (2, 9.0), (4, 0.0)];
        assert_eq!(paired_ratios(&case, &reference), [2.0, 2.0]);
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

    fn found(low: f64, high: f64) -> Ratio {
        Ratio::new(Estimate {
            median: f64::midpoint(low, high),
            interval: Some(Interval {
                low,
                high,
                coverage: 0.95,
            }),
        })
    }

    #[test]
    fn a_difference_that_the_null_control_allows_is_undecided_for_that_reason() {
        let tolerance = 1.6f64.ln();
        let withdrawn = found(1.47, 2.60).allowing_for(tolerance);
        assert_eq!(withdrawn.verdict, Verdict::Undecided);
        assert_eq!(withdrawn.reason, Some(Doubt::NullControl));
        assert_eq!(withdrawn.estimate, found(1.47, 2.60).estimate);
        assert_eq!(withdrawn.allowing_for(tolerance), withdrawn);
        assert_eq!(
            found(1.61, 2.60).allowing_for(tolerance),
            found(1.61, 2.60),
            "1.61 > 1.6"
        );
        assert_eq!(
            found(0.98, 1.02).allowing_for(tolerance).reason,
            Some(Doubt::NullControl)
        );
    }

    #[test]
    fn an_undecided_ratio_keeps_or_finds_its_reason() {
        let open = found(0.9, 1.2);
        assert_eq!(open.reason, Some(Doubt::Interval));
        assert_eq!(open.allowing_for(0.5), open);
        let range = Ratio::undecided(found(1.2, 1.4).estimate, Doubt::TooFewRounds);
        assert_eq!(range.allowing_for(0.0), range);
        // As saved by versions without reasons.
        for ratio in [open, range] {
            let saved = Ratio {
                reason: None,
                ..ratio
            };
            assert_eq!(saved.allowing_for(0.0), ratio);
        }
        let none = Ratio::new(Estimate {
            interval: None,
            ..open.estimate
        });
        assert_eq!(none.reason, Some(Doubt::TooFewRounds));
    }

    proptest! {
        #[test]
        fn a_null_control_only_withdraws_verdicts(
            low in 0.3f64..2.0,
            width in 1.0f64..3.0,
            tolerance in 0.0f64..1.0,
        ) {
            let before = found(low, low * width);
            let after = before.allowing_for(tolerance);
            prop_assert!(after.verdict == before.verdict || after.verdict == Verdict::Undecided);
            prop_assert_eq!(after.reason.is_some(), after.verdict == Verdict::Undecided);
            prop_assert_eq!(before.allowing_for(0.0), before);
        }

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
    }
}
