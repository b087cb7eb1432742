//! The options of `pipespeed top`.

use std::path::PathBuf;

use clap::Args;
use pipespeed_report::Sort;

use super::doctor::WatchedArgs;
use super::named::named;

/// The end of the short help.
const EXAMPLES: &str = "\
Keys: q quits, p holds the screen, s sorts by another key, the arrows scroll.

Examples:
  pipespeed top                                     all pipelines of this user
  pipespeed top 4711                                the pipeline of a process
  pipespeed top -- 'zcat a.gz | sort | gzip > b.gz' run it and watch it
  pipespeed top --once                              one frame as plain text
  pipespeed top --json - 4711 | jq .pipelines       a record a second";

/// The long help has this before the examples.
const METHOD: &str = "\
Shows all pipelines of this user without PID and COMMAND, a line a stage: the states of \
the last second as a bar, their shares of the last minute in percent, what the stage \
writes, and how full the pipe after it is. > marks the stage that is the bottleneck.

A stage runs, or is queued if it is ready to and others have the processor; else it is \
blocked if a thread waits for room in a pipe, starved if one waits for input from one, and \
elsewhere if all wait for anything else. MiB/s is that of the pipe, ? if its ends \
splice, which the kernel does not count. Pipes are opened for reading for an instant, four times a second, to see how full they are; \
--no-open prevents that. All this takes up to 1 % of a processor; the screen shows how much.

COMMAND is one quoted string for sh, or a program and its arguments. The screen ends with \
it, and the exit status is that of COMMAND. Its output must not be the terminal: redirect \
it. What it prints there nevertheless, such as errors, follows at its end. Quitting leaves \
it running in the foreground.";

/// `pipespeed top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{METHOD}\n\n{EXAMPLES}"))]
pub struct TopArgs {
    /// What to watch.
    #[command(flatten)]
    pub watched: WatchedArgs,
    /// Look for two seconds, print one frame, and exit.
    #[arg(long)]
    pub once: bool,
    /// Order of the pipelines.
    #[arg(long, value_name = "KEY", value_parser = named::<Sort>(), default_value = "cpu")]
    pub sort: Sort,
    /// Write a JSON object a second instead of showing a screen ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
