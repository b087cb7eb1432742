//! `pipespeed profile`.

use super::named::named;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::SetupArgs;
use super::number::{percent, seconds};
use pipespeed_measure::spec::Suite;

/// The end of the short help.
const EXAMPLES: &str = include_str!("help/profile.txt").trim_ascii_end();

/// The long help has this before the examples.
const METHOD: &str = include_str!("help/profile-long.txt").trim_ascii_end();

/// `pipespeed profile`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{METHOD}\n\n{EXAMPLES}"))]
pub struct ProfileArgs {
    /// A case of `pipespeed bench`, such as write_read.
    #[arg(value_name = "CASE")]
    pub case: Option<String>,
    /// Profile the seven rungs of the published ladder.
    #[arg(long, conflicts_with_all = ["case", "suite"])]
    pub all: bool,
    /// Suite of the case [default: the first that contains it].
    #[arg(long, value_parser = named::<Suite>())]
    pub suite: Option<Suite>,
    /// Your own pipeline, quoted: 'COMMAND | COMMAND'.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["case", "all", "suite", "placement", "cpus", "pipe_size", "buffer_size"])]
    pub command: Vec<OsString>,
    /// Sampling time of a case [default: 2], or time limit of a pipeline [default: 10].
    ///
    /// The defaults with --quick are 0.8 and 2. A case also runs for the same time without sampling, to show the cost of
    /// sampling. A pipeline that runs longer is terminated.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Run fewer trials of a case, or end a pipeline sooner.
    #[arg(long)]
    pub quick: bool,
    /// Hide branches of the call tree below this share of samples.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Processors, pipe size and buffer size of a case.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Files to save the profile to.
    #[command(flatten)]
    pub output: ProfileOutput,
}

/// Output options of a profile.
#[derive(Debug, Clone, Args)]
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
    /// Save no files except those of the options above.
    #[arg(long)]
    pub no_save: bool,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}
