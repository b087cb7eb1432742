//! The options of `pipespeed check`.

use std::path::PathBuf;

use clap::Args;

/// `pipespeed check`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs no privilege, takes a second or two and leaves nothing behind. pass: it \
is as every pipe must be; seen: systems differ in it, and this is how it is here; \
refused: this system does not let us. FAIL, or ERROR where something could not be \
found out (no pipe can be made, say), makes the exit status 1.

Examples:
  pipespeed check
  pipespeed check --explain torn-writes
  pipespeed check --only limits,end-of-file
  pipespeed check --only limits --soft-limit    what many pipes do to the next ones
  pipespeed check --json - | jq '.checks[] | select(.verdict != \"pass\")'")]
pub struct CheckArgs {
    /// Only these checks, or all of these groups: limits, semantics, zero-copy,
    /// permissions.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "explain"
    )]
    pub only: Vec<String>,
    /// Also make pipes until pipe-user-pages-soft keeps new ones small: for a
    /// moment other pipes of this user get few slots, too.
    #[arg(long, conflicts_with = "explain")]
    pub soft_limit: bool,
    /// List the checks and end.
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub list: bool,
    /// Tell what a check means, how it is made and where it is written, and
    /// end.
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
