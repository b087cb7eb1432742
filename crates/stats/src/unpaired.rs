//! Ratios of rates measured in different runs.

use super::evidence::Evidence;
use super::holm::{ComparisonTest, step_down};
use super::median::median;
use super::ratio::logs;
use crate::Ratio;

/// The ratios new / old of several comparisons of unpaired samples, at Holm's
/// levels, with `confidence` (such as 0.95) for the family. In the order given;
/// `None` where a side is empty.
///
/// Each is the median of all pairwise ratios (Hodges & Lehmann, on logarithms)
/// with the interval of the Mann-Whitney test (Hollander & Wolfe, section 4.3),
/// of the medians of consecutive blocks of at least `block` rounds. The rates
/// are in the order of their rounds; a `block` of 1 uses the rounds themselves.
/// Below [`super::MIN_SAMPLES`] rounds on a side there is no interval; where the
/// blocks are too few for the level it is the range of the ratios with its own
/// coverage. In both cases the verdict is undecided.
///
/// # Why blocks
/// A machine's rate drifts over seconds (heat, frequency, neighbours, page
/// placement), so neighbouring rounds resemble each other: an interval that
/// treats 30 of them as independent is too narrow. Slow drift mostly stays in
/// its block's median, so medians of blocks as long as the drift lasts are
/// nearly independent. The price is resolution: 6 blocks a side reach a level of
/// 2 / 924 at best, 4 blocks one of 2 / 70. This is the method of batch means
/// (Law, *Simulation Modeling and Analysis*, 5th ed., chapter 9) with medians in
/// place of means. It does not help against drift that lasts longer than a
/// block, nor against differences between the two runs as a whole.
pub fn holm_unpaired(
    comparisons: &[(Vec<f64>, Vec<f64>)],
    block: usize,
    confidence: f64,
) -> Vec<Option<Ratio>> {
    let comparisons: Vec<_> = comparisons
        .iter()
        .map(|(old, new)| {
            let (old, new) = (logs(old), logs(new));
            let rounds = old.len().min(new.len());
            let (old, new) = (block_medians(&old, block), block_medians(&new, block));
            Evidence::of_two_samples(old, new).map(|evidence| ComparisonTest { rounds, evidence })
        })
        .collect();
    step_down(&comparisons, confidence)
}

/// The medians of consecutive blocks of `block` values. Surplus values lengthen
/// some blocks by one each; fewer values than one block form one.
fn block_medians(values: &[f64], block: usize) -> Vec<f64> {
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

    fn unpaired_ratio(old: &[f64], new: &[f64], confidence: f64) -> Option<Ratio> {
        holm_unpaired(&[(old.to_vec(), new.to_vec())], 1, confidence)[0]
    }

    #[test]
    fn surplus_values_lengthen_blocks() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(block_medians(&values, 3), [1.5, 5.5]);
        assert_eq!(block_medians(&values, 1), values);
        assert_eq!(block_medians(&values, 0), values);
        assert_eq!(block_medians(&values, 99), [3.5]);
        assert_eq!(block_medians(&[], 3), Vec::<f64>::new());
    }

    #[test]
    fn a_clear_change_is_found_with_its_size() {
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
    fn six_against_six_leave_out_five_differences_a_side() {
        // P(U <= 5) = 19 / 924, the greatest below 2.5 %: the critical
        // value of the usual tables is 5.
        let ratio = unpaired_ratio(&rates(2.0, 6), &rates(3.0, 6), 0.95).unwrap();
        assert!(
            (ratio.estimate.interval.unwrap().coverage - (1.0 - 2.0 * 19.0 / 924.0)).abs() < 1e-12
        );
    }

    #[test]
    fn empty_sides_have_no_ratio_and_short_ones_no_interval() {
        assert_eq!(unpaired_ratio(&[], &rates(1.0, 9), 0.95), None);
        let ratio = unpaired_ratio(&rates(1.0, 5), &rates(1.0, 50), 0.95).unwrap();
        assert_eq!(ratio.estimate.interval, None);
        assert_eq!(ratio.verdict, Verdict::Undecided);
    }

    #[test]
    fn too_few_blocks_show_their_range_undecided() {
        let ratio = holm_unpaired(&[(rates(1.0, 9), rates(2.0, 9))], 3, 0.95)[0].unwrap();
        assert!((ratio.estimate.interval.unwrap().coverage - 0.9).abs() < 1e-12);
        assert!(ratio.estimate.interval.unwrap().low > 1.9);
        assert_eq!(ratio.verdict, Verdict::Undecided);
    }

    #[test]
    fn thousands_of_rounds_a_side_are_supported() {
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
