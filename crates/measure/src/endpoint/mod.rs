//! The processes of a throughput trial.
//!
//! `memory` is a process without a channel; [`counters`] reads the resource usage of a process;
//! [`outcome`] is its report; [`process`] runs an end. What it is to do is
//! [`spec`](crate::spec); what it sends, [`data`](crate::data).

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
