//! `meter`.

#[path = "../common/mod.rs"]
mod common;

mod edges;
mod numbers;
mod passing;
mod terminal;
mod watch;
