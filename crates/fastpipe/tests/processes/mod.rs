//! Tests of each part of the library in several processes.

mod ring;
mod transfer;
mod writer;
