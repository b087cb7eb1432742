//! Real runs of `bench`, short ones.

#[path = "../common/mod.rs"]
mod common;

mod changes;
mod conditions;
mod interrupted;
mod ladder;
mod memory;
mod options;
mod sizes;
mod volumes;
