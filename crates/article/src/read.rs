//! The published `read`: `pipespeed read` under its old name.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pipespeed::commands::article::read()
}
