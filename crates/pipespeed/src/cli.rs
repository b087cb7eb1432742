//! The command line: the only source of help, man page and completions.

mod channels;
mod check;
mod costs;
mod latency;
mod memory;
mod meter;
mod named;
mod pages;
mod parse;
mod pinning;
mod producers;
mod profile;
mod volumes;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::channels::ChannelsArgs;
pub use self::check::CheckArgs;
pub use self::costs::CostsArgs;
pub use self::latency::LatencyArgs;
pub use self::memory::MemoryArgs;
pub use self::meter::MeterArgs;
use self::named::named;
pub use self::pages::PagesArgs;
pub use self::parse::parse;
pub use self::pinning::{PinnedPages, PinningArgs};
pub use self::producers::{FizzbuzzArgs, YesArgs};
pub use self::profile::{ProfileArgs, ProfileOutput};
pub use self::volumes::VolumesArgs;
use pipespeed_base::size;
use pipespeed_host::placement::{Placement, parse_cpus};
use pipespeed_measure::record::DataUse;
use pipespeed_measure::suite::Suite;

/// Measures how fast data moves between processes on this machine, and why.
#[derive(Debug, Parser)]
#[command(
    name = "pipespeed",
    version,
    infer_long_args = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure throughput: the published experiment, and other suites.
    Bench(BenchArgs),
    /// Measure round trips: a message to another process and back.
    Latency(Box<LatencyArgs>),
    /// Compare saved runs: what changed, and is it real?
    Compare(CompareArgs),
    /// Show the page tables and the pages behind an address or a buffer.
    Pages(PagesArgs),
    /// Show where the time of a case, or of your own pipeline, goes.
    Profile(ProfileArgs),
    /// Write to a pipe at standard output, with the published options.
    Write(WriteArgs),
    /// Read from standard input and print the rate.
    Read(ReadArgs),
    /// Measure elementary costs: a call, a page, a page fault, a wake-up.
    Costs(CostsArgs),
    /// Test what this system's pipes promise: limits, semantics, permissions.
    Check(CheckArgs),
    /// Watch or limit a stream, with pv's options.
    Meter(Box<MeterArgs>),
    /// Print FizzBuzz at pipe speed.
    Fizzbuzz(FizzbuzzArgs),
    /// Print a line repeatedly, as yes does, at pipe speed.
    Yes(YesArgs),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    Man,
}

/// Where the two ends of a case run, and through what the data goes: the same
/// for all that measure cases or sample them.
#[derive(Debug, Clone, Args)]
pub struct SetupArgs {
    /// Where the two ends run [default: different].
    ///
    /// The suite sizes measures both different and same by default.
    #[arg(long, value_parser = named::<Placement>())]
    pub placement: Option<Placement>,
    /// Processors of writer and reader, as in 2,3.
    #[arg(long, value_name = "W,R", value_parser = parse_cpus, conflicts_with = "placement")]
    pub cpus: Option<(usize, usize)>,
    /// Pipe size for all cases [default: the suite's].
    #[arg(long, alias = "pipe_size", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// Buffer size for all cases [default: the suite's].
    #[arg(long, aliases = ["buffer_size", "buf-size", "buf_size"], value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub buffer_size: Option<usize>,
}

/// How everything is measured: the same for every measuring command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// Duration of the whole run [default: by suite, mostly 60; --quick: 10].
    ///
    /// With --quick in brackets: ladder, touched and changes 60 (10), options 60
    /// (14), memory 85 (25), sizes 120 (30), channels 170 (26), volumes 170 (12).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Number of rounds; each runs every case once [default: as --time allows].
    ///
    /// At least 30 by default; 9 in the suites channels, volumes and memory, 10 in
    /// options.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true, conflicts_with = "time")]
    pub rounds: Option<u32>,
    /// Seed of the order of the trials [default: random, recorded].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Fewer and shorter trials, with wider intervals.
    #[arg(long)]
    pub quick: bool,
    /// Where the ends run, and through what the data goes.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// What becomes of the data [default: the suite's].
    ///
    /// To look at the data, a reader that splices passes it through a second pipe.
    #[arg(long, value_parser = named::<DataUse>())]
    pub data: Option<DataUse>,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Save the record with every sample as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Save the samples as CSV ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Save the chart as SVG ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}

impl OutputArgs {
    /// The options with the files that are asked for.
    pub fn files(&self) -> [(&'static str, &Option<PathBuf>); 3] {
        [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--chart", &self.chart),
        ]
    }
}

/// `pipespeed bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --json, --csv and --chart all three are saved in ./pipespeed-results/. \
The record is saved after each round, so an interrupted run loses nothing.

Examples:
  pipespeed bench                  the published ladder, one minute
  pipespeed bench touched          with every byte produced and used
  pipespeed bench changes          what would help most here
  pipespeed bench channels --channel pipe,tcp --size 4K,1M
  pipespeed bench --case write_read,vmsplice_read --pipe-size 1M
  pipespeed bench --quick --json - | jq .cases[].summary")]
pub struct BenchArgs {
    /// The set of cases to measure.
    #[arg(value_parser = named::<Suite>(), default_value_t)]
    pub suite: Suite,
    /// Measure only these cases, and those they are compared with.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub case: Vec<String>,
    /// Passes of computing over the data at each end.
    ///
    /// Shows from which amount of work the pipe stops mattering.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1000),
        allow_negative_numbers = true
    )]
    pub work: u32,
    /// List the suite's cases and exit.
    #[arg(long)]
    pub list: bool,
    /// Save only what --json, --csv or --chart name.
    #[arg(long)]
    pub no_save: bool,
    /// Which channels and messages.
    #[command(flatten)]
    pub channels: ChannelsArgs,
    /// Which volumes.
    #[command(flatten)]
    pub volumes: VolumesArgs,
    /// What blocks of memory lie in.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// How to measure.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `pipespeed compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
The samples of two runs are not paired: what the machine did between the runs \
counts as a difference too. The intervals allow for slow drift within each run, \
not for changes from one hour to the next.

Examples:
  pipespeed compare before.json after.json
  pipespeed compare base.json new.json --fail-on slower:10    for use in CI
  pipespeed compare a.json b.json c.json                      all against a.json")]
pub struct CompareArgs {
    /// Saved runs; the others are compared with the first ('-': standard input).
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Exit with status 1 if a case got slower by PERCENT or more.
    ///
    /// Also if no verdict is possible. Differences below 5 % never count.
    #[arg(long, value_name = "slower[:PERCENT]", value_parser = fail_on)]
    pub fail_on: Option<FailOn>,
    /// Compare runs whose settings or machines differ too much.
    #[arg(long)]
    pub force: bool,
    /// Save the comparison as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Save a chart of the ratios as SVG ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}

/// When a comparison counts as a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailOn {
    /// The least slow-down that counts, as a share: 0.1 is 10 %.
    pub slower_by: f64,
}

/// The published programs' options: both programs take all of them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of the published programs (hyphens or underscores)")]
pub struct EndArgs {
    /// Print what is done, and page faults, on standard error.
    #[arg(long)]
    pub verbose: bool,
    /// Never sleep: try again at once while the pipe is full or empty.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
    /// Ask poll(2) before each transfer.
    #[arg(long)]
    pub poll: bool,
    /// Use transparent huge pages.
    #[arg(long, alias = "huge_page")]
    pub huge_page: bool,
    /// Fail unless the buffers really are in huge pages.
    #[arg(long, alias = "check_huge_page", conflicts_with = "dont_touch_pages")]
    pub check_huge_page: bool,
    /// Buffer size.
    #[arg(long, aliases = ["buf_size", "buffer-size", "buffer_size"], value_name = "SIZE", default_value = "256K", value_parser = size::parse, allow_hyphen_values = true)]
    pub buf_size: usize,
    /// Write with vmsplice(2), from two halves of the buffer in turn.
    ///
    /// The pipe gets half the buffer's size.
    #[arg(long, alias = "write_with_vmsplice")]
    pub write_with_vmsplice: bool,
    /// Read with splice(2), to /dev/null.
    #[arg(long, alias = "read_with_splice")]
    pub read_with_splice: bool,
    /// Gift the pages to the kernel (SPLICE_F_GIFT).
    #[arg(long)]
    pub gift: bool,
    /// Bytes to read.
    ///
    /// The writer accepts the option and writes until the reader closes the pipe.
    #[arg(long, alias = "bytes_to_pipe", value_name = "SIZE", default_value = "10G", value_parser = size::parse, allow_hyphen_values = true)]
    pub bytes_to_pipe: usize,
    /// Set the pipe's size.
    #[arg(long, alias = "pipe_size", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// Lock the buffers in memory.
    #[arg(long, alias = "lock_memory")]
    pub lock_memory: bool,
    /// Don't write to the buffers before the start.
    #[arg(long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,
    /// One buffer in two halves instead of two buffers.
    #[arg(long, alias = "same_buffer")]
    pub same_buffer: bool,
    /// Print the result and the options as a line of CSV.
    #[arg(long)]
    pub csv: bool,
}

/// What a writer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sent {
    /// The same bytes again and again.
    #[default]
    Constant,
    /// A stream of fresh bytes that `read --data verify` can check.
    Pattern,
}

/// When vmspliced pages of a pattern are written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ReuseArg {
    /// Never: right whatever the reader does.
    #[default]
    Fresh,
    /// Once they have left the pipe: faster, but wrong if the reader splices
    /// or tees them on.
    Drained,
}

/// `pipespeed write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  pipespeed write --write-with-vmsplice --huge-page --busy-loop |
    pipespeed read --read-with-splice --busy-loop")]
pub struct WriteArgs {
    /// What to send.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub data: Sent,
    /// When vmspliced pages of a pattern are written again.
    #[arg(long, value_enum, default_value_t)]
    pub reuse: ReuseArg,
    /// Stop after this many bytes [default: when the reader closes the pipe].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub bytes: Option<usize>,
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

/// `pipespeed read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// What to do with the data [default: read].
    ///
    /// The default is discard with --read-with-splice; to look at spliced data
    /// takes a second pipe.
    #[arg(long, value_parser = named::<DataUse>())]
    pub data: Option<DataUse>,
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

/// The published experiment, with its options.
#[derive(Debug, Parser)]
#[command(version, infer_long_args = true, args_override_self = true)]
pub struct Published {
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        Ok(_) => Err("seconds must be above 0 and at most 86400".to_owned()),
        Err(_) => Err(format!("'{text}' is no number of seconds")),
    }
}

fn fail_on(text: &str) -> Result<FailOn, String> {
    let percent = match text.split_once(':') {
        None if text == "slower" => 0.0,
        Some(("slower", percent)) => percent
            .trim_end_matches('%')
            .parse::<f64>()
            .ok()
            .filter(|percent| (0.0..100.0).contains(percent))
            .ok_or_else(|| format!("'{percent}' is no percentage from 0 to 100"))?,
        _ => return Err("write 'slower' or 'slower:PERCENT'".to_owned()),
    };
    Ok(FailOn {
        slower_by: percent / 100.0,
    })
}
