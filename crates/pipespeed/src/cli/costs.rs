//! The options of `pipespeed costs`.

use std::path::PathBuf;

use clap::Args;

use super::PinningArgs;

/// Rounds of the usual run, and of a quick one.
const ROUNDS: u32 = 31;
const QUICK_ROUNDS: u32 = 7;

/// `pipespeed costs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Needs no privilege and takes some seconds. Each cost is the median over the rounds, \
with its 95 % interval from 6 rounds on. Ctrl-C shows what was measured until then.

Examples:
  pipespeed costs
  pipespeed costs --rounds 101 --json costs.json
  pipespeed costs --pinning             what it costs to pin a page")]
pub struct CostsArgs {
    /// Number of rounds; each measures every cost once [default: 31].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Measure 7 rounds only.
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Save the costs as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print no progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
    /// Pinning pages, and nothing else.
    #[command(flatten)]
    pub pinning: PinningArgs,
}

impl CostsArgs {
    /// Rounds to measure.
    pub fn rounds(&self) -> u32 {
        let usual = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.unwrap_or(usual)
    }
}
