//! What lies between two processes: one file a channel, with a sink at the
//! writing end and a source at the reading end.

pub mod library;
pub mod pipe;

use fastpipe::transfer::{Counts, Incomplete};

use crate::endpoint::data::Producer;

/// The writing end of a channel, as a trial drives it.
pub trait Sink {
    /// Has the next piece made by `producer`, where it makes anything, and
    /// sends it.
    ///
    /// # Errors
    /// [`Incomplete`]: `BrokenPipe` where the reader is gone.
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete>;

    /// Bytes sent so far.
    fn sent(&self) -> u64;

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
}
