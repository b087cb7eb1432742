//! What the two processes of a trial are told, and what they answer.

use serde::{Deserialize, Serialize};

use super::histogram::Counts;
use crate::channel::ZerocopyCounts;
use crate::channel::transport::Transport;
use crate::endpoint::spec::Waiting;

/// How long a trial lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// So many round trips.
    Count(u64),
    /// Round trips for so many nanoseconds.
    Time(u64),
}

/// Which exchange.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The next message is sent when the last has come back.
    Closed,
    /// So many messages a second are sent, whether or not any came back.
    Open(f64),
    /// Both ends write first, then read.
    Naive,
}

/// What one process is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The channel that the descriptors belong to.
    pub transport: Transport,
    /// Bytes of a message.
    pub size: usize,
    /// The capacity of pipes; none: as it comes.
    pub pipe_bytes: Option<usize>,
    /// Which exchange.
    pub mode: Mode,
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
pub struct Outcome {
    /// Round trips by how long they took.
    pub counts: Counts,
    /// Seconds from the first message to the last answer; in an open loop to
    /// when the message after the last one would have been due, if that is
    /// later.
    pub seconds: f64,
    /// Messages that had not come back when an open loop gave up; they are in
    /// `counts` with the time they had waited until then.
    pub unanswered: u64,
    /// For how long the sender waited for its processor; none where the kernel
    /// does not tell.
    pub run_delay_s: Option<f64>,
    /// What the completions of the sender's MSG_ZEROCOPY said.
    pub zerocopy: Option<ZerocopyCounts>,
}
