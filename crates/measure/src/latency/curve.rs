//! The distribution that is drawn: at each percentage the median over launches,
//! as the table has it. Each launch counts once, however many round trips it
//! made: a fast one makes fifty times as many as a slow one in the same time.

use super::histogram::Latencies;
use pipespeed_stats::median;

/// The percentages of round trips that are drawn: 50, and from there on points
/// by rarity, 90 and 99 being one step apart. Those that are named in the table
/// are among them.
const PER_STEP: i32 = 30;
const STEPS: i32 = 2;
/// Of all launches together so many round trips must have been longer, and one
/// of each, for a percentile to be told.
const BEYOND: f64 = 5.0;

/// Percentages, each with the median over launches of the microseconds within
/// which so many round trips came back.
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

/// The highest percentage that launches can tell of which the shortest made so
/// many round trips.
fn highest(min_count: u64, launches: usize) -> f64 {
    let beyond = (BEYOND / launches.max(1) as f64).max(1.0);
    (100.0 - 100.0 * beyond / min_count.max(1) as f64).max(50.0)
}

/// The curve of launches whose [`times_us`] and fewest round trips are these.
pub(super) fn curve(launches: &[&[f64]], min_count: u64) -> Curve {
    let highest = highest(min_count, launches.len());
    percentages()
        .enumerate()
        // Sums of tenths are not exact.
        .take_while(|(_, percent)| *percent <= highest + 1e-9)
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
    fn what_the_table_names_is_drawn_too() {
        let drawn: Vec<f64> = percentages().collect();
        assert!(drawn.is_sorted());
        for named in [50.0, 90.0, 99.0, 99.9, 99.99] {
            assert!(drawn.contains(&named), "{named}: {drawn:?}");
        }
        assert_eq!(drawn.last(), Some(&99.99));
    }

    #[test]
    fn a_percentile_is_drawn_only_where_some_were_longer() {
        assert_eq!(highest(3, 1), 50.0);
        assert!((highest(1000, 1) - 99.5).abs() < 1e-9);
        assert!((highest(1000, 9) - 99.9).abs() < 1e-9);
        let times = times_us(&Latencies::of(&vec![(1000, 1000)]));
        let drawn = curve(&[times.as_slice(); 9], 1000);
        assert_eq!(drawn.last().map(|(percent, _)| *percent), Some(99.9));
    }
}
