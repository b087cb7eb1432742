//! The processes of a throughput trial.
//!
//! [`spec`] is the specification that an end receives; [`data`] produces and consumes
//! the bytes of the stream that [`pattern`] defines; [`memory`] is a process without a
//! channel; [`counters`] reads the resource usage of a process; [`outcome`] is its
//! report; [`process`] runs an end.

mod alone;
mod clock;
pub(crate) mod control;
pub mod counters;
mod memory;
pub mod outcome;
mod pages;
pub mod process;
pub(crate) mod serve;
mod stream;

pub use self::pages::huge_pages_refused;
