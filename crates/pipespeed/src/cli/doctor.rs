//! The options of `pipespeed doctor`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::number::{seconds, whole};

/// `pipespeed doctor`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/doctor.txt").trim_ascii_end())]
#[command(after_long_help = include_str!("help/doctor-long.txt").trim_ascii_end())]
pub struct DoctorArgs {
    /// What to look at.
    #[command(flatten)]
    pub watched: WatchedArgs,
    /// How long to look.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = duration, allow_negative_numbers = true)]
    pub time: Duration,
    /// Report only if COMMAND is stuck, or data lies unread in it, for this long.
    #[arg(long, value_name = "SECONDS", value_parser = duration, allow_negative_numbers = true, requires = "command", conflicts_with_all = ["time", "pid", "all"])]
    pub if_stuck: Option<Duration>,
    // clap drops a requirement that conflicts with a given argument, so those are named.
    /// End COMMAND if it is stuck.
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "all"])]
    pub kill: bool,
    /// Save the observation and the findings as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Save the verdict for Prometheus: a file for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Print the stages of all pipelines, not only those with findings.
    #[arg(long, short)]
    pub verbose: bool,
}

/// Which processes to watch, and how.
#[derive(Debug, Args)]
pub struct WatchedArgs {
    /// A process of the pipeline.
    #[arg(value_name = "PID", value_parser = whole::<i32>(1..=i32::MAX), allow_negative_numbers = true, conflicts_with_all = ["all", "command"])]
    pub pid: Option<i32>,
    /// Examine the processes of all users.
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// Run this pipeline, quoted: 'COMMAND | COMMAND'.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Don't open pipes, not even for an instant.
    #[arg(long)]
    pub no_open: bool,
    /// Save and show (doctor: with -v) the arguments of processes; they may hold secrets.
    #[arg(long)]
    pub arguments: bool,
}

/// Parses seconds, with or without the unit.
fn duration(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    seconds(number).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_have_their_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "s", "-1", "1m", "0"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
