//! Round trips: a message goes to another process and comes back.
//!
//! `channels.rs` opens a connection in both directions; `port.rs` is one end of it,
//! which moves the messages that `memory.rs` holds. `process.rs` runs an end:
//! `closed.rs` sends one message at a time, `open_loop.rs` sends at a fixed rate, and
//! `naive.rs` has the exchanges that deadlock. `trial.rs` runs both ends, `deadlock.rs`
//! watches them, and `rounds.rs` runs trials in rounds. `histogram.rs` stores latencies
//! and `curve.rs` computes the curve of the chart; `record.rs` is the saved record.

pub mod channels;
mod closed;
pub mod curve;
mod deadlock;
pub mod histogram;
mod memory;
mod naive;
mod open_loop;
mod port;
pub mod process;
pub mod record;
pub mod rounds;
pub mod spec;
pub mod trial;
