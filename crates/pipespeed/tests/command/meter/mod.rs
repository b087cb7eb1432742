//! `meter`.

mod edges;
mod numbers;
mod passing;
mod terminal;

use std::io::Write;
use std::process::Command;

use crate::common::pipespeed;

fn meter(args: &str) -> Command {
    pipespeed(&format!("meter {args}"))
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}
