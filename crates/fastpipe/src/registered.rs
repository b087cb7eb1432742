//! [`Registered`]: a value that waits in the runtime for its descriptor.
#![allow(unsafe_code)]

use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::fs::FileType;
use rustix::io::Errno;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::io::{Interest, Ready};
use tokio::task::coop::poll_proceed;

/// A value, and a duplicate of its descriptor that is registered with the runtime.
///
/// A duplicate, since the descriptor itself may be registered already, and since that of a caller's
/// type could become another one.
#[derive(Debug)]
pub(crate) struct Registered<T> {
    inner: T,
    /// `None` for a file, which is always ready.
    ready: Option<AsyncFd<OwnedFd>>,
    interest: Interest,
}

/// Registers `fd`; `None` if it is a file.
pub(crate) fn register(fd: OwnedFd, interest: Interest) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    // SAFETY: an OwnedFd is open and the same as long as it lives, and the AsyncFd owns it.
    match unsafe { AsyncFd::register_with_interest(fd, interest) } {
        Ok(ready) => Ok(Some(ready)),
        Err(error) => match error.into_parts().1 {
            cause if Errno::from_io_error(&cause) == Some(Errno::PERM) => Ok(None),
            cause => Err(cause),
        },
    }
}

/// Takes a part of the task's budget, or lets other tasks have their turn: for what does not have to wait.
/// Waiting for a descriptor does the same.
pub(crate) fn take_turn(context: &mut Context<'_>) -> Poll<()> {
    ready!(poll_proceed(context)).made_progress();
    Poll::Ready(())
}

/// Attempts of one poll that may fail although the descriptor was ready.
const MAX_ATTEMPTS: u32 = 32;

impl Registered<()> {
    /// Registers a duplicate of `fd`. There is none of a file: closing it would release the file's record locks
    /// (fcntl_locking(2)).
    ///
    /// # Errors
    /// Those of fstat(2), dup(2) and epoll_ctl(2), except for EPERM.
    pub(crate) fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        let ready = match kind {
            FileType::RegularFile | FileType::BlockDevice => None,
            _ => register(fd.try_clone_to_owned()?, interest)?,
        };
        Ok(Registered {
            inner: (),
            ready,
            interest,
        })
    }

    /// The same for a value.
    pub(crate) fn with<T>(self, inner: T) -> Registered<T> {
        Registered {
            inner,
            ready: self.ready,
            interest: self.interest,
        }
    }
}

impl<T> Registered<T> {
    pub(crate) fn get_ref(&self) -> &T {
        &self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    /// Waits until it is ready. The guard, which takes that back, is `None` if it always is.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub(crate) async fn ready(
        &self,
        interest: Interest,
    ) -> io::Result<Option<AsyncFdReadyGuard<'_, OwnedFd>>> {
        match &self.ready {
            Some(polled) => Ok(Some(polled.ready(interest).await?)),
            None => Ok(None),
        }
    }

    /// Calls `attempt` whenever the descriptor is ready to be read, until it does not fail with
    /// `WouldBlock`.
    pub(crate) fn poll_read<R>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(
            context,
            AsyncFd::poll_read_ready,
            Ready::is_read_closed,
            attempt,
        )
    }

    /// As [`poll_read`](Self::poll_read), ready to be written.
    pub(crate) fn poll_write<R>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(
            context,
            AsyncFd::poll_write_ready,
            Ready::is_write_closed,
            attempt,
        )
    }

    fn poll_io<R>(
        &mut self,
        context: &mut Context<'_>,
        poll_ready: PollReady,
        is_closed: fn(Ready) -> bool,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(polled) = &self.ready else {
                ready!(take_turn(context));
                return Poll::Ready(attempt(&mut self.inner));
            };
            let mut guard = ready!(poll_ready(polled, context))?;
            let was_closed = is_closed(guard.ready());
            if let Ok(done) = guard.try_io(|_| attempt(&mut self.inner)) {
                return Poll::Ready(done);
            }
            if was_closed && let Some(polled) = self.ready.take() {
                // A FIFO whose other side left and came back. The runtime does not forget that it
                // was closed.
                self.ready = register(polled.into_inner(), self.interest)?;
            }
        }
        // Ready, and yet not: others have their turn first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Calls `attempt` until it does not fail with `WouldBlock`. After each such failure the descriptor
    /// becomes ready to be read once another attempt makes sense.
    pub(crate) fn poll_armed<R>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        ready!(take_turn(context));
        for _ in 0..MAX_ATTEMPTS {
            match attempt(&mut self.inner) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            if let Some(polled) = &self.ready {
                // Before the next attempt: what happens after it counts.
                ready!(polled.poll_read_ready(context))?.clear_ready();
            }
        }
        // The peer wakes this end for nothing, again and again.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

type PollReady = for<'a> fn(
    &'a AsyncFd<OwnedFd>,
    &mut Context<'_>,
) -> Poll<io::Result<AsyncFdReadyGuard<'a, OwnedFd>>>;
