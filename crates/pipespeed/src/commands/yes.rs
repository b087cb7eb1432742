//! `pipespeed yes`.

use std::os::unix::ffi::OsStrExt;

use anyhow::Context;
use fastpipe::writer::{Frozen, Writer};

use crate::cli::YesArgs;
use crate::commands::producer_wait;
use pipespeed_base::failure::to_stdout;

/// Prints the line until the reader closes the pipe.
///
/// # Errors
/// Standard output can't be written.
pub fn run(args: &YesArgs) -> anyhow::Result<()> {
    let line = Frozen::new(&line(args)).context("not enough memory for the line")?;
    let mut out = Writer::builder()
        .wait(producer_wait(args.busy_loop))
        .allow_clone(true)
        .stdout()
        .context("standard output")?;
    loop {
        to_stdout(out.repeat(&line, u64::MAX))?;
    }
}

fn line(args: &YesArgs) -> Vec<u8> {
    let mut line = if args.strings.is_empty() {
        b"y".to_vec()
    } else {
        args.strings
            .iter()
            .map(|string| string.as_bytes())
            .collect::<Vec<_>>()
            .join(&b' ')
    };
    line.push(b'\n');
    line
}
