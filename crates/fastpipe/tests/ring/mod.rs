//! Rings within one process.

mod counts;
mod handover;
mod models;
mod refusals;
mod threads;
