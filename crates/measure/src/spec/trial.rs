//! A trial: how long it lasts, what its processes receive, and what becomes of the data.

use serde::{Deserialize, Serialize};

use super::subject::Subject;

/// The minimum duration of the parts of a trial, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    /// The warm-up.
    pub warm_up_s: f64,
    /// The timed part.
    pub timed_s: f64,
}

impl Durations {
    /// Parts of these durations, in seconds.
    pub const fn new(warm_up_s: f64, timed_s: f64) -> Self {
        Durations { warm_up_s, timed_s }
    }

    /// Both parts together.
    pub fn sum_s(self) -> f64 {
        self.warm_up_s + self.timed_s
    }
}

/// The specification of an endpoint process for a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndSpec {
    /// What runs.
    pub subject: Subject,
    /// What is done with the data.
    pub data: DataUse,
    /// Passes of computing over the data.
    pub work: u32,
    /// The minimum durations of its parts.
    pub durations: Durations,
    /// The volume of the timed part, in bytes; `None` if time ends it.
    pub timed_bytes: Option<u64>,
    /// How far ahead of the writer the reader publishes an offset, in bytes: more than
    /// the writer may send before it sees the offset.
    pub margin: u64,
    /// The number of bytes between two reads of the clock.
    pub look_every: u64,
    /// Slows the reader down by this share of its time. Tests of the method use it to
    /// check that a change is detected; 0 otherwise.
    pub slow_down: f64,
}

pipespeed_base::named! {
    /// What the two ends do with the data.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DataUse {
        /// spliced to /dev/null, never read
        ///
        /// The same bytes repeatedly.
        Discard = "discard",
        /// copied into the reader's memory
        ///
        /// The same bytes repeatedly.
        Read = "read",
        /// produced by the writer and used by the reader
        Touch = "touch",
        /// as touch, and every byte compared with its expected value
        Verify = "verify",
    }
}

impl DataUse {
    /// What was done with the data, for tables.
    pub fn outcome(self) -> &'static str {
        match self {
            DataUse::Discard => "discarded",
            DataUse::Read => "read",
            DataUse::Touch => "touched",
            DataUse::Verify => "verified",
        }
    }
}
