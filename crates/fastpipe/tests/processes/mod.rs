//! Tests of each part of the library in several processes.

mod ring;
mod tokio;
mod transfer;
mod writer;
