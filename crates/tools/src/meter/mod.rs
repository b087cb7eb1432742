//! A meter for pipelines: passes a stream on, or watches the files of another
//! process, and shows the progress.
//!
//! [`fastpipe::relay`] moves the bytes, without copies if both ends allow it. The meter
//! sleeps only in relay's poll(2), and draws the display in relay's callbacks.
//!
//! | module | content |
//! |---|---|
//! | `options` | options |
//! | `stream` | passes all inputs on, by relay |
//! | `session`, `clock` | state common to all inputs: counts, time, limits, display |
//! | `progress`, `limiter`, `lines` | rates and times from samples; rate limit; line count (pure) |
//! | `format` | a line of a given width from a format and a snapshot (pure) |
//! | `display`, `json`, `screen`, `rows` | drawing; standard error; several meters in one terminal |
//! | `watch` | watches the files of another process |

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

/// Bit of the exit status: the report, as numbers or JSON, could not be written.
const NOT_SHOWN: u8 = 1;
/// Bit of the exit status, as in pv(1): a file or a process could not be accessed.
const ACCESS: u8 = 2;
/// An input was skipped, since it is also the output.
const SAME_FILE: u8 = 4;
/// Data could not be read or written.
const TRANSFER: u8 = 16;

/// Runs the meter, and prints errors on standard error. Returns the exit status: 0, or
/// the sum of the bits.
pub fn run(options: &Options) -> u8 {
    match options.watch {
        Some(target) => watch::run(options, target),
        None => stream::run(options),
    }
}
