//! The published programs: the same code under their names.

use std::process::ExitCode;

use crate::cli::parse;
use crate::cli::{ArticleGetUserPages, ArticleRead, ArticleWrite, ReuseArg, Sent, WriteArgs};
use pipespeed_base::failure::{exit_code, usage};

/// The published `write`.
pub fn write() -> ExitCode {
    let end = match parse::<ArticleWrite>("write") {
        Ok(args) => args.end,
        Err(code) => return code,
    };
    if end.write_with_vmsplice && end.pipe_size.is_some() {
        let error = usage(
            "--pipe_size and --write_with_vmsplice exclude each other: with vmsplice the pipe \
             gets half the buffer's size (pipespeed write allows both)",
        );
        return exit_code("write", Err(error));
    }
    let args = WriteArgs {
        end,
        data: Sent::Constant,
        reuse: ReuseArg::Fresh,
        bytes: None,
    };
    exit_code("write", super::write::run(&args))
}

/// The published `read`.
pub fn read() -> ExitCode {
    let end = match parse::<ArticleRead>("read") {
        Ok(args) => args.end,
        Err(code) => return code,
    };
    if end.write_with_vmsplice && end.pipe_size.is_some() {
        let error = usage(
            "--pipe_size and --write_with_vmsplice exclude each other: with vmsplice the pipe \
             gets half the buffer's size",
        );
        return exit_code("read", Err(error));
    }
    exit_code("read", super::read::run(&end, None))
}

/// The published `get-user-pages`.
pub fn get_user_pages() -> ExitCode {
    let end = match parse::<ArticleGetUserPages>("get-user-pages") {
        Ok(args) => args.end,
        Err(code) => return code,
    };
    exit_code("get-user-pages", super::pinning::get_user_pages(&end))
}
