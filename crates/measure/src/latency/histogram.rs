//! Histograms of round-trip times.

use hdrhistogram::Histogram;

/// Number of significant digits kept of each value.
const DIGITS: u8 = 3;
/// Longer round trips are recorded as this: an hour, in nanoseconds.
const MAX_NS: u64 = 3_600_000_000_000;

/// The values of a histogram in nanoseconds, ascending, each with its count. Histograms
/// are sent and saved in this form.
pub type Counts = Vec<(u64, u64)>;

/// Round-trip times in nanoseconds, to three significant digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, DIGITS);
        Latencies(histogram.expect("these bounds are valid"))
    }
}

impl Latencies {
    /// The histogram with these counts.
    pub fn from_counts(counts: &Counts) -> Self {
        let mut all = Latencies::default();
        all.add(counts);
        all
    }

    /// Adds a round trip.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, counts: &Counts) {
        for (ns, count) in counts {
            self.0.saturating_record_n(*ns, *count);
        }
    }

    /// The number of round trips.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are no round trips.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time within which this percentage of messages came back, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// The counts, to send or save them.
    pub fn counts(&self) -> Counts {
        self.0
            .iter_recorded()
            .map(|at| (at.value_iterated_to(), at.count_at_value()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_merge_into_one_of_all_values() {
        let (mut all, mut low, mut high) = <(Latencies, Latencies, Latencies)>::default();
        for ns in 1..=20_000_u64 {
            all.record(ns * 7);
            match ns % 3 {
                0 => low.record(ns * 7),
                _ => high.record(ns * 7),
            }
        }
        let mut merged = Latencies::from_counts(&low.counts());
        merged.add(&high.counts());
        assert_eq!(merged.counts(), all.counts());
        assert_eq!(merged.len(), 20_000);
        for (percent, exact) in [(50.0, 70.0), (90.0, 126.0), (99.9, 139.86), (100.0, 140.0)] {
            let us = merged.percentile_us(percent);
            assert!((us / exact - 1.0).abs() < 0.001, "{percent}: {us}");
        }
    }

    #[test]
    fn times_above_the_maximum_count_as_the_maximum() {
        let mut one = Latencies::default();
        one.record(u64::MAX);
        one.record(0);
        assert_eq!(one.len(), 2);
        assert!(one.max_us() >= MAX_NS as f64 / 1e3);
    }
}
