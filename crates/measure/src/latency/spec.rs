//! The specification that both processes of a trial receive, and the sender's outcome.

use serde::{Deserialize, Serialize};

use super::histogram::Counts;
use crate::spec::{Channel, Waiting};

/// How long a trial lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// A number of round trips.
    Count(u64),
    /// A duration in nanoseconds.
    Time(u64),
}

/// The kind of exchange.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeMode {
    /// The next message is sent when the previous one has come back.
    Closed,
    /// Messages are sent at this rate per second, whether or not any came back.
    Open(f64),
    /// An exchange that can deadlock.
    Naive(Naive),
}

pipespeed_base::named! {
    /// The exchanges that deadlock if a message is larger than the channel's capacity.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Naive {
        /// each end reads once, and takes a part for the whole message
        ///
        /// The sender writes, then reads; the echo reads and answers with what it has read. Each
        /// reads with one call, whether or not that returns the whole message.
        ShortReads = "short-reads",
        /// both ends write before they read
        ///
        /// Then each reads the other's message completely.
        WriteFirst = "write-first",
    }
}

/// The specification of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The channel that the descriptors belong to.
    pub channel: Channel,
    /// Bytes of a message.
    pub size: usize,
    /// The capacity of pipes; `None` for the default.
    pub pipe_bytes: Option<usize>,
    /// The kind of exchange.
    pub mode: ExchangeMode,
    /// How long the timed part lasts.
    pub length: Length,
    /// How it waits.
    pub wait: Waiting,
    /// Whether the other process has a processor of its own, so that spinning
    /// does not keep it from running.
    pub apart: bool,
}

/// What the sender measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTripOutcome {
    /// The histogram of round trips.
    pub counts: Counts,
    /// Seconds from the first message to the last answer; in an open loop to
    /// when the message after the last one would have been due, if that is
    /// later.
    pub seconds: f64,
    /// Messages that had not come back when an open loop gave up; they are in
    /// `counts` with the time they had waited until then.
    pub unanswered: u64,
    /// Reads that returned only a part of a message, and ended the round trip all the
    /// same; only with [`Naive::ShortReads`].
    pub short_reads: u64,
    /// How long the sender waited for its processor, in seconds; `None` if the kernel
    /// does not show it.
    pub run_delay_s: Option<f64>,
}
