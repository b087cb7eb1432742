//! `latency`.

#[path = "../common/mod.rs"]
mod common;

mod conditions;
mod faults;
mod round_trips;
