//! A meter for pipelines: passes a stream on, or watches the files of another
//! process, and shows the progress.
//!
//! [`fastpipe::relay`] moves the bytes, without copies if both ends allow it. Only
//! its poll(2) sleeps: the display is drawn when relay calls back.
//!
//! | module | content |
//! |---|---|
//! | `options` | options |
//! | `stream` | all inputs in turn, by relay |
//! | `session`, `clock` | state common to all inputs: counts, time, limits, display |
//! | `progress`, `limiter`, `lines` | rates and times from samples; rate limit; counting lines (pure) |
//! | `format` | a line of a given width from a format and a snapshot (pure) |
//! | `display`, `json`, `screen`, `rows` | drawing; standard error; several meters in one terminal |
//! | `watch` | files of another process |

mod clock;
mod display;
mod format;
mod json;
mod limiter;
mod lines;
mod options;
mod progress;
mod rows;
mod screen;
mod session;
mod stream;
mod watch;

pub use self::format::{Format, Item};
pub use self::options::{Options, Show, Target, Unit};

/// Bit of the exit status, as in pv(1): a file or a process could not be accessed.
const ACCESS: u8 = 2;
/// An input was left out, since it is the output.
const SAME_FILE: u8 = 4;
/// Bytes could not be read or written.
const TRANSFER: u8 = 16;

/// Runs the meter, and prints errors on standard error. Returns the exit status: 0, or
/// the sum of pv's bits.
pub fn run(options: &Options) -> u8 {
    match options.watch {
        Some(target) => watch::run(options, target),
        None => stream::run(options),
    }
}
