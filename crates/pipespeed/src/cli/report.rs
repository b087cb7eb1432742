//! The options of `pipespeed report`.

use std::path::PathBuf;

use clap::Args;

/// `pipespeed report`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/report.txt").trim_ascii_end())]
pub struct ReportArgs {
    /// Saved records of bench, check, latency, costs, profile (of a case) and pages ('-': standard
    /// input) [default: measure this machine].
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Measure all that a page can show: about five minutes more.
    ///
    /// Adds the suites options and memory, round trips, costs, and a profile if sampling
    /// is permitted.
    #[arg(long, conflicts_with = "files")]
    pub full: bool,
    /// Measure only what an interrupted report lacks [default: that of the newest report].
    ///
    /// After `--full`, give that again.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, conflicts_with = "files")]
    pub resume: Option<Option<PathBuf>>,
    /// Show records of another machine beside these.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub compare: Vec<PathBuf>,
    /// Save the page here ('-': standard output) [default: in ./pipespeed-results/].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print nothing on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}
