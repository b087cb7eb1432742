//! The distribution in the chart: at each percentage the median over launches, as in
//! the table. All launches have the same weight, however many round trips they made: a
//! fast one makes fifty times as many as a slow one in the same time.

use super::histogram::Latencies;
use pipespeed_stats::median;

/// Points per step in the chart. Each step divides the share of longer round trips
/// by 10, such as from 90 % to 99 %; the table's percentages are among the points.
const PER_STEP: i32 = 30;
/// The number of steps after 99 %.
const STEPS: i32 = 2;
/// A percentile is shown if at least this many round trips of all launches together,
/// and one of each launch, took longer.
const MIN_LONGER: f64 = 5.0;

/// Percentages, each with the time in microseconds within which this percentage of
/// round trips came back: the median over launches.
pub type Curve = Vec<(f64, f64)>;

/// The percentages, in ascending order.
fn percentages() -> impl Iterator<Item = f64> {
    let further = PER_STEP / 3 + 1..=PER_STEP * (STEPS + 2);
    let rare = further.map(|at| 100.0 - 10_f64.powf(2.0 - f64::from(at) / f64::from(PER_STEP)));
    std::iter::once(50.0).chain(rare)
}

/// One launch's times at all percentages, in microseconds.
pub(super) fn times_us(latencies: &Latencies) -> Vec<f64> {
    percentages()
        .map(|percent| latencies.percentile_us(percent))
        .collect()
}

/// The highest percentage to show for launches of at least `min_count` round trips
/// each.
fn max_percentage(min_count: u64, launches: usize) -> f64 {
    let longer = (MIN_LONGER / launches.max(1) as f64).max(1.0);
    (100.0 - 100.0 * longer / min_count.max(1) as f64).max(50.0)
}

/// The curve of launches with these [`times_us`] and at least `min_count` round trips
/// each.
pub(super) fn curve(launches: &[&[f64]], min_count: u64) -> Curve {
    let limit = max_percentage(min_count, launches.len());
    percentages()
        .enumerate()
        // The percentages have rounding errors.
        .take_while(|(_, percent)| *percent <= limit + 1e-9)
        .filter_map(|(at, percent)| {
            let times: Vec<f64> = launches.iter().map(|times| times[at]).collect();
            Some((percent, median(&times)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_has_the_percentages_of_the_table() {
        let drawn: Vec<f64> = percentages().collect();
        assert!(drawn.is_sorted());
        for percent in [50.0, 90.0, 99.0, 99.9, 99.99] {
            assert!(drawn.contains(&percent), "{percent}: {drawn:?}");
        }
        assert_eq!(drawn.last(), Some(&99.99));
    }

    #[test]
    fn percentiles_without_longer_round_trips_are_left_out() {
        assert_eq!(max_percentage(3, 1), 50.0);
        assert!((max_percentage(1000, 1) - 99.5).abs() < 1e-9);
        assert!((max_percentage(1000, 9) - 99.9).abs() < 1e-9);
        let times = times_us(&Latencies::from_counts(&vec![(1000, 1000)]));
        let drawn = curve(&[times.as_slice(); 9], 1000);
        assert_eq!(drawn.last().map(|(percent, _)| *percent), Some(99.9));
    }
}
