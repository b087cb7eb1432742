//! The published programs: the subcommands under the programs' names and rules.

use std::process::ExitCode;

use crate::cli::{EndArgs, ReuseArg, Sent, WriteArgs, parse_published};
use pipespeed_base::failure::{exit_code, usage};

/// The published `write`.
pub fn write() -> ExitCode {
    published("write", |end| {
        if end.write_with_vmsplice && end.pipe_size.is_some() {
            return Err(usage(
                "--pipe_size and --write_with_vmsplice exclude each other: with vmsplice the \
                 pipe gets half the buffer's size (pipespeed write allows both)",
            ));
        }
        super::write::run(&WriteArgs {
            end,
            data: Sent::Constant,
            reuse: ReuseArg::Fresh,
            bytes: None,
        })
    })
}

/// The published `read`.
pub fn read() -> ExitCode {
    published("read", |end| {
        if end.write_with_vmsplice && end.pipe_size.is_some() {
            return Err(usage(
                "--pipe_size and --write_with_vmsplice exclude each other: with vmsplice the \
                 pipe gets half the buffer's size",
            ));
        }
        super::read::run(&end, None)
    })
}

/// The published `get-user-pages`.
pub fn get_user_pages() -> ExitCode {
    published("get-user-pages", |end| super::pinning::get_user_pages(&end))
}

/// Runs a program with the published options.
fn published(program: &'static str, run: impl FnOnce(EndArgs) -> anyhow::Result<()>) -> ExitCode {
    match parse_published(program) {
        Ok(args) => exit_code(program, run(args.end)),
        Err(code) => code,
    }
}
