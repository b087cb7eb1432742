//! The published `get-user-pages`, on all layouts of the kernel's benchmark.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pipespeed::commands::article::get_user_pages()
}
