//! A meter for pipelines: passes a stream on, or watches the files of another
//! process, and shows the progress.
//!
//! [`fastpipe::relay`] moves the bytes, without copies if both ends allow it. Only
//! its poll(2) sleeps: the display is drawn when relay calls back.
//!
//! | module | content |
//! |---|---|
//! | `options` | options |
//! | `stream`, `transfer` | all inputs in turn; one input, by relay |
//! | `session`, `clock` | state common to all inputs: counts, time, limits, display |
//! | `progress`, `limiter`, `lines` | rates and times from samples; rate limit; counting lines (pure) |
//! | `format`, `bar`, `units` | a line of a given width from a format and a snapshot (pure) |
//! | `display`, `json`, `screen`, `rows` | drawing; standard error; several meters in one terminal |
//! | `watch`, `descriptor` | files of another process |

mod bar;
mod clock;
mod descriptor;
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
mod status;
mod stream;
mod transfer;
mod units;
mod watch;

pub use self::format::{Format, Item};
pub use self::options::{Options, Show, Target};
pub use self::status::Status;
pub use self::units::Unit;

/// Runs the meter, and prints errors on standard error.
pub fn run(options: &Options) -> Status {
    match options.watch {
        Some(target) => watch::run(options, target),
        None => stream::run(options),
    }
}
