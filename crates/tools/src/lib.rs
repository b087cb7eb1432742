//! Tools for pipelines: a meter and fast producers.
#![deny(unsafe_code)]

pub mod fizzbuzz;
pub mod meter;
