//! The `pipespeed` command: arguments, and one file a subcommand.
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
