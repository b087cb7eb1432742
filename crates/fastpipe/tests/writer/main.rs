//! The writer in one process. Tests that start others are in `writer_processes`: until
//! it has become another program, a child holds what its parent takes for closed.

#[path = "../common/mod.rs"]
mod common;

mod contract;
mod models;
mod never;
mod onward;
mod readers;
mod repeats;
mod repeats_much;
