//! The options of `pipespeed check`.

use std::path::PathBuf;

use clap::Args;

/// `pipespeed check`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/check.txt").trim_ascii_end())]
pub struct CheckArgs {
    /// Run only these checks or groups.
    ///
    /// Groups: limits, semantics, zero-copy, permissions.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "explain"
    )]
    pub only: Vec<String>,
    /// List the checks and exit.
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub list: bool,
    /// Explain these checks and exit.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "json"
    )]
    pub explain: Vec<String>,
    /// Save the outcomes as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print only failures.
    #[arg(long, short, conflicts_with_all = ["list", "explain"])]
    pub quiet: bool,
    /// Print all notes below the checks, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}
