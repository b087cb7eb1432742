//! [`RingError`]: why a ring can't be used further.

use std::error::Error;
use std::fmt;
use std::io;

/// Error of a ring, found in the [`io::Error`] of its methods
/// ([`io::Error::get_ref`]) and distinguished by the error's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RingError {
    /// The consumer was dropped, so nobody will read the producer's bytes
    /// (`BrokenPipe`). For a consumer a dropped producer is the end of the data,
    /// not an error.
    PeerClosed,
    /// The peer's process has died, or dropped its end while panicking
    /// (`ConnectionReset`).
    PeerDied,
    /// The shared header is invalid (`InvalidData`). This is permanent.
    Corrupt,
    /// What the producer has sent is no message (`InvalidData`): see
    /// [`Consumer::recv`](super::Consumer::recv).
    NotAMessage,
    /// The wait exceeded the timeout (`TimedOut`). It can be repeated.
    TimedOut,
    /// The ring offered is larger than the limit of the process that was to accept
    /// it (`InvalidData`).
    TooLarge {
        /// Capacity of the ring, in bytes.
        offered: usize,
        /// Limit, in bytes.
        limit: usize,
    },
}

impl RingError {
    /// Returns the kind of the [`io::Error`].
    pub fn kind(self) -> io::ErrorKind {
        match self {
            RingError::PeerClosed => io::ErrorKind::BrokenPipe,
            RingError::PeerDied => io::ErrorKind::ConnectionReset,
            RingError::Corrupt | RingError::NotAMessage | RingError::TooLarge { .. } => {
                io::ErrorKind::InvalidData
            }
            RingError::TimedOut => io::ErrorKind::TimedOut,
        }
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingError::TooLarge { offered, limit } => {
                return write!(
                    f,
                    "the ring offered has {offered} bytes, and at most {limit} are accepted"
                );
            }
            RingError::PeerClosed => "the ring's consumer has closed its end",
            RingError::PeerDied => "the process at the other end of the ring died",
            RingError::Corrupt => "the ring's header is corrupt",
            RingError::NotAMessage => "the bytes in the ring are not those of a message",
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

/// Error: the header contains impossible values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;
