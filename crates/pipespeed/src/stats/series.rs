//! Signs that samples in the order of time depend on each other.

use super::median::median;

/// The correlation of each sample with the next, from -1 to 1: how far rounds
/// resemble their neighbours. About 0, give or take 2 / sqrt(n), for independent
/// ones; towards 1 where the machine wandered slowly. `None` below 3 samples and
/// where they are all alike.
///
/// The usual estimate (Box, Jenkins, Reinsel & Ljung, *Time Series Analysis*,
/// 5th ed., chapter 2): it leans towards 0 for short series.
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

/// How the rate changed in the course of a trial: the median of the last third
/// of its parts over that of the first third, less 1. So 0.2 says that it ended
/// 20 % faster. `None` below 3 parts and where the first third has no rate.
///
/// Medians of thirds, because a single part can be hit by anything.
pub fn relative_drift(parts: &[f64]) -> Option<f64> {
    let third = parts.len() / 3;
    let first = median(&parts[..third])?;
    let last = median(&parts[parts.len() - third..])?;
    let drift = last / first - 1.0;
    drift.is_finite().then_some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Noise;

    #[test]
    fn samples_that_alternate_are_anticorrelated() {
        let samples: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        assert!(lag1_autocorrelation(&samples).unwrap() < -0.9);
    }

    #[test]
    fn samples_that_creep_are_correlated() {
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
    fn a_trial_that_ends_a_fifth_slower_drifts_by_a_fifth() {
        let parts = [10.0, 10.0, 11.0, 9.0, 9.0, 9.0, 8.0, 8.0, 7.0];
        assert!((relative_drift(&parts).unwrap() + 0.2).abs() < 1e-12);
    }

    #[test]
    fn two_parts_show_no_drift_and_a_standstill_has_none() {
        assert_eq!(relative_drift(&[1.0, 2.0]), None);
        assert_eq!(relative_drift(&[]), None);
        assert_eq!(relative_drift(&[0.0, 1.0, 2.0]), None);
    }
}
