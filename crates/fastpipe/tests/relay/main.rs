//! A relay: from any descriptor to any other.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod errors;
mod fallback;
mod flow;
mod inspecting;
mod messages;
mod properties;
mod reader_gone;
mod same_file;
mod signals;
mod waiting;
