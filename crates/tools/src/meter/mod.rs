//! A meter in a pipeline: passes a stream on, or watches another process's
//! files, and shows how far it is.
//!
//! The bytes go by [`fastpipe::relay`], without copies wherever the two ends
//! allow it, and nothing here sleeps but its poll(2): the display is drawn when
//! relay calls back, whatever the two ends do.
//!
//! | room | what is in it |
//! |---|---|
//! | `options` | what is asked |
//! | `stream`, `transfer` | the inputs one after another; one of them by relay |
//! | `session`, `clock` | what all inputs have in common: counts, time, limits, display |
//! | `progress`, `limiter`, `lines` | rates and times from samples; a limited rate; lines in bytes: pure |
//! | `format`, `bar`, `units` | a line of a given width from a format and a snapshot: pure |
//! | `display`, `json`, `screen`, `rows` | when and what to draw; where; several meters in one terminal |
//! | `watch`, `descriptor` | another process's files |

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

/// Does what is asked, and says on standard error what went wrong on the way.
pub fn run(options: &Options) -> Status {
    match options.watch {
        Some(target) => watch::run(options, target),
        None => stream::run(options),
    }
}
