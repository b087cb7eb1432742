//! `profile`.

#[path = "../common/mod.rs"]
mod common;

mod pipeline;
mod trials;
