//! What a meter is asked.

use std::path::PathBuf;
use std::time::Duration;

use super::format::Format;
use super::units::Unit;

/// How often the display changes unless said otherwise.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// What is shown, on standard error.
#[derive(Debug, Clone, PartialEq)]
pub enum Show {
    /// Nothing.
    Nothing,
    /// A line that is drawn again and again.
    Line(Format),
    /// A number in a line of its own each time.
    Number {
        /// The count, instead of the percentage.
        count: bool,
        /// The seconds elapsed before it.
        timer: bool,
    },
    /// A JSON object in a line of its own each time.
    Json,
}

/// The process to watch, and which of its descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: i32,
    /// The descriptor; if none, all regular files and block devices.
    pub fd: Option<i32>,
}

/// What a meter is asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// The inputs; standard input if none, and where one is '-'.
    pub files: Vec<PathBuf>,
    /// Another process to watch, instead of passing anything on.
    pub watch: Option<Target>,
    /// What is shown.
    pub show: Show,
    /// Draw even where standard error is no terminal.
    pub force: bool,
    /// The name in front of the display.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// How much is expected, in units; found out by itself if none.
    pub size: Option<u64>,
    /// End at the size, and never take a unit more.
    pub stop_at_size: bool,
    /// The most units a second.
    pub rate_limit: Option<u64>,
    /// Time from one drawing to the next.
    pub interval: Duration,
    /// Nothing is shown before this has passed.
    pub delay: Duration,
    /// Nothing is shown and no time counted before the first byte.
    pub wait: bool,
    /// Columns, instead of the terminal's.
    pub width: Option<u16>,
    /// Rows, instead of the terminal's.
    pub height: Option<u16>,
    /// Share the terminal with other meters, each in a line of its own.
    pub cursor: bool,
    /// The most bytes moved at once.
    pub block: Option<usize>,
    /// Only read and write.
    pub copy: bool,
    /// Put zeros in place of what can't be read, and go on.
    pub skip_errors: bool,
    /// Whether the pipe at the input may be made larger.
    pub resize_input: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            files: Vec::new(),
            watch: None,
            show: Show::Line(Format::default()),
            force: false,
            name: None,
            unit: Unit::Bytes,
            size: None,
            stop_at_size: false,
            rate_limit: None,
            interval: INTERVAL,
            delay: Duration::ZERO,
            wait: false,
            width: None,
            height: None,
            cursor: false,
            block: None,
            copy: false,
            skip_errors: false,
            resize_input: false,
        }
    }
}
