//! The options of `pipespeed meter`, with the letters that pv uses.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::number::{decimal, whole};
use pipespeed_base::size;
use pipespeed_tools::meter::Format;

/// `pipespeed meter`.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    after_help = include_str!("help/meter.txt").trim_ascii_end()
)]
pub struct MeterArgs {
    /// Files to pass on, in this order ('-': standard input) [default: -].
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Show a progress bar; a moving mark if the size is unknown.
    #[arg(short, long, help_heading = WHAT)]
    pub progress: bool,
    /// Show the elapsed time.
    #[arg(short, long, help_heading = WHAT)]
    pub timer: bool,
    /// Show the remaining time, estimated from the current rate.
    #[arg(short, long, help_heading = WHAT)]
    pub eta: bool,
    /// Show the time of day at which the transfer should end.
    #[arg(short = 'I', long, help_heading = WHAT)]
    pub fineta: bool,
    /// Show the current rate, over the last seconds.
    #[arg(short, long, help_heading = WHAT)]
    pub rate: bool,
    /// Show the average rate since the start.
    #[arg(short, long, help_heading = WHAT)]
    pub average_rate: bool,
    /// Show the number of bytes or lines transferred.
    #[arg(short, long, help_heading = WHAT)]
    pub bytes: bool,
    /// Show how full the output pipe is, in percent.
    #[arg(short = 'T', long, help_heading = WHAT)]
    pub buffer_percent: bool,
    /// Show this format instead of the fields above [default: -ptreb].
    #[arg(short = 'F', long, value_name = "FORMAT", value_parser = any_text().try_map(|text| Format::parse(&text)), allow_hyphen_values = true, help_heading = WHAT)]
    pub format: Option<Format>,
    /// Print the percentage, one line per update; also without a terminal.
    ///
    /// Prints the count instead with -b or if the size is unknown; -t puts the
    /// elapsed seconds before it.
    #[arg(short, long, conflicts_with_all = ["format", "json", "quiet"], help_heading = WHAT)]
    pub numeric: bool,
    /// Print one JSON object per line, then a summary; also without a terminal.
    #[arg(long, conflicts_with_all = ["format", "quiet"], help_heading = WHAT)]
    pub json: bool,
    /// Show nothing.
    #[arg(short, long, help_heading = WHAT)]
    pub quiet: bool,

    /// Draw even if standard error is not a terminal.
    #[arg(short, long, help_heading = HOW)]
    pub force: bool,
    /// Put this name before the other fields.
    #[arg(short = 'N', long, value_name = "NAME", value_parser = any_text(), allow_hyphen_values = true, help_heading = HOW)]
    pub name: Option<String>,
    /// Seconds between updates, at least 0.01.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval, allow_negative_numbers = true, help_heading = HOW)]
    pub interval: Duration,
    /// Start the display and the timer at the first byte.
    #[arg(short = 'W', long, help_heading = HOW)]
    pub wait: bool,
    /// Show nothing for the first SECONDS.
    #[arg(short = 'D', long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true, hide_default_value = true, help_heading = HOW)]
    pub delay_start: Duration,
    /// Width of the display in columns [default: the terminal's].
    #[arg(short, long, value_name = "COLUMNS", value_parser = whole(0..=u32::MAX), allow_negative_numbers = true, help_heading = HOW)]
    pub width: Option<u32>,

    /// Expected total size, such as 3G; 0: unknown [default: the files' total].
    ///
    /// If the size of the input is unknown and the output is a block device, its
    /// size is used, and the transfer stops there.
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub size: Option<u64>,
    /// Stop when the size is reached, without reading past it.
    ///
    /// With -l, long lines are slow, since the last ones are read byte by byte. A message of a
    /// socket (SOCK_SEQPACKET, datagrams) is passed on whole with -l, even if it has more lines;
    /// without -l, the part of it beyond the size is lost. From a pipe the last bytes are taken
    /// with splice; where that is refused, what was read past the size is an error.
    #[arg(short = 'S', long, help_heading = DATA)]
    pub stop_at_size: bool,
    /// Count lines instead of bytes, also for -s and -L.
    #[arg(short, long, help_heading = DATA)]
    pub line_mode: bool,
    /// Count records that end with a null byte instead of lines.
    #[arg(short = '0', long, help_heading = DATA)]
    pub null: bool,
    /// Limit the rate to RATE bytes per second, such as 10M; 0: no limit.
    ///
    /// The pipe at standard output is then not enlarged.
    #[arg(short = 'L', long, value_name = "RATE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub rate_limit: Option<u64>,
    /// Copy with read and write, at most SIZE bytes per write.
    ///
    /// From a file or a socket SIZE bytes are read at a time, from a pipe what is in it.
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub buffer_size: Option<u64>,
    /// Copy all data with read and write; never splice.
    ///
    /// Needed if the producer sends its memory with vmsplice and reuses it after
    /// one more pipe's worth of data, as the published double buffering does:
    /// without copying, that memory may still be unread in the output pipe. Also for a
    /// file that is changed while the meter runs: its readers may see the changes. If a reader
    /// passes the data on to another pipe with splice (pv, another meter), changes may be seen
    /// there even after the meter has ended. Also if others write to the same open output file,
    /// as in '(a & b) > file': without copying, one may overwrite what the other has written,
    /// unless the file is opened to append (>>).
    #[arg(short = 'C', long, help_heading = DATA)]
    pub no_splice: bool,
    /// Enlarge the pipe at standard input, which is faster.
    ///
    /// Wrong if the producer relies on the pipe's size to know what has been read.
    #[arg(long, help_heading = DATA)]
    pub resize_input: bool,

    /// Options of pv that are refused.
    #[command(flatten)]
    pub unsupported: UnsupportedArgs,
}

/// Options of pv that are only accepted to say that they are not supported. A value may be
/// missing, so that the answer is the same.
#[derive(Debug, Clone, Args)]
pub struct UnsupportedArgs {
    #[arg(short = 'd', long, num_args = 0..=1, hide = true)]
    watchfd: Option<Option<OsString>>,
    #[arg(short, long, hide = true)]
    cursor: bool,
    #[arg(short = 'H', long, num_args = 0..=1, allow_negative_numbers = true, hide = true)]
    height: Option<Option<OsString>>,
    #[arg(short = 'E', long, hide = true)]
    skip_errors: bool,
    #[arg(short = 'A', long, num_args = 0..=1, hide = true)]
    last_written: Option<Option<OsString>>,
    #[arg(short = 'R', long, num_args = 0..=1, hide = true)]
    remote: Option<Option<OsString>>,
    #[arg(short = 'P', long, num_args = 0..=1, hide = true)]
    pidfile: Option<Option<OsString>>,
}

impl UnsupportedArgs {
    /// The first of them that was given, and what to use instead.
    pub fn first(&self) -> Option<&'static str> {
        [
            (
                self.watchfd.is_some(),
                "--watchfd (-d) of pv: use pv -d or progress",
            ),
            (
                self.cursor,
                "--cursor (-c) of pv: pipespeed top shows a whole pipeline",
            ),
            (
                self.height.is_some(),
                "--height (-H) of pv: the display is one line",
            ),
            (
                self.skip_errors,
                "--skip-errors (-E) of pv: use ddrescue or dd conv=noerror,sync",
            ),
            (self.last_written.is_some(), "--last-written (-A) of pv"),
            (self.remote.is_some(), "--remote (-R) of pv"),
            (self.pidfile.is_some(), "--pidfile (-P) of pv"),
        ]
        .into_iter()
        .find_map(|(is_given, option)| is_given.then_some(option))
    }
}

const WHAT: &str = "What to show [default: -p -t -e -r -b]";
const HOW: &str = "How to show it";
const DATA: &str = "What to do with the data";

/// Takes any bytes, with U+FFFD for what is not UTF-8: a display is no reason to pass on no data.
fn any_text() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|text| text.to_string_lossy().into_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    Ok(seconds(text)?.max(Duration::from_millis(10)))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = "write a number of seconds from 0 to 1000000";
    decimal(text, 0.0..=1e6, wanted).map(Duration::from_secs_f64)
}
