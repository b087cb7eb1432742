//! What a transfer does while the pipe is full or empty.

use std::hint;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::CpuSet;

use crate::transfer::Counts;

/// How to wait for the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wait {
    /// Let the system call sleep. Cheapest in processor time, but the kernel
    /// wakes the sleeper, which takes microseconds when it sleeps on another
    /// processor, and more on a virtual machine.
    #[default]
    Block,
    /// Ask poll(2) before each call, then call without blocking.
    Poll,
    /// Call again at once, without end. Needs a processor of its own for each
    /// end: with both on one processor each burns whole time slices.
    Spin,
    /// Spin for a bounded time (at most [`MAX_SPINNING`]), as long as that
    /// keeps paying, then poll. Never spins where this process is allowed one
    /// processor only; a [ring](crate::ring), whose ends tell each other, does
    /// unless both are bound to the same one.
    Adaptive,
    /// Don't: report [`std::io::ErrorKind::WouldBlock`] with what was moved.
    Never,
}

/// The longest that [`Wait::Adaptive`] spins before it sleeps.
///
/// Spinning for as long as sleeping and waking would cost loses at most as
/// much as it can win. A wake-up across processors was measured at 6 to 14 us
/// on a virtual machine; the rest is margin for slower ones.
pub const MAX_SPINNING: Duration = Duration::from_micros(50);

/// The shortest spin worth trying again after spinning stopped paying.
const MIN_SPINNING: Duration = Duration::from_micros(4);

/// After so many waits without spinning, [`Wait::Adaptive`] tries it again.
const RETRY_AFTER: u32 = 64;

/// What a transfer is waiting for.
#[derive(Clone, Copy)]
pub(crate) enum Interest<'a> {
    /// Data, or the end of it.
    Readable(BorrowedFd<'a>),
    /// Room, or the reader's end.
    Writable(BorrowedFd<'a>),
}

/// A [`Wait`] with what it has learned so far.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    wait: Wait,
    spinner: Spinner,
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Self {
        Waiter {
            wait,
            spinner: Spinner::new(wait),
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        self.wait
    }

    /// Whether system calls may sleep by themselves.
    pub(crate) fn blocks(&self) -> bool {
        self.wait == Wait::Block
    }

    /// Called before each attempt: polls if that is how to wait.
    pub(crate) fn before(
        &self,
        interests: &[Interest<'_>],
        counts: &mut Counts,
    ) -> rustix::io::Result<()> {
        if self.wait == Wait::Poll {
            poll_each(interests, counts)?;
        }
        Ok(())
    }

    /// Called when an attempt would have blocked. Returns when it is worth
    /// trying again, or `AGAIN` if it is not to be waited for.
    pub(crate) fn would_block(
        &mut self,
        interests: &[Interest<'_>],
        counts: &mut Counts,
    ) -> rustix::io::Result<()> {
        counts.would_blocks += 1;
        match self.wait {
            Wait::Never => Err(Errno::AGAIN),
            // `before` polls on the next attempt.
            Wait::Poll => Ok(()),
            // Somebody else made the open file non-blocking; we still wait.
            Wait::Block => poll_each(interests, counts),
            Wait::Spin => {
                hint::spin_loop();
                Ok(())
            }
            Wait::Adaptive => {
                if self.spinner.goes_on() {
                    hint::spin_loop();
                    Ok(())
                } else {
                    poll_each(interests, counts)
                }
            }
        }
    }

    /// Called when an attempt moved something: spinning for it has paid.
    pub(crate) fn moved(&mut self) {
        self.spinner.paid();
    }
}

/// For how long [`Wait::Adaptive`] spins, learned from what it brought.
#[derive(Debug, Clone)]
pub(crate) struct Spinner {
    may_spin: bool,
    budget: Duration,
    since: Option<Instant>,
    waits_without: u32,
}

impl Spinner {
    /// One that spins under [`Wait::Adaptive`] on several processors only.
    pub(crate) fn new(wait: Wait) -> Self {
        Self::if_others_move(wait, allowed_processors() > 1)
    }

    /// One that spins under [`Wait::Adaptive`], where the other end can move
    /// meanwhile.
    pub(crate) fn if_others_move(wait: Wait, others_move: bool) -> Self {
        Spinner {
            may_spin: wait == Wait::Adaptive && others_move,
            budget: MAX_SPINNING / 2,
            since: None,
            waits_without: 0,
        }
    }

    /// Whether it is in the middle of spinning.
    pub(crate) fn is_spinning(&self) -> bool {
        self.since.is_some()
    }

    /// Called when what was waited for has come.
    #[inline]
    pub(crate) fn paid(&mut self) {
        if self.since.take().is_some() {
            self.budget = (self.budget * 2).min(MAX_SPINNING);
        }
    }

    /// Whether to try again at once rather than sleep.
    pub(crate) fn goes_on(&mut self) -> bool {
        if !self.may_spin {
            return false;
        }
        match self.since {
            Some(since) if since.elapsed() < self.budget => true,
            Some(_) => {
                // Did not pay: spin for less the next time.
                self.since = None;
                self.budget /= 2;
                if self.budget < MIN_SPINNING {
                    self.budget = Duration::ZERO;
                    self.waits_without = 0;
                }
                false
            }
            None => {
                if self.budget.is_zero() {
                    self.waits_without += 1;
                    if self.waits_without < RETRY_AFTER {
                        return false;
                    }
                    self.budget = MIN_SPINNING;
                }
                self.since = Some(Instant::now());
                true
            }
        }
    }
}

/// Timeout of a poll(2) that doesn't wait.
pub(crate) const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Asks poll(2) what of `events`, an error or the end `fd` has, without waiting.
///
/// Asks again after EINTR, which a signal causes even here and which says nothing
/// about `fd`.
pub(crate) fn poll_at_once(fd: BorrowedFd<'_>, events: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&AT_ONCE)))?;
    Ok(fds[0].revents())
}

/// Waits until each of `interests` is ready, one after the other: EAGAIN of a
/// splice does not say which of its sides would have blocked.
fn poll_each(interests: &[Interest<'_>], counts: &mut Counts) -> rustix::io::Result<()> {
    for interest in interests {
        let mut fds = [match interest {
            Interest::Readable(fd) => PollFd::from_borrowed_fd(*fd, PollFlags::IN),
            Interest::Writable(fd) => PollFd::from_borrowed_fd(*fd, PollFlags::OUT),
        }];
        loop {
            counts.syscalls += 1;
            counts.polls += 1;
            match poll(&mut fds, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// How many processors this thread may run on (sched_getaffinity(2)); 1 where
/// that can't be told, since spinning is harmful there and sleeping is not.
pub fn allowed_processors() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// The processor that a thread is bound to, as a number that another process
/// can be told: 0 if it may run on several, else one more than the processor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound(pub(crate) u32);

impl Bound {
    /// Where that can't be told: as if all who can't tell shared a processor.
    const UNKNOWN: Self = Bound(u32::MAX);

    pub(crate) fn of_this_thread() -> Self {
        let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
            return Bound::UNKNOWN;
        };
        let mut processors = (0..CpuSet::MAX_CPU).filter(|n| allowed.is_set(*n));
        match (processors.next(), processors.next()) {
            (Some(only), None) => Bound(only as u32 + 1),
            _ => Bound::default(),
        }
    }

    /// Whether the two can't run at the same time.
    pub(crate) fn shares_with(self, other: Self) -> bool {
        self == other && self != Bound::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_bound_to_one_processor_shares_it_with_who_is_bound_to_it_too() {
        let [several, first, second] = [0, 1, 2].map(Bound);
        assert!(first.shares_with(first));
        assert!(Bound::UNKNOWN.shares_with(Bound::UNKNOWN));
        for (one, other) in [(first, second), (first, several), (several, several)] {
            assert!(!one.shares_with(other));
            assert!(!other.shares_with(one));
        }
    }

    #[test]
    fn a_thread_that_is_bound_to_a_processor_says_which() {
        // A thread of its own, whose binding ends with it.
        let binding = std::thread::spawn(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let several = allowed.count() > 1;
            assert_eq!(Bound::of_this_thread() == Bound::default(), several);
            let last = (0..CpuSet::MAX_CPU).rfind(|n| allowed.is_set(*n)).unwrap();
            let mut only = CpuSet::new();
            only.set(last);
            rustix::thread::sched_setaffinity(None, &only).unwrap();
            assert_eq!(Bound::of_this_thread(), Bound(last as u32 + 1));
        });
        binding.join().unwrap();
    }

    fn adaptive(may_spin: bool) -> Spinner {
        Spinner {
            may_spin,
            ..Spinner::new(Wait::Adaptive)
        }
    }

    #[test]
    fn adaptive_never_spins_where_only_one_processor_is_allowed() {
        let mut spinner = adaptive(false);
        for _ in 0..1000 {
            assert!(!spinner.goes_on());
        }
    }

    #[test]
    fn adaptive_spins_less_and_less_where_spinning_does_not_pay_and_then_only_tries_now_and_then() {
        let mut spinner = adaptive(true);
        let mut spells = Vec::new();
        for _ in 0..(20 + 3 * RETRY_AFTER) {
            let mut spun = false;
            while spinner.goes_on() {
                spun = true;
            }
            spells.push(spun);
        }
        assert!(spells[0], "spins at first");
        let late = &spells[20..];
        let tries = late.iter().filter(|spun| **spun).count();
        assert!(
            (2..=3).contains(&tries),
            "{tries} tries in {} waits",
            late.len()
        );
    }

    #[test]
    fn adaptive_goes_back_to_spinning_for_longer_when_it_pays() {
        let mut spinner = adaptive(true);
        spinner.budget = MIN_SPINNING;
        for _ in 0..10 {
            assert!(spinner.goes_on());
            spinner.paid();
        }
        assert_eq!(spinner.budget, MAX_SPINNING);
    }
}
