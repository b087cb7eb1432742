//! The options of the commands that produce data at pipe speed.

use super::named::named;
use std::ffi::OsString;

use clap::Args;

use super::ReuseArg;
use pipespeed_tools::fizzbuzz::{LAST, Path};

/// `pipespeed fizzbuzz`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every byte is made anew and right whatever the reader does with it, since no page \
is written again once it was sent. With --reuse drained pages are written again \
as soon as the pipe is done with them, which is several times as fast. But then a \
reader that passes pages on by splice(2) or tee(2), as pv does, hands others \
pages that change under them.

Examples:
  pipespeed fizzbuzz | head -20
  pipespeed fizzbuzz --to 1000000 > fizzbuzz.txt
  pipespeed fizzbuzz | pv > /dev/null
  pipespeed fizzbuzz --reuse drained --busy-loop |
    pipespeed read --read-with-splice --busy-loop")]
pub struct FizzbuzzArgs {
    /// The first number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = line_number, allow_negative_numbers = true)]
    pub from: u64,
    /// The last number, up to 9223372036854775808 (2^63) [default: no end].
    #[arg(long, value_name = "N", value_parser = line_number, allow_negative_numbers = true)]
    pub to: Option<u64>,
    /// When pages are written again.
    #[arg(long, value_enum, default_value_t)]
    pub reuse: ReuseArg,
    /// Never sleep: try again at once while the pipe is full.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
    /// How to make the lines [default: the fastest this processor knows].
    #[arg(long, value_parser = named::<Path>(), value_name = "WAY")]
    pub by: Option<Path>,
    /// Say on standard error how it was done.
    #[arg(long)]
    pub verbose: bool,
}

/// `pipespeed yes`.
#[derive(Debug, Args)]
#[command(after_help = "\
The line goes to a pipe by reference, without being copied: safe, since it never \
changes.

Examples:
  pipespeed yes | some-program-that-asks
  pipespeed yes 'all work and no play' | pv > /dev/null")]
pub struct YesArgs {
    /// What to print, separated by spaces [default: y].
    #[arg(value_name = "STRING")]
    pub strings: Vec<OsString>,
    /// Never sleep: try again at once while the pipe is full.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
}

fn line_number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(n @ 1..=LAST) => Ok(n),
        _ => Err(format!("write a whole number from 1 to {LAST} (2^63)")),
    }
}
