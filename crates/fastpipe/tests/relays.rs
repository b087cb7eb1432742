//! Relays between descriptors of every kind.

mod common;
mod relay;
