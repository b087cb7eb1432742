//! Numbers in sentences. Each carries its value, so that a sentence can be compared with the
//! record: `<data value="50.3">50.3 GiB/s</data>`.

use maud::{Markup, Render, html};
use pipespeed_base::size;
use pipespeed_stats::{Estimate, Interval};

use crate::format::{fixed, significant};

/// A number with its unit, and its value in the unit of the record.
pub(super) struct Figure {
    value: f64,
    shown: String,
    is_published: bool,
}

impl Render for Figure {
    fn render(&self) -> Markup {
        let class = self.is_published.then_some("published");
        html! { data class=[class] value=(self.value) { (self.shown) } }
    }
}

fn figure(value: f64, shown: String) -> Figure {
    Figure {
        value,
        shown,
        is_published: false,
    }
}

/// A number without a unit: `50.3`.
pub(super) fn plain(value: f64) -> Figure {
    figure(value, significant(value))
}

/// A number with a unit, which a no-break space joins to it.
fn with_unit(value: f64, shown: f64, unit: &str) -> Figure {
    figure(value, format!("{}\u{a0}{unit}", significant(shown)))
}

/// A rate in GiB/s.
pub(super) fn rate(gib_per_s: f64) -> Figure {
    with_unit(gib_per_s, gib_per_s, "GiB/s")
}

/// A time in microseconds.
pub(super) fn us(us: f64) -> Figure {
    with_unit(us, us, "us")
}

/// A time in nanoseconds.
pub(super) fn ns(ns: f64) -> Figure {
    with_unit(ns, ns, "ns")
}

/// A time in seconds, shown in milliseconds.
pub(super) fn ms(seconds: f64) -> Figure {
    with_unit(seconds, seconds * 1e3, "ms")
}

/// A ratio: `x1.93`.
pub(super) fn times(ratio: f64) -> Figure {
    figure(ratio, crate::format::times(ratio))
}

/// The end of a ratio's interval: `1.93`.
fn ratio_end(ratio: f64) -> Figure {
    figure(ratio, crate::format::times(ratio)[1..].to_owned())
}

/// A size: `256 KiB`.
pub(super) fn bytes(bytes: usize) -> Figure {
    let shown = size::exact(bytes as u64);
    let unit = shown.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
    let (number, unit) = shown.split_at(unit);
    let unit = if unit == "B" { "bytes" } else { unit };
    figure(bytes as f64, format!("{number}\u{a0}{unit}"))
}

/// A count: `30`.
pub(super) fn count(count: usize) -> Figure {
    figure(count as f64, count.to_string())
}

/// A share in percent: `12 %`.
pub(super) fn percent(share: f64) -> Figure {
    figure(share, format!("{}\u{a0}%", fixed(share * 100.0, 0)))
}

/// A published number, which no record contains.
pub(super) fn published(value: f64, shown: &str) -> Figure {
    Figure {
        is_published: true,
        ..figure(value, shown.to_owned())
    }
}

/// An interval in brackets, after a space; empty if there is none.
fn interval(interval: Option<Interval>, end: fn(f64) -> Figure) -> Markup {
    html! {
        @if let Some(Interval { low, high, .. }) = interval {
            " " span.interval { "[" (end(low)) ", " (end(high)) "]" }
        }
    }
}

/// A rate with its interval: `50.3 GiB/s [48.9, 50.9]`.
pub(super) fn rate_of(estimate: &Estimate) -> Markup {
    html! { (rate(estimate.median)) (interval(estimate.interval, plain)) }
}

/// A ratio with its interval: `x1.93 [1.80, 2.05]`.
pub(super) fn ratio_of(estimate: &Estimate) -> Markup {
    html! { (times(estimate.median)) (interval(estimate.interval, ratio_end)) }
}

/// A time in microseconds with its interval.
pub(super) fn us_of(estimate: &Estimate) -> Markup {
    html! { (us(estimate.median)) (interval(estimate.interval, plain)) }
}

/// A time in nanoseconds with its interval.
pub(super) fn ns_of(estimate: &Estimate) -> Markup {
    html! { (ns(estimate.median)) (interval(estimate.interval, plain)) }
}
