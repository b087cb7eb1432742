//! process_vm_readv(2): the message stays where it is, its address goes over a
//! socket, and the receiver copies it from there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::unistd::Pid;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{Link, gone, sleep, some, without_sleep};
use crate::channel::vm_readv;
use crate::latency::memory::Messages;

#[derive(Debug)]
pub(super) struct Fetch {
    socket: OwnedFd,
    other: Pid,
}

impl Fetch {
    /// Over a socket that keeps notices apart. Talks to the other process.
    ///
    /// # Errors
    /// Those of the socket; `PIPE` where the other process is gone.
    pub(super) fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let other = vm_readv::introduce(&socket).map_err(gone)?;
        Ok(Fetch { socket, other })
    }
}

impl Link for Fetch {
    fn send(&mut self, messages: &Messages, turn: usize, _: usize) -> Result<usize, Errno> {
        let message = messages.bytes(turn);
        let notice = (message.as_ptr().addr() as u64).to_ne_bytes();
        some(send(&self.socket, &notice, SendFlags::NOSIGNAL))?;
        Ok(message.len())
    }

    fn receive(&mut self, message: &mut [u8], _: usize) -> Result<usize, Errno> {
        let mut notice = [0; 8];
        some(recv(&self.socket, &mut notice, RecvFlags::empty()).map(|(n, _)| n))?;
        let address = u64::from_ne_bytes(notice) as usize;
        let mut copied = 0;
        while copied < message.len() {
            let rest = &mut message[copied..];
            match vm_readv::copy_from(self.other, address + copied, rest) {
                Ok(n) => copied += n,
                Err(Errno::INTR) => {}
                // A sender that was killed.
                Err(Errno::SRCH) => return Err(Errno::PIPE),
                Err(errno) => return Err(errno),
            }
        }
        Ok(copied)
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        without_sleep(&[self.socket.as_fd()])
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        sleep([self.socket.as_fd(), self.socket.as_fd()], events, ns)
    }

    fn call(&self) -> &'static str {
        "process_vm_readv"
    }
}
