//! The processes of a trial, and the ends of a channel.

use serde::{Deserialize, Serialize};

use super::pages::PageKind;
use pipespeed_base::named;

named! {
    /// How an end waits: [`fastpipe::wait::Wait`] without `Never`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Waiting {
        /// it sleeps in the call
        #[default]
        Block = "block",
        /// it sleeps in poll(2) before each call
        Poll = "poll",
        /// it tries again at once
        Spin = "spin",
        /// it tries again after a pause instruction
        Pause = "pause",
        /// it tries again after pauses that double, up to 4 us
        Backoff = "backoff",
        /// it tries again for up to 50 us while that pays, then sleeps
        Adaptive = "adaptive",
    }
}

impl Waiting {
    /// Whether an end that waits never sleeps.
    pub fn spins(self) -> bool {
        matches!(self, Waiting::Spin | Waiting::Pause | Waiting::Backoff)
    }
}

impl From<Waiting> for fastpipe::wait::Wait {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Block => Self::Block,
            Waiting::Poll => Self::Poll,
            // Only the ends of a pipe pause, between their transfers.
            Waiting::Spin | Waiting::Pause | Waiting::Backoff => Self::Spin,
            Waiting::Adaptive => Self::Adaptive,
        }
    }
}

/// The writing end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkSpec {
    /// How to wait.
    pub wait: Waiting,
    /// Bytes in a buffer.
    pub buffer_bytes: usize,
    /// The maximum number of bytes that a `Writer` lends or gathers before it sends
    /// them.
    pub loan_bytes: usize,
    /// Whether one buffer is sent in halves, instead of two buffers in turn.
    pub same_buffer: bool,
    /// The kind of pages.
    pub pages: PageKind,
    /// Whether the pages are written before the start.
    pub touched: bool,
    /// Whether they are locked in memory.
    pub locked: bool,
    /// Whether pages are gifted (SPLICE_F_GIFT).
    pub gift: bool,
    /// Whether the pages are written before each send, rather than sent as they are.
    pub rewritten: bool,
    /// The offset of each buffer from the start of a page, in bytes.
    pub offset: usize,
}

impl SinkSpec {
    /// Blocking write(2) from touched buffers of base pages.
    pub fn write(buffer_bytes: usize) -> Self {
        SinkSpec {
            buffer_bytes,
            loan_bytes: buffer_bytes,
            touched: true,
            ..SinkSpec::default()
        }
    }
}

/// The reading end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// How to wait.
    pub wait: Waiting,
    /// Bytes in a buffer.
    pub buffer_bytes: usize,
    /// The kind of pages.
    pub pages: PageKind,
    /// Whether the pages are written before the start.
    pub touched: bool,
    /// Whether they are locked in memory.
    pub locked: bool,
    /// The offset of the buffer from the start of a page, in bytes.
    pub offset: usize,
}

impl SourceSpec {
    /// Blocking read(2) into touched buffers of base pages.
    pub fn read(buffer_bytes: usize) -> Self {
        SourceSpec {
            buffer_bytes,
            touched: true,
            ..SourceSpec::default()
        }
    }
}

pipespeed_base::named! {
    /// What a process of a trial does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ProcessRole {
        /// Writes to a channel, which is its standard output.
        Writer = "writer",
        /// Reads from a channel, which is its standard input.
        Reader = "reader",
        /// Sends messages, receives them back and measures the time.
        Sender = "sender",
        /// Sends back what it receives.
        Echo = "echo",
    }
}

impl ProcessRole {
    /// Index of the role in its pair: 0 for the one that sends first.
    pub fn index(self) -> usize {
        match self {
            ProcessRole::Writer | ProcessRole::Sender => 0,
            ProcessRole::Reader | ProcessRole::Echo => 1,
        }
    }

    /// Whether a trial waits for this process's outcome. An echo runs until the sender
    /// has exited.
    pub(crate) fn has_outcome(self) -> bool {
        self != ProcessRole::Echo
    }
}
