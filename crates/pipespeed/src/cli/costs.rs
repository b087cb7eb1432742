//! The options of `pipespeed costs`.

use std::path::PathBuf;

use clap::Args;

use super::PinningArgs;

/// `pipespeed costs`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs no privilege. All costs are measured from one thread, so that nothing \
waits for anything; only a wake-up takes a second process.

Examples:
  pipespeed costs
  pipespeed costs --rounds 101 --json costs.json
  pipespeed costs --pinning             what it costs to pin a page")]
pub struct CostsArgs {
    /// How often each cost is measured, in turns with the others.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub rounds: u32,
    /// Save the costs, with every sample, as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only the elementary costs: no predictions, and nothing to compare them
    /// with.
    #[arg(long)]
    pub no_model: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Pinning pages, and nothing else.
    #[command(flatten)]
    pub pinning: PinningArgs,
}
