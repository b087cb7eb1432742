//! Real runs of `bench`, short ones.

mod changes;
mod conditions;
mod interrupted;
mod ladder;
mod memory;
mod options;
mod pages;
mod sizes;
mod touched;
mod volumes;
