//! `pipespeed profile`.

use super::named::named;
use std::path::PathBuf;

use clap::Args;

use super::{SetupArgs, seconds};
use pipespeed_measure::suite::Suite;

/// `pipespeed profile`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Each end's costs add up to its wall time. Sampling the kernel takes root, \
CAP_PERFMON and CAP_SYSLOG, or /proc/sys/kernel/perf_event_paranoid at 1 and \
kptr_restrict at 0; the perf program is not needed. Where sampling is refused, a \
case is accounted for by counts (calls, pages, faults, switches, wake-ups) times what \
each costs here (pipespeed costs); the remainder is shown as unexplained.

A pipeline of your own is one quoted string for sh after '--'; several words are \
one program and its arguments. Every stage and what it starts is sampled, from its \
start to its end or until --time is over, when it is ended. Its standard input and \
error are pipespeed's; its standard output is discarded unless it is redirected: a \
file or another program behind it may make it slower than /dev/null does. Its stages \
run wherever the scheduler puts them; taskset within the command binds one.

Ctrl-C, Ctrl-\\, SIGTERM and SIGHUP end a profile and all processes that it started: a \
pipeline gets SIGTERM, and SIGKILL a second later. If pipespeed itself is killed by \
SIGKILL, the pipeline goes on without it.

Examples:
  pipespeed profile write_read                       bars and the call tree
  pipespeed profile --all --chart rungs.svg          the ladder side by side
  pipespeed profile vmsplice_splice --flame f.svg    a flame graph
  pipespeed profile -- 'zcat big.gz | wc -l'         which stage is slow, and why
  pipespeed profile --time 5 -- 'yes | pv > /dev/null'")]
pub struct ProfileArgs {
    /// A case of `pipespeed bench`, such as write_read.
    #[arg(value_name = "CASE", required_unless_present_any = ["all", "command"])]
    pub case: Option<String>,
    /// Profile the seven rungs of the published ladder.
    #[arg(long, conflicts_with_all = ["case", "suite"])]
    pub all: bool,
    /// Suite of the case [default: the first that has it].
    #[arg(long, value_parser = named::<Suite>())]
    pub suite: Option<Suite>,
    /// Your own pipeline, quoted: 'COMMAND | COMMAND'.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["case", "all", "suite", "placement", "cpus", "pipe_size", "buffer_size"])]
    pub command: Vec<String>,
    /// Duration of sampling a case, or limit of a pipeline [default: 2, 10].
    ///
    /// A case runs for the same time again without sampling, to show what sampling
    /// costs. A pipeline that runs longer is ended.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Hide branches of the call tree below this share of samples.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Where the ends of a case run, and through what the data goes.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Where the profile goes beside standard output.
    #[command(flatten)]
    pub output: ProfileOutput,
}

/// Where a profile goes.
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
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is no percentage from 0 to 100"))
}
