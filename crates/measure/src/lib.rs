//! Measures how fast data moves between processes: channels, ends, trials, rounds, suites, round trips, and the saved record.
#![deny(unsafe_code)]

pub mod case;
pub mod channel;
pub mod comparison;
pub mod endpoint;
pub mod latency;
pub mod record;
pub mod rounds;
pub mod runner;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod search;
pub mod suite;
pub mod trial;
