//! `pipespeed profile`.

use super::named::named;
use std::path::PathBuf;

use clap::Args;

use super::{SetupArgs, seconds};
use pipespeed_measure::suite::Suite;

/// `pipespeed profile`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each end's costs add up to its wall time. Sampling the kernel takes root, \
CAP_PERFMON and CAP_SYSLOG, or /proc/sys/kernel/perf_event_paranoid at 1 and \
kptr_restrict at 0; the perf program is not needed. Where it is refused a case is \
accounted for by counted calls, pages, faults, switches and wake-ups times what each \
costs here (pipespeed costs); what that does not explain is told as unexplained.

A pipeline of your own is one quoted string for sh after '--'; several words are \
one program and its arguments. Every stage and what it starts is sampled, from its \
start to its end or until --time is over, when it is ended. Its standard input and \
error are pipespeed's; its standard output is discarded unless it is redirected: a \
file or another program behind it may make it slower than /dev/null does. Its stages \
run wherever the scheduler puts them; taskset within the command binds one.

Ctrl-C, Ctrl-\\, SIGTERM and SIGHUP end a profile and all that it started; a pipeline \
is asked to end by SIGTERM, killed a second later, and what was seen of it is shown. If \
pipespeed itself is killed (SIGKILL) the pipeline goes on without it, as a command under \
perf record does.

Examples:
  pipespeed profile write_read                       bars and the call tree
  pipespeed profile --all --chart rungs.svg          the ladder side by side
  pipespeed profile vmsplice_splice --flame f.svg    a flame graph
  pipespeed profile -- 'zcat big.gz | wc -l'         which stage is slow, and why
  pipespeed profile --time 5 -- 'yes | pv > /dev/null'")]
pub struct ProfileArgs {
    /// A case of `pipespeed bench`, as write_read or vmsplice_splice_huge; a wrong
    /// one lists them.
    #[arg(value_name = "CASE", required_unless_present_any = ["all", "command"])]
    pub case: Option<String>,
    /// The seven rungs of the published ladder, side by side.
    #[arg(long, conflicts_with_all = ["case", "suite"])]
    pub all: bool,
    /// The suite that the case belongs to [default: the first that has it].
    #[arg(long, value_parser = named::<Suite>())]
    pub suite: Option<Suite>,
    /// A pipeline of your own, quoted: 'COMMAND | COMMAND'.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["case", "all", "suite", "placement", "cpus", "pipe_size", "buffer_size"])]
    pub command: Vec<String>,
    /// Seconds to sample each case for; as many again go by without, to see
    /// what sampling costs [default: 2]. A pipeline is ended after so many
    /// [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Leave out of the call tree what takes less than PERCENT of the samples.
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
