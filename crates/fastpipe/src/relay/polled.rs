//! Copies on tokio: relays that wait in the runtime.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::{JoinHandle, consume_budget, spawn_blocking, yield_now};

use super::ends::Endpoint;
use super::engine::{Attempted, Engine};
use super::options::{Flow, Options};
use super::report::{End, RelayError, Relayed, Side};
use super::step::Needs;
use super::waiting::{Waited, is_ready};
use super::{bytes_moved, check_ends, spare};
use crate::registered::{register, register_duplicate};
use crate::wait::{STUCK_PAUSE, UNWATCHED, Wait, failure_of_output, poll_now};

/// Attempts that move bytes before others have their turn.
const MAX_ATTEMPTS: u64 = 32;

/// The longest of ever longer pauses.
const MAX_STUCK_PAUSE: Duration = Duration::from_millis(50);

/// How long a copy waits in all for more from a connection to which writing has failed.
const MAX_WAIT_AFTER_FAILURE: Duration = Duration::from_millis(250);

type Guard<'a> = Option<AsyncFdReadyGuard<'a, OwnedFd>>;
type Failure = (Side, io::Error);

/// Moves bytes from `input` to `output` until the input ends, as [`copy`](fn@crate::copy) does, and
/// waits in the runtime. Returns their number.
///
/// Ends with `BrokenPipe` when the output has no reader any more, or `ConnectionReset` when it is a
/// connection that was reset, also while it waits for the input.
///
/// # Errors
/// Those of [`copy`](fn@crate::copy), of dup(2) and of epoll_ctl(2).
pub async fn copy(input: impl AsFd, output: impl AsFd) -> io::Result<u64> {
    let input = RuntimeEnd::new(&input, Interest::READABLE)?;
    let output = RuntimeEnd::new(&output, Interest::WRITABLE)?;
    bytes_moved(relay(&input, &output).await)
}

/// Moves bytes in both directions between two connections, until both have ended. Returns the numbers
/// of bytes from `a` to `b` and from `b` to `a`.
///
/// When one direction ends, the connection that it goes to is shut down for writing
/// (shutdown(2)), and the other direction continues. When a connection fails, what came from it before is
/// still passed on, and then the copy ends with the error. The other connection is not shut down then,
/// and a reset is not passed on: dropping it ends it as usual, unless SO_LINGER says otherwise. If a
/// connection has ended, and is reset while the last bytes are sent to it, the copy may succeed.
///
/// A connection may refuse bytes and still send some: a server on a Unix socket that has shut down reading and
/// answers. Its answer is passed on while it comes without pauses. Once the copy has waited for more of it for
/// 0.25 s in all, it ends with the error, and what a server sends after such a pause is lost. Without a
/// descriptor for a timer, this limit needs a free thread of the runtime's blocking pool. The copy lasts for
/// as long as the other connection takes to receive the answer: limit its time where that may never end.
///
/// Nothing else may read from or write to the connections meanwhile.
///
/// # Errors
/// As of [`copy`].
pub async fn copy_bidirectional(a: impl AsFd, b: impl AsFd) -> io::Result<(u64, u64)> {
    let both = Interest::READABLE | Interest::WRITABLE;
    let (a, b) = (RuntimeEnd::new(&a, both)?, RuntimeEnd::new(&b, both)?);
    let (there, back) = (pin!(copy_one_way(&a, &b)), pin!(copy_one_way(&b, &a)));
    let (mut there, mut back) = (Direction::new(there), Direction::new(back));
    let mut backwards = false;
    let mut has_failed = false;
    poll_fn(|context| {
        // Neither uses up all of the task's budget before the other has its turn.
        backwards = !backwards;
        if backwards {
            back.poll(context);
            there.poll(context);
        } else {
            there.poll(context);
            back.poll(context);
        }
        let is_over = [&there.ended, &back.ended].into_iter().all(Option::is_some);
        if !is_over && !there.ends_both() && !back.ends_both() {
            if !has_failed && (there.has_failed() || back.has_failed()) {
                // The other direction may have been polled before: from now on its time is limited.
                has_failed = true;
                context.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        match (there.ended.take(), back.ended.take()) {
            (Some(Err(failed)), _) | (_, Some(Err(failed))) => Poll::Ready(Err(failed.error)),
            (there, back) => {
                let bytes =
                    |ended: Option<Result<u64, Failed>>| ended.map_or(0, |b| b.unwrap_or(0));
                Poll::Ready(Ok((bytes(there), bytes(back))))
            }
        }
    })
    .await
}

/// A direction of a copy, and how it has ended.
struct Direction<'a, F> {
    copying: Pin<&'a mut F>,
    ended: Option<Result<u64, Failed>>,
}

/// Failure of a direction.
struct Failed {
    /// If the output has failed, the other direction still passes on what comes from there.
    side: Side,
    error: io::Error,
}

impl<'a, F: Future<Output = Result<u64, Failed>>> Direction<'a, F> {
    fn new(copying: Pin<&'a mut F>) -> Self {
        Direction {
            copying,
            ended: None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.copying.as_mut().poll(context)
        {
            self.ended = Some(ended);
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.ended, Some(Err(_)))
    }

    /// Whether nothing more comes from its input, which has failed.
    fn ends_both(&self) -> bool {
        matches!(&self.ended, Some(Err(failed)) if failed.side == Side::Input)
    }
}

/// One end of a copy.
struct RuntimeEnd<'a> {
    end: Endpoint<'a>,
    /// `None` if it is always ready.
    ready: Option<AsyncFd<OwnedFd>>,
    /// Writing to it has failed. A connection reports its error once: to whoever reads from it, it then
    /// seems to have ended.
    has_failed: AtomicBool,
}

impl<'a> RuntimeEnd<'a> {
    fn new(fd: &'a impl AsFd, interest: Interest) -> io::Result<Self> {
        let fd = fd.as_fd();
        Ok(RuntimeEnd {
            end: Endpoint::examine_for_runtime(fd)?,
            ready: register_duplicate(fd, interest)?,
            has_failed: AtomicBool::new(false),
        })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    async fn ready(&self, interest: Interest) -> io::Result<Guard<'_>> {
        match &self.ready {
            Some(ready) => ready.ready(interest).await.map(Some),
            None => Ok(None),
        }
    }
}

/// One direction between two connections.
async fn copy_one_way(input: &RuntimeEnd<'_>, output: &RuntimeEnd<'_>) -> Result<u64, Failed> {
    let moved = relay(input, output).await;
    let side = moved
        .as_ref()
        .map_or_else(|error| error.side, |_| Side::Output);
    let fail = |error| {
        if side == Side::Output {
            output.has_failed.store(true, Ordering::Relaxed);
        }
        Failed { side, error }
    };
    let bytes = bytes_moved(moved).map_err(fail)?;
    if input.has_failed.load(Ordering::Relaxed) {
        // No proper end, which must not be passed on. The other direction has the error.
        return Ok(bytes);
    }
    match rustix::net::shutdown(output.end.fd, Shutdown::Write) {
        // The other end is gone, or it is no connection.
        Ok(()) | Err(Errno::NOTCONN | Errno::NOTSOCK) => Ok(bytes),
        Err(errno) => Err(fail(errno.into())),
    }
}

async fn relay(input: &RuntimeEnd<'_>, output: &RuntimeEnd<'_>) -> Result<Relayed, RelayError> {
    // The runtime waits.
    let options = Options::new().interval(Duration::MAX).wait(Wait::Never);
    check_ends(&input.end, &output.end, &options)?;
    let mut readiness = Readiness {
        input,
        output,
        input_guard: None,
        output_guard: None,
        watch: if output.end.has_reader() {
            WatchMode::Readiness
        } else {
            WatchMode::Nothing
        },
        time_left: MAX_WAIT_AFTER_FAILURE,
    };
    let look = None::<fn(&[u8]) -> Flow>;
    let mut engine = Engine::new(input.end, output.end, &options, look);
    let outcome = run(&mut engine, &mut readiness).await;
    keep_pipe(&mut engine);
    engine.conclude(outcome, &mut |_| Flow::Continue)
}

/// Leaves its pipe to other copies, if it is empty.
fn keep_pipe<Look: FnMut(&[u8]) -> Flow>(engine: &mut Engine<'_, Look>) {
    if let Some(pipe) = engine.take_empty_pipe() {
        spare::put(pipe);
    }
}

async fn run<Look: FnMut(&[u8]) -> Flow>(
    engine: &mut Engine<'_, Look>,
    readiness: &mut Readiness<'_>,
) -> Result<End, Failure> {
    // Copies that are soon done, one after the other, let other tasks have their turn, too.
    consume_budget().await;
    engine.lend_pipe(spare::take);
    let mut pause = STUCK_PAUSE;
    let mut attempts = 0_u64;
    loop {
        attempts += 1;
        // A splice that was stopped by an error reports what it has moved, and not the error. The next
        // attempt must come before the other direction finds the end of a connection without one.
        if attempts >= MAX_ATTEMPTS && engine.held() == 0 {
            attempts = 0;
            // The other direction, and other tasks, have their turn.
            yield_now().await;
        }
        match engine.advance(u64::MAX)? {
            Attempted::Progress => pause = STUCK_PAUSE,
            Attempted::Ended(end) => return Ok(end),
            Attempted::Blocked(needs) => {
                keep_pipe(engine);
                if readiness.wait(needs, engine.is_copying()).await? == Waited::TimedOut {
                    return Ok(End::Stopped);
                }
                engine.lend_pipe(spare::take);
                if engine.is_futile() {
                    // Not the runtime's clock, which may not be enabled.
                    let _ = spawn_blocking(move || thread::sleep(pause)).await;
                    pause = (pause * 2).min(MAX_STUCK_PAUSE);
                }
            }
        }
    }
}

/// Readiness of the two ends, as the runtime has recorded it.
struct Readiness<'a> {
    input: &'a RuntimeEnd<'a>,
    output: &'a RuntimeEnd<'a>,
    /// Readiness as of before the last attempt. If that would have blocked, this is cleared, and what
    /// became ready meanwhile is not.
    input_guard: Guard<'a>,
    output_guard: Guard<'a>,
    watch: WatchMode,
    /// How long it may still wait for an input to which writing has failed.
    time_left: Duration,
}

/// How the output is watched, which may have a reader that leaves.
enum WatchMode {
    Readiness,
    /// From time to time, after a false alarm: the runtime does not forget it.
    Timer(AsyncFd<OwnedFd>),
    /// It has no reader, or there is no descriptor for a timer.
    Nothing,
}

/// Returns a descriptor that becomes readable again and again, after this time each.
fn timer(pause: Duration) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let pause = Timespec::try_from(pause).map_err(io::Error::other)?;
    let times = Itimerspec {
        it_interval: pause,
        it_value: pause,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    register(timer, Interest::READABLE)
}

/// A wait that ends after some time.
struct LimitedWait {
    since: Instant,
    alarm: Alarm,
}

/// What ends a wait.
enum Alarm {
    Timer(AsyncFd<OwnedFd>),
    /// There is no descriptor for a timer.
    Sleeper(JoinHandle<()>),
}

impl LimitedWait {
    fn new(time: Duration) -> Self {
        // Of 0, it would never become readable.
        let alarm = match timer(time.max(Duration::from_nanos(1))) {
            Ok(Some(timer)) => Alarm::Timer(timer),
            _ => Alarm::Sleeper(spawn_blocking(move || thread::sleep(time))),
        };
        LimitedWait {
            since: Instant::now(),
            alarm,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.alarm {
            Alarm::Timer(timer) => timer.poll_read_ready(context).map(drop),
            Alarm::Sleeper(sleeper) => Pin::new(sleeper).poll(context).map(drop),
        }
    }
}

/// What ends a wait for the input.
enum EndEvent<'a> {
    Input(io::Result<Guard<'a>>),
    OutputMayHaveFailed,
    TimedOut,
}

impl Readiness<'_> {
    /// Waits until each of `needs` has been ready once, the output has no reader any more, or an input to
    /// which writing has failed has sent nothing for too long. The input is only waited for if no bytes are
    /// held.
    ///
    /// `copies`: the attempt was a read or a write.
    async fn wait(&mut self, needs: Needs, copies: bool) -> Result<Waited, Failure> {
        // EAGAIN of a splice shows neither which end would block nor that one would: it stops at urgent
        // data, too. And an end that is ready does not become ready.
        let (input, output) = (self.input.end.fd, self.output.end.fd);
        if needs.input && (copies || !is_ready(input, PollFlags::IN)) {
            clear(&mut self.input_guard);
            if self.wait_for_input().await? == Waited::TimedOut {
                return Ok(Waited::TimedOut);
            }
        }
        if needs.output && (copies || !is_ready(output, PollFlags::OUT)) {
            clear(&mut self.output_guard);
            let ready = self.output.ready(Interest::WRITABLE).await;
            self.output_guard = ready.map_err(|error| (Side::Output, error))?;
        }
        Ok(Waited::Ready)
    }

    async fn wait_for_input(&mut self) -> Result<Waited, Failure> {
        let input = self.input;
        let mut arrived = pin!(input.ready(Interest::READABLE));
        let mut limited: Option<LimitedWait> = None;
        loop {
            let event = {
                let mut failed = pin!(self.output_may_have_failed());
                poll_fn(|context| {
                    if let Poll::Ready(guard) = arrived.as_mut().poll(context) {
                        return Poll::Ready(EndEvent::Input(guard));
                    }
                    if failed.as_mut().poll(context).is_ready() {
                        return Poll::Ready(EndEvent::OutputMayHaveFailed);
                    }
                    if !input.has_failed.load(Ordering::Relaxed) {
                        return Poll::Pending;
                    }
                    limited
                        .get_or_insert_with(|| LimitedWait::new(self.time_left))
                        .poll(context)
                        .map(|()| EndEvent::TimedOut)
                })
                .await
            };
            match event {
                EndEvent::Input(guard) => {
                    self.input_guard = guard.map_err(|error| (Side::Input, error))?;
                    if let Some(wait) = limited {
                        self.time_left = self.time_left.saturating_sub(wait.since.elapsed());
                    }
                    return Ok(Waited::Ready);
                }
                EndEvent::OutputMayHaveFailed => self.check_output()?,
                EndEvent::TimedOut => return Ok(Waited::TimedOut),
            }
        }
    }

    async fn output_may_have_failed(&self) {
        match &self.watch {
            WatchMode::Readiness => loop {
                match self.output.ready(Interest::WRITABLE).await {
                    // Being writable is no failure.
                    Ok(Some(mut guard)) if !guard.ready().is_write_closed() => guard.clear_ready(),
                    _ => return,
                }
            },
            WatchMode::Timer(timer) => {
                if let Ok(mut guard) = timer.readable().await {
                    let _ = rustix::io::read(timer.get_ref(), &mut [0; 8]);
                    guard.clear_ready();
                }
            }
            WatchMode::Nothing => pending().await,
        }
    }

    /// Fails if the output has no reader any more; otherwise looks again from time to time.
    fn check_output(&mut self) -> Result<(), Failure> {
        let fd = self.output.end.fd;
        let found = poll_now(fd, PollFlags::empty()).unwrap_or(PollFlags::empty());
        if let Some(errno) = failure_of_output(fd, found) {
            return Err((Side::Output, errno.into()));
        }
        if matches!(self.watch, WatchMode::Readiness) {
            let timer = timer(UNWATCHED).ok().flatten();
            self.watch = timer.map_or(WatchMode::Nothing, WatchMode::Timer);
        }
        Ok(())
    }
}

/// Clears the readiness of an end, unless it became ready again since the guard was taken.
fn clear(guard: &mut Guard<'_>) {
    if let Some(mut guard) = guard.take() {
        guard.clear_ready();
    }
}
