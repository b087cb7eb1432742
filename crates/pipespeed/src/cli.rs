//! The command line: the only source of help, man page and completions.

mod boost;
mod channels;
mod check;
mod costs;
mod doctor;
mod latency;
mod memory;
mod meter;
mod named;
mod number;
mod pages;
mod parse;
mod pinning;
mod producers;
mod profile;
mod report;
mod suites;
mod top;
mod volumes;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use self::boost::BoostArgs;
pub use self::channels::ChannelsArgs;
pub use self::check::CheckArgs;
pub use self::costs::CostsArgs;
pub use self::doctor::{DoctorArgs, WatchedArgs};
pub use self::latency::LatencyArgs;
pub use self::memory::MemoryArgs;
pub use self::meter::MeterArgs;
use self::named::{named, named_among};
use self::number::{percent, seconds, whole};
pub use self::pages::PagesArgs;
pub use self::parse::{failure, parse, parse_published};
pub use self::pinning::{PinnedPages, PinningArgs};
pub use self::producers::{FizzbuzzArgs, YesArgs};
pub use self::profile::{ProfileArgs, ProfileOutput};
pub use self::report::ReportArgs;
pub use self::top::TopArgs;
pub use self::volumes::VolumesArgs;
use pipespeed_base::size;
use pipespeed_host::placement::{Placement, parse_cpus};
use pipespeed_measure::spec::{DataUse, PageReuse, Suite};

/// Measures how fast data moves between processes on this machine, and why.
#[derive(Debug, Parser)]
#[command(
    name = "pipespeed",
    version,
    infer_long_args = true,
    arg_required_else_help = true,
    after_help = include_str!("cli/help/pipespeed.txt").trim_ascii_end()
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
    /// Show where a case, or your own pipeline, spends its time.
    Profile(ProfileArgs),
    /// Test the limits, semantics and permissions of pipes on this system.
    Check(CheckArgs),
    /// Measure elementary costs: a call, a page, a page fault, a wake-up.
    Costs(CostsArgs),
    /// Measure round trips: a message to another process and back.
    Latency(Box<LatencyArgs>),
    /// Compare saved runs, with a verdict for each case.
    Compare(CompareArgs),
    /// Make one HTML page: the published experiment on this machine.
    Report(ReportArgs),
    /// Show the page tables and the pages of an address or a buffer.
    Pages(PagesArgs),
    /// Say why programs hang, or a pipeline is slow.
    Doctor(DoctorArgs),
    /// Make your own pipeline faster, and prove it.
    Boost(Box<BoostArgs>),
    /// Watch pipelines: who works, who waits, how full the pipes are.
    Top(TopArgs),
    /// Watch or limit a stream, with pv's options.
    Meter(Box<MeterArgs>),
    /// Write to a pipe at standard output, with the published options.
    Write(WriteArgs),
    /// Read from standard input and print the rate.
    Read(ReadArgs),
    /// Print FizzBuzz at pipe speed.
    Fizzbuzz(FizzbuzzArgs),
    /// Print a line repeatedly, as yes does, at pipe speed.
    Yes(YesArgs),
    /// Print completions for a shell.
    #[command(after_help = "\
Example:
  pipespeed completions fish > ~/.config/fish/completions/pipespeed.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    #[command(after_help = "\
Examples:
  pipespeed man | man -l -
  pipespeed man --dir ~/.local/share/man/man1")]
    Man {
        /// Write a page for each command to this directory instead.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Returns the definition of the command line. Commands that share options list only those
/// that change what they do; both ends accept all published ones.
pub fn command() -> clap::Command {
    let hide = |command: clap::Command, names: &[&'static str]| {
        let hidden = |command: clap::Command, name: &&'static str| {
            command.mut_arg(*name, |arg| arg.hide(true))
        };
        names.iter().fold(command, hidden)
    };
    let of_writer = ["write_with_vmsplice", "gift", "same_buffer"];
    let of_reader = ["read_with_splice", "bytes_to_pipe", "csv"];
    let without_long_help = |arg: clap::Arg| arg.long_help(None::<&str>);
    Cli::command()
        .mut_subcommand("write", |command| hide(command, &of_reader))
        .mut_subcommand("read", |command| {
            hide(command, &of_writer).mut_arg("bytes_to_pipe", without_long_help)
        })
        .mut_subcommand("profile", |command| {
            command.mut_arg("placement", without_long_help)
        })
}

/// Processors, pipe size and buffer size of a case, for every command that
/// measures or samples cases.
#[derive(Debug, Clone, Args)]
pub struct SetupArgs {
    /// Processors of the two ends [default: different].
    ///
    /// In the suite sizes, the default is to measure both different and same.
    #[arg(long, value_parser = named::<Placement>())]
    pub placement: Option<Placement>,
    /// Processor numbers of writer and reader, such as 2,3.
    #[arg(long, value_name = "W,R", value_parser = parse_cpus, conflicts_with = "placement")]
    pub cpus: Option<(usize, usize)>,
    /// Pipe size for all cases [default: the suite's].
    #[arg(long, alias = "pipe_size", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// Buffer size for all cases [default: the suite's].
    #[arg(long, aliases = ["buffer_size", "buf-size", "buf_size"], value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub buffer_size: Option<usize>,
}

/// Options of a measurement.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// Duration of the whole run [default: by suite, mostly 60; --quick: 10].
    #[arg(long, long_help = suites::time_help(), value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Number of rounds; each runs every case once [default: to fit --time].
    #[arg(long, long_help = suites::rounds_help(), value_name = "N", value_parser = whole::<u32>(1..=100_000), allow_negative_numbers = true, conflicts_with = "time")]
    pub rounds: Option<u32>,
    /// Seed for the order of the trials [default: random, recorded].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Run fewer and shorter trials, with wider intervals.
    #[arg(long)]
    pub quick: bool,
    /// Processors, pipe size and buffer size.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// What to do with the data [default: the suite's].
    ///
    /// A reader that splices passes the data through a second pipe to examine it.
    #[arg(long, value_parser = named::<DataUse>())]
    pub data: Option<DataUse>,
}

/// Output options.
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
    /// Save the results for Prometheus: a file for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Save no files except those that are named.
    #[arg(long)]
    pub no_save: bool,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print all notes below the table, not only the most important.
    #[arg(long, short)]
    pub verbose: bool,
}

impl OutputArgs {
    /// Returns the file options by name.
    pub fn files(&self) -> [(&'static str, &Option<PathBuf>); 4] {
        [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--chart", &self.chart),
            ("--prometheus", &self.prometheus),
        ]
    }
}

/// `pipespeed bench`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("cli/help/bench.txt").trim_ascii_end())]
pub struct BenchArgs {
    /// The set of cases to measure.
    #[arg(value_parser = named::<Suite>(), default_value_t)]
    pub suite: Suite,
    /// Measure only these cases and the ones they are compared with.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub case: Vec<String>,
    /// Number of computation passes over the data at each end.
    ///
    /// Shows how much work makes the speed of the pipe irrelevant.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = whole::<u32>(0..=1000),
        allow_negative_numbers = true
    )]
    pub work: u32,
    /// List the suite's cases and exit.
    #[arg(long, conflicts_with_all = ["json", "csv", "chart"])]
    pub list: bool,
    /// Channels and message sizes.
    #[command(flatten)]
    pub channels: ChannelsArgs,
    /// Volumes to transfer.
    #[command(flatten)]
    pub volumes: VolumesArgs,
    /// The memory blocks to measure.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Options of the measurement.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `pipespeed compare`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("cli/help/compare.txt").trim_ascii_end())]
pub struct CompareArgs {
    /// Saved runs; all are compared with the first ('-': standard input).
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Exit with status 1 if a case got slower by PERCENT or more.
    ///
    /// Exits with 2 if no verdict is possible for a case. Differences below 5 % never count.
    /// Undecided cases don't fail: those that may be slower by PERCENT are named.
    #[arg(long, value_name = "slower[:PERCENT]", value_parser = fail_on)]
    pub fail_on: Option<FailOn>,
    /// Compare runs even if their settings or machines differ too much.
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

/// Condition under which a comparison fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailOn {
    /// Smallest slow-down that fails, as a fraction: 0.1 is 10 %.
    pub slower_by: f64,
}

/// Options of the published programs; both accept all of them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of the published programs (hyphens or underscores)")]
pub struct EndArgs {
    /// Print settings and page faults on standard error.
    #[arg(long)]
    pub verbose: bool,
    /// Never sleep: retry at once while the pipe is full or empty.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
    /// Call poll(2) before each transfer.
    #[arg(long)]
    pub poll: bool,
    /// Use transparent huge pages.
    #[arg(long, alias = "huge_page")]
    pub huge_page: bool,
    /// With --huge-page: fail unless the buffers are in huge pages.
    #[arg(long, alias = "check_huge_page", conflicts_with = "dont_touch_pages")]
    pub check_huge_page: bool,
    /// Buffer size.
    #[arg(long, aliases = ["buf_size", "buffer-size", "buffer_size"], value_name = "SIZE", default_value = "256K", value_parser = size::parse, allow_hyphen_values = true)]
    pub buf_size: usize,
    /// Write with vmsplice(2), alternating between the buffer's halves.
    ///
    /// The pipe is set to half the buffer's size.
    #[arg(long, alias = "write_with_vmsplice")]
    pub write_with_vmsplice: bool,
    /// Read with splice(2) to /dev/null.
    #[arg(long, alias = "read_with_splice")]
    pub read_with_splice: bool,
    /// Gift the pages to the kernel (SPLICE_F_GIFT).
    #[arg(long)]
    pub gift: bool,
    /// Bytes to read [default: up to 10G].
    ///
    /// If the stream ends earlier, the rate so far is printed, and the exit status is 1 if
    /// this option was given. It has no effect on the writer.
    #[arg(long, alias = "bytes_to_pipe", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub bytes_to_pipe: Option<usize>,
    /// Set the pipe's size.
    #[arg(long, alias = "pipe_size", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub pipe_size: Option<usize>,
    /// Lock the buffers in memory.
    #[arg(long, alias = "lock_memory")]
    pub lock_memory: bool,
    /// Don't write to the buffers before the transfer.
    #[arg(long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,
    /// Use one buffer in two halves instead of two buffers.
    #[arg(long, alias = "same_buffer")]
    pub same_buffer: bool,
    /// Print the result and the options as one CSV line.
    #[arg(long)]
    pub csv: bool,
}

impl EndArgs {
    /// Returns the bytes to read.
    pub fn bytes_to_pipe(&self) -> u64 {
        self.bytes_to_pipe.map_or(10 << 30, |bytes| bytes as u64)
    }
}

/// Data that a writer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sent {
    /// The same bytes repeatedly.
    #[default]
    Constant,
    /// A stream of fresh bytes that `read --data verify` can check.
    Pattern,
}

/// `pipespeed write`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("cli/help/write.txt").trim_ascii_end())]
pub struct WriteArgs {
    /// What to send.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub data: Sent,
    /// When to reuse vmspliced pages of a pattern.
    #[arg(long, value_parser = named_among(vec![PageReuse::Fresh, PageReuse::Drained]), default_value_t = PageReuse::Fresh)]
    pub reuse: PageReuse,
    /// Number of bytes to write [default: until the reader closes the pipe].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub bytes: Option<usize>,
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

/// `pipespeed read`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("cli/help/read.txt").trim_ascii_end())]
pub struct ReadArgs {
    /// What to do with the data [default: read].
    ///
    /// The default with --read-with-splice is discard; examining spliced data
    /// needs a second pipe.
    #[arg(long, value_parser = named::<DataUse>())]
    pub data: Option<DataUse>,
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

/// The published experiment, with its options.
#[derive(Debug, Parser)]
#[command(version, infer_long_args = true, args_override_self = true)]
pub struct PublishedArgs {
    /// The published options.
    #[command(flatten)]
    pub end: EndArgs,
}

fn fail_on(text: &str) -> Result<FailOn, String> {
    let percent = match text.split_once(':') {
        None if text == "slower" => 0.0,
        Some(("slower", percentage)) => percent(percentage)?,
        _ => return Err("write 'slower' or 'slower:PERCENT'".to_owned()),
    };
    if percent >= 100.0 {
        return Err("write a percentage below 100: nothing gets slower by more".to_owned());
    }
    Ok(FailOn {
        slower_by: percent / 100.0,
    })
}
