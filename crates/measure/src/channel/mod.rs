//! What lies between two processes: one file a channel, with a sink at the
//! writing end and a source at the reading end.

mod attempt;
pub mod fifo;
pub mod library;
pub mod mqueue;
pub mod name;
mod open;
pub mod pipe;
pub mod ring;
pub mod socket;
mod sys;
pub mod tcp;
pub mod unix;
pub mod uring;
pub mod vm_readv;

pub use self::open::{Channel, Granted, OpenError, open};
pub(crate) use self::open::{cant, over_limit};

use fastpipe::transfer::{Counts, Incomplete};
use serde::{Deserialize, Serialize};

use crate::endpoint::data::Producer;

/// The writing end of a channel, as a trial drives it.
pub trait Sink {
    /// Has the next piece made by `producer`, where it makes anything, and
    /// sends it.
    ///
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` where the reader is gone, `TimedOut` after
    /// [`expect_leaving`](Self::expect_leaving) where it may be.
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete>;

    /// Bytes sent so far.
    fn sent(&self) -> u64 {
        self.counts().bytes
    }

    /// What was done so far.
    fn counts(&self) -> Counts;

    /// The system call in use, for messages.
    fn call(&self) -> &'static str;

    /// Whether the sink does what its case says.
    ///
    /// # Errors
    /// What it does instead, and why.
    fn as_asked(&self) -> Result<(), String> {
        Ok(())
    }

    /// From now on the reader may leave. Where the channel does not tell,
    /// sends no longer wait without end.
    fn expect_leaving(&mut self) {}

    /// What the completions of MSG_ZEROCOPY say; none where it is not used.
    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        None
    }
}

/// What the completions of sends with MSG_ZEROCOPY say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZerocopyCounts {
    /// Sends completed.
    pub completed: u64,
    /// Those of them that the kernel copied all the same.
    pub copied: u64,
}

/// The reading end of a channel, as a trial drives it.
pub trait Source {
    /// Takes what is there, waiting for the first byte of it; nothing at the
    /// end of the data.
    ///
    /// # Errors
    /// [`Incomplete`], with nothing moved.
    fn take(&mut self) -> Result<Taken<'_>, Incomplete>;

    /// What was done so far at this end of the channel.
    fn counts(&self) -> Counts;

    /// The system call in use, for messages.
    fn call(&self) -> &'static str;
}

/// What a source took.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Bytes in the reader's memory.
    Data(&'a [u8]),
    /// So many bytes that nobody will see.
    Discarded(usize),
}

impl Taken<'_> {
    /// How many bytes; 0 at the end of the data.
    pub fn len(&self) -> usize {
        match self {
            Taken::Data(bytes) => bytes.len(),
            Taken::Discarded(n) => *n,
        }
    }

    /// Whether the data has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
