//! What a relay tells: on its way, at the end, and when it fails.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// How bytes get from the input to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Technique {
    /// splice(2) from one end to the other, where at least one is a pipe.
    Splice,
    /// splice(2) into a pipe of our own, and out of it.
    SpliceThroughPipe,
    /// sendfile(2).
    Sendfile,
    /// copy_file_range(2), from a file to a file.
    CopyFileRange,
    /// read(2) and write(2), or send(2) to a socket.
    Copy,
}

impl Technique {
    /// The name, for people.
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

/// A technique that is not in use, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOver {
    /// The technique.
    pub technique: Technique,
    /// Why it is not used.
    pub why: Why,
}

/// Why a technique is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It can't work between these two ends, or could sleep without end.
    Unfit(&'static str),
    /// It was not asked for.
    NotAsked,
    /// The one in use was measured to be as fast or faster between such ends.
    Slower,
    /// The system call failed.
    Refused {
        /// With this number of an error (errno(3)).
        errno: i32,
        /// When so many bytes had been given to the output.
        after: u64,
    },
    /// It returned 0, yet read(2) found more.
    EndedEarly {
        /// When so many bytes had been given to the output.
        after: u64,
    },
    /// It found nothing to move again and again, although poll(2) called both
    /// ends ready.
    Stuck {
        /// When so many bytes had been given to the output.
        after: u64,
    },
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.technique)?;
        match self.why {
            Why::Unfit(reason) => f.write_str(reason),
            Why::NotAsked => write!(f, "not asked for"),
            Why::Slower => write!(f, "not faster between such ends"),
            Why::Refused { errno, after } => write!(
                f,
                "refused after {after} bytes: {}",
                io::Error::from_raw_os_error(errno)
            ),
            Why::EndedEarly { after } => {
                write!(f, "returned 0 after {after} bytes, before the end")
            }
            Why::Stuck { after } => {
                write!(f, "stuck after {after} bytes with both ends ready")
            }
        }
    }
}

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the bytes come from.
    Input,
    /// Where they go.
    Output,
}

impl Side {
    /// The name, for people.
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

/// What a relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Bytes move, as they did when last tried.
    Moving,
    /// It waits for one end.
    WaitingFor(Side),
    /// It has moved what [`Flow::AtMost`](super::Flow::AtMost) allowed.
    HeldBack,
    /// It has ended: this is the last call.
    Ended,
}

/// How far a relay is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output. What was taken and not given is on its way
    /// through this process.
    pub given: u64,
    /// Where the output is a pipe: the bytes in it that nobody has read yet,
    /// whoever wrote them. `given - unread` have left.
    pub unread: Option<usize>,
    /// Since the beginning.
    pub elapsed: Duration,
    /// What it is doing.
    pub activity: Activity,
    /// The technique in use.
    pub technique: Technique,
    /// Those that are not, and why.
    pub passed_over: &'a [PassedOver],
}

/// Why a relay ended in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The input has no more.
    EndOfData,
    /// [`Options::limit`](super::Options::limit) was reached.
    Limit,
    /// The callback said [`Flow::Stop`](super::Flow::Stop).
    Stopped,
}

/// What a relay did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Relayed {
    /// Why it ended.
    pub end: End,
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output.
    pub given: u64,
    /// What was taken and not given: the caller's to deliver. Empty unless
    /// stopped while the output was blocked, and always where the input is a
    /// file, whose position is then put back.
    pub undelivered: Vec<u8>,
    /// How long it took.
    pub elapsed: Duration,
    /// The technique that was in use at the end.
    pub technique: Technique,
    /// Those that were not, and why.
    pub passed_over: Vec<PassedOver>,
}

/// A relay failed.
///
/// It is displayed without its [`source`](Self::source), which
/// [`Error::source`](std::error::Error::source) returns.
#[derive(Debug)]
#[non_exhaustive]
pub struct RelayError {
    /// The end that failed.
    pub side: Side,
    /// How: [`io::ErrorKind::BrokenPipe`] where the output's reader is gone,
    /// [`io::ErrorKind::WouldBlock`] under
    /// [`Wait::Never`](crate::wait::Wait::Never), and so on.
    pub source: io::Error,
    /// Bytes taken from the input.
    pub taken: u64,
    /// Bytes given to the output.
    pub given: u64,
    /// What was taken and not given, oldest first. Empty where the input is a
    /// file, whose position is then put back.
    pub undelivered: Vec<u8>,
    /// The technique that was in use at the end.
    pub technique: Technique,
    /// Those that were not, and why.
    pub passed_over: Vec<PassedOver>,
}

impl RelayError {
    /// Before anything was moved.
    pub(super) fn at_once(side: Side, source: io::Error) -> Self {
        RelayError {
            side,
            source,
            taken: 0,
            given: 0,
            undelivered: Vec::new(),
            technique: Technique::Copy,
            passed_over: Vec::new(),
        }
    }

    /// Whether it is only that nobody reads the output any more, which ends a
    /// producer normally.
    pub fn reader_is_gone(&self) -> bool {
        let gone = [Errno::PIPE, Errno::CONNRESET].map(|errno| Some(errno.raw_os_error()));
        self.side == Side::Output && gone.contains(&self.source.raw_os_error())
    }
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} failed after {} bytes", self.side, self.given)?;
        match self.undelivered.len() {
            0 => Ok(()),
            n => write!(f, ", {n} more were taken"),
        }
    }
}

impl std::error::Error for RelayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<RelayError> for io::Error {
    /// Keeps the kind and the number of the error; loses the rest.
    fn from(error: RelayError) -> Self {
        error.source
    }
}
