//! The options of `pipespeed costs`.

use std::path::PathBuf;

use clap::Args;

use super::number::{seconds, whole};
use super::{PinningArgs, named};
use pipespeed_host::placement::{Placement, parse_cpus};

/// Number of rounds of a default run.
const ROUNDS: usize = 31;
/// Number of rounds with --quick.
const QUICK_ROUNDS: usize = 7;

/// `pipespeed costs`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/costs.txt").trim_ascii_end())]
pub struct CostsArgs {
    /// Duration of the whole run [default: the time of 31 rounds].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, conflicts_with_all = ["rounds", "quick"])]
    pub time: Option<f64>,
    /// Number of rounds; each measures every cost once [default: 31].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=10_000), allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Measure only 7 rounds.
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Seed for the order of measurement [default: random, recorded].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Processors of waker and sleeper [default: different, then same].
    #[arg(long, value_parser = named::<Placement>(), conflicts_with = "pinning")]
    pub placement: Option<Placement>,
    /// Processor numbers of waker and sleeper, such as 2,3.
    #[arg(long, value_name = "W,S", value_parser = parse_cpus, conflicts_with_all = ["placement", "pinning"])]
    pub cpus: Option<(usize, usize)>,
    /// Save the costs as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Save the costs for Prometheus: a file for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Save no file except those that are named.
    #[arg(long)]
    pub no_save: bool,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
    /// Options of --pinning.
    #[command(flatten)]
    pub pinning: PinningArgs,
}

impl CostsArgs {
    /// Returns the number of rounds to measure if --time was not given.
    pub fn rounds(&self) -> usize {
        let default = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.map_or(default, |rounds| rounds as usize)
    }
}
