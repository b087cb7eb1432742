//! Sockets, using send(2) and recv(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fastpipe::transfer::Counts;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::message::{Message, counted};
use super::{End, Receiver, Transmitter};

/// A socket; clones share its descriptor.
#[derive(Debug, Clone)]
pub struct Socket {
    fd: Arc<OwnedFd>,
    blocks: bool,
    pub(super) counts: Counts,
}

impl Socket {
    /// A socket whose calls block, or else fail with `AGAIN`.
    pub fn new(fd: OwnedFd, blocks: bool) -> Self {
        Socket {
            fd: Arc::new(fd),
            blocks,
            counts: Counts::default(),
        }
    }

    /// Whether calls may block.
    pub(super) fn blocks(&self) -> bool {
        self.blocks
    }

    /// Makes one call of send(2), without SIGPIPE.
    pub(super) fn send_bytes(
        &mut self,
        bytes: &[u8],
        mut flags: SendFlags,
    ) -> rustix::io::Result<usize> {
        flags.insert(SendFlags::NOSIGNAL);
        flags.set(SendFlags::DONTWAIT, !self.blocks);
        counted(&mut self.counts, send(&self.fd, bytes, flags))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl End for Socket {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn never_sleep(&mut self) -> std::io::Result<()> {
        self.blocks = false;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// An end that adds a protocol to a socket.
pub(super) trait OverSocket {
    fn socket(&self) -> &Socket;
    fn socket_mut(&mut self) -> &mut Socket;
}

impl<T: OverSocket> End for T {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket().fd()
    }

    fn never_sleep(&mut self) -> std::io::Result<()> {
        self.socket_mut().never_sleep()
    }

    fn counts(&self) -> Counts {
        self.socket().counts
    }
}

impl Transmitter for Socket {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        self.send_bytes(message.bytes(), SendFlags::empty())
    }

    fn call(&self) -> &'static str {
        "send"
    }
}

impl Receiver for Socket {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::DONTWAIT, !self.blocks);
        counted(&mut self.counts, recv(&self.fd, into, flags)).map(|(n, _)| n)
    }

    fn call(&self) -> &'static str {
        "recv"
    }
}
