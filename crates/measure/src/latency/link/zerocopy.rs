//! TCP with MSG_ZEROCOPY: a message's memory is the kernel's until a completion
//! says otherwise, whether or not the answer has come.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::{Link, sleep, some, without_sleep};
use crate::channel::ZerocopyCounts;
use crate::channel::tcp::ZerocopySends;
use crate::latency::memory::Messages;

#[derive(Debug)]
pub(super) struct Zerocopy {
    sends: ZerocopySends,
    sleeps: bool,
}

impl Zerocopy {
    /// # Errors
    /// Those of setsockopt(2).
    pub(super) fn new(socket: OwnedFd, turns: usize) -> rustix::io::Result<Self> {
        Ok(Zerocopy {
            sends: ZerocopySends::new(socket, turns)?,
            sleeps: true,
        })
    }

    /// Takes a completion.
    fn completion(&mut self) -> Result<(), Errno> {
        loop {
            if self.sends.take_completion()? {
                return Ok(());
            }
            if !self.sleeps {
                return Err(Errno::AGAIN);
            }
            // Errors are always asked for (poll(2)), and nothing else is here.
            let mut fds = [PollFd::new(&self.sends, PollFlags::empty())];
            poll(&mut fds, None)?;
            let gone = fds[0].revents().contains(PollFlags::HUP);
            if gone && !self.sends.take_completion()? {
                return Err(Errno::PIPE);
            }
        }
    }
}

impl Link for Zerocopy {
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno> {
        let rest = &messages.bytes(turn)[at..];
        loop {
            match some(self.sends.send(turn, rest, SendFlags::NOSIGNAL)) {
                // The completions that wait to be taken use up net.core.optmem_max.
                Err(Errno::NOBUFS) if self.sends.awaits_some() => self.completion()?,
                outcome => return outcome,
            }
        }
    }

    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno> {
        some(rustix::io::read(&self.sends, &mut message[at..]))
    }

    fn reclaim(&mut self, turn: usize) -> Result<(), Errno> {
        while !self.sends.is_free(turn) {
            self.completion()?;
        }
        Ok(())
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.sleeps = false;
        without_sleep(&[self.sends.as_fd()])
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        // One that waits to be taken would not let it sleep, and may be what is
        // waited for.
        if self.sends.take_completion()? {
            return Ok(());
        }
        sleep([self.sends.as_fd(), self.sends.as_fd()], events, ns)
    }

    fn call(&self) -> &'static str {
        "send with MSG_ZEROCOPY"
    }

    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        Some(self.sends.counts())
    }
}
