//! Copies on tokio: relays that wait in the runtime.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::Shutdown;
use tokio::io::Interest;
use tokio::io::unix::AsyncFdReadyGuard;
use tokio::task::{coop, spawn_blocking};

use super::ends::Endpoint;
use super::engine::{Attempted, Engine, STUCK_PAUSE};
use super::options::{Flow, Options};
use super::report::{End, RelayError, Relayed, Side};
use super::step::Needs;
use super::waiting::is_ready;
use super::{check_ends, given, spare};
use crate::tokio::Registered;
use crate::wait::{Wait, failure_of_output, poll_now};

type Guard<'a> = Option<AsyncFdReadyGuard<'a, OwnedFd>>;
type Failure = (Side, io::Error);

/// Moves bytes from `input` to `output` until the input ends, as [`copy`](fn@crate::copy) does, and
/// waits in the runtime. Returns their number.
///
/// Ends with `BrokenPipe` when the output has no reader any more, also while it waits for the input.
///
/// # Errors
/// Those of [`copy`](fn@crate::copy), of dup(2) and of epoll_ctl(2).
pub async fn copy(input: impl AsFd, output: impl AsFd) -> io::Result<u64> {
    let input = Place::new(&input, Interest::READABLE)?;
    let output = Place::new(&output, Interest::WRITABLE | Interest::ERROR)?;
    given(relay(&input, &output).await)
}

/// Moves bytes in both directions between two connections, until both have ended. Returns the numbers
/// of bytes from `a` to `b` and from `b` to `a`.
///
/// When one direction ends, the connection that it goes to is shut down for writing
/// (shutdown(2)), and the other direction continues. The first error ends both.
///
/// # Errors
/// As of [`copy`].
pub async fn copy_bidirectional(a: impl AsFd, b: impl AsFd) -> io::Result<(u64, u64)> {
    let all = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    let (a, b) = (Place::new(&a, all)?, Place::new(&b, all)?);
    let (mut there, mut back) = (pin!(connect(&a, &b)), pin!(connect(&b, &a)));
    let mut moved = (None, None);
    poll_fn(|context| {
        if moved.0.is_none()
            && let Poll::Ready(bytes) = there.as_mut().poll(context)
        {
            moved.0 = Some(bytes?);
        }
        if moved.1.is_none()
            && let Poll::Ready(bytes) = back.as_mut().poll(context)
        {
            moved.1 = Some(bytes?);
        }
        match moved {
            (Some(there), Some(back)) => Poll::Ready(Ok((there, back))),
            _ => Poll::Pending,
        }
    })
    .await
}

/// One end of a copy.
struct Place<'a> {
    end: Endpoint<'a>,
    ready: Registered<()>,
}

impl<'a> Place<'a> {
    fn new(fd: &'a impl AsFd, interest: Interest) -> io::Result<Self> {
        let fd = fd.as_fd();
        Ok(Place {
            end: Endpoint::examine_for_runtime(fd)?,
            ready: Registered::new((), fd.try_clone_to_owned()?, interest)?,
        })
    }
}

/// One direction between two connections.
async fn connect(input: &Place<'_>, output: &Place<'_>) -> io::Result<u64> {
    let bytes = given(relay(input, output).await)?;
    match rustix::net::shutdown(output.end.fd, Shutdown::Write) {
        // The other end is gone, or it is no connection.
        Ok(()) | Err(Errno::NOTCONN | Errno::NOTSOCK) => Ok(bytes),
        Err(errno) => Err(errno.into()),
    }
}

async fn relay(input: &Place<'_>, output: &Place<'_>) -> Result<Relayed, RelayError> {
    let options = Options::new().interval(Duration::MAX).wait(Wait::Poll);
    check_ends(&input.end, &output.end, &options)?;
    let mut readiness = Readiness {
        input,
        output,
        input_guard: None,
        output_guard: None,
        watches_output: output.end.has_reader(),
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
    engine.lend_pipe(spare::take);
    loop {
        // Other tasks have their turn.
        coop::consume_budget().await;
        match engine.advance(u64::MAX)? {
            Attempted::Progress => {}
            Attempted::Ended(end) => return Ok(end),
            Attempted::Blocked(needs) => {
                keep_pipe(engine);
                readiness.wait(needs).await?;
                engine.lend_pipe(spare::take);
                if engine.is_futile() {
                    // Not the runtime's clock, which may not be enabled.
                    let _ = spawn_blocking(|| thread::sleep(STUCK_PAUSE)).await;
                }
            }
        }
    }
}

/// What the runtime knows of the two ends.
struct Readiness<'a> {
    input: &'a Place<'a>,
    output: &'a Place<'a>,
    /// Got before the last attempt, so that what became ready since is not forgotten when that
    /// attempt would have blocked.
    input_guard: Guard<'a>,
    output_guard: Guard<'a>,
    /// Whether the output has a reader that may leave.
    watches_output: bool,
}

impl Readiness<'_> {
    /// Waits until each of `needs` has been ready once, or the output has no reader any more.
    async fn wait(&mut self, needs: Needs) -> Result<(), Failure> {
        // EAGAIN does not show which end would block, and one that is ready does not become ready.
        let both = needs.input && needs.output;
        let (input, output) = (self.input.end.fd, self.output.end.fd);
        if needs.input && !(both && is_ready(input, PollFlags::IN)) {
            forget(&mut self.input_guard);
            self.wait_for_input().await?;
        }
        if needs.output && !(both && is_ready(output, PollFlags::OUT)) {
            forget(&mut self.output_guard);
            let ready = self.output.ready.ready(Interest::WRITABLE).await;
            self.output_guard = ready.map_err(|error| (Side::Output, error))?;
        }
        Ok(())
    }

    async fn wait_for_input(&mut self) -> Result<(), Failure> {
        let mut arrived = pin!(self.input.ready.ready(Interest::READABLE));
        let mut failed = pin!(self.output.ready.ready(Interest::ERROR));
        loop {
            let watches_output = self.watches_output;
            let ready = poll_fn(|context| {
                if let Poll::Ready(guard) = arrived.as_mut().poll(context) {
                    return Poll::Ready(Some(guard));
                }
                if watches_output && failed.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                Poll::Pending
            });
            if let Some(guard) = ready.await {
                self.input_guard = guard.map_err(|error| (Side::Input, error))?;
                return Ok(());
            }
            self.watches_output = false;
            let fd = self.output.end.fd;
            let found = poll_now(fd, PollFlags::empty()).unwrap_or(PollFlags::empty());
            if let Some(errno) = failure_of_output(fd, found) {
                return Err((Side::Output, errno.into()));
            }
        }
    }
}

/// The end is not ready, unless it became so since.
fn forget(guard: &mut Guard<'_>) {
    if let Some(mut guard) = guard.take() {
        guard.clear_ready();
    }
}
