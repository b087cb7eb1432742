//! `pipespeed fizzbuzz`.

use std::io::{self, Write};
use std::os::fd::AsFd;

use anyhow::Context;
use fastpipe::reuse::{AssertReaderCopies, Reuse};
use fastpipe::writer::{Writer, WriterBuilder};
use rustix::fs::FileType;

use crate::cli::{FizzbuzzArgs, ReuseArg};
use crate::commands::waiting;
use pipespeed_base::failure::{say, to_stdout, usage};
use pipespeed_base::size;
use pipespeed_tools::fizzbuzz::{FizzBuzz, LAST, Path};

/// Prints the lines to standard output.
///
/// # Errors
/// What went wrong, naming the option.
pub fn run(args: &FizzbuzzArgs) -> anyhow::Result<()> {
    let last = args.to.unwrap_or(LAST);
    if last < args.from {
        return Err(usage(format!(
            "--to {last} is before --from {}: nothing to print",
            args.from
        )));
    }
    let by = args.by.unwrap_or_else(Path::fastest);
    if !by.is_supported() {
        return Err(usage(format!(
            "--by: this processor does not support {}: omit the option",
            by.name()
        )));
    }
    if args.to.is_none() && is_regular_file(io::stdout().as_fd())? {
        return Err(usage(
            "standard output is a file, and unlimited output would fill the disk: add --to N",
        ));
    }
    let mut out = builder(args).stdout().context("standard output")?;
    let sent = send(&mut FizzBuzz::by(by, args.from, last), &mut out);
    if args.verbose {
        let report = out.report();
        say(&format!(
            "fizzbuzz: made by {}, sent {} by {} in {} system calls",
            by.name(),
            size::format(report.counts.bytes),
            report.path,
            report.counts.syscalls,
        ));
    }
    to_stdout(sent)
}

fn builder(args: &FizzbuzzArgs) -> WriterBuilder {
    let builder = Writer::builder().wait(waiting(args.busy_loop));
    match args.reuse {
        ReuseArg::Fresh => builder,
        ReuseArg::Drained => builder.reuse(Reuse::Drained(AssertReaderCopies)),
    }
}

fn send<F: AsFd>(lines: &mut FizzBuzz, out: &mut Writer<F>) -> io::Result<()> {
    loop {
        let mut loan = out.lend(0)?;
        let len = loan.len();
        let n = lines.fill(&mut loan);
        loan.commit(n)?;
        if n < len {
            return out.flush();
        }
    }
}

fn is_regular_file(fd: impl AsFd) -> anyhow::Result<bool> {
    let stat = rustix::fs::fstat(fd).context("standard output")?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
