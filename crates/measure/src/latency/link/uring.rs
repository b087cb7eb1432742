//! io_uring on two pipes: a request a call. Where it spins, it looks for the
//! end of the request in memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{Link, sleep, some};
use crate::channel::uring::Requests;
use crate::latency::memory::Messages;

pub(super) struct Uring {
    requests: Requests,
    input: OwnedFd,
    output: OwnedFd,
}

impl Uring {
    /// # Errors
    /// Those of io_uring_setup(2).
    pub(super) fn new(input: OwnedFd, output: OwnedFd, spins: bool) -> io::Result<Self> {
        Ok(Uring {
            requests: Requests::new(spins)?,
            input,
            output,
        })
    }
}

impl Link for Uring {
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno> {
        let rest = &messages.bytes(turn)[at..];
        some(self.requests.write(self.output.as_fd(), rest))
    }

    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno> {
        some(self.requests.read(self.input.as_fd(), &mut message[at..]))
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.requests.never_wait();
        Ok(())
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        sleep([self.input.as_fd(), self.output.as_fd()], events, ns)
    }

    fn call(&self) -> &'static str {
        "write by io_uring"
    }
}
