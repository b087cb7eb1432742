//! Why a ring came to an end.

use std::error::Error;
use std::fmt;
use std::io;

/// What a peer did or came to. Found within the [`io::Error`] of a ring's call
/// ([`io::Error::get_ref`]), and told by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RingError {
    /// The consumer was dropped: nobody will read what a producer still has
    /// (`BrokenPipe`). A consumer whose producer was dropped comes to an end of
    /// the data, which is no error.
    PeerClosed,
    /// The peer's process is gone, or its end was dropped by a panic: it did
    /// not close its end (`ConnectionReset`).
    PeerDied,
    /// The shared header says what can't be (`InvalidData`). Nothing can be
    /// done with this ring any more.
    Corrupt,
    /// The peer let us wait for longer than we wanted (`TimedOut`). Waiting can
    /// go on.
    TimedOut,
}

impl RingError {
    /// The kind of the [`io::Error`].
    pub fn kind(self) -> io::ErrorKind {
        match self {
            RingError::PeerClosed => io::ErrorKind::BrokenPipe,
            RingError::PeerDied => io::ErrorKind::ConnectionReset,
            RingError::Corrupt => io::ErrorKind::InvalidData,
            RingError::TimedOut => io::ErrorKind::TimedOut,
        }
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingError::PeerClosed => "the ring's consumer is gone",
            RingError::PeerDied => "the process at the other end of the ring died",
            RingError::Corrupt => "the ring's header is corrupted",
            RingError::TimedOut => "the process at the other end of the ring took too long",
        })
    }
}

impl Error for RingError {}

impl From<RingError> for io::Error {
    fn from(error: RingError) -> Self {
        io::Error::new(error.kind(), error)
    }
}

/// The header says what can't be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;
