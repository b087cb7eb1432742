//! The writer, as far as other processes are needed.

#[path = "../common/mod.rs"]
mod common;

mod death;
mod descriptor;
mod disk_full;
mod fork;
mod memory;
mod outputs;
mod refusals;
