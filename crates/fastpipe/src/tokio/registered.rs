//! [`Registered`]: a value that waits in the runtime for its descriptor.
#![allow(unsafe_code)]

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// A value, and a duplicate of its descriptor that is registered with the runtime.
///
/// A duplicate, since the descriptor itself may be registered already, and since that of a caller's
/// type could become another one.
#[derive(Debug)]
pub(crate) struct Registered<T> {
    inner: T,
    /// `None` for a file, which is always ready.
    ready: Option<AsyncFd<OwnedFd>>,
}

impl<T> Registered<T> {
    /// Registers `duplicate`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), except for EPERM.
    pub(crate) fn new(inner: T, duplicate: OwnedFd, interest: Interest) -> io::Result<Self> {
        // SAFETY: an OwnedFd is open and the same as long as it lives, and the AsyncFd owns it.
        let ready = match unsafe { AsyncFd::register_with_interest(duplicate, interest) } {
            Ok(ready) => Some(ready),
            Err(error) => match error.into_parts().1 {
                cause if Errno::from_io_error(&cause) == Some(Errno::PERM) => None,
                cause => return Err(cause),
            },
        };
        Ok(Registered { inner, ready })
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.inner
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    pub(super) fn into_inner(self) -> T {
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
    pub(super) fn poll_read<R>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let Some(polled) = &self.ready else {
            return Poll::Ready(attempt(&mut self.inner));
        };
        loop {
            let mut guard = ready!(polled.poll_read_ready(context))?;
            if let Ok(done) = guard.try_io(|_| attempt(&mut self.inner)) {
                return Poll::Ready(done);
            }
        }
    }

    /// As [`poll_read`](Self::poll_read), ready to be written.
    pub(super) fn poll_write<R>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let Some(polled) = &self.ready else {
            return Poll::Ready(attempt(&mut self.inner));
        };
        loop {
            let mut guard = ready!(polled.poll_write_ready(context))?;
            if let Ok(done) = guard.try_io(|_| attempt(&mut self.inner)) {
                return Poll::Ready(done);
            }
        }
    }

    /// Calls `attempt` until it does not fail with `WouldBlock`. After each such failure the descriptor
    /// becomes ready to be read once another attempt makes sense.
    pub(super) fn poll_armed<R>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            match attempt(&mut self.inner) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            if let Some(polled) = &self.ready {
                // Before the next attempt: what happens after it counts.
                ready!(polled.poll_read_ready(context))?.clear_ready();
            }
        }
    }
}
