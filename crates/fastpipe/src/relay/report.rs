//! Progress, outcome and errors of a relay.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// System calls that move the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Technique {
    /// splice(2) from one end to the other, of which at least one is a pipe. The last
    /// pipeful of a file is copied.
    Splice,
    /// splice(2) into a pipe created by the relay, and out of it.
    SpliceThroughPipe,
    /// sendfile(2).
    Sendfile,
    /// copy_file_range(2), between regular files.
    CopyFileRange,
    /// read(2), and write(2), or send(2) to a socket.
    Copy,
}

impl Technique {
    /// Returns the name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Technique::Splice => "splice",
            Technique::SpliceThroughPipe => "splice through a pipe",
            Technique::Sendfile => "sendfile",
            Technique::CopyFileRange => "copy_file_range",
            Technique::Copy => "read and write",
        }
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A technique that is not used, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOver {
    /// The technique.
    pub technique: Technique,
    /// Reason for not using it.
    pub reason: Reason,
}

/// Reason for not using a technique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It can't work between these two ends, or could block indefinitely.
    Unfit(&'static str),
    /// The caller selected another one.
    NotAsked,
    /// The one in use was measured as fast or faster between such ends.
    Slower,
    /// The system call failed.
    Refused {
        /// Error number (errno(3)).
        errno: i32,
        /// Bytes given to the output before.
        after: u64,
    },
    /// The call returned 0 although read(2) found more data.
    EndedEarly {
        /// Bytes given to the output before.
        after: u64,
    },
    /// The call repeatedly moved nothing although poll(2) reported both ends
    /// ready.
    Stuck {
        /// Bytes given to the output before.
        after: u64,
    },
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.technique)?;
        match self.reason {
            Reason::Unfit(reason) => f.write_str(reason),
            Reason::NotAsked => write!(f, "another technique was selected"),
            Reason::Slower => write!(f, "not faster between such ends"),
            Reason::Refused { errno, after } => write!(
                f,
                "refused after {after} bytes: {}",
                io::Error::from_raw_os_error(errno)
            ),
            Reason::EndedEarly { after } => {
                write!(f, "returned 0 after {after} bytes, before the end")
            }
            Reason::Stuck { after } => {
                write!(f, "stuck after {after} bytes although both ends are ready")
            }
        }
    }
}

/// One end of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The descriptor that is read.
    Input,
    /// The descriptor that is written.
    Output,
}

impl Side {
    /// Returns the name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Side::Input => "input",
            Side::Output => "output",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Current activity of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activity {
    /// The last attempt moved bytes.
    Moving,
    /// The relay waits for one end.
    WaitingFor(Side),
    /// The bytes allowed by [`Flow::AtMost`](super::Flow::AtMost) have been moved.
    HeldBack,
    /// The relay has ended: this is the last call.
    Ended,
}

/// Progress of a relay.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output. `taken - given` bytes are held by this process.
    pub given: u64,
    /// If the output is a pipe: number of unread bytes in it, from all writers. Without
    /// other writers `given - unread` bytes have been read.
    pub unread: Option<usize>,
    /// Time since the start.
    pub elapsed: Duration,
    /// Current activity.
    pub activity: Activity,
    /// The technique in use.
    pub technique: Technique,
    /// The other techniques, with reasons.
    pub passed_over: &'a [PassedOver],
}

/// Reason why a relay ended normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// The input ended.
    EndOfData,
    /// [`Options::limit`](super::Options::limit) was reached.
    Limit,
    /// The callback returned [`Flow::Stop`](super::Flow::Stop).
    Stopped,
}

/// Outcome of a relay that ended normally.
#[derive(Debug)]
#[non_exhaustive]
pub struct Relayed {
    /// Reason why it ended.
    pub end: End,
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output.
    pub given: u64,
    /// Bytes taken and not given, which the caller may deliver. Empty unless the
    /// relay was stopped while the output was blocked, or read [past the
    /// limit](super#messages), and always empty if the input is a file, whose position is
    /// then set back.
    pub undelivered: Vec<u8>,
    /// Duration of the relay.
    pub elapsed: Duration,
    /// Technique in use at the end.
    pub technique: Technique,
    /// The other techniques, with reasons.
    pub passed_over: Vec<PassedOver>,
}

/// Error of a relay.
///
/// [`Display`](fmt::Display) does not include the cause, which
/// [`Error::source`](std::error::Error::source) returns.
#[non_exhaustive]
pub struct RelayError {
    /// The end that failed.
    pub side: Side,
    /// The cause: [`io::ErrorKind::BrokenPipe`] if the output has no reader,
    /// [`io::ErrorKind::WouldBlock`] under
    /// [`Wait::Never`](crate::wait::Wait::Never), and so on.
    pub source: io::Error,
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output.
    pub given: u64,
    /// Bytes taken and not given, oldest first. Empty if the input is a file,
    /// whose position is then set back.
    pub undelivered: Vec<u8>,
    /// Technique in use at the end.
    pub technique: Technique,
    /// The other techniques, with reasons.
    pub passed_over: Vec<PassedOver>,
    pub(super) output_has_reader: bool,
}

/// Without the undelivered bytes, which belong in no log.
impl fmt::Debug for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayError")
            .field("side", &self.side)
            .field("source", &self.source)
            .field("taken", &self.taken)
            .field("given", &self.given)
            .field("undelivered", &self.undelivered.len())
            .field("technique", &self.technique)
            .field("passed_over", &self.passed_over)
            .finish_non_exhaustive()
    }
}

impl RelayError {
    /// Creates an error that occurred before anything was moved.
    pub(super) fn before_start(side: Side, source: io::Error) -> Self {
        RelayError {
            side,
            source,
            taken: 0,
            given: 0,
            undelivered: Vec::new(),
            technique: Technique::Copy,
            passed_over: Vec::new(),
            output_has_reader: false,
        }
    }

    /// Whether the output, a pipe or a socket, has no reader any more, which is the
    /// normal end of a producer.
    pub fn reader_is_gone(&self) -> bool {
        let gone = [Errno::PIPE, Errno::CONNRESET].map(|errno| Some(errno.raw_os_error()));
        self.output_has_reader
            && self.side == Side::Output
            && gone.contains(&self.source.raw_os_error())
    }
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} failed after {} bytes", self.side, self.given)?;
        match self.undelivered.len() {
            0 => Ok(()),
            n => write!(f, ", {n} more bytes were taken from the input"),
        }
    }
}

impl std::error::Error for RelayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<RelayError> for io::Error {
    /// Keeps the kind and number of the error, and drops the rest.
    fn from(error: RelayError) -> Self {
        error.source
    }
}
