//! `pipespeed boost`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::number::whole;

/// The end of the short help.
const EXAMPLES: &str = include_str!("help/boost.txt").trim_ascii_end();

/// The long help has this before the examples.
const METHOD: &str = include_str!("help/boost-long.txt").trim_ascii_end();

/// `pipespeed boost`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{METHOD}\n\n{EXAMPLES}"))]
pub struct BoostArgs {
    /// The pipeline, quoted: 'COMMAND | COMMAND'; or a program and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "pid"
    )]
    pub command: Vec<OsString>,
    /// Raise the pipes of a running process, its descendants and the rest of its pipeline.
    #[arg(long, value_name = "PID", value_parser = whole::<i32>(1..=i32::MAX), allow_negative_numbers = true, conflicts_with_all = ["command", "shell", "report"])]
    pub pid: Option<i32>,
    /// Go on in the background until the process ends.
    #[arg(long, requires = "pid", conflicts_with = "command")]
    pub follow: bool,
    /// The shell that runs COMMAND [default: $SHELL].
    #[arg(long, value_name = "SHELL")]
    pub shell: Option<OsString>,
    /// Stay, and print on standard error at the end which pipes were raised.
    #[arg(long, conflicts_with = "prove")]
    pub report: bool,
    /// Where the sidecar writes its account.
    #[arg(long, hide = true, value_name = "FILE")]
    pub account: Option<String>,
    /// Pipes that are left alone.
    #[arg(
        long,
        hide = true,
        value_name = "WRITER-READER",
        allow_hyphen_values = true
    )]
    pub except: Option<String>,
    /// The proof and its options.
    #[command(flatten)]
    pub proof: ProofArgs,
}

/// `--prove`, and the options that need it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Proof")]
#[group(id = "proof", requires = "prove", conflicts_with = "pid")]
pub struct ProofArgs {
    /// Compare plain and boosted runs [default: 10 pairs].
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = whole::<u32>(1..=10_000))]
    pub prove: Option<u32>,
    /// Also measure with each pipe left out, the first eight in turn; those between programs of
    /// the same names together.
    #[arg(long)]
    pub each: bool,
    /// Standard input of each run.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Don't ask before the runs.
    #[arg(long)]
    pub yes: bool,
    /// Seed for the order of the runs [default: random, recorded].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Save every run as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}
