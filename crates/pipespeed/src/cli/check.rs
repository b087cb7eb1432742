//! The options of `pipespeed check`.

use std::path::PathBuf;

use clap::Args;

/// `pipespeed check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Needs no privilege, takes about a second and leaves nothing behind. Outcomes: pass \
(holds, as it must for every pipe), seen (systems differ; this is the value here), \
refused (not allowed here), FAIL and ERROR (exit status 1).

Examples:
  pipespeed check
  pipespeed check --explain torn-writes
  pipespeed check --only limits,end-of-file
  pipespeed check --only limits --soft-limit    also try out the limit on a user's pipes
  pipespeed check --json - | jq '.checks[] | select(.verdict != \"pass\")'")]
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
    /// Also test the limit on all pipes of a user.
    ///
    /// Makes pipes until pipe-user-pages-soft keeps new ones small; for a moment
    /// that affects all new pipes of this user.
    #[arg(long, conflicts_with = "explain")]
    pub soft_limit: bool,
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
