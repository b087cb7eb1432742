//! A ring between two processes.

#[path = "../common/mod.rs"]
mod common;

mod crossing;
mod deaths;
