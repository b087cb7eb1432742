//! Numbers and paragraphs in print.

pub use pipespeed_base::text::{fixed, pluralize, significant, wrap};
use pipespeed_pipeline::diagnosis::Who;
use pipespeed_stats::{Estimate, Interval};

/// An interval: `[4.05, 4.40]`; empty if there were too few rounds for one.
pub fn interval(interval: Option<Interval>) -> String {
    ends(interval, significant)
}

/// A ratio: `x1.93`.
pub fn times(ratio: f64) -> String {
    format!("x{}", hundredths(ratio))
}

/// A ratio's interval: `[0.97, 1.03]`; empty if there is none.
pub fn ratio_interval(interval: Option<Interval>) -> String {
    ends(interval, hundredths)
}

fn ends(interval: Option<Interval>, shown: fn(f64) -> String) -> String {
    interval.map_or_else(String::new, |i| {
        format!("[{}, {}]", shown(i.low), shown(i.high))
    })
}

/// Ratios near 1 have two decimals, above and below it.
fn hundredths(ratio: f64) -> String {
    if (0.1..9.995).contains(&ratio) {
        fixed(ratio, 2)
    } else {
        significant(ratio)
    }
}

/// A ratio and its interval: `x1.93 [1.80, 2.05]`.
pub fn ratio(estimate: Estimate) -> String {
    let interval = ratio_interval(estimate.interval);
    format!("{} {interval}", times(estimate.median))
        .trim_end()
        .to_owned()
}

/// A rate with its interval: `50.3 GiB/s [48.9, 50.9]`.
pub(super) fn gib_per_s(rate: &Estimate) -> String {
    let (median, ends) = (significant(rate.median), interval(rate.interval));
    format!("{median} GiB/s {ends}").trim_end().to_owned()
}

/// A time as a number or, if it is below the resolution of the method, as `<0.1`; `0` if it is
/// negative by a rounding error.
pub(super) fn resolved(value: f64, resolution: f64) -> String {
    if value.abs() >= resolution {
        significant(value)
    } else if value > 0.0 {
        format!("<{resolution}")
    } else {
        "0".to_owned()
    }
}

/// Groups the items by key, in the order of their first items.
pub(super) fn grouped<K: PartialEq, V>(
    items: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// A share in percent with this number of decimals: `12 %`, `12.5 %`.
pub(super) fn percent(share: f64, decimals: usize) -> String {
    format!("{} %", fixed(share * 100.0, decimals))
}

/// A confidence level: `95 %`, `99.5 %`.
pub(super) fn level(share: f64) -> String {
    let tenths = fixed(share * 100.0, 1);
    format!("{} %", tenths.trim_end_matches(".0"))
}

/// A process by its name and number: `cat (pid 7)`.
pub(super) fn full(who: &Who) -> String {
    format!("{} (pid {})", who.name, who.pid)
}

/// Joins names: `a, b and c`.
pub(super) fn list(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interval_is_empty() {
        let ends = Interval {
            low: 4.05,
            high: 4.4,
            coverage: 0.95,
        };
        assert_eq!(interval(Some(ends)), "[4.05, 4.40]");
        assert_eq!(ratio_interval(Some(ends)), "[4.05, 4.40]");
        assert_eq!(interval(None), "");
    }

    #[test]
    fn times_that_mean_nothing_are_not_spelled_out() {
        let shown = |value| resolved(value, 0.1);
        assert_eq!(shown(2.83e-11), "<0.1");
        assert_eq!(shown(0.0999), "<0.1");
        assert_eq!((&*shown(0.0), &*shown(-2.83e-11)), ("0", "0"));
        assert_eq!((&*shown(0.1), &*shown(-0.25)), ("0.100", "-0.250"));
        assert_eq!(resolved(0.00003, 0.0001), "<0.0001");
    }

    #[test]
    fn levels_are_shown_as_requested() {
        assert_eq!(level(0.95), "95 %");
        assert_eq!(level(0.995), "99.5 %");
    }
}
