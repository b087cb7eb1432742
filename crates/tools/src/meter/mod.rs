//! A meter for pipelines: passes a stream on, and shows the progress.
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
//! | `json` | a line of JSON from a snapshot (pure) |
//! | `display` | standard error: when to draw, and writing without blocking |

mod clock;
mod display;
mod format;
mod json;
mod limiter;
mod lines;
mod options;
mod progress;
mod session;
mod stream;

pub use self::format::{Format, Item};
pub use self::options::{MeterOptions, Show};
pub use self::progress::Unit;
pub use self::stream::run;

/// Bit of the exit status: the report, as numbers or JSON, could not be written.
const NOT_SHOWN: u8 = 1;
/// Bit of the exit status, as in pv(1): a file could not be opened.
const ACCESS: u8 = 2;
/// An input was skipped, since it is also the output.
const SAME_FILE: u8 = 4;
/// Data could not be read or written.
const TRANSFER: u8 = 16;
