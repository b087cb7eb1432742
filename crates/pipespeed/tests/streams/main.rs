//! Streams of bytes: producers, `write` and `read`.

#[path = "../common/mod.rs"]
mod common;

mod producers;
mod streams;
