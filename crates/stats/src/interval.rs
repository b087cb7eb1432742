//! Intervals, and the middle of ordered values.

use serde::{Deserialize, Serialize};

/// An interval for a centre, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end: one of the samples.
    pub low: f64,
    /// Upper end: one of the samples.
    pub high: f64,
    /// The probability, from 0 to 1, that such an interval contains the true
    /// centre. At least the requested confidence, since order statistics allow
    /// only certain levels.
    pub coverage: f64,
}

/// The median of `len` ordered values, where `at` returns the value at an index.
pub(super) fn middle(len: usize, at: impl Fn(usize) -> f64) -> f64 {
    if len % 2 == 1 {
        at(len / 2)
    } else {
        f64::midpoint(at(len / 2 - 1), at(len / 2))
    }
}
