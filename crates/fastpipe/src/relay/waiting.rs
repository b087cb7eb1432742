//! Waiting for the two ends and for the clock, in poll(2) and nowhere else.

use std::hint;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ends::Place;
use super::report::Side;
use super::step::Needs;
use crate::wait::{Backoff, NO_WAIT, Wait, poll_now};

/// Whether poll(2) says that `events`, the end or an error are there.
pub(super) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    // If it can't tell, the call that follows will.
    poll_now(fd, events).map_or(true, |found| !found.is_empty())
}

/// How many times it spins between two looks at the output: that often a poll
/// costs next to nothing, and it is still less than a millisecond or so.
const SPINS_PER_LOOK: u32 = 1024;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It is worth trying again.
    Ready,
    /// The clock has come first.
    Until,
}

/// Waits for the two ends, and watches the output while it waits for the input.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    input: Place<'a>,
    output: Place<'a>,
    wait: Wait,
    backoff: Backoff,
    /// Without polling, since the output was looked at.
    spins: u32,
    /// Whether poll(2) is asked for the output's end. Only pipes and sockets
    /// say so reliably: a pseudo-terminal's master "hangs up" while no slave is
    /// open yet.
    watches_output: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(input: &Place<'a>, output: &Place<'a>, wait: Wait) -> Self {
        Watch {
            input: *input,
            output: *output,
            wait,
            backoff: Backoff::new(wait),
            spins: 0,
            watches_output: output.is_pipe() || output.is_socket(),
        }
    }

    /// Whether it does not poll, and so does not know what is ready.
    pub(super) fn spins(&self) -> bool {
        self.backoff.is_spinning()
    }

    /// Called when bytes have moved: if it was spun for, that has paid.
    pub(super) fn moved(&mut self) {
        self.backoff.record_success();
    }

    /// Waits until each of `needs` has been ready once, the clock has come to
    /// `until`, or the output's reader is gone.
    ///
    /// Each is asked for until it was ready and no longer: poll(2) would return
    /// at once for an output that has room while the input has nothing.
    ///
    /// # Errors
    /// `WouldBlock` under [`Wait::Never`]; the output's error or `BrokenPipe`;
    /// those of poll(2).
    pub(super) fn wait(
        &mut self,
        needs: Needs,
        until: Option<Instant>,
        mut waits_for: impl FnMut(Side),
    ) -> Result<Waited, (Side, io::Error)> {
        let mut missing = needs;
        let spins = self.backoff.should_retry();
        match self.wait {
            Wait::Never => {
                let side = if missing.input && !is_ready(self.input.fd, PollFlags::IN) {
                    Side::Input
                } else {
                    Side::Output
                };
                return Err((side, Errno::AGAIN.into()));
            }
            _ if spins => {
                waits_for(side_of(missing));
                hint::spin_loop();
                self.spins += 1;
                if missing.input && self.spins >= SPINS_PER_LOOK {
                    self.spins = 0;
                    // The end of the output is told where room is not asked for.
                    let mut input = Needs::INPUT;
                    self.poll_for(&mut input, Some(&NO_WAIT))?;
                }
                return Ok(Waited::Ready);
            }
            _ => {}
        }
        while missing.input || missing.output {
            waits_for(side_of(missing));
            match self.poll_once(&mut missing, until)? {
                Waited::Until => return Ok(Waited::Until),
                Waited::Ready => {}
            }
        }
        Ok(Waited::Ready)
    }

    /// Waits for the clock alone, and for the output's reader to be gone.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub(super) fn pause(&mut self, until: Instant) -> Result<(), (Side, io::Error)> {
        let mut nothing = Needs {
            input: false,
            output: false,
        };
        while self.poll_once(&mut nothing, Some(until))? == Waited::Ready {}
        Ok(())
    }

    fn poll_once(
        &mut self,
        missing: &mut Needs,
        until: Option<Instant>,
    ) -> Result<Waited, (Side, io::Error)> {
        let timeout = match until {
            None => None,
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(Waited::Until);
                }
                // Out of range is as good as never.
                Timespec::try_from(left).ok()
            }
        };
        self.poll_for(missing, timeout.as_ref())
    }

    fn poll_for(
        &mut self,
        missing: &mut Needs,
        timeout: Option<&Timespec>,
    ) -> Result<Waited, (Side, io::Error)> {
        let (input, output) = (self.input.fd, self.output.fd);
        let mut fds = Vec::with_capacity(2);
        if missing.input {
            fds.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        }
        if missing.output {
            fds.push(PollFd::from_borrowed_fd(output, PollFlags::OUT));
        } else if self.watches_output {
            // Errors are told unasked.
            fds.push(PollFd::from_borrowed_fd(output, PollFlags::empty()));
        }
        match poll(&mut fds, timeout) {
            Ok(0) => return Ok(Waited::Until),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Waited::Ready),
            Err(errno) => return Err((Side::Input, errno.into())),
        }
        let mut answers = fds.iter().map(PollFd::revents);
        let mut answer = || answers.next().unwrap_or(PollFlags::empty());
        if missing.input && !answer().is_empty() {
            // What is there, the end too, comes before the output's end.
            missing.input = false;
            return Ok(Waited::Ready);
        }
        let of_output = answer();
        if missing.output {
            missing.output = of_output.is_empty();
        } else if of_output.intersects(PollFlags::ERR | PollFlags::HUP) {
            self.output_may_be_gone(of_output)?;
        }
        Ok(Waited::Ready)
    }

    fn output_may_be_gone(&mut self, answer: PollFlags) -> Result<(), (Side, io::Error)> {
        if self.output.is_socket() {
            if let Ok(Err(errno)) = rustix::net::sockopt::socket_error(self.output.fd) {
                return Err((Side::Output, errno.into()));
            }
            if !answer.contains(PollFlags::HUP) {
                // Something else, as a notice in the error queue, which would
                // be told again at once.
                self.watches_output = false;
                return Ok(());
            }
        }
        Err((Side::Output, Errno::PIPE.into()))
    }
}

/// Which end is waited for; the input where it may be both, since it is waited
/// for first in the end.
fn side_of(missing: Needs) -> Side {
    if missing.input {
        Side::Input
    } else {
        Side::Output
    }
}
