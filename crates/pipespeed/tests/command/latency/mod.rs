//! `latency`.

mod conditions;
mod faults;
mod round_trips;
