//! The options of `pipespeed costs`.

use std::path::PathBuf;

use clap::Args;

use super::PinningArgs;
use crate::size;

/// `pipespeed costs`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs no privilege. From the elementary costs it predicts each rung of the \
ladder, measures it, and says what would help most here. [ ] are intervals of 95 %, \
from the scatter of the rounds.

Examples:
  pipespeed costs                       three and a half minutes
  pipespeed costs --check               whether the advice holds
  pipespeed costs --piece 4K            for a program that writes 4 KiB at a time
  pipespeed costs --rounds 101 --json costs.json
  pipespeed costs --pinning             what it costs to pin a page")]
pub struct CostsArgs {
    /// How often each cost is measured, in turns with the others.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub rounds: u32,
    /// Save the costs, with every sample, and every trial of the ladder, as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only the elementary costs: no predictions, nothing to compare them with,
    /// and no advice.
    #[arg(long, conflicts_with = "pinning")]
    pub no_model: bool,
    /// Bytes that your own program moves by one call; the advice goes by it.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64K", allow_hyphen_values = true, conflicts_with_all = ["no_model", "pinning"])]
    pub piece: usize,
    /// Measure what the advice promises, too: two minutes more.
    #[arg(long, conflicts_with_all = ["no_model", "pinning"])]
    pub check: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Pinning pages, and nothing else.
    #[command(flatten)]
    pub pinning: PinningArgs,
}
