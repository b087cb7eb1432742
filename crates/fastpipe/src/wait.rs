//! How a transfer waits while the pipe is full or empty: [`Wait`], and
//! [`Backoff`] for loops with an attempt and a sleep of their own.

use std::hint;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::thread::CpuSet;

use crate::counts::Counts;

/// How to wait for the other end.
///
/// Except under [`Block`](Self::Block), a terminal is opened again, so that no call on it blocks; so is a pipe
/// where preadv2(2) and pwritev2(2) refuse RWF_NOWAIT. From then on the descriptor must refer to the same file:
/// if another one takes its number (dup2(2)), the first is still read or written. Calls may block on a terminal
/// that can't be opened again (another user's after su(1); under TIOCEXCL; where TIOCGDEV is refused; without a free
/// descriptor or /proc), and on a regular file that waits for data. Reads of /proc/kmsg and trace_pipe don't block,
/// except of the trace_pipe of one processor, and where the trace's option `block` is set; splice(2) from trace_pipe
/// may. Read at least 8 KiB of it at once: the kernel keeps what does not fit, and poll(2) does not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Sleep in the system call. Uses the least processor time, but the kernel
    /// has to wake the sleeper, which takes microseconds across processors, and
    /// more on a virtual machine. An end of a [ring](crate::ring) first spins for at most 20 us, if
    /// that was successful before.
    #[default]
    Block,
    /// Call poll(2) before each attempt, then make a non-blocking attempt. Not for files of the kernel that are
    /// reported once per change, as /proc/bus/input/devices: a second read would wait for a change.
    Poll,
    /// Retry at once, without limit. Each end needs a processor of its own: two
    /// spinning ends on one processor burn whole time slices.
    Spin,
    /// Spin for at most [`MAX_SPINNING`], then poll. The time spent spinning
    /// adapts to how often it succeeds: see [`Backoff`]. Never spins in a thread
    /// that is restricted to one processor; a [ring](crate::ring) knows more and
    /// spins unless both of its ends are bound to the same one.
    Adaptive,
    /// Do not wait: fail with [`std::io::ErrorKind::WouldBlock`], reporting how
    /// much was moved.
    Never,
}

/// Upper bound of the time that [`Wait::Adaptive`] spins before it sleeps.
///
/// Spinning for as long as a sleep and a wake-up take costs at most twice as much
/// as the better of the two. A wake-up across processors was measured at 6 to
/// 14 us on a virtual machine; the rest is margin for slower ones.
pub const MAX_SPINNING: Duration = Duration::from_micros(50);

/// Upper bound of the time that an end of a ring spins under [`Wait::Block`] before it sleeps.
const WAKE_UP_TIME: Duration = Duration::from_micros(20);

/// A spinning time below this is rounded down to none.
const MIN_SPINNING: Duration = Duration::from_micros(4);

/// Number of waits without spinning after which [`Wait::Adaptive`] tries
/// spinning again.
const WAITS_WITHOUT_SPINNING: u32 = 64;

/// Decides, after each attempt that would have blocked, whether to retry at once
/// or to sleep first.
///
/// For code that has its own non-blocking attempt and its own way of sleeping;
/// the transfers of this crate use it themselves.
///
/// Under [`Wait::Spin`] the answer is always to retry, under [`Wait::Block`],
/// [`Wait::Poll`] and [`Wait::Never`] never. Under [`Wait::Adaptive`] it is to
/// retry for a limited time, which doubles, up to [`MAX_SPINNING`], when
/// spinning was successful and halves when it was not. Once it would be less
/// than 4 us there is no spinning at all, except for one try every 64 waits.
///
/// # Examples
///
/// ```
/// use std::hint;
/// use fastpipe::wait::{Backoff, Wait};
///
/// /// Receives a message, spinning for a while before it sleeps.
/// fn receive<T>(
///     backoff: &mut Backoff,
///     mut try_receive: impl FnMut() -> Option<T>,
///     mut sleep: impl FnMut(),
/// ) -> T {
///     loop {
///         if let Some(message) = try_receive() {
///             backoff.record_success();
///             return message;
///         }
///         if backoff.should_retry() {
///             hint::spin_loop();
///         } else {
///             sleep();
///         }
///     }
/// }
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// sender.send(7)?;
/// let mut backoff = Backoff::new(Wait::Adaptive);
/// let message = receive(&mut backoff, || receiver.try_recv().ok(), std::thread::yield_now);
/// assert_eq!(message, 7);
/// # Ok::<(), std::sync::mpsc::SendError<i32>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Backoff {
    mode: Mode,
    /// How long to spin before the next sleep.
    budget: Duration,
    /// When the current spell of spinning began.
    spinning_since: Option<Instant>,
    waits_without_spinning: u32,
}

/// Behaviour of a [`Backoff`], derived from a [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AlwaysRetry,
    /// Spins for this time at most.
    Adapt(Duration),
    AlwaysSleep,
}

impl Backoff {
    /// Creates a back-off for `wait`.
    ///
    /// Under [`Wait::Adaptive`] it spins only if the calling thread may run on
    /// several processors (sched_getaffinity(2)). Where both ends are pinned to
    /// processors of their own, use [`with_peer`](Self::with_peer).
    pub fn new(wait: Wait) -> Self {
        Self::with_peer(wait, wait == Wait::Adaptive && allowed_processors() > 1)
    }

    /// Creates a back-off for `wait`, stating whether the other end can make
    /// progress while this one spins, that is, whether it runs on another
    /// processor.
    ///
    /// If it can't, [`Wait::Adaptive`] never spins. [`Wait::Spin`] always does.
    pub fn with_peer(wait: Wait, peer_runs_in_parallel: bool) -> Self {
        let mode = match wait {
            Wait::Spin => Mode::AlwaysRetry,
            Wait::Adaptive if peer_runs_in_parallel => Mode::Adapt(MAX_SPINNING),
            Wait::Adaptive | Wait::Block | Wait::Poll | Wait::Never => Mode::AlwaysSleep,
        };
        Backoff::in_mode(mode)
    }

    /// That of an end of a ring, whose peer runs on another processor. Under [`Wait::Block`], too, it
    /// spins for about as long as waking a sleeper takes: a peer that is only a message behind comes
    /// sooner than that.
    pub(crate) fn of_ring(wait: Wait) -> Self {
        match wait {
            Wait::Block => Backoff::in_mode(Mode::Adapt(WAKE_UP_TIME)),
            wait => Backoff::with_peer(wait, true),
        }
    }

    fn in_mode(mode: Mode) -> Self {
        let longest = match mode {
            Mode::Adapt(longest) => longest,
            Mode::AlwaysRetry | Mode::AlwaysSleep => Duration::ZERO,
        };
        Backoff {
            mode,
            budget: longest / 2,
            spinning_since: None,
            waits_without_spinning: 0,
        }
    }

    /// Whether to retry at once rather than sleep. To be called after each
    /// attempt that would have blocked; reads the clock under
    /// [`Wait::Adaptive`].
    pub fn should_retry(&mut self) -> bool {
        match self.mode {
            Mode::AlwaysRetry => return true,
            Mode::AlwaysSleep => return false,
            Mode::Adapt(_) => {}
        }
        match self.spinning_since {
            Some(since) if since.elapsed() < self.budget => true,
            Some(_) => {
                self.spinning_since = None;
                self.budget /= 2;
                if self.budget < MIN_SPINNING {
                    self.budget = Duration::ZERO;
                    self.waits_without_spinning = 0;
                }
                false
            }
            None => {
                if self.budget.is_zero() {
                    self.waits_without_spinning += 1;
                    if self.waits_without_spinning < WAITS_WITHOUT_SPINNING {
                        return false;
                    }
                    self.budget = MIN_SPINNING;
                }
                self.spinning_since = Some(Instant::now());
                true
            }
        }
    }

    /// Records an attempt that succeeded. If it came after spinning, the next
    /// spell of spinning may last longer.
    #[inline]
    pub fn record_success(&mut self) {
        if self.spinning_since.take().is_some()
            && let Mode::Adapt(longest) = self.mode
        {
            self.budget = (self.budget * 2).min(longest);
        }
    }

    /// Whether the last answer of [`should_retry`](Self::should_retry) was to
    /// retry and no attempt has succeeded since. Always true where the answer is
    /// always to retry.
    pub fn is_spinning(&self) -> bool {
        self.mode == Mode::AlwaysRetry || self.spinning_since.is_some()
    }
}

/// A descriptor that a transfer waits for, and the event.
#[derive(Clone, Copy)]
pub(crate) enum Interest<'a> {
    /// Data, or end of file.
    Readable(BorrowedFd<'a>),
    /// Room, or a reader that has gone.
    Writable(BorrowedFd<'a>),
}

impl Interest<'_> {
    /// Checks that the descriptor is open for that: otherwise poll(2) never reports it.
    ///
    /// # Errors
    /// `BADF` if it is not; those of fcntl(2).
    pub(crate) fn check_access(self) -> rustix::io::Result<()> {
        let (fd, needed) = match self {
            Interest::Readable(fd) => (fd, OFlags::RDONLY),
            Interest::Writable(fd) => (fd, OFlags::WRONLY),
        };
        let access = rustix::fs::fcntl_getfl(fd)? & OFlags::ACCMODE;
        if access != needed && access != OFlags::RDWR {
            return Err(Errno::BADF);
        }
        Ok(())
    }
}

/// After this number of attempts that moved nothing although poll(2) reported that they would, waiting
/// is considered futile.
pub(crate) const MAX_FUTILE_ATTEMPTS: u32 = 100;

/// Pause between attempts once waiting is futile.
pub(crate) const STUCK_PAUSE: Duration = Duration::from_millis(1);

/// Waits according to a [`Wait`], and keeps the state for it.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    wait: Wait,
    backoff: Backoff,
    /// The descriptors of the first attempt are open for what is awaited.
    is_checked: bool,
    /// Attempts after poll(2) that failed, since the last that succeeded.
    futile: u32,
    /// A handled signal ends a wait.
    is_interruptible: bool,
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Self {
        Waiter {
            wait,
            backoff: Backoff::new(wait),
            is_checked: false,
            futile: 0,
            is_interruptible: false,
        }
    }

    pub(crate) fn set_interruptible(&mut self, interruptible: bool) {
        self.is_interruptible = interruptible;
    }

    /// Whether a handled signal ends a wait, with `INTR`.
    pub(crate) fn is_interruptible(&self) -> bool {
        self.is_interruptible
    }

    pub(crate) fn wait(&self) -> Wait {
        self.wait
    }

    /// Whether system calls may block.
    pub(crate) fn blocks(&self) -> bool {
        self.wait == Wait::Block
    }

    /// Called before each attempt: polls under [`Wait::Poll`].
    pub(crate) fn before_attempt(
        &mut self,
        interests: &[Interest<'_>],
        counts: &mut Counts,
    ) -> rustix::io::Result<()> {
        if self.wait == Wait::Poll {
            if !self.is_checked {
                for interest in interests {
                    interest.check_access()?;
                }
                self.is_checked = true;
            }
            poll_each(interests, counts, self.is_interruptible)?;
        }
        Ok(())
    }

    /// Called when an attempt would have blocked. Returns when a retry makes
    /// sense; fails with `AGAIN` under [`Wait::Never`].
    pub(crate) fn would_block(
        &mut self,
        interests: &[Interest<'_>],
        counts: &mut Counts,
    ) -> rustix::io::Result<()> {
        counts.would_blocks += 1;
        match self.wait {
            Wait::Never => return Err(Errno::AGAIN),
            Wait::Spin => return Ok(()),
            Wait::Adaptive if self.backoff.should_retry() => {
                hint::spin_loop();
                return Ok(());
            }
            // `before_attempt` polls.
            Wait::Poll => {}
            // Under `Block` another process made the open file non-blocking.
            Wait::Block | Wait::Adaptive => {
                poll_each(interests, counts, self.is_interruptible)?;
            }
        }
        self.futile += 1;
        if self.futile > MAX_FUTILE_ATTEMPTS {
            // For example at a full socket with a message in its error queue.
            counts.syscalls += 1;
            thread::sleep(STUCK_PAUSE);
        }
        Ok(())
    }

    /// Called when an attempt moved something.
    pub(crate) fn record_success(&mut self) {
        self.backoff.record_success();
        self.futile = 0;
    }
}

/// Timeout of a poll(2) that does not wait.
pub(crate) const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// How long an output is not watched after poll(2) has reported an error of it that is none: the same
/// would be reported again and again.
pub(crate) const UNWATCHED: Duration = Duration::from_secs(1);

/// Returns which of `events`, POLLERR and POLLHUP are pending on `fd`, without
/// waiting.
///
/// Retries after EINTR, which a signal can cause even here.
pub(crate) fn poll_now(fd: BorrowedFd<'_>, events: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&NO_WAIT)))?;
    Ok(fds[0].revents())
}

/// Waits until `fd` has room, or has failed, for at most `limit`, or until a signal.
pub(crate) fn await_room(fd: BorrowedFd<'_>, limit: Duration) {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let _ = poll(&mut fds, Some(&limit));
}

/// Waits until each of `interests` is ready, one after the other: the EAGAIN of a
/// splice(2) does not say which of its sides would have blocked.
///
/// # Errors
/// Those of poll(2), of which `INTR` only if `interruptible`; the output's error if it fails while the input
/// is awaited.
fn poll_each(
    interests: &[Interest<'_>],
    counts: &mut Counts,
    interruptible: bool,
) -> rustix::io::Result<()> {
    for (n, interest) in interests.iter().enumerate() {
        match (interest, interests.get(n + 1)) {
            (Interest::Readable(input), Some(Interest::Writable(output))) => {
                poll_input(*input, *output, counts, interruptible)?;
            }
            (Interest::Readable(fd), _) => {
                let mut fds = [PollFd::from_borrowed_fd(*fd, PollFlags::IN)];
                poll_up_to(None, &mut fds, counts, interruptible)?;
            }
            (Interest::Writable(fd), _) => {
                let mut fds = [PollFd::from_borrowed_fd(*fd, PollFlags::OUT)];
                poll_up_to(None, &mut fds, counts, interruptible)?;
            }
        }
    }
    Ok(())
}

/// Waits until `input` is readable, or `output` has failed: otherwise a transfer
/// from an idle input would never notice that its output has no reader any more.
fn poll_input(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    counts: &mut Counts,
    interruptible: bool,
) -> rustix::io::Result<()> {
    let mut fds = [
        PollFd::from_borrowed_fd(input, PollFlags::IN),
        // POLLERR and POLLHUP are always reported.
        PollFd::from_borrowed_fd(output, PollFlags::empty()),
    ];
    let pause = Timespec {
        tv_sec: UNWATCHED.as_secs() as i64,
        tv_nsec: 0,
    };
    loop {
        poll_up_to(None, &mut fds, counts, interruptible)?;
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if let Some(errno) = failure_of_output(output, fds[1].revents()) {
            return Err(errno);
        }
        if poll_up_to(Some(&pause), &mut fds[..1], counts, interruptible)? > 0 {
            return Ok(());
        }
    }
}

fn poll_up_to(
    limit: Option<&Timespec>,
    fds: &mut [PollFd<'_>],
    counts: &mut Counts,
    interruptible: bool,
) -> rustix::io::Result<usize> {
    loop {
        counts.syscalls += 1;
        counts.polls += 1;
        match poll(fds, limit) {
            Err(Errno::INTR) if !interruptible => {}
            polled => return polled,
        }
    }
}

/// Returns the error of an output for which poll(2) has `found` POLLERR or POLLHUP;
/// `None` if it can still be written to. That is so for a socket with a message in
/// its error queue, and for the master of a pseudo-terminal, which "hangs up"
/// while no slave is open.
///
/// The error of a stream socket is not taken (SO_ERROR), and is nearly always a reset: whoever reads from
/// the socket would find the end of the data instead.
pub(crate) fn failure_of_output(output: BorrowedFd<'_>, found: PollFlags) -> Option<Errno> {
    if rustix::net::sockopt::socket_type(output) == Ok(SocketType::STREAM) {
        let errno = if found.contains(PollFlags::ERR) {
            Errno::CONNRESET
        } else {
            Errno::PIPE
        };
        return found.contains(PollFlags::HUP).then_some(errno);
    }
    match rustix::net::sockopt::socket_error(output) {
        Ok(Err(errno)) => Some(errno),
        Ok(Ok(())) => found.contains(PollFlags::HUP).then_some(Errno::PIPE),
        // Not a socket.
        Err(_) => found.contains(PollFlags::ERR).then_some(Errno::PIPE),
    }
}

/// Number of processors this thread may run on (sched_getaffinity(2)); 1 if the
/// call fails, since sleeping is always safe and spinning is not.
fn allowed_processors() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// The processor to which a thread is bound, as a number to be published to other
/// processes: 0 if it may run on several, otherwise the processor's number plus 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound(pub(crate) u32);

impl Bound {
    /// Unknown: treated as if all unknown threads shared a processor.
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

    /// Whether two threads share a processor, and so can't run at the same time.
    pub(crate) fn shares_with(self, other: Self) -> bool {
        self == other && self != Bound::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_bound_to_the_same_processor_share_one() {
        let [several, first, second] = [0, 1, 2].map(Bound);
        assert!(first.shares_with(first));
        assert!(Bound::UNKNOWN.shares_with(Bound::UNKNOWN));
        for (one, other) in [(first, second), (first, several), (several, several)] {
            assert!(!one.shares_with(other));
            assert!(!other.shares_with(one));
        }
    }

    /// Binds this thread to the last processor it may run on; returns its number.
    fn bind_to_last_processor() -> usize {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|n| allowed.is_set(*n)).unwrap();
        let mut only = CpuSet::new();
        only.set(last);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        last
    }

    #[test]
    fn a_bound_thread_knows_its_processor() {
        // A thread of its own, whose binding ends with it.
        let binding = std::thread::spawn(|| {
            let several = allowed_processors() > 1;
            assert_eq!(Bound::of_this_thread() == Bound::default(), several);
            let last = bind_to_last_processor();
            assert_eq!(Bound::of_this_thread(), Bound(last as u32 + 1));
        });
        binding.join().unwrap();
    }

    #[test]
    fn spinning_always_retries_and_other_waits_need_a_reason() {
        for (wait, has_peer, retries) in [
            (Wait::Spin, false, true),
            (Wait::Block, true, false),
            (Wait::Poll, true, false),
            (Wait::Never, true, false),
            (Wait::Adaptive, false, false),
        ] {
            let mut backoff = Backoff::with_peer(wait, has_peer);
            for _ in 0..1000 {
                assert_eq!(backoff.should_retry(), retries, "{wait:?}");
                assert_eq!(backoff.is_spinning(), retries, "{wait:?}");
            }
        }
    }

    #[test]
    fn adaptive_never_spins_in_a_thread_bound_to_one_processor() {
        let bound = std::thread::spawn(|| {
            bind_to_last_processor();
            let mut backoff = Backoff::new(Wait::Adaptive);
            assert!(!backoff.should_retry());
        });
        bound.join().unwrap();
    }

    #[test]
    fn adaptive_spins_less_when_it_fails_and_then_only_occasionally() {
        let mut backoff = Backoff::with_peer(Wait::Adaptive, true);
        let mut spells = Vec::new();
        for _ in 0..(20 + 3 * WAITS_WITHOUT_SPINNING) {
            let mut spun = false;
            while backoff.should_retry() {
                assert!(backoff.is_spinning());
                spun = true;
            }
            assert!(!backoff.is_spinning());
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
    fn adaptive_spins_longer_again_after_success() {
        let mut backoff = Backoff::with_peer(Wait::Adaptive, true);
        backoff.budget = MIN_SPINNING;
        for _ in 0..10 {
            assert!(backoff.should_retry());
            backoff.record_success();
        }
        assert_eq!(backoff.budget, MAX_SPINNING);
    }
}
