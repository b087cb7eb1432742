//! Pipes and transfers between processes.

mod buffers;
mod capacity;
mod death;
mod terminals;
