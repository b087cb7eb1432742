//! Sockets, using send(2) and recv(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastpipe::transfer::Counts;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::message::{Message, counted};
use super::{ChannelEnd, Receiver, Transmitter};

/// A socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    blocks: bool,
    counts: Counts,
}

impl Socket {
    /// A socket whose calls block, or else fail with `AGAIN`.
    pub fn new(fd: OwnedFd, blocks: bool) -> Self {
        Socket {
            fd,
            blocks,
            counts: Counts::default(),
        }
    }
}

impl ChannelEnd for Socket {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn never_sleep(&mut self) -> std::io::Result<()> {
        self.blocks = false;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Transmitter for Socket {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, !self.blocks);
        counted(&mut self.counts, send(&self.fd, message.bytes(), flags))
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
