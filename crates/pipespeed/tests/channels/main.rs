//! `bench channels`.

#[path = "../common/mod.rs"]
mod common;

mod delivery;
mod going_on;
mod killed;
