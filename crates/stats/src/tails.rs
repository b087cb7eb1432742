//! Lower tails of the null distributions: binomial, Mann-Whitney, and the normal
//! approximation of the latter for large samples.

/// P(T <= k) of a statistic T that is symmetric about its middle.
#[derive(Debug, Clone)]
pub(super) enum Tails {
    /// Exact: entry k is P(T <= k), up to the middle of the distribution.
    Table(Vec<f64>),
    /// Normal approximation of a statistic on the whole numbers.
    Normal {
        /// Mean of the statistic.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
    },
}

impl Tails {
    /// The number of heads of `n` fair coins: the sign test's statistic.
    ///
    /// Weights are computed relative to the middle one and divided by their sum:
    /// no factorial is needed, only weights below 1e-300 underflow, and the
    /// relative error is about n times 1e-16.
    pub(super) fn binomial(n: usize) -> Tails {
        let middle = n / 2;
        let mut weights = vec![1.0; middle + 1];
        for k in (1..=middle).rev() {
            weights[k - 1] = weights[k] * k as f64 / (n - k + 1) as f64;
        }
        let lower: f64 = weights.iter().sum();
        // All weights occur twice, except the middle one of an even n.
        let total = if n.is_multiple_of(2) {
            2.0 * lower - 1.0
        } else {
            2.0 * lower
        };
        Tails::Table(cumulated(weights.into_iter().map(|w| w / total)))
    }

    /// The Mann-Whitney U of samples of sizes `m` and `n`: exact if the number of
    /// arrangements fits into 120 bits (60 and 60, or 6 and thousands), else the
    /// normal approximation with continuity correction.
    ///
    /// With ties both are conservative: intervals get too wide, never too narrow
    /// (Hollander & Wolfe, section 4.1, comments on ties).
    pub(super) fn mann_whitney(m: usize, n: usize) -> Tails {
        let Some(total) = arrangements(m, n) else {
            let (m, n) = (m as f64, n as f64);
            return Tails::Normal {
                mean: m * n / 2.0,
                deviation: (m * n * (m + n + 1.0) / 12.0).sqrt(),
            };
        };
        let counts = u_counts(m, n).into_iter();
        Tails::Table(cumulated(counts.map(|c| c as f64 / total as f64)))
    }

    /// P(T <= k); 1 above the middle, where no caller needs more.
    pub(super) fn at(&self, k: usize) -> f64 {
        match self {
            Tails::Table(table) => table.get(k).copied().unwrap_or(1.0),
            Tails::Normal { mean, deviation } => {
                let z = (k as f64 + 0.5 - mean) / deviation;
                if z >= 0.0 { 1.0 } else { normal_tail(-z) }
            }
        }
    }
}

fn cumulated(probabilities: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    probabilities
        .map(|p| {
            sum += p;
            sum
        })
        .collect()
}

/// The binomial coefficient m + n over m; `None` above 120 bits.
fn arrangements(m: usize, n: usize) -> Option<i128> {
    let (few, many) = (m.min(n) as i128, m.max(n) as i128);
    let mut count: i128 = 1;
    for i in 1..=few {
        count = count.checked_mul(many + i)? / i;
        if count >> 120 != 0 {
            return None;
        }
    }
    Some(count)
}

/// The number of arrangements with each value of U from 0 to the middle, m n / 2:
/// the coefficients of the Gaussian binomial, the product over i = 1..=m of
/// (1 - q^(n+i)) / (1 - q^i) (Andrews, *The Theory of Partitions*, chapter 3).
/// Exact, in whole numbers.
fn u_counts(m: usize, n: usize) -> Vec<i128> {
    let (few, many) = (m.min(n), m.max(n));
    let top = few * many / 2;
    let mut counts = vec![0i128; top + 1];
    counts[0] = 1;
    for i in 1..=few {
        for u in (many + i..=top).rev() {
            counts[u] -= counts[u - many - i];
        }
        for u in i..=top {
            counts[u] += counts[u - i];
        }
    }
    counts
}

/// P(Z >= z) of a standard normal Z, for z >= 0: the series 26.2.11 and the
/// continued fraction 26.2.14 of Abramowitz & Stegun, *Handbook of Mathematical
/// Functions*. The fraction stays accurate in the far tail, which corrections for
/// many comparisons need.
fn normal_tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 3.0 {
        let mut fraction = z;
        for k in (1..=80).rev() {
            fraction = z + f64::from(k) / fraction;
        }
        return density / fraction;
    }
    let (mut term, mut sum) = (z, z);
    for k in 1..=80 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, relative: f64) {
        assert!((a / b - 1.0).abs() < relative, "{a} is not {b}");
    }

    #[test]
    fn the_binomial_tail_is_what_counting_gives() {
        for n in 1..=60usize {
            let tails = Tails::binomial(n);
            let (mut choose, mut sum) = (1u128, 0u128);
            for k in 0..=n / 2 {
                sum += choose;
                close(tails.at(k), sum as f64 / 2f64.powi(n as i32), 1e-13);
                choose = choose * (n - k) as u128 / (k + 1) as u128;
            }
        }
    }

    #[test]
    fn the_binomial_tail_of_a_hundred_thousand_follows_the_normal_one() {
        let n = 100_000;
        let tails = Tails::binomial(n);
        for k in [49_300usize, 49_690, 49_900, 49_999] {
            let z = (50_000.0 - k as f64 - 0.5) / (n as f64 / 4.0).sqrt();
            close(tails.at(k), normal_tail(z), 1e-3);
        }
    }

    #[test]
    fn the_normal_tail_has_its_tabulated_values() {
        close(normal_tail(0.0), 0.5, 1e-14);
        close(normal_tail(1.0), 0.158_655_253_931_457, 1e-13);
        close(normal_tail(1.959_963_984_540_054), 0.025, 1e-12);
        close(normal_tail(3.0), 0.001_349_898_031_630_09, 1e-11);
        close(normal_tail(3.000_001), 0.001_349_893_599_773_97, 1e-8);
        close(normal_tail(5.0), 2.866_515_718_791_94e-7, 1e-12);
    }

    /// The naive model: every way of choosing the ranks of the first sample.
    fn u_counts_by_enumeration(m: usize, n: usize) -> Vec<i128> {
        let mut counts = vec![0; m * n + 1];
        for chosen in 0u32..1 << (m + n) {
            if chosen.count_ones() as usize == m {
                let (mut u, mut others) = (0, 0);
                for rank in 0..m + n {
                    if chosen >> rank & 1 == 1 {
                        u += others;
                    } else {
                        others += 1;
                    }
                }
                counts[u] += 1;
            }
        }
        counts.truncate(m * n / 2 + 1);
        counts
    }

    #[test]
    fn the_counts_of_u_are_those_of_an_enumeration() {
        for (m, n) in [(1, 1), (1, 5), (2, 3), (4, 4), (5, 3), (6, 6), (3, 9)] {
            let expected = u_counts_by_enumeration(m, n);
            assert_eq!(u_counts(m, n), expected, "{m} against {n}");
        }
        assert_eq!(arrangements(6, 6), Some(924));
    }

    #[test]
    fn the_counts_of_large_samples_add_up_to_all_arrangements() {
        for (m, n) in [(59, 61), (6, 2000)] {
            // An odd m n has no middle value, so one half is all of it.
            let counts: i128 = u_counts(m, n).iter().sum();
            let middle = if m * n % 2 == 0 {
                u_counts(m, n)[m * n / 2]
            } else {
                0
            };
            assert_eq!(Some(2 * counts - middle), arrangements(m, n));
        }
    }

    #[test]
    fn the_exact_tail_of_u_is_near_the_normal_one() {
        let exact = Tails::mann_whitney(60, 60);
        assert!(matches!(exact, Tails::Table(_)));
        assert!(matches!(Tails::mann_whitney(80, 80), Tails::Normal { .. }));
        let normal = Tails::Normal {
            mean: 1800.0,
            deviation: (3600.0f64 * 121.0 / 12.0).sqrt(),
        };
        for k in [1300, 1426, 1600, 1790] {
            // In the range of usual levels the approximation is conservative.
            assert!(normal.at(k) > exact.at(k) || exact.at(k) > 0.05);
            close(exact.at(k), normal.at(k), 0.05);
        }
    }

    #[test]
    fn few_samples_against_very_many_stay_exact() {
        assert!(matches!(Tails::mann_whitney(6, 2000), Tails::Table(_)));
    }
}
