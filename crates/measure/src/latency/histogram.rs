//! Round trips by how long they took.

use hdrhistogram::Histogram;

/// Number of significant digits kept of each value.
const DIGITS: u8 = 3;
/// Longer round trips are recorded as this: an hour, in nanoseconds.
const MAX_NS: u64 = 3_600_000_000_000;

/// The values of a histogram in ascending order, in nanoseconds, each with how
/// often it came: how a histogram travels and is saved.
pub type Counts = Vec<(u64, u64)>;

/// How long round trips took, in nanoseconds, to three digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let made = Histogram::new_with_bounds(1, MAX_NS, DIGITS);
        Latencies(made.expect("these bounds are valid"))
    }
}

impl Latencies {
    /// Those that travelled here.
    pub fn of(counts: &Counts) -> Self {
        let mut all = Latencies::default();
        all.add(counts);
        all
    }

    /// Adds a round trip.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds those of another histogram.
    pub fn add(&mut self, counts: &Counts) {
        for (ns, count) in counts {
            self.0.saturating_record_n(*ns, *count);
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time within which this percentage came back, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// To send or save them.
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
    fn histograms_that_travelled_add_up_to_one_of_all_values() {
        let (mut all, mut low, mut high) = <(Latencies, Latencies, Latencies)>::default();
        for ns in 1..=20_000_u64 {
            all.record(ns * 7);
            match ns % 3 {
                0 => low.record(ns * 7),
                _ => high.record(ns * 7),
            }
        }
        let mut merged = Latencies::of(&low.counts());
        merged.add(&high.counts());
        assert_eq!(merged.counts(), all.counts());
        assert_eq!(merged.len(), 20_000);
        for (percent, exact) in [(50.0, 70.0), (90.0, 126.0), (99.9, 139.86), (100.0, 140.0)] {
            let us = merged.percentile_us(percent);
            assert!((us / exact - 1.0).abs() < 0.001, "{percent}: {us}");
        }
    }

    #[test]
    fn what_is_longer_than_can_be_told_counts_as_the_longest() {
        let mut one = Latencies::default();
        one.record(u64::MAX);
        one.record(0);
        assert_eq!(one.len(), 2);
        assert!(one.max_us() >= MAX_NS as f64 / 1e3);
    }
}
