//! The published programs.

use std::process::{Command, Stdio};

pub use pipespeed_testing::*;

/// The published `write`, with arguments separated by blanks.
pub fn write(args: &str) -> Command {
    alone(env!("CARGO_BIN_EXE_write"), args)
}

/// The published `read`.
pub fn read(args: &str) -> Command {
    alone(env!("CARGO_BIN_EXE_read"), args)
}

/// The published `get-user-pages`.
pub fn get_user_pages(args: &str) -> Command {
    alone(env!("CARGO_BIN_EXE_get-user-pages"), args)
}

/// A program with empty standard input.
fn alone(program: &str, args: &str) -> Command {
    let mut command = command(program, args);
    command.stdin(Stdio::null());
    command
}
