//! Rings, transfers and writers within one process.
//!
//! No test here may start a process: until it has become another program, a child
//! holds descriptors that its parent has closed. Such tests are in `multi_process`.

mod common;
mod ring;
mod tokio;
mod transfer;
mod writer;
