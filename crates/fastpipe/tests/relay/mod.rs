//! Relays between descriptors of every kind.

mod ends;
mod errors;
mod fallback;
mod flow;
mod inspecting;
mod messages;
mod models;
mod reader_gone;
mod same_file;
mod signals;
mod waiting;
