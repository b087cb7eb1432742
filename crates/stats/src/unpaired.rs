//! The ratio of two rates measured in different runs.

use super::holm::holm_unpaired;
use super::median::median;
use crate::Ratio;

/// The ratio new / old of two independent sets of rates: the median of all
/// pairwise ratios (Hodges & Lehmann, on logarithms) with the interval of the
/// Mann-Whitney test (Hollander & Wolfe, section 4.3) at `confidence`, such as
/// 0.95. `None` when a side has no rates.
///
/// What is assumed: rounds are independent and the two distributions differ by
/// a factor alone. Rounds of one run are seldom independent, see
/// [`unpaired_ratio_blocked`]; and neither function can know how much the
/// machine differs from run to run, of which there are only two.
///
/// Below [`super::MIN_SAMPLES`] rounds on a side there is no interval; where the
/// level is out of reach it is the range of the ratios with its own coverage;
/// in both cases the verdict is undecided.
pub fn unpaired_ratio(old: &[f64], new: &[f64], confidence: f64) -> Option<Ratio> {
    unpaired_ratio_blocked(old, new, 1, confidence)
}

/// [`unpaired_ratio`] of the medians of consecutive blocks of at least `block`
/// rounds, the rates being in the order of their rounds.
///
/// A machine's rate wanders over seconds (heat, frequency, neighbours, where
/// memory fell), so rounds near each other resemble each other: 30 of them say
/// less than 30 independent ones, and an interval that counts them as 30 is too
/// narrow. Within a block the wandering is common and mostly stays in the
/// block's median; blocks as long as the wandering lasts are nearly
/// independent of each other. The price is resolution: 6 blocks a side can
/// reach a level of 2 / 924, 4 blocks one of 2 / 70.
///
/// This is the method of batch means (Law, *Simulation Modeling and Analysis*,
/// 5th ed., chapter 9) with medians in place of means. It does not help
/// against wandering that lasts longer than a block.
pub fn unpaired_ratio_blocked(
    old: &[f64],
    new: &[f64],
    block: usize,
    confidence: f64,
) -> Option<Ratio> {
    holm_unpaired(&[(old.to_vec(), new.to_vec())], block, confidence)
        .into_iter()
        .next()?
}

/// The medians of consecutive blocks of `block` values. Those left over lengthen
/// the blocks by one each, so that no value is discarded; fewer values than one
/// block are a block.
pub(super) fn block_medians(values: &[f64], block: usize) -> Vec<f64> {
    let blocks = (values.len() / block.max(1)).max(1);
    (0..blocks)
        .map(|i| i * values.len() / blocks..(i + 1) * values.len() / blocks)
        .filter_map(|range| median(&values[range]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, Verdict};
    use proptest::prelude::*;

    fn rates(center: f64, n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| center * (1.0 + 0.02 * ((i * 7 % n) as f64 / n as f64 - 0.5)))
            .collect()
    }

    #[test]
    fn blocks_take_in_what_is_left_over() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(block_medians(&values, 3), [1.5, 5.5]);
        assert_eq!(block_medians(&values, 1), values);
        assert_eq!(block_medians(&values, 0), values);
        assert_eq!(block_medians(&values, 99), [3.5]);
        assert_eq!(block_medians(&[], 3), Vec::<f64>::new());
    }

    #[test]
    fn a_clear_change_is_found_and_its_size_too() {
        let ratio = unpaired_ratio(&rates(2.0, 30), &rates(3.0, 20), 0.95).unwrap();
        assert!((ratio.estimate.median - 1.5).abs() < 0.01);
        assert_eq!(ratio.verdict, Verdict::Faster);
    }

    #[test]
    fn a_run_compared_with_itself_is_the_same() {
        let ratio = unpaired_ratio(&rates(2.0, 30), &rates(2.0, 30), 0.95).unwrap();
        assert!((ratio.estimate.median - 1.0).abs() < 1e-12);
        assert_eq!(ratio.verdict, Verdict::Same);
    }

    #[test]
    fn the_interval_of_six_against_six_leaves_out_five_differences_a_side() {
        // P(U <= 5) = 19 / 924, the greatest below 2.5 %: the critical
        // value of the usual tables is 5.
        let ratio = unpaired_ratio(&rates(2.0, 6), &rates(3.0, 6), 0.95).unwrap();
        assert!(
            (ratio.estimate.interval.unwrap().coverage - (1.0 - 2.0 * 19.0 / 924.0)).abs() < 1e-12
        );
    }

    #[test]
    fn a_side_without_rates_has_no_ratio_and_a_short_one_no_interval() {
        assert_eq!(unpaired_ratio(&[], &rates(1.0, 9), 0.95), None);
        let ratio = unpaired_ratio(&rates(1.0, 5), &rates(1.0, 50), 0.95).unwrap();
        assert_eq!(ratio.estimate.interval, None);
        assert_eq!(ratio.verdict, Verdict::Undecided);
    }

    #[test]
    fn too_few_blocks_show_their_range_undecided() {
        let ratio = unpaired_ratio_blocked(&rates(1.0, 9), &rates(2.0, 9), 3, 0.95).unwrap();
        assert!((ratio.estimate.interval.unwrap().coverage - 0.9).abs() < 1e-12);
        assert!(ratio.estimate.interval.unwrap().low > 1.9);
        assert_eq!(ratio.verdict, Verdict::Undecided);
    }

    #[test]
    fn thousands_of_rounds_a_side_are_no_burden() {
        let ratio = unpaired_ratio(&rates(2.0, 5001), &rates(2.2, 4001), 0.999).unwrap();
        assert_eq!(ratio.verdict, Verdict::Faster);
        assert!(ratio.estimate.interval.unwrap().coverage >= 0.999);
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_gives_the_reciprocal(
            old in prop::collection::vec(0.5f64..2.0, 6..30),
            new in prop::collection::vec(0.5f64..2.0, 6..30),
        ) {
            let ratio = unpaired_ratio(&old, &new, 0.95).unwrap();
            let other = unpaired_ratio(&new, &old, 0.95).unwrap();
            let Interval { low, high, coverage } = ratio.estimate.interval.unwrap();
            let turned = other.estimate.interval.unwrap();
            prop_assert!(low <= ratio.estimate.median && ratio.estimate.median <= high);
            prop_assert!(coverage >= 0.95 - 1e-9);
            prop_assert!((ratio.estimate.median * other.estimate.median - 1.0).abs() < 1e-12);
            prop_assert!((low * turned.high - 1.0).abs() < 1e-12);
            prop_assert!((high * turned.low - 1.0).abs() < 1e-12);
        }
    }
}
