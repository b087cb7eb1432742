//! The `pipespeed` command: arguments, and one file per subcommand.
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
mod destination;
pub mod step;
