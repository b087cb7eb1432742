//! Writers within one process.

mod contract;
mod models;
mod onward;
mod readers;
mod repeats;
