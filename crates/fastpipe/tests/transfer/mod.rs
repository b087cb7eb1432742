//! Transfers by each technique within one process.

mod buffers;
mod moving;
mod never;
mod reader;
mod refusals;
mod shared_file;
mod signals;
