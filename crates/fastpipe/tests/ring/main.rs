//! A ring in one process.

#[path = "../common/mod.rs"]
mod common;

mod counts;
mod handover;
mod models;
mod refusals;
mod threads;
