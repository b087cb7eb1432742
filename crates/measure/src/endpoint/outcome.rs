//! The reports of an end of a channel.

use serde::{Deserialize, Serialize};

use super::counters::Reading;
use crate::record::EndCounters;

/// The measurements of an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The usage between the two offsets.
    pub counters: EndCounters,
    /// Rates of the successive parts of the timed part, in GiB/s; the reader's
    /// only.
    pub parts_gib_per_s: Vec<f64>,
    /// The times of the two readings, in nanoseconds of CLOCK_MONOTONIC. A profile of
    /// this end keeps the samples between them.
    #[serde(default)]
    pub window_ns: (u64, u64),
}

impl Outcome {
    /// The usage between two readings.
    pub(super) fn between(first: &Reading, second: &Reading) -> Self {
        Outcome {
            counters: second.since(first),
            parts_gib_per_s: Vec::new(),
            window_ns: (first.monotonic_ns, second.monotonic_ns),
        }
    }
}
