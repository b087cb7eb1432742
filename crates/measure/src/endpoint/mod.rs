//! What runs inside a writing or a reading process.
//!
//! [`spec`] says what an end is told; [`data`] produces and uses the bytes,
//! with [`pattern`] as the stream that can be checked; [`memory`] is a process
//! without a channel; [`counters`] reads what
//! the process has used; [`outcome`] is what it reports, and [`process`] the whole
//! of it.

mod alone;
mod clock;
pub mod counters;
pub mod data;
mod ends;
pub mod memory;
pub mod outcome;
pub mod pattern;
pub mod process;
pub mod spec;
