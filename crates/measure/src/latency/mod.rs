//! Round trips: a message goes to another process and comes back.
//!
//! `channels.rs` opens a connection in both directions; `port.rs` is one end of it,
//! whose transmitter and receiver move the messages that `memory.rs` holds.
//! `process.rs` runs at each end: `closed.rs` sends one message at a time,
//! `open_loop.rs` at a fixed rate, and `naive.rs` is the exchange that deadlocks.
//! `trial.rs` runs both ends, `deadlock.rs` watches them and distinguishes a
//! deadlock from slowness, `rounds.rs` makes a run of trials, `histogram.rs` keeps what
//! came of it, `curve.rs` what is drawn of it; `record.rs` is what is saved, and `csv.rs`
//! the same as CSV.

pub mod channels;
mod closed;
mod csv;
pub mod curve;
pub mod deadlock;
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
