//! What a relay is asked to do.

use std::time::Duration;

use super::Technique;
use crate::wait::Wait;

/// How often the callback is called unless said otherwise.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The most bytes that a call moves without copying, unless said otherwise.
pub(super) const SPLICED: usize = 1024 * 1024;

/// The most bytes that are read before they are written, unless said otherwise:
/// so much stays in the second-level cache between the two.
pub(super) const COPIED: usize = 128 * 1024;

/// The most that [`Options::block`] takes: a buffer may have to be that large.
const MAX_BLOCK: usize = 64 * 1024 * 1024;

/// The capacity wished for where a pipe is made larger, in bytes.
pub(super) const CAPACITY: usize = 1024 * 1024;

/// How [`relay`](super::relay) is to work.
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
    /// Everything, by the fastest technique, with a call every [`INTERVAL`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends after so many bytes. Not one more is taken from the input: what is
    /// beyond is there for the next process. (A datagram is an exception: what
    /// of it is beyond is lost, as with read(2).)
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// How long it is from one call of the callback to the next, whatever the
    /// two ends do; [`INTERVAL`] if not said. `Duration::MAX` is never.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How to wait for the two ends; [`Wait::Block`] if not said, which sleeps
    /// in poll(2) and nowhere else, as [`Wait::Poll`] does here.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Uses this technique or, where it is unfit for the two ends or refused,
    /// [`Technique::Copy`]; the fastest that fits if not said.
    pub fn technique(mut self, technique: Technique) -> Self {
        self.technique = Some(technique);
        self
    }

    /// Reads and writes only: for a program that can't trust a file, or the memory
    /// of a writer that used vmsplice(2), not to change while its pages wait in a
    /// pipe, and for comparison.
    pub fn copy(self) -> Self {
        self.technique(Technique::Copy)
    }

    /// The most bytes that one call is to move, which bounds how long the
    /// callback can be late on a slow disk: at least 1, at most 64 MiB, and what
    /// is outside is taken for the nearest of the two. If not said: 128 KiB where
    /// data is copied, 1 MiB where it is not. A message is taken whole all the
    /// same.
    pub fn block(mut self, bytes: usize) -> Self {
        self.block = Some(bytes.clamp(1, MAX_BLOCK));
        self
    }

    /// Whether the output, where it is a pipe, and the pipe of our own, where
    /// one is used, are made larger (1 MiB, or as much as is allowed); so if not
    /// said.
    pub fn raise_capacity(mut self, raise: bool) -> Self {
        self.raise_capacity = raise;
        self
    }

    /// Whether the input, where it is a pipe, is made larger as well; not if not
    /// said. A writer that takes its pages for read once a pipeful was sent after
    /// them overwrites unread ones in a larger pipe, and wrong data is relayed, by
    /// [`Technique::Copy`] too.
    pub fn raise_input_capacity(mut self, raise: bool) -> Self {
        self.raise_input_capacity = raise;
        self
    }
}

/// What the callback answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// Go on.
    #[default]
    Continue,
    /// End now, in good order: [`End::Stopped`](super::End::Stopped).
    Stop,
    /// Go on, but take at most so many bytes from the input until the next call.
    /// A message that some of this allows is taken whole; what of it was not
    /// allowed is taken off what the next answers allow.
    AtMost {
        /// The bytes.
        bytes: u64,
        /// The next call comes after the interval, or after this if it is
        /// sooner.
        within: Option<Duration>,
    },
    /// As [`AtMost`](Flow::AtMost), and the next call comes at once when the
    /// last of the bytes has been taken: for who wants to know, and allow more,
    /// without being called again and again while nothing moves.
    CallAfter {
        /// The bytes.
        bytes: u64,
        /// The next call comes after the interval, or after this if it is
        /// sooner, even if they have not been taken.
        within: Option<Duration>,
    },
}
