//! Random numbers for the order of trials.

/// A SplitMix64 generator (Steele, Lea & Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014): one word of state, and any seed will do. A
/// recorded seed gives the same numbers on every machine and in every version.
/// Not for cryptography.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1, each equally likely; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        let bound = bound as u64;
        // Reject draws above the greatest multiple of the bound, which would favour
        // small numbers. At most half of the draws are rejected.
        let excess = (u64::MAX % bound + 1) % bound;
        loop {
            let bits = self.next_u64();
            if bits <= u64::MAX - excess {
                return (bits % bound) as usize;
            }
        }
    }

    /// A uniform number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        // A float has a mantissa of 53 bits.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles the items, each order equally likely: the Fisher-Yates shuffle
    /// (Knuth, *The Art of Computer Programming*, vol. 2, algorithm 3.4.2P).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly_between_0_and_1() {
        let mut rng = Rng::new(2);
        let shares: Vec<f64> = (0..100_000).map(|_| rng.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = shares.iter().sum::<f64>() / 100_000.0;
        assert!((0.49..0.51).contains(&mean), "{mean}");
    }

    #[test]
    fn a_seed_gives_the_numbers_of_the_published_generator() {
        let mut rng = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut rng = Rng::new(3);
        let mut counts = [0; 6];
        for _ in 0..60_000 {
            counts[rng.below(6)] += 1;
        }
        assert!(
            counts.iter().all(|c| (9_700..10_300).contains(c)),
            "{counts:?}"
        );
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn every_order_comes_up_equally_often() {
        let mut rng = Rng::new(5);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(
            counts.values().all(|c| (850..1150).contains(c)),
            "{counts:?}"
        );
    }
}
