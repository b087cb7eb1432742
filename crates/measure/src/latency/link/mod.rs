//! How one end of a way there and back moves messages: one file a kind of
//! calls.

mod calls;
mod fetch;
mod ring;
mod uring;
mod vmsplice;
mod zerocopy;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use self::calls::Calls;
use self::fetch::Fetch;
use self::ring::{InPlace, RingCopy};
use self::uring::Uring;
use self::vmsplice::Vmsplice;
use self::zerocopy::Zerocopy;
use super::channels::Kind;
use super::memory::Messages;
use super::spec::Wait;
use crate::channel::ZerocopyCounts;
use crate::session::not_allowed;
use pipespeed_host::refusals::is_refusal;

/// What moves messages.
pub(super) trait Link {
    /// One call: sends what there is room for of a message, from its byte `at`
    /// on. Returns how many bytes.
    ///
    /// # Errors
    /// Those of the call; `AGAIN` where it would have slept, `PIPE` where the
    /// other process is gone.
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno>;

    /// One call: receives what has come of a message, to its byte `at` and on.
    /// Returns how many bytes.
    ///
    /// # Errors
    /// As above.
    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno>;

    /// Waits until nobody needs what a place of messages held, where the
    /// answers to them don't say so.
    ///
    /// # Errors
    /// As above.
    fn reclaim(&mut self, _turn: usize) -> Result<(), Errno> {
        Ok(())
    }

    /// From now on calls don't sleep. What it moves through is of this trial
    /// only.
    ///
    /// # Errors
    /// Those of fcntl(2).
    fn never_sleep(&mut self) -> io::Result<()>;

    /// Sleeps until there is something to receive, room to send where `events`
    /// says so, or the nanoseconds are over. May wake up early.
    ///
    /// # Errors
    /// Those of poll(2).
    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno>;

    /// The call that sends, for messages.
    fn call(&self) -> &'static str;

    /// Whether every byte that is received is to be looked at, not just the
    /// first and last ones, where that is not so anyway.
    fn look_at_all(&mut self, _all: bool) {}

    /// What the completions of MSG_ZEROCOPY say; none where it is not used.
    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        None
    }
}

/// What a link has to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// The channel.
    pub(super) kind: Kind,
    /// Bytes of a message.
    pub(super) size: usize,
    /// Places of messages.
    pub(super) turns: usize,
    /// How it waits.
    pub(super) wait: Wait,
    /// Whether it answers with what it receives.
    pub(super) answers: bool,
}

/// The link over these descriptors.
///
/// # Errors
/// [`NotRun`](crate::record::NotRun) where the machine does not allow it.
pub(super) fn link(
    needs: Needs,
    input: OwnedFd,
    output: Option<OwnedFd>,
) -> anyhow::Result<Box<dyn Link>> {
    let two = |output: Option<OwnedFd>| output.context("a channel with one descriptor");
    let mut link: Box<dyn Link> = match needs.kind {
        Kind::Vmsplice => Box::new(Vmsplice::new(input, two(output)?)),
        Kind::Uring => {
            let made = Uring::new(input, two(output)?, needs.wait == Wait::Spin);
            Box::new(made.map_err(|error| allowed("io_uring_setup", error))?)
        }
        Kind::TcpZerocopy => {
            let made = Zerocopy::new(input, needs.turns);
            Box::new(made.map_err(|errno| allowed("SO_ZEROCOPY", errno.into()))?)
        }
        Kind::VmReadv => Box::new(Fetch::new(input).map_err(super::port::complaint)?),
        Kind::Ring => Box::new(InPlace::new(needs, input, two(output)?)?),
        Kind::RingCopy => Box::new(RingCopy::new(needs, input, two(output)?)?),
        _ => Box::new(Calls::new(needs.kind, input, output)),
    };
    // These look at memory, and make no call until something is there.
    let in_memory = matches!(needs.kind, Kind::Uring | Kind::Ring | Kind::RingCopy);
    match needs.wait {
        Wait::Block => {}
        Wait::Spin if in_memory => {}
        Wait::Spin | Wait::Adaptive => link.never_sleep()?,
    }
    Ok(link)
}

/// What a machine does not allow is a refusal, not a failure.
pub(super) fn allowed(call: &str, error: io::Error) -> anyhow::Error {
    if is_refusal(&error) {
        not_allowed(call, &error).into()
    } else {
        anyhow::Error::new(error).context(call.to_owned())
    }
}

fn without_sleep(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    for fd in fds {
        fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
    }
    Ok(())
}

/// See [`Link::sleep`].
fn sleep(
    [input, output]: [BorrowedFd<'_>; 2],
    events: PollFlags,
    ns: Option<u64>,
) -> Result<(), Errno> {
    let timeout = ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    let mut fds = [
        PollFd::from_borrowed_fd(input, events & PollFlags::IN),
        PollFd::from_borrowed_fd(output, events & PollFlags::OUT),
    ];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// That nothing more comes, or goes, means that the other process is gone.
fn some(outcome: rustix::io::Result<usize>) -> Result<usize, Errno> {
    match outcome {
        Ok(0) => Err(Errno::PIPE),
        outcome => outcome.map_err(gone),
    }
}

/// That the other process is gone has several numbers, one a kind of socket.
fn gone(errno: Errno) -> Errno {
    match errno {
        Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN => Errno::PIPE,
        other => other,
    }
}
