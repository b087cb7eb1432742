//! What is moved by each technique, in one process. Tests that start others are in
//! `transfer_processes`: until it has become another program, a child holds what its
//! parent takes for closed.

#[path = "../common/mod.rs"]
mod common;

mod buffers;
mod by_reference;
mod copying;
mod never;
mod reader;
mod refusals;
mod seccomp;
mod shared_file;
mod signals;
