//! The published programs: the subcommands under the programs' names and rules.

use std::process::ExitCode;

use super::ends::Rules;
use crate::cli::{EndArgs, Sent, WriteArgs, parse_published};
use pipespeed_base::failure::{exit_code, require_stdout, usage};
use pipespeed_measure::spec::PageReuse;

/// The published `write`.
pub fn write() -> ExitCode {
    published("write", |end| {
        if end.write_with_vmsplice && end.pipe_size.is_some() {
            return Err(usage(
                "--pipe_size and --write_with_vmsplice exclude each other: with vmsplice the \
                 pipe gets half the buffer's size (pipespeed write allows both)",
            ));
        }
        let args = WriteArgs {
            end,
            data: Sent::Constant,
            reuse: PageReuse::Fresh,
            bytes: None,
        };
        super::write::run(&args, Rules::Published)
    })
}

/// The published `read`.
pub fn read() -> ExitCode {
    published("read", |end| super::read::run(&end, None, Rules::Published))
}

/// The published `get-user-pages`.
pub fn get_user_pages() -> ExitCode {
    published("get-user-pages", |end| super::pinning::get_user_pages(&end))
}

/// Runs a program with the published options.
fn published(program: &'static str, run: impl FnOnce(EndArgs) -> anyhow::Result<()>) -> ExitCode {
    match parse_published(program) {
        Ok(args) => {
            let mut end = args.end;
            end.pipe_size = end.pipe_size.filter(|&bytes| bytes > 0);
            exit_code(program, require_stdout().and_then(|()| run(end)))
        }
        Err(code) => code,
    }
}
