//! Waiting for the two ends and for a deadline, in poll(2) only.

use std::hint;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ends::Endpoint;
use super::report::Side;
use super::step::Needs;
use crate::wait::{Backoff, NO_WAIT, UNWATCHED, Wait, failure_of_output, poll_now};

/// Whether poll(2) reports `events`, an error or a hang-up.
pub(super) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    // If poll fails, the call that follows will report why.
    poll_now(fd, events).map_or(true, |found| !found.is_empty())
}

/// Whether poll(2) reports a hang-up, which an error leaves behind in a socket.
pub(super) fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    poll_now(fd, PollFlags::empty()).is_ok_and(|found| found.contains(PollFlags::HUP))
}

/// Number of spins between two checks of the output: few enough to take less than
/// about 1 ms, many enough to make the cost of the poll negligible.
const SPINS_PER_CHECK: u32 = 1024;

/// Outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// Another attempt makes sense.
    Ready,
    /// The deadline has passed.
    TimedOut,
}

/// Waits for the two ends, and watches the output while it waits for the input.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    input: Endpoint<'a>,
    output: Endpoint<'a>,
    wait: Wait,
    backoff: Backoff,
    /// Number of spins since the output was checked.
    spins: u32,
    /// Whether to poll for a hang-up of the output. Only pipes and sockets
    /// report it reliably: a pseudo-terminal's master "hangs up" while no slave
    /// is open yet.
    watches_output: bool,
    /// When to watch it again, after a false alarm.
    watches_again: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(input: &Endpoint<'a>, output: &Endpoint<'a>, wait: Wait) -> Self {
        Watch {
            input: *input,
            output: *output,
            wait,
            backoff: Backoff::new(wait),
            spins: 0,
            watches_output: output.has_reader(),
            watches_again: None,
        }
    }

    /// Whether it is spinning, and so does not know what is ready.
    pub(super) fn spins(&self) -> bool {
        self.backoff.is_spinning()
    }

    /// Called when bytes have moved.
    pub(super) fn record_success(&mut self) {
        self.backoff.record_success();
    }

    /// Waits until each of `needs` has been ready once, `until` has passed, or
    /// the output has no reader any more.
    ///
    /// An end that has been ready is not polled again: otherwise poll(2) would
    /// return at once for an output with room while the input has no data.
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
                if missing.input && self.spins >= SPINS_PER_CHECK {
                    self.spins = 0;
                    // Polling for input alone also reports a hang-up of the output.
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
                Waited::TimedOut => return Ok(Waited::TimedOut),
                Waited::Ready => {}
            }
        }
        Ok(Waited::Ready)
    }

    /// Waits until `until` has passed, or the output has no reader any more.
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
        let deadline = until.into_iter().chain(self.watches_again).min();
        let timeout = match deadline {
            None => None,
            Some(deadline) => {
                let now = Instant::now();
                if until.is_some_and(|until| until <= now) {
                    return Ok(Waited::TimedOut);
                }
                // Out of range means never.
                Timespec::try_from(deadline.saturating_duration_since(now)).ok()
            }
        };
        match self.poll_for(missing, timeout.as_ref())? {
            // Not the caller's deadline.
            Waited::TimedOut if deadline != until => Ok(Waited::Ready),
            waited => Ok(waited),
        }
    }

    fn poll_for(
        &mut self,
        missing: &mut Needs,
        timeout: Option<&Timespec>,
    ) -> Result<Waited, (Side, io::Error)> {
        self.watches_again.take_if(|when| *when <= Instant::now());
        let watches_output = self.watches_output && self.watches_again.is_none();
        let (input, output) = (self.input.fd, self.output.fd);
        let mut fds = Vec::with_capacity(2);
        if missing.input {
            fds.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        }
        if missing.output {
            fds.push(PollFd::from_borrowed_fd(output, PollFlags::OUT));
        } else if watches_output {
            // POLLERR and POLLHUP are always reported.
            fds.push(PollFd::from_borrowed_fd(output, PollFlags::empty()));
        }
        match poll(&mut fds, timeout) {
            Ok(0) => return Ok(Waited::TimedOut),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Waited::Ready),
            Err(errno) => return Err((Side::Input, errno.into())),
        }
        let mut answers = fds.iter().map(PollFd::revents);
        let mut answer = || answers.next().unwrap_or(PollFlags::empty());
        if missing.input && !answer().is_empty() {
            // Available data takes precedence over a hang-up of the output.
            missing.input = false;
            return Ok(Waited::Ready);
        }
        let of_output = answer();
        if missing.output {
            missing.output = of_output.is_empty();
        } else if of_output.intersects(PollFlags::ERR | PollFlags::HUP) {
            self.check_output_hang_up(of_output)?;
        }
        Ok(Waited::Ready)
    }

    fn check_output_hang_up(&mut self, answer: PollFlags) -> Result<(), (Side, io::Error)> {
        match failure_of_output(self.output.fd, answer) {
            Some(errno) => Err((Side::Output, errno.into())),
            None => {
                self.watches_again = Some(Instant::now() + UNWATCHED);
                Ok(())
            }
        }
    }
}

/// Returns the end that is waited for; the input if both are.
fn side_of(missing: Needs) -> Side {
    if missing.input {
        Side::Input
    } else {
        Side::Output
    }
}
