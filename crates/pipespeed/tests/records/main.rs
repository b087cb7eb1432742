//! Records of invented runs: what they hold, and `compare`.

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod snapshot;
mod unlike;
