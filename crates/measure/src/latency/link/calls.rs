//! write(2) and read(2), and those of message queues.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{Link, sleep, some, without_sleep};
use crate::channel::mqueue;
use crate::latency::channels::Kind;
use crate::latency::memory::Messages;

#[derive(Debug)]
pub(super) struct Calls {
    kind: Kind,
    input: OwnedFd,
    /// None where one descriptor goes both ways.
    output: Option<OwnedFd>,
}

impl Calls {
    pub(super) fn new(kind: Kind, input: OwnedFd, output: Option<OwnedFd>) -> Self {
        Calls {
            kind,
            input,
            output,
        }
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_ref().unwrap_or(&self.input).as_fd()
    }
}

impl Link for Calls {
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno> {
        let rest = &messages.bytes(turn)[at..];
        some(match self.kind {
            Kind::Mqueue => mqueue::send(self.output(), rest).map(|()| rest.len()),
            // SIGPIPE is ignored in every Rust program.
            _ => rustix::io::write(self.output(), rest),
        })
    }

    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno> {
        let rest = &mut message[at..];
        some(match self.kind {
            Kind::Mqueue => mqueue::receive(self.input.as_fd(), rest),
            _ => rustix::io::read(&self.input, rest),
        })
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        without_sleep(&[self.input.as_fd(), self.output()])
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        sleep([self.input.as_fd(), self.output()], events, ns)
    }

    fn call(&self) -> &'static str {
        match self.kind {
            Kind::Mqueue => "mq_send",
            _ => "write",
        }
    }
}
