//! Options of a meter.

use std::path::PathBuf;
use std::time::Duration;

use super::format::Format;
use super::progress::Unit;

/// Form of the display on standard error.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Show {
    /// Nothing.
    #[default]
    Nothing,
    /// A line that is redrawn.
    Line(Format),
    /// A number in a new line each time.
    Number {
        /// Show the count instead of the percentage.
        count: bool,
        /// Show the elapsed seconds before the number.
        timer: bool,
    },
    /// A JSON object in a new line each time.
    Json,
}

/// Options of a meter.
#[derive(Debug, Clone, Default)]
pub struct MeterOptions {
    /// The inputs; standard input by default and for '-'.
    pub files: Vec<PathBuf>,
    /// Form of the display.
    pub show: Show,
    /// Draw even if standard error is not a terminal.
    pub force: bool,
    /// The name shown before the display.
    pub name: Option<String>,
    /// The unit of counts.
    pub unit: Unit,
    /// Expected size in units; by default the total of the inputs.
    pub size: Option<u64>,
    /// Stop when the size is reached.
    pub stop_at_size: bool,
    /// Maximum rate in units per second.
    pub rate_limit: Option<u64>,
    /// Time between two drawings.
    pub interval: Duration,
    /// Time before the first drawing.
    pub delay: Duration,
    /// Start the display and the clock at the first byte.
    pub wait: bool,
    /// Columns, instead of the terminal's.
    pub width: Option<u16>,
    /// Maximum number of bytes moved at once.
    pub block: Option<usize>,
    /// Use only read(2) and write(2).
    pub copy: bool,
    /// Allow enlarging the pipe at the input.
    pub resize_input: bool,
}
