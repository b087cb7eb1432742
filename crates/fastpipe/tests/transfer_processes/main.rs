//! Pipes and transfers, as far as other processes are needed.

#[path = "../common/mod.rs"]
mod common;

mod buffers;
mod capacity;
mod death;
