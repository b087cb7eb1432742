//! The published `get-user-pages`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pipespeed::commands::article::get_user_pages()
}
