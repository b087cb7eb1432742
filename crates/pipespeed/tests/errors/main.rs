//! What the command says of itself, and of what can't be.

#[path = "../common/mod.rs"]
mod common;

mod help;
mod limits;
mod usage;
