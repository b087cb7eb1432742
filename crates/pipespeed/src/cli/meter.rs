//! The options of `pipespeed meter`: pv's letters.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use pipespeed_base::size;
use pipespeed_tools::meter::{Format, Target};

/// `pipespeed meter`.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    after_help = "\
Nothing is drawn where standard error is no terminal (-f: all the same), nor \
from the background. The bar is coloured unless NO_COLOR is set. What is shown \
has left: bytes that wait in the output pipe are not counted yet.

Formats (-F): %p bar, %t timer, %e time left, %I time of arrival, %r rate, \
%a average rate, %b count, %T filling of the output pipe, %N name, %% per cent \
sign.

Of --json: bytes (those that have left) or lines, unread_bytes (in the output pipe), \
rate_bytes_per_second (of the last seconds), average_bytes_per_second, elapsed_seconds, \
eta_seconds, size_bytes, name, technique; null where it is not known. The last object has summary \
(true), end (end of data, size reached, consumer gone, output failed), status and passed_over: the \
techniques that were not used, and why.

Exit status: 0, or the sum of 2 (a file or process could not be opened), 4 (an \
input is the output), 16 (bytes could not be read or written). 2 as well for \
wrong usage. A consumer that ends early is no failure.

Examples:
  pipespeed meter disk.img > /dev/sdb
  tar c . | pipespeed meter -s 3G -N tar | zstd > all.tar.zst
  producer | pipespeed meter -cN in | gzip | pipespeed meter -cN out > file.gz
  pipespeed meter -qL 1M big > /mnt/slow/big
  pipespeed meter -d $(pidof cp)
  pipespeed meter --json big 2> progress.jsonl | consumer"
)]
pub struct MeterArgs {
    /// What to pass on, one after the other ('-': standard input, which is also
    /// what is read without any).
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// The bar; without a size a mark that moves while data does.
    #[arg(short, long, help_heading = WHAT)]
    pub progress: bool,
    /// The time elapsed.
    #[arg(short, long, help_heading = WHAT)]
    pub timer: bool,
    /// The time left at the rate of the last seconds.
    #[arg(short, long, help_heading = WHAT)]
    pub eta: bool,
    /// The time of day at which it will be done.
    #[arg(short = 'I', long, help_heading = WHAT)]
    pub fineta: bool,
    /// The rate of the last seconds.
    #[arg(short, long, help_heading = WHAT)]
    pub rate: bool,
    /// The rate since the beginning.
    #[arg(short, long, help_heading = WHAT)]
    pub average_rate: bool,
    /// The bytes, or lines, that have left.
    #[arg(short, long, help_heading = WHAT)]
    pub bytes: bool,
    /// How full the output pipe is.
    #[arg(short = 'T', long, help_heading = WHAT)]
    pub buffer_percent: bool,
    /// Exactly this, in place of the above [default: -ptreb].
    #[arg(short = 'F', long, value_name = "FORMAT", value_parser = Format::parse, allow_hyphen_values = true, help_heading = WHAT)]
    pub format: Option<Format>,
    /// The per cents in a line each time, terminal or not; with -b, or without a
    /// size, the count; with -t the seconds before it.
    #[arg(short, long, conflicts_with_all = ["format", "json", "quiet"], help_heading = WHAT)]
    pub numeric: bool,
    /// An object of JSON in a line each time, terminal or not, and a summary.
    #[arg(long, conflicts_with_all = ["format", "quiet"], help_heading = WHAT)]
    pub json: bool,
    /// Nothing.
    #[arg(short, long, help_heading = WHAT)]
    pub quiet: bool,

    /// Draw even if standard error is no terminal.
    #[arg(short, long, help_heading = HOW)]
    pub force: bool,
    /// A name in front.
    #[arg(short = 'N', long, value_name = "NAME", allow_hyphen_values = true, help_heading = HOW)]
    pub name: Option<String>,
    /// Share the terminal with other meters, each in a row of its own.
    #[arg(short, long, help_heading = HOW)]
    pub cursor: bool,
    /// Seconds between two drawings; 0.01 if less.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval, allow_negative_numbers = true, help_heading = HOW)]
    pub interval: Duration,
    /// Show nothing and count no time before the first byte.
    #[arg(short = 'W', long, help_heading = HOW)]
    pub wait: bool,
    /// Show nothing in the first seconds.
    #[arg(short = 'D', long, value_name = "SECONDS", default_value = "0", value_parser = delay, allow_negative_numbers = true, hide_default_value = true, help_heading = HOW)]
    pub delay_start: Duration,
    /// Columns [default: the terminal's].
    #[arg(short, long, value_name = "COLUMNS", allow_negative_numbers = true, help_heading = HOW)]
    pub width: Option<u32>,
    /// Rows, for -c and -d [default: the terminal's].
    #[arg(short = 'H', long, value_name = "ROWS", allow_negative_numbers = true, help_heading = HOW)]
    pub height: Option<u32>,

    /// The amount expected in all, as 3G; 0 is unknown [default: that of the
    /// files; if it can't be told, that of a block device that is written to,
    /// where it then stops].
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub size: Option<u64>,
    /// End at the size; what is beyond is not even read. (With -l long lines
    /// then go slowly, the last ones byte by byte.)
    #[arg(short = 'S', long, help_heading = DATA)]
    pub stop_at_size: bool,
    /// Count lines instead of bytes, in -s and -L as well.
    #[arg(short, long, help_heading = DATA)]
    pub line_mode: bool,
    /// Count lines that end with a null byte.
    #[arg(short = '0', long, help_heading = DATA)]
    pub null: bool,
    /// Pass so many bytes a second at most, as 10M; 0 is no limit. The pipe at
    /// standard output is then not made larger.
    #[arg(short = 'L', long, value_name = "RATE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub rate_limit: Option<u64>,
    /// Read and write, through a buffer of this size.
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = size::parse_or_zero, allow_hyphen_values = true, help_heading = DATA)]
    pub buffer_size: Option<u64>,
    /// Only read and write: copy all data. Needed for a writer that hands over
    /// its memory (vmsplice) and writes to it again once a pipeful was sent after
    /// it, as the published double buffering does: without copying, that memory
    /// may still be unread in the output.
    #[arg(short = 'C', long, help_heading = DATA)]
    pub no_splice: bool,
    /// Put zeros in place of what can't be read of a file, and go on.
    #[arg(short = 'E', long, action = clap::ArgAction::Count, help_heading = DATA)]
    pub skip_errors: u8,
    /// Make the pipe at standard input larger: faster, but wrong for a writer
    /// that counts on its size to know what has been read.
    #[arg(long, help_heading = DATA)]
    pub resize_input: bool,
    /// Pass nothing on, but watch a process move through its files, or through
    /// one of them.
    #[arg(short = 'd', long, value_name = "PID[:FD]", value_parser = target, help_heading = DATA, conflicts_with_all = ["files", "stop_at_size", "line_mode", "null", "rate_limit", "buffer_size", "no_splice", "skip_errors", "resize_input", "wait", "cursor"])]
    pub watchfd: Option<Target>,

    /// Of pv, and not offered here.
    #[arg(short = 'A', long, value_name = "NUM", hide = true)]
    pub last_written: Option<String>,
    /// Of pv, and not offered here.
    #[arg(short = 'R', long, value_name = "PID", hide = true)]
    pub remote: Option<String>,
    /// Of pv, and not offered here.
    #[arg(short = 'P', long, value_name = "FILE", hide = true)]
    pub pidfile: Option<PathBuf>,
}

const WHAT: &str = "What to show [default: -p -t -e -r -b]";
const HOW: &str = "How to show it";
const DATA: &str = "What to do with the data";

fn interval(text: &str) -> Result<Duration, String> {
    Ok(seconds(text, 0.0)?.max(Duration::from_millis(10)))
}

fn delay(text: &str) -> Result<Duration, String> {
    seconds(text, 0.0)
}

fn seconds(text: &str, least: f64) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (least..=1e6).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err(format!(
            "seconds must be {least} at least and 1000000 at most"
        )),
        Err(_) => Err(format!("'{text}' is no number of seconds")),
    }
}

fn target(text: &str) -> Result<Target, String> {
    let (pid, fd) = match text.split_once(':') {
        Some((pid, fd)) => (pid, Some(fd)),
        None => (text, None),
    };
    let number = |text: &str| text.parse::<i32>().ok().filter(|number| *number >= 0);
    let wrong = || format!("'{text}' is neither PID nor PID:FD, two numbers");
    Ok(Target {
        pid: number(pid).filter(|pid| *pid > 0).ok_or_else(wrong)?,
        fd: fd.map(|fd| number(fd).ok_or_else(wrong)).transpose()?,
    })
}
