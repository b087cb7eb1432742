//! Writers within one process.

mod contract;
mod models;
mod never;
mod onward;
mod readers;
mod repeats;
