//! The median and its interval.

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::interval::{Interval, middle};

/// The fewest samples that get an interval. With 5, the whole range covers the
/// median with less than 95 %.
pub const MIN_SAMPLES: usize = 6;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// In the unit of the samples.
    pub median: f64,
    /// `None` below [`MIN_SAMPLES`], or if the samples are too few for the
    /// requested confidence.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// [`median`] with [`median_interval`].
    pub fn new(samples: &[f64], confidence: f64) -> Option<Estimate> {
        Some(Estimate {
            median: median(samples)?,
            interval: median_interval(samples, confidence),
        })
    }

    /// The same of the reciprocal values, as of a ratio the other way round.
    pub fn reciprocal(&self) -> Estimate {
        Estimate {
            median: 1.0 / self.median,
            interval: self.interval.map(|ends| Interval {
                low: 1.0 / ends.high,
                high: 1.0 / ends.low,
                ..ends
            }),
        }
    }

    /// The interval's ends; without an interval, the median twice.
    pub fn ends(&self) -> (f64, f64) {
        self.interval
            .map_or((self.median, self.median), |i| (i.low, i.high))
    }
}

/// The median, in the unit of the samples; of an even number, the mean of the
/// middle two. `None` without samples or if one is not a number.
pub fn median(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(middle(sorted.len(), |index| sorted[index]))
}

/// The exact interval of the median by order statistics: from the k-th smallest
/// to the k-th largest sample, for the greatest k whose coverage, by the
/// binomial distribution, is at least `confidence` (such as 0.95).
///
/// `None` below [`MIN_SAMPLES`], or if the whole range covers less. It assumes
/// only that the samples are independent (Conover, section 3.2; Hollander &
/// Wolfe, section 3.6).
pub fn median_interval(samples: &[f64], confidence: f64) -> Option<Interval> {
    evidence(samples)?.interval(1.0 - confidence)
}

/// [`median_interval`], or the range with its own, lower coverage if the samples
/// are too few for `confidence`, as 9 samples are for 99.9 %. `None` only below
/// [`MIN_SAMPLES`].
pub fn summary_interval(samples: &[f64], confidence: f64) -> Option<Interval> {
    let evidence = evidence(samples)?;
    Some(
        evidence
            .interval(1.0 - confidence)
            .unwrap_or_else(|| evidence.range()),
    )
}

fn evidence(samples: &[f64]) -> Option<Evidence> {
    if samples.len() < MIN_SAMPLES || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    Evidence::of_one_sample(samples.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn up_to(n: u32) -> Vec<f64> {
        // Not in order, to test the sorting.
        (0..n).map(|i| f64::from(i * 7 % n + 1)).collect()
    }

    #[test]
    fn the_median_of_nothing_is_none() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn an_even_number_of_samples_has_its_middle_mean() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn an_estimate_of_few_samples_has_a_median_only() {
        assert_eq!(Estimate::new(&[], 0.95), None);
        let few = Estimate::new(&up_to(5), 0.95).unwrap();
        assert_eq!((few.median, few.interval), (3.0, None));
        let more = Estimate::new(&up_to(6), 0.95).unwrap();
        assert_eq!(more.interval, median_interval(&up_to(6), 0.95));
    }

    #[test]
    fn an_interval_is_the_narrowest_that_attains_its_level() {
        for (samples, level, ends, coverage) in [
            (6, 0.95, (1.0, 6.0), 1.0 - 2.0 / 64.0),
            (30, 0.95, (10.0, 21.0), 0.957_226),
            // Exactly.
            (6, 1.0 - 2.0 / 64.0, (1.0, 6.0), 1.0 - 2.0 / 64.0),
            (8, 1.0 - 18.0 / 256.0, (2.0, 7.0), 1.0 - 18.0 / 256.0),
        ] {
            let interval = median_interval(&up_to(samples), level).unwrap();
            assert_eq!((interval.low, interval.high), ends);
            assert!((interval.coverage - coverage).abs() < 1e-6, "{interval:?}");
        }
    }

    #[test]
    fn a_summary_shows_the_range_at_unreachable_levels() {
        assert_eq!(median_interval(&up_to(9), 0.999), None);
        assert_eq!(median_interval(&up_to(9), 1.0), None);
        let interval = summary_interval(&up_to(9), 0.999).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 9.0));
        assert!((interval.coverage - (1.0 - 2.0 / 512.0)).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn an_interval_contains_the_median_with_the_requested_coverage(
            samples in prop::collection::vec(0.01f64..100.0, 6..80),
            confidence in 0.0f64..0.9999,
        ) {
            let middle = median(&samples).unwrap();
            if let Some(interval) = median_interval(&samples, confidence) {
                prop_assert!(interval.low <= middle && middle <= interval.high);
                prop_assert!(interval.coverage >= confidence - 1e-9);
                prop_assert_eq!(summary_interval(&samples, confidence), Some(interval));
            }
            let shown = summary_interval(&samples, confidence).unwrap();
            prop_assert!(shown.low <= middle && middle <= shown.high);
        }

        #[test]
        fn more_confidence_never_narrows_an_interval(
            samples in prop::collection::vec(0.01f64..100.0, 6..80),
            a in 0.5f64..0.999,
            b in 0.5f64..0.999,
        ) {
            let less = summary_interval(&samples, a.min(b)).unwrap();
            let more = summary_interval(&samples, a.max(b)).unwrap();
            prop_assert!(more.low <= less.low && less.high <= more.high);
        }
    }
}
