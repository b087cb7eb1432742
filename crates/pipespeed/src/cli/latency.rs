//! The options of `pipespeed latency`.

use super::named::{named, named_among};

use clap::Args;

use super::OutputArgs;
use super::number::{decimal, seconds, whole};
use pipespeed_base::{Named, size};
use pipespeed_host::placement::{Placement, parse_cpus};
use pipespeed_measure::latency::channels::MAX_BYTES;
use pipespeed_measure::latency::spec::{ExchangeMode, Naive};
use pipespeed_measure::spec::{Channel, Waiting};

/// `pipespeed latency`.
#[derive(Debug, Clone, Args)]
#[command(after_help = include_str!("help/latency.txt").trim_ascii_end())]
pub struct LatencyArgs {
    /// Channels to measure [default: pipe socketpair tcp ring eventfd; --naive: pipe].
    #[arg(value_parser = named_among(Channel::with_round_trips()), value_name = "CHANNEL")]
    pub channels: Vec<Channel>,
    /// Channels to measure, separated by commas.
    #[arg(
        long,
        value_parser = named_among(Channel::with_round_trips()),
        value_name = "NAME",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub channel: Vec<Channel>,
    /// Measure all channels.
    #[arg(long, conflicts_with_all = ["channels", "channel"])]
    pub all: bool,
    /// Message sizes, up to 16M [default: 8,1K,64K; eventfd: 8; --naive: what a pipe holds, and one byte more].
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = message_size, allow_hyphen_values = true)]
    pub size: Vec<usize>,
    /// Capacity of pipes and FIFOs [default: the system's].
    #[arg(long, alias = "pipe_size", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// Round trips per launch [default: as many as fit into --time].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=100_000_000), allow_negative_numbers = true, conflicts_with = "time")]
    pub count: Option<u64>,
    /// Duration of the whole run [default: 20; --quick: 5].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Launches per case; fewer than 6 give no intervals [default: 9; --quick: 6].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=10_000), allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Run fewer and shorter launches, with wider intervals.
    #[arg(long)]
    pub quick: bool,
    /// Seed for the order of the cases [default: random, recorded].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Send at a fixed rate, without waiting for replies.
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, allow_negative_numbers = true, conflicts_with = "naive")]
    pub rate: Option<f64>,
    /// How both processes wait for a message.
    #[arg(long, value_parser = named_among(vec![Waiting::Block, Waiting::Spin, Waiting::Adaptive]), default_value_t, conflicts_with = "naive")]
    pub wait: Waiting,
    /// Run exchanges that deadlock if a message exceeds the capacity [default: both].
    #[arg(long, value_name = "EXCHANGE", value_parser = named::<Naive>(), num_args = 0..=1, require_equals = true)]
    pub naive: Option<Option<Naive>>,
    /// Time without progress after which --naive reports a deadlock.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = limit, allow_negative_numbers = true, requires = "naive")]
    pub limit: f64,
    /// Where the two processes run.
    #[arg(long, value_parser = named::<Placement>(), default_value_t)]
    pub placement: Placement,
    /// Processor numbers of sender and echo, such as 2,3.
    #[arg(long, value_name = "S,E", value_parser = parse_cpus, conflicts_with = "placement")]
    pub cpus: Option<(usize, usize)>,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl LatencyArgs {
    /// Returns the duration of the whole run, in seconds.
    pub fn time_s(&self) -> f64 {
        let default = if self.quick { 5.0 } else { 20.0 };
        self.time.unwrap_or(default)
    }

    /// Returns the number of launches per case.
    pub fn rounds(&self) -> usize {
        let default = if self.quick { 6 } else { 9 };
        self.rounds.unwrap_or(default) as usize
    }

    /// Returns the kinds of exchange to measure.
    pub fn modes(&self) -> Vec<ExchangeMode> {
        match (self.naive, self.rate) {
            (Some(Some(naive)), _) => vec![ExchangeMode::Naive(naive)],
            (Some(None), _) => Naive::values().map(ExchangeMode::Naive).collect(),
            (None, Some(rate)) => vec![ExchangeMode::Open(rate)],
            (None, None) => vec![ExchangeMode::Closed],
        }
    }
}

fn message_size(text: &str) -> Result<usize, String> {
    match size::parse(text) {
        Ok(bytes) if bytes <= MAX_BYTES => Ok(bytes),
        Ok(_) => Err(format!(
            "a message must have from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )),
        Err(error) => Err(error),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let wanted = "the rate must be from 0.1 to 10000000 messages per second";
    decimal(text, 0.1..=1e7, wanted)
}

fn limit(text: &str) -> Result<f64, String> {
    decimal(text, 0.1..=50.0, "the limit must be from 0.1 to 50 seconds")
}
