//! [`Bell`]: how an end that waits by a descriptor is woken.
//!
//! Two connected sockets, one at each end. Not an eventfd(2): that belongs to both processes, so
//! that a peer could clear its O_NONBLOCK, or fill it, and our call would block. A call on a socket
//! can be made non-blocking by itself. A socket also shows that the peer's end is gone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, sockopt};

use crate::sealed::refused;

/// This end's socket.
#[derive(Debug)]
pub(super) struct Bell {
    socket: OwnedFd,
    /// Whether somebody waits for it to become readable.
    pub(super) in_use: bool,
    /// Generation of the other end that has the other socket.
    pub(super) generation: u32,
}

/// What was found when the bell was silenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// The other end still has its socket.
    Connected,
    /// It has none any more: dropped, passed on, or dead.
    Gone,
}

impl Bell {
    /// Creates the bells of both ends.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (here, there) = UnixStream::pair()?;
        Ok((Self::new(here.into()), there.into()))
    }

    /// Takes the socket that the other process sent.
    pub(super) fn received(socket: OwnedFd) -> io::Result<Self> {
        let kind = (
            sockopt::socket_domain(&socket),
            sockopt::socket_type(&socket),
        );
        if kind != (Ok(AddressFamily::UNIX), Ok(SocketType::STREAM)) {
            return Err(refused(
                "the offer of a ring had no socket to wake its ends",
            ));
        }
        Ok(Self::new(socket))
    }

    fn new(socket: OwnedFd) -> Self {
        Bell {
            socket,
            in_use: false,
            generation: 0,
        }
    }

    /// Makes the other end's socket readable.
    pub(super) fn ring(&self) {
        // EAGAIN: so much is unread that it is readable. EPIPE: the other end finds out itself.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while send(&self.socket, &[1], flags) == Err(Errno::INTR) {}
    }

    /// Takes back that it was rung, so that it is no longer readable.
    pub(super) fn silence(&self) -> Other {
        // The other end rings once or twice. One that floods the socket only keeps it readable.
        let mut bytes = [0; 64];
        loop {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Ok((0, _)) | Err(Errno::CONNRESET) => return Other::Gone,
                _ => return Other::Connected,
            }
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
