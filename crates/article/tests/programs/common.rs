//! The published programs.

use std::process::{Command, Stdio};

pub use pipespeed_testing::*;

/// The path of the published `write`.
pub const WRITE: &str = env!("CARGO_BIN_EXE_write");
/// The path of the published `read`.
pub const READ: &str = env!("CARGO_BIN_EXE_read");

/// The published `write`, with arguments separated by blanks.
pub fn write(args: &str) -> Command {
    alone(WRITE, args)
}

/// The published `read`.
pub fn read(args: &str) -> Command {
    alone(READ, args)
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

/// Checks that the output is a line such as `3.7GiB/s, 256KiB buffer, 40960
/// iterations (10GiB piped)`: a rate with one decimal, then exactly `settings`.
#[track_caller]
pub fn assert_result_line(outcome: &Outcome, settings: &str) {
    let line = outcome.out.strip_suffix('\n').unwrap();
    let (rate, rest) = line.split_once("GiB/s, ").unwrap();
    let (integer, decimal) = rate.split_once('.').unwrap();
    assert!(integer.parse::<u32>().is_ok(), "{outcome:#?}");
    assert!(decimal.len() == 1 && decimal.parse::<u32>().is_ok());
    assert_eq!(rest, settings, "{outcome:#?}");
}
