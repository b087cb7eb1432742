//! What runs inside a writing or a reading process.
//!
//! [`spec`] says what an end is told; [`data`] produces and uses the bytes,
//! with [`pattern`] as the stream that can be checked; [`memory`] is a process
//! without a channel; [`counters`] reads what
//! the process has used; [`control`] is the conversation with the process that
//! started it, and [`process`] the whole of an endpoint process.

mod alone;
mod clock;
pub mod control;
pub mod counters;
pub mod data;
mod ends;
pub mod memory;
pub mod pattern;
pub mod process;
pub mod spec;
