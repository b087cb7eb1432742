//! Samples that fall into two groups.

use super::median::median;

/// With fewer samples, two groups are too likely by chance.
const MIN_FOR_MODES: usize = 10;
/// The minimum share of the samples in either group: fewer are outliers.
const MIN_SHARE: f64 = 0.2;
/// The minimum distance of the modes, relative to the lower one.
const MIN_SEPARATION: f64 = 0.15;

/// The minimum share of the variance that a split of `n` samples must explain. The best
/// split of a normal distribution explains 2 / pi (64 %), that of a uniform one 75 %,
/// and with few samples chance adds to both. The limit was set by simulation: for n
/// from 10, under 2 % of lognormal samples and of normal ones with a spread of up to 20
/// % exceed it, and up to 10 % of uniform ones.
fn min_explained(n: usize) -> f64 {
    0.78 + 1.2 / n as f64
}

/// Two groups of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modes {
    /// Median of the lower group, in the unit of the samples.
    pub low: f64,
    /// Median of the higher group, in the unit of the samples.
    pub high: f64,
    /// The share of the samples in the higher group, from 0 to 1.
    pub share_high: f64,
}

/// Splits the samples into two groups. `None` if there are fewer than 10 samples,
/// one is not positive, a group has under 20 % of them, the groups' medians are
/// less than 15 % apart, or the split is not clear.
///
/// The split is the one that leaves the least variance of the logarithms within
/// the groups (Otsu, "A threshold selection method from gray-level histograms",
/// *IEEE Transactions on Systems, Man, and Cybernetics* 9, 1979). It matters
/// because a median between two modes is a rate that hardly ever occurs.
pub fn two_modes(samples: &[f64]) -> Option<Modes> {
    let n = samples.len();
    if n < MIN_FOR_MODES || !samples.iter().all(|&x| x.is_finite() && x > 0.0) {
        return None;
    }
    let mut logs: Vec<f64> = samples.iter().map(|x| x.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);

    let mean = logs.iter().sum::<f64>() / n as f64;
    let variation: f64 = logs.iter().map(|x| (x - mean).powi(2)).sum();
    let min_size = (MIN_SHARE * n as f64).ceil() as usize;
    let mut best = (0, 0.0);
    let mut below = 0.0;
    for split in 1..=n - min_size {
        below += logs[split - 1] - mean;
        // Variation between the groups: both sums of deviations are `below`,
        // with opposite signs.
        let between = below * below * (1.0 / split as f64 + 1.0 / (n - split) as f64);
        if split >= min_size && between > best.1 {
            best = (split, between);
        }
    }

    let (split, between) = best;
    let (low, high) = (median(&logs[..split])?, median(&logs[split..])?);
    let clear = between >= min_explained(n) * variation;
    (clear && high - low > (1.0 + MIN_SEPARATION).ln()).then(|| Modes {
        low: low.exp(),
        high: high.exp(),
        share_high: (n - split) as f64 / n as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Noise;

    fn mixture(noise: &mut Noise, n: usize, high: f64, share: f64, spread: f64) -> Vec<f64> {
        (0..n)
            .map(|i| {
                let mode = if (i as f64) < share * n as f64 {
                    high
                } else {
                    1.0
                };
                mode * noise.lognormal(spread)
            })
            .collect()
    }

    /// The share of 2,000 samples of `n` drawn by `draw` that show two modes.
    fn found(n: usize, seed: u64, draw: impl Fn(&mut Noise, usize) -> f64) -> f64 {
        let mut noise = Noise::new(seed);
        let hits = (0..2000)
            .filter(|_| {
                let samples: Vec<f64> = (0..n).map(|i| draw(&mut noise, i)).collect();
                two_modes(&samples).is_some()
            })
            .count();
        hits as f64 / 2000.0
    }

    #[test]
    fn two_clear_groups_are_found_with_their_shares() {
        let samples = mixture(&mut Noise::new(7), 30, 1.5, 0.4, 0.03);
        let modes = two_modes(&samples).unwrap();
        assert!((modes.low - 1.0).abs() < 0.03, "{modes:?}");
        assert!((modes.high - 1.5).abs() < 0.05, "{modes:?}");
        assert!((modes.share_high - 0.4).abs() < 1e-12);
    }

    #[test]
    fn too_few_too_near_or_impossible_samples_have_no_modes() {
        let mixed = |n, high, share, spread| mixture(&mut Noise::new(7), n, high, share, spread);
        for samples in [
            // A few outliers; groups that are near; too few samples.
            mixed(30, 3.0, 0.1, 0.03),
            mixed(30, 1.1, 0.5, 0.005),
            mixed(9, 2.0, 0.5, 0.01),
            vec![1.0; 30],
            vec![0.0; 30],
            Vec::new(),
        ] {
            assert_eq!(two_modes(&samples), None, "{samples:?}");
        }
    }

    #[test]
    fn noise_seldom_looks_like_two_modes() {
        for spread in [0.05, 0.10, 0.20] {
            for n in [10, 15, 30] {
                let normal = found(n, 11, |noise, _| (1.0 + spread * noise.normal()).max(0.01));
                let log = found(n, 12, |noise, _| noise.lognormal(spread));
                let uniform = found(n, 13, |noise, _| 1.0 + spread * 3.46 * noise.uniform());
                let drift = found(n, 14, |noise, i| {
                    (1.0 + 4.0 * spread * i as f64 / n as f64) * noise.lognormal(spread / 4.0)
                });
                println!(
                    "two modes found in noise of {spread:.2}, n = {n}: normal {normal:.4}, \
                     lognormal {log:.4}, uniform {uniform:.4}, drift {drift:.4}"
                );
                assert!(normal < 0.02 && log < 0.02 && drift < 0.02);
            }
        }
    }

    #[test]
    fn two_modes_a_quarter_apart_are_mostly_found() {
        for (share, spread) in [(0.5, 0.03), (0.3, 0.03), (0.5, 0.05), (0.3, 0.05)] {
            let hits = found(30, 15, |noise, _| {
                let mode = if noise.uniform() < share { 1.25 } else { 1.0 };
                mode * noise.lognormal(spread)
            });
            println!("two modes found, 1.25 in {share} of samples, noise {spread}: {hits:.3}");
            assert!(spread > 0.03 || hits > 0.8);
        }
    }
}
