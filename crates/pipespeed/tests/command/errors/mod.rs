//! What the command says of itself, and of what can't be.

mod commands;
mod destinations;
mod help;
mod limits;
mod namespaces;
mod signals;
mod usage;
