//! `pipespeed profile`.

use std::path::PathBuf;

use clap::Args;

use super::seconds;
use crate::machine::placement::{Placement, parse_cpus};
use crate::size;
use crate::suite::Suite;

/// `pipespeed profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each end's costs add up to its wall time. Sampling the kernel takes root, \
CAP_PERFMON and CAP_SYSLOG, or /proc/sys/kernel/perf_event_paranoid at 1 and \
kptr_restrict at 0; the perf program is not needed.

Examples:
  pipespeed profile write_read                       bars and the call tree
  pipespeed profile --all --chart rungs.svg          the ladder side by side
  pipespeed profile vmsplice_splice --flame f.svg    a flame graph")]
pub struct ProfileArgs {
    /// The case.
    #[arg(value_name = "CASE", required_unless_present = "all")]
    pub case: Option<String>,
    /// The seven rungs of the published ladder, side by side.
    #[arg(long, conflicts_with_all = ["case", "suite"])]
    pub all: bool,
    /// The suite that the case belongs to [default: the first that has it].
    #[arg(long, value_enum)]
    pub suite: Option<Suite>,
    /// Seconds to sample each case for; as many again go by without, to see
    /// what sampling costs.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds, allow_negative_numbers = true)]
    pub time: f64,
    /// Leave out of the call tree what takes less than PERCENT of the samples.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Where the two ends run: on two processors that share their last cache,
    /// on one, or wherever the scheduler puts them.
    #[arg(long, value_enum, default_value_t)]
    pub placement: Placement,
    /// The processors of the writer and of the reader, as in 2,3.
    #[arg(long, value_name = "W,R", value_parser = parse_cpus, conflicts_with = "placement")]
    pub cpus: Option<(usize, usize)>,
    /// A pipe size instead of the suite's own.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// A buffer size instead of the suite's own.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub buffer_size: Option<usize>,
    /// Where the profile goes beside standard output.
    #[command(flatten)]
    pub output: ProfileOutput,
}

/// Where a profile goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ProfileOutput {
    /// Save the profile, with all call chains, as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Save the call chains as folded stacks ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Save a flame graph as SVG ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,
    /// Save a chart of stacked bars as SVG ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is no percentage from 0 to 100"))
}
