//! The options of `pipespeed check`.

use std::path::PathBuf;

use clap::Args;

/// `pipespeed check`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs no privilege, takes about a second and leaves nothing behind. \
pass: the statement holds, as it must for every pipe. seen: systems differ, and \
this is the value here. refused: this system does not allow it. FAIL, and ERROR \
where something was not found out (no pipe can be made, say), make the exit \
status 1.

Examples:
  pipespeed check
  pipespeed check --explain torn-writes
  pipespeed check --only limits,end-of-file
  pipespeed check --only limits --soft-limit    also try out the limit on a user's pipes
  pipespeed check --json - | jq '.checks[] | select(.verdict != \"pass\")'")]
pub struct CheckArgs {
    /// Run only these checks, or these groups: limits, semantics, zero-copy,
    /// permissions.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "explain"
    )]
    pub only: Vec<String>,
    /// Also make pipes until pipe-user-pages-soft keeps new ones small. For a
    /// moment that holds for all new pipes of this user.
    #[arg(long, conflicts_with = "explain")]
    pub soft_limit: bool,
    /// List the checks and end.
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub list: bool,
    /// Explain these checks and end.
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
    /// Print only what makes the command fail.
    #[arg(long, short, conflicts_with_all = ["list", "explain"])]
    pub quiet: bool,
}
