//! The writer, as far as other processes are needed.

#[path = "../common/mod.rs"]
mod common;

mod death;
mod disk_full;
mod memory;
mod outputs;
mod refusals;
