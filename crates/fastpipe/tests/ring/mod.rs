//! Rings within one process.

mod counts;
mod handover;
mod messages;
mod models;
mod ready;
mod refusals;
mod threads;
