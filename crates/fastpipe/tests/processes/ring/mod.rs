//! Rings between processes.

mod crossing;
mod deaths;
mod leaks;
mod waking;
