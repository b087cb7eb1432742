//! What an end of a channel reports.

use serde::{Deserialize, Serialize};

use super::counters::Reading;
use crate::channel::ZerocopyCounts;
use crate::record::EndCounters;

/// What took effect at an end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The pieces that the writer sends in turn.
    pub pieces: Option<usize>,
    /// The capacity of a ring in shared memory, in bytes.
    #[serde(default)]
    pub ring_bytes: Option<usize>,
    /// The alignment of the writer's buffers, in bytes.
    pub alignment: Option<usize>,
    /// Bytes of them in huge pages.
    pub huge_bytes: Option<u64>,
    /// How that was shown.
    pub huge_shown_by: Option<String>,
}

/// What an end measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Between the two offsets.
    pub counters: EndCounters,
    /// Rates of the successive parts of the timed part, in GiB/s; the reader's
    /// only.
    pub parts_gib_per_s: Vec<f64>,
    /// What the completions of MSG_ZEROCOPY said; a writer's that uses it.
    #[serde(default)]
    pub zerocopy: Option<ZerocopyCounts>,
    /// When the two readings were taken, in nanoseconds of CLOCK_MONOTONIC: what
    /// a profile of this end keeps its samples of.
    #[serde(default)]
    pub window_ns: (u64, u64),
}

impl Outcome {
    /// What was used between two readings.
    pub(super) fn between(first: &Reading, second: &Reading) -> Self {
        Outcome {
            counters: second.since(first),
            parts_gib_per_s: Vec::new(),
            zerocopy: None,
            window_ns: (first.monotonic_ns(), second.monotonic_ns()),
        }
    }
}
