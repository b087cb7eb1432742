//! Trend of a series of rates.

use super::ratio::logs;

/// Limit on the pairs of segments of a series: few, so that each segment is long
/// and nearly independent of its neighbours.
const MAX_PAIRS: usize = 10;

/// Ratios of the second half of a series to the first. The series is cut into an
/// even number of segments, at most 20 and of nearly equal length; each segment
/// of the second half is divided by the corresponding one of the first. Without
/// a trend these ratios scatter around 1, so the interval of their median is the
/// test of D. R. Cox and A. Stuart ("Some quick sign tests for trend in location
/// and dispersion", *Biometrika* 42, 1955).
///
/// The rates are those of equal volumes, ordered by time. Empty for fewer than
/// two rates or if one is not a positive number.
pub fn half_ratios(rates: &[f64]) -> Vec<f64> {
    let pairs = (rates.len() / 2).min(MAX_PAIRS);
    if pairs == 0 || logs(rates).len() < rates.len() {
        return Vec::new();
    }
    let cut = |at: usize| at * rates.len() / (2 * pairs);
    // Harmonic: volumes are equal, so the times add up.
    let mean =
        |rates: &[f64]| rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
    let means: Vec<f64> = (0..2 * pairs)
        .map(|at| mean(&rates[cut(at)..cut(at + 1)]))
        .collect();
    let (first, second) = means.split_at(pairs);
    first.iter().zip(second).map(|(a, b)| b / a).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::holm_ratios;
    use crate::testing::Noise;
    use proptest::prelude::*;

    fn verdict(rates: &[f64]) -> Verdict {
        holm_ratios(&[half_ratios(rates)], 0.95)[0].unwrap().verdict
    }

    #[test]
    fn only_a_falling_rate_is_called_slower() {
        let mut noise = Noise::new(3);
        let steady: Vec<f64> = (0..100).map(|_| 5.0 + 0.05 * noise.normal()).collect();
        assert_eq!(verdict(&steady), Verdict::Same);
        let falling: Vec<f64> = (0..100)
            .map(|at| 5.0 - 0.02 * f64::from(at) + 0.1 * noise.normal())
            .collect();
        assert_eq!(verdict(&falling), Verdict::Slower);
    }

    #[test]
    fn segments_are_weighted_by_their_time() {
        assert!(half_ratios(&[]).is_empty());
        assert!(half_ratios(&[1.0]).is_empty());
        assert_eq!(half_ratios(&[2.0, 3.0]), [1.5]);
        // 1 GiB at 4 and 1 GiB at 3 GiB/s: 2 GiB in 7/12 s.
        assert!((half_ratios(&[2.0, 4.0, 3.0])[0] - 12.0 / 7.0).abs() < 1e-12);
        assert_eq!(half_ratios(&[1.0; 1000]).len(), 10);
        // 1 GiB at 1 and 1 GiB at 3 GiB/s are 1.5 GiB/s together.
        let mut rates = [1.5; 40];
        rates[20] = 1.0;
        rates[21] = 3.0;
        assert!((half_ratios(&rates)[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn invalid_rates_have_no_trend() {
        assert!(half_ratios(&[1.0, 0.0, 1.0, 1.0]).is_empty());
        assert!(half_ratios(&[1.0, f64::NAN]).is_empty());
    }

    proptest! {
        #[test]
        fn every_rate_counts_in_its_half(count in 2usize..90, at in 0usize..90) {
            let at = at % count;
            let steady = vec![4.0; count];
            let mut fast = steady.clone();
            fast[at] = 5.0;
            let (before, after) = (half_ratios(&steady), half_ratios(&fast));
            let changed: Vec<usize> = (0..before.len())
                .filter(|pair| before[*pair] != after[*pair])
                .collect();
            prop_assert_eq!(changed.len(), 1, "{} of {}", at, count);
            // The middle one of an odd number belongs to the second half.
            let second = after[changed[0]] > before[changed[0]];
            prop_assert_eq!(second, at >= count / 2, "{} of {}", at, count);
        }
    }
}
