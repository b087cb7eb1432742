//! One thin file a subcommand.

pub mod article;
pub mod bench;
pub mod check;
pub mod compare;
pub mod costs;
pub mod fizzbuzz;
pub mod latency;
pub mod meta;
pub mod meter;
pub mod pages;
pub mod pinning;
pub mod profile;
pub mod read;
pub mod write;
pub mod yes;

use fastpipe::wait::Wait;

use crate::cli::{Cli, Command, EndArgs};
use crate::endpoint::spec::{PageKind, Waiting};
use crate::failure::usage;

/// Does what the command line says.
///
/// # Errors
/// What went wrong, in one line.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Bench(args) => bench::run(args),
        Command::Latency(args) => latency::run(&args),
        Command::Compare(args) => compare::run(args),
        Command::Pages(args) => pages::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Write(args) => {
            published(&args.end)?;
            write::run(&args)
        }
        Command::Read(args) => {
            published(&args.end)?;
            read::run(&args.end, args.data)
        }
        Command::Costs(args) => costs::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Meter(args) => meter::run(*args),
        Command::Fizzbuzz(args) => fizzbuzz::run(&args),
        Command::Yes(args) => yes::run(&args),
        Command::Completions { shell } => meta::completions(shell),
        Command::Man => meta::man(),
    }
}

/// How a producer waits for room: it sleeps only if there is none for a while,
/// since to wake it up takes longer than a pipe takes to be drained.
fn waiting(busy_loop: bool) -> Wait {
    match busy_loop {
        true => Wait::Spin,
        false => Wait::Adaptive,
    }
}

/// What the published programs let pass in silence.
fn published(end: &EndArgs) -> anyhow::Result<()> {
    if end.check_huge_page && !end.huge_page {
        return Err(usage(
            "--check-huge-page: add --huge-page, which asks for them",
        ));
    }
    Ok(())
}

impl EndArgs {
    fn waiting(&self) -> Waiting {
        match (self.poll, self.busy_loop) {
            (true, _) => Waiting::Poll,
            (false, true) => Waiting::Spin,
            (false, false) => Waiting::Block,
        }
    }

    fn pages(&self) -> PageKind {
        match self.huge_page {
            true => PageKind::Huge,
            false => PageKind::Base,
        }
    }
}
