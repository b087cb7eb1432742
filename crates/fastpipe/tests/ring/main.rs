//! A ring in one process.

#[path = "../common/mod.rs"]
mod common;

mod counts;
mod models;
mod refusals;
mod threads;
