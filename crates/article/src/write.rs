//! The published `write`: `pipespeed write` under its old name and rules.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pipespeed::commands::article::write()
}
