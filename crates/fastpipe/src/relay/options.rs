//! Settings of a relay.

use std::time::Duration;

use super::Technique;
use crate::wait::Wait;

/// Default interval between calls of the callback.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Default limit of the bytes per call, without copying.
pub(super) const MAX_SPLICED: usize = 1024 * 1024;

/// Default limit of the bytes per read, when copying: they should stay in the
/// second-level cache until they are written. No size was faster for all writers and
/// outputs (the benchmark `reading`).
pub(super) const MAX_COPIED: usize = 128 * 1024;

/// Upper limit of [`Options::block`], and so of the buffer, in bytes.
const MAX_BLOCK: usize = 64 * 1024 * 1024;

/// Capacity to aim for when a pipe is enlarged, in bytes.
pub(super) const TARGET_CAPACITY: usize = 1024 * 1024;

/// Settings of [`relay`](super::relay).
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub(super) limit: Option<u64>,
    pub(super) interval: Duration,
    pub(super) wait: Wait,
    pub(super) technique: Option<Technique>,
    pub(super) block: Option<usize>,
    pub(super) raise_capacity: bool,
    pub(super) raise_input_capacity: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limit: None,
            interval: INTERVAL,
            wait: Wait::Block,
            technique: None,
            block: None,
            raise_capacity: true,
            raise_input_capacity: false,
        }
    }
}

impl Options {
    /// Returns the default settings: no limit, the fastest technique.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the relay after this number of bytes. No further byte is taken from
    /// the input, so the rest is there for the next process. (Except for a
    /// datagram, whose rest is lost, as with read(2), and for a pipe where splice(2) is
    /// refused: [`Relayed::undelivered`](super::Relayed::undelivered) has what was read
    /// beyond the limit.)
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Sets the interval between calls of the callback, whatever the two ends do;
    /// default [`INTERVAL`]. `Duration::MAX` means never.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how to wait for the two ends; default [`Wait::Block`]. A relay only
    /// sleeps in poll(2), so `Block` and [`Wait::Poll`] are the same.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Uses this technique or, if it does not suit the two ends or is refused,
    /// [`Technique::Copy`]. The default is the fastest one that suits.
    pub fn technique(mut self, technique: Technique) -> Self {
        self.technique = Some(technique);
        self
    }

    /// Uses only read and write. For comparisons, and for inputs whose pages may
    /// change while they are in a pipe: a file that is being modified, or a writer
    /// that used vmsplice(2).
    pub fn copy(self) -> Self {
        self.technique(Technique::Copy)
    }

    /// Sets the maximum number of bytes per call, from 1 to 64 MiB (other values
    /// are clamped); default 128 KiB when copying, 1 MiB otherwise. This limits how
    /// late the callback can be on a slow disk. Messages are always taken as a
    /// whole; from a pipe up to its capacity is read, and then written in blocks.
    pub fn block(mut self, bytes: usize) -> Self {
        self.block = Some(bytes.clamp(1, MAX_BLOCK));
        self
    }

    /// Sets whether to enlarge the output pipe, and the relay's own pipe if one is
    /// used, to 1 MiB or as much as the system allows; default true.
    pub fn raise_capacity(mut self, raise: bool) -> Self {
        self.raise_capacity = raise;
        self
    }

    /// Sets whether to enlarge the input pipe as well; default false. A writer
    /// with double buffering by vmsplice(2), which assumes that its pages have been
    /// read after one more pipeful, would overwrite unread pages in a larger pipe,
    /// and wrong data would be relayed, also by [`Technique::Copy`].
    pub fn raise_input_capacity(mut self, raise: bool) -> Self {
        self.raise_input_capacity = raise;
        self
    }
}

/// Return value of the callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// Continue.
    #[default]
    Continue,
    /// End the relay normally: [`End::Stopped`](super::End::Stopped).
    Stop,
    /// Continue, but take at most this number of bytes from the input until the
    /// next call. The last message is taken as a whole; its excess is deducted
    /// from the next allowance.
    AtMost {
        /// Number of bytes allowed.
        bytes: u64,
        /// Maximum time until the next call, if less than the interval.
        within: Option<Duration>,
    },
    /// As [`AtMost`](Flow::AtMost), but the next call comes as soon as these bytes
    /// have been taken. For callbacks that allow more each time, without being
    /// called repeatedly while nothing moves.
    CallAfter {
        /// Number of bytes allowed.
        bytes: u64,
        /// Maximum time until the next call, if less than the interval, even if
        /// the bytes have not been taken.
        within: Option<Duration>,
    },
}
