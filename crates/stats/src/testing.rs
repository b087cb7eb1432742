//! Seeded noise and the sign test, for tests.

use super::Rng;
use super::evidence::Evidence;
use super::ratio::logs;

/// The two-sided p-value, from 0 to 1, of the exact sign test against a median
/// ratio of 1; 1 without ratios.
pub(crate) fn sign_test_p(ratios: &[f64]) -> f64 {
    Evidence::of_one_sample(logs(ratios)).map_or(1.0, |evidence| evidence.p())
}

/// Random draws from common distributions.
pub(crate) struct Noise(Rng);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(Rng::new(seed))
    }

    /// Uniform between 0 and 1, both excluded.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal, by the Box-Muller method.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// Lognormal with median 1; `spread` is the deviation of the logarithm.
    pub(crate) fn lognormal(&mut self, spread: f64) -> f64 {
        (spread * self.normal()).exp()
    }
}
