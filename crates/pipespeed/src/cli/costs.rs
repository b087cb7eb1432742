//! The options of `pipespeed costs`.

use std::path::PathBuf;

use clap::Args;

use super::{PinningArgs, named, seconds};
use pipespeed_host::placement::{Placement, parse_cpus};

/// Rounds of the usual run, and of a quick one.
const ROUNDS: usize = 31;
const QUICK_ROUNDS: usize = 7;

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
    /// Duration of the whole run [default: as 31 rounds take].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, conflicts_with_all = ["rounds", "quick"])]
    pub time: Option<f64>,
    /// Number of rounds; each measures every cost once [default: 31].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Measure 7 rounds only.
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Seed of the order of the costs [default: random, recorded].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Where the waker and the sleeper run [default: different, and same].
    #[arg(long, value_parser = named::<Placement>(), conflicts_with = "pinning")]
    pub placement: Option<Placement>,
    /// Processors of the waker and the sleeper, as in 2,3.
    #[arg(long, value_name = "W,S", value_parser = parse_cpus, conflicts_with_all = ["placement", "pinning"])]
    pub cpus: Option<(usize, usize)>,
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
    /// Rounds to measure, unless a time was asked for.
    pub fn rounds(&self) -> usize {
        let usual = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.map_or(usual, |rounds| rounds as usize)
    }
}
