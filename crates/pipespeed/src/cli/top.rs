//! The options of `pipespeed top`.

use std::path::PathBuf;

use clap::Args;
use pipespeed_report::Sort;

use super::doctor::WatchedArgs;
use super::named::named;

/// The end of the short help.
const EXAMPLES: &str = include_str!("help/top.txt").trim_ascii_end();

/// The long help has this before the examples.
const METHOD: &str = include_str!("help/top-long.txt").trim_ascii_end();

/// `pipespeed top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{METHOD}\n\n{EXAMPLES}"))]
pub struct TopArgs {
    /// What to watch.
    #[command(flatten)]
    pub watched: WatchedArgs,
    /// Look for two seconds (six if a pipeline stands still), print one frame, and exit.
    #[arg(long)]
    pub once: bool,
    /// Order of the pipelines.
    #[arg(long, value_name = "KEY", value_parser = named::<Sort>(), default_value = "cpu")]
    pub sort: Sort,
    /// Write a JSON object a second instead of showing a screen ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
