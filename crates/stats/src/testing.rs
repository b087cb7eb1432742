//! Seeded noise for tests.

use super::Rng;

/// Draws from the usual distributions.
pub(crate) struct Noise(Rng);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(Rng::new(seed))
    }

    /// From 0 to 1, both excluded.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// Median 1; `spread` is the deviation of the logarithm.
    pub(crate) fn lognormal(&mut self, spread: f64) -> f64 {
        (spread * self.normal()).exp()
    }
}
