//! The command under test, and records of invented runs.

pub mod fake;
pub mod records;

use std::process::Command;

pub use pipespeed_testing::*;

/// The path of the command.
pub const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

/// The command with arguments separated by blanks.
pub fn pipespeed(args: &str) -> Command {
    command(PIPESPEED, args)
}
