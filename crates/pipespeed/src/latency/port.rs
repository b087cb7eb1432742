//! One process's end of the way there and back.

use std::hint;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastpipe::shared::SharedWords;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::channels::Kind;
use super::spec::Wait;
use crate::channel::mqueue;
use crate::endpoint::process::Refused;

/// How long [`Wait::Adaptive`] tries before it sleeps.
const SPINNING: Duration = Duration::from_micros(50);

/// The words that the processes share with who watches them: for each of them,
/// the bytes it has moved, and what it does ([`IDLE`] and so on).
pub(super) const WORDS: usize = 4;
/// It does not move anything.
pub(super) const IDLE: u64 = 0;
/// It writes.
pub(super) const WRITING: u64 = 1;
/// It reads.
pub(super) const READING: u64 = 2;

/// The end, with its way of waiting.
#[derive(Debug)]
pub(super) struct Port {
    kind: Kind,
    input: OwnedFd,
    output: Option<OwnedFd>,
    wait: Wait,
    apart: bool,
    words: SharedWords,
    /// Where this process's words begin.
    at: usize,
    moved: u64,
}

impl Port {
    /// An end of the kind. `at` says whose words are its own: 0 the sender's,
    /// 1 the echo's.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub(super) fn new(
        kind: Kind,
        (input, output): (OwnedFd, Option<OwnedFd>),
        (wait, apart): (Wait, bool),
        (words, at): (SharedWords, usize),
    ) -> std::io::Result<Self> {
        let port = Port {
            kind,
            input,
            output,
            wait,
            apart,
            words,
            at: at * 2,
            moved: 0,
        };
        if wait != Wait::Block {
            port.never_sleep()?;
        }
        Ok(port)
    }

    /// From now on calls don't sleep. The descriptors are of this trial only.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub(super) fn never_sleep(&self) -> std::io::Result<()> {
        for fd in [self.input.as_fd(), self.output()] {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_ref().unwrap_or(&self.input).as_fd()
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words.words()[self.at + offset]
    }

    fn note(&mut self, moved: usize) {
        self.moved += moved as u64;
        self.word(0).store(self.moved, Ordering::Relaxed);
    }

    /// Sends a whole message.
    ///
    /// # Errors
    /// Those of the call; `PIPE` where the other process is gone.
    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), Errno> {
        self.word(1).store(WRITING, Ordering::Relaxed);
        let mut sent = 0;
        while sent < message.len() {
            sent += self.waited(PollFlags::OUT, |port| port.try_send(&message[sent..]))?;
        }
        self.word(1).store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    /// Receives a whole message.
    ///
    /// # Errors
    /// Those of the call; `PIPE` where the other process is gone.
    pub(super) fn receive(&mut self, message: &mut [u8]) -> Result<(), Errno> {
        self.word(1).store(READING, Ordering::Relaxed);
        let mut received = 0;
        while received < message.len() {
            let rest = received..;
            received += self.waited(PollFlags::IN, |port| {
                port.try_receive(&mut message[rest.clone()])
            })?;
        }
        self.word(1).store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    /// One call. Returns what it sent.
    ///
    /// # Errors
    /// Those of the call; `AGAIN` where it would have slept.
    pub(super) fn try_send(&mut self, rest: &[u8]) -> Result<usize, Errno> {
        let sent = match self.kind {
            Kind::Mqueue => mqueue::send(self.output(), rest).map(|()| rest.len()),
            // SIGPIPE is ignored in every Rust program.
            _ => rustix::io::write(self.output(), rest),
        };
        let sent = sent.map_err(gone)?;
        self.note(sent);
        Ok(sent)
    }

    /// One call. Returns what it received.
    ///
    /// # Errors
    /// Those of the call; `AGAIN` where it would have slept, `PIPE` at the end.
    pub(super) fn try_receive(&mut self, rest: &mut [u8]) -> Result<usize, Errno> {
        let received = match self.kind {
            Kind::Mqueue => mqueue::receive(self.input.as_fd(), rest),
            _ => rustix::io::read(&self.input, rest),
        };
        match received.map_err(gone)? {
            0 => Err(Errno::PIPE),
            received => {
                self.note(received);
                Ok(received)
            }
        }
    }

    /// Calls until something has moved.
    fn waited(
        &mut self,
        event: PollFlags,
        mut call: impl FnMut(&mut Self) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut since = None;
        loop {
            match call(self) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.goes_on(&mut since) => hint::spin_loop(),
                Err(Errno::AGAIN) => {
                    self.sleep(event, None)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether to try again rather than sleep.
    fn goes_on(&self, since: &mut Option<Instant>) -> bool {
        match self.wait {
            Wait::Spin => true,
            Wait::Adaptive if self.apart => {
                since.get_or_insert_with(Instant::now).elapsed() < SPINNING
            }
            Wait::Adaptive | Wait::Block => false,
        }
    }

    /// Sleeps until there is something to read, room to write where `events`
    /// says so, or the nanoseconds are over.
    ///
    /// # Errors
    /// Those of poll(2).
    pub(super) fn sleep(&self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        let timeout = ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let mut fds = [
            PollFd::new(&self.input, events & PollFlags::IN),
            PollFd::from_borrowed_fd(self.output(), events & PollFlags::OUT),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Whether the other process has a processor of its own.
    pub(super) fn apart(&self) -> bool {
        self.apart
    }
}

/// That the other process is gone has several numbers, one a kind of socket.
fn gone(errno: Errno) -> Errno {
    match errno {
        Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN => Errno::PIPE,
        other => other,
    }
}

/// What to say of an error: nothing but that the other process is gone, or
/// what was refused.
pub(super) fn complaint(errno: Errno) -> anyhow::Error {
    match errno {
        Errno::PIPE => Left.into(),
        Errno::MSGSIZE => Refused("limit: the message is longer than may be here".into()).into(),
        other => std::io::Error::from(other).into(),
    }
}

/// The other process is gone: how it ended is the reason.
#[derive(Debug, thiserror::Error)]
#[error("the other process has left")]
pub(super) struct Left;
