//! Dependence and drift in samples ordered by time.

use super::median::median;

/// The correlation of each sample with the next, from -1 to 1. Within
/// 2 / sqrt(n) of 0 for independent samples; near 1 if the machine drifts slowly.
/// `None` below 3 samples or if all are equal.
///
/// The usual estimate (Box, Jenkins, Reinsel & Ljung, *Time Series Analysis*,
/// 5th ed., chapter 2), which is biased towards 0 for short series.
pub fn lag1_autocorrelation(samples: &[f64]) -> Option<f64> {
    if samples.len() < 3 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let variation: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    let common: f64 = samples
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let correlation = common / variation;
    correlation.is_finite().then_some(correlation)
}

/// The change of rate during a trial: the median of the later half of its parts
/// divided by that of the earlier half, minus 1. 0.2 means 20 % faster at the end.
///
/// `None` unless all parts of one half are faster than all parts of the other:
/// if the ends sleep and wake, neighbouring parts may differ as much as a drift
/// would make them. Eight parts in random order are separated in 2 of 70 cases.
pub fn relative_drift(parts: &[f64]) -> Option<f64> {
    let (early, late) = parts.split_at(parts.len() / 2);
    let apart = |below: &[f64], above: &[f64]| below.iter().all(|b| above.iter().all(|a| b < a));
    if early.is_empty() || !(apart(early, late) || apart(late, early)) {
        return None;
    }
    let drift = median(late)? / median(early)? - 1.0;
    drift.is_finite().then_some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Noise;

    #[test]
    fn alternating_samples_are_anticorrelated() {
        let samples: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        assert!(lag1_autocorrelation(&samples).unwrap() < -0.9);
    }

    #[test]
    fn slowly_growing_samples_are_correlated() {
        let samples: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(lag1_autocorrelation(&samples).unwrap() > 0.9);
    }

    #[test]
    fn independent_samples_are_hardly_correlated() {
        let mut noise = Noise::new(1);
        let samples: Vec<f64> = (0..1000).map(|_| noise.normal()).collect();
        assert!(lag1_autocorrelation(&samples).unwrap().abs() < 0.07);
    }

    #[test]
    fn two_samples_or_equal_ones_have_no_correlation() {
        assert_eq!(lag1_autocorrelation(&[1.0, 2.0]), None);
        assert_eq!(lag1_autocorrelation(&[2.0; 9]), None);
    }

    #[test]
    fn a_trial_ending_a_fifth_slower_drifts_by_a_fifth() {
        let parts = [10.0, 10.0, 11.0, 9.5, 9.0, 8.0, 8.0, 7.0];
        assert!((relative_drift(&parts).unwrap() + 0.2).abs() < 1e-12);
    }

    #[test]
    fn scattered_parts_show_no_drift() {
        assert_eq!(
            relative_drift(&[10.0, 7.0, 11.0, 9.0, 9.0, 8.0, 8.0, 7.5]),
            None
        );
    }

    #[test]
    fn random_parts_drift_in_two_of_seventy_trials() {
        let mut noise = Noise::new(7);
        let trials = 20_000;
        let drifting = (0..trials)
            .filter(|_| {
                let parts: Vec<f64> = (0..8).map(|_| 10.0 + noise.normal()).collect();
                relative_drift(&parts).is_some()
            })
            .count();
        let share = drifting as f64 / f64::from(trials);
        assert!((share - 2.0 / 70.0).abs() < 0.005, "{share}");
    }

    #[test]
    fn one_part_shows_no_drift_and_a_standstill_has_none() {
        assert_eq!(relative_drift(&[1.0]), None);
        assert_eq!(relative_drift(&[]), None);
        assert_eq!(relative_drift(&[0.0, 0.0, 1.0, 2.0]), None);
    }
}
