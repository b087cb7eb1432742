//! [`Registered`]: a value that waits in the runtime for its descriptor.
#![allow(unsafe_code)]

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::event::epoll;
use rustix::fs::FileType;
use rustix::io::Errno;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::io::{Interest, Ready};
use tokio::task::coop::poll_proceed;

use crate::transfer::is_pollable_file;
use crate::wait::{self, NO_WAIT};

/// A value, and a duplicate of its descriptor that is registered with the runtime.
///
/// A duplicate, since the descriptor itself may be registered already, and since that of a caller's
/// type could become another one.
#[derive(Debug)]
pub(crate) struct Registered<T> {
    inner: T,
    readiness: ReadinessSource,
    interest: Interest,
}

/// How the readiness of a descriptor is known.
#[derive(Debug)]
enum ReadinessSource {
    /// It is a file, which is always ready.
    Always,
    /// The runtime records it.
    Recorded {
        ready: AsyncFd<OwnedFd>,
        /// Registered anew, since the runtime does not forget that it was closed.
        is_renewed: bool,
    },
    /// The runtime can't record it.
    Changes(Changes),
    /// It could not be registered anew, by this error.
    Lost(Errno),
}

/// Registers a duplicate of `fd`. `None` if it is a file, which is always ready: closing a duplicate would
/// release the file's record locks (fcntl_locking(2)).
///
/// # Errors
/// Those of fstat(2), dup(2) and epoll_ctl(2), except for EPERM.
pub(crate) fn register_duplicate(
    fd: BorrowedFd<'_>,
    interest: Interest,
) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let stat = rustix::fs::fstat(fd)?;
    let is_file = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => !interest.is_readable() || !is_pollable_file(fd),
        FileType::BlockDevice => true,
        _ => false,
    };
    if is_file {
        return Ok(None);
    }
    register(fd.try_clone_to_owned()?, interest)
}

/// Registers `fd`; `None` if it is a file.
pub(crate) fn register(fd: OwnedFd, interest: Interest) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    // SAFETY: an owned descriptor is open and the same as long as it lives, and the AsyncFd has it.
    match unsafe { AsyncFd::register_with_interest(fd, interest) } {
        Ok(ready) => Ok(Some(ready)),
        Err(error) => match error.into_parts().1 {
            cause if Errno::from_io_error(&cause) == Some(Errno::PERM) => Ok(None),
            cause => Err(cause),
        },
    }
}

impl ReadinessSource {
    fn new(registered: Option<AsyncFd<OwnedFd>>, is_renewed: bool) -> Self {
        match registered {
            Some(ready) => ReadinessSource::Recorded { ready, is_renewed },
            None => ReadinessSource::Always,
        }
    }

    /// Registers `fd`, which has been before.
    fn register_again(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        Ok(Self::new(register(fd, interest)?, true))
    }

    /// That after a registration for which the descriptor seems to be closed, and is not.
    fn renewed(self, interest: Interest) -> io::Result<Self> {
        match self {
            ReadinessSource::Recorded { ready, is_renewed } => {
                let fd = ready.into_inner();
                if !is_renewed {
                    return ReadinessSource::register_again(fd, interest);
                }
                // It still seems so.
                match Changes::new(fd, interest) {
                    Ok(changes) => Ok(ReadinessSource::Changes(changes)),
                    // There is no descriptor for that.
                    Err((fd, _)) => ReadinessSource::register_again(fd, interest),
                }
            }
            other => Ok(other),
        }
    }
}

/// A descriptor that is never closed for the runtime, though poll(2) says so: a socket with a message in its
/// error queue. An epoll of its own, registered in its place, becomes readable whenever something changes.
#[derive(Debug)]
struct Changes {
    epoll: AsyncFd<OwnedFd>,
    /// What the epoll watches.
    _fd: OwnedFd,
}

impl Changes {
    fn new(fd: OwnedFd, interest: Interest) -> Result<Self, (OwnedFd, io::Error)> {
        match Self::watch(&fd, interest) {
            Ok(epoll) => Ok(Changes { epoll, _fd: fd }),
            Err(error) => Err((fd, error)),
        }
    }

    fn watch(fd: &OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
        let mut events = epoll::EventFlags::ET;
        events.set(epoll::EventFlags::IN, interest.is_readable());
        events.set(epoll::EventFlags::OUT, interest.is_writable());
        let own = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&own, fd, epoll::EventData::new_u64(0), events)?;
        register(own, Interest::READABLE)?.ok_or_else(|| Errno::PERM.into())
    }

    /// Forgets the changes so far.
    fn take(&self) {
        let none = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let _ = epoll::wait(self.epoll.get_ref(), &mut [none][..], Some(&NO_WAIT));
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
    /// Registers a duplicate of `fd`.
    ///
    /// # Errors
    /// `BADF` if `fd` is not open for that, and those of [`register_duplicate`].
    pub(crate) fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        if interest.is_readable() {
            wait::Interest::Readable(fd).check_access()?;
        }
        if interest.is_writable() {
            wait::Interest::Writable(fd).check_access()?;
        }
        Ok(Registered {
            inner: (),
            readiness: ReadinessSource::new(register_duplicate(fd, interest)?, false),
            interest,
        })
    }

    /// The same for a value.
    pub(crate) fn with<T>(self, inner: T) -> Registered<T> {
        Registered {
            inner,
            readiness: self.readiness,
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
            let (mut guard, was_closed) = match &self.readiness {
                ReadinessSource::Always => {
                    ready!(take_turn(context));
                    return Poll::Ready(attempt(&mut self.inner));
                }
                ReadinessSource::Recorded { ready, .. } => {
                    let guard = ready!(poll_ready(ready, context))?;
                    let was_closed = is_closed(guard.ready());
                    (guard, was_closed)
                }
                ReadinessSource::Changes(changes) => {
                    let guard = ready!(changes.epoll.poll_read_ready(context))?;
                    // Before the attempt: what changes after it counts.
                    changes.take();
                    (guard, false)
                }
                ReadinessSource::Lost(errno) => return Poll::Ready(Err((*errno).into())),
            };
            if let Ok(done) = guard.try_io(|_| attempt(&mut self.inner)) {
                return Poll::Ready(done);
            }
            if was_closed {
                // A FIFO whose other side left and came back, for example.
                self.renew()?;
            }
        }
        // Ready, and yet not: others have their turn first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Registers the descriptor anew.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), from now on in every call.
    fn renew(&mut self) -> io::Result<()> {
        let before = mem::replace(&mut self.readiness, ReadinessSource::Lost(Errno::IO));
        match before.renewed(self.interest) {
            Ok(readiness) => {
                self.readiness = readiness;
                Ok(())
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                self.readiness = ReadinessSource::Lost(errno);
                Err(error)
            }
        }
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
            if let ReadinessSource::Recorded { ready, .. } = &self.readiness {
                // Before the next attempt: what happens after it counts.
                ready!(ready.poll_read_ready(context))?.clear_ready();
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
