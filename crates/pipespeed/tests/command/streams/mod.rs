//! Streams of bytes: producers, `write` and `read`.

mod ends;
mod producers;
