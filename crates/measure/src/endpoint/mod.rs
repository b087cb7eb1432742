//! The processes of a throughput trial.
//!
//! [`spec`] is the specification that an end receives; [`data`] produces and consumes
//! the bytes of the stream that [`pattern`] defines; [`memory`] is a process without a
//! channel; [`counters`] reads the resource usage of a process; [`outcome`] is its
//! report; [`process`] runs an end.

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
