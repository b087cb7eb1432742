//! [`Bell`]: how an end that waits by a descriptor is woken.
//!
//! A pipe for each direction. Not an eventfd(2): that belongs to both processes, so that a peer could
//! clear its O_NONBLOCK, or fill it, and our call would block; a call on a pipe can be made
//! non-blocking by itself. Not a socket, over which a peer can send descriptors whose closing blocks.
//! A pipe also shows that the peer's end is gone.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, fcntl_getfl, open, readlink};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::pipe::capacity;
use crate::sealed::{self, refused};
use crate::transfer::{Counts, Nowait};
use crate::wait::poll_now;

/// This end's part.
#[derive(Debug)]
pub(super) struct Bell {
    /// Becomes readable when the other end rings.
    own: OwnedFd,
    own_nowait: Nowait,
    other: OwnedFd,
    other_nowait: Nowait,
    /// Whether somebody waits for it to become readable.
    pub(super) in_use: bool,
    /// Generation of the other end that has the other part.
    pub(super) generation: u32,
}

/// Whether the other end still has its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Open,
    /// The end was dropped or passed on, or its process has died.
    Gone,
}

/// More bytes are left unread: the peer rings once or twice, and one that rings for ever only keeps
/// the descriptor readable.
const MAX_READS: u32 = 8;

impl Bell {
    /// Creates the bells of both ends, both of which have been rung: whoever waits for one before the
    /// first call that would block finds out that there is something to do.
    pub(super) fn pair() -> io::Result<(Self, [OwnedFd; 2])> {
        let (own, there) = one_way()?;
        let (theirs, other) = one_way()?;
        let mut bell = Self::new(own, other);
        bell.ring();
        rustix::io::write(&there, &[1])?;
        Ok((bell, [theirs, there]))
    }

    /// Checks the descriptors that the other process sent.
    pub(super) fn check(own: &OwnedFd, other: &OwnedFd) -> io::Result<()> {
        let is_open_for = |fd: &OwnedFd, access: &[OFlags]| {
            is_anonymous_pipe(fd)
                && fcntl_getfl(fd).is_ok_and(|flags| access.contains(&(flags & OFlags::ACCMODE)))
        };
        let may_ring = [OFlags::RDWR, OFlags::WRONLY];
        if !is_open_for(own, &[OFlags::RDONLY]) || !is_open_for(other, &may_ring) {
            return Err(refused("the offer of a ring had no pipes to wake its ends"));
        }
        Ok(())
    }

    /// That of an end that was accepted, whose descriptors were [checked](Self::check).
    pub(super) fn received(own: OwnedFd, other: OwnedFd) -> io::Result<Self> {
        let access = fcntl_getfl(&other)? & OFlags::ACCMODE;
        if access == OFlags::RDWR {
            return Ok(Self::new(own, other));
        }
        match open_for_both(&other) {
            Ok(both) => Ok(Self::new(own, both)),
            // Without /proc, as in `one_way`.
            Err(Errno::NOENT | Errno::NOSYS | Errno::PERM) => Ok(Self::new(own, other)),
            Err(Errno::ACCESS) => Err(refused(
                "the offer of a ring had a pipe of another user that is not open for reading",
            )),
            Err(errno) => Err(errno.into()),
        }
    }

    /// `own` becomes readable when the other end rings; `other` rings the other end.
    pub(super) fn new(own: OwnedFd, other: OwnedFd) -> Self {
        Bell {
            own,
            own_nowait: Nowait::PerCall,
            other,
            other_nowait: Nowait::PerCall,
            in_use: false,
            generation: 0,
        }
    }

    /// Makes the other end's descriptor readable.
    pub(super) fn ring(&mut self) {
        let fd = self.other.as_fd();
        // Where it could not be opened for reading, too.
        if poll_now(fd, PollFlags::empty()).is_ok_and(|found| found.contains(PollFlags::ERR)) {
            return;
        }
        // EAGAIN: so much is unread that it is readable.
        let mut counts = Counts::default();
        while self.other_nowait.write(fd, &[1], &mut counts) == Err(Errno::INTR) {}
    }

    /// Takes back that it was rung, so that it is no longer readable.
    pub(super) fn silence(&mut self) -> Connection {
        let fd = self.own.as_fd();
        let mut counts = Counts::default();
        for _ in 0..MAX_READS {
            match self.own_nowait.read(fd, &mut [0; 64], &mut counts) {
                Ok(1..) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Connection::Open,
                Ok(0) | Err(_) => return Connection::Gone,
            }
        }
        Connection::Open
    }
}

/// Whether `fd` is of pipe(2). By calls that no file system answers, which could take its time.
fn is_anonymous_pipe(fd: &OwnedFd) -> bool {
    let link = readlink(descriptor_path(fd), Vec::new());
    // Without /proc it is not known whether it is a FIFO with a name.
    capacity(fd).is_ok() && link.map_or(true, |link| link.to_bytes().starts_with(b"pipe:["))
}

/// Path of a descriptor. Not in /proc/self: this thread may have its own table of descriptors.
fn descriptor_path(fd: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// Creates a pipe.
fn one_way() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Without /proc, a peer that dies while it is being woken costs a SIGPIPE.
    let writer = open_for_both(&writer).unwrap_or(writer);
    Ok((
        sealed::above_standard(reader)?,
        sealed::above_standard(writer)?,
    ))
}

/// Opens a pipe for reading, too, so that writing to it never raises SIGPIPE.
fn open_for_both(writer: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    open(descriptor_path(writer), flags, Mode::empty())
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bells() -> (Bell, Bell) {
        let (one, [own, other]) = Bell::pair().unwrap();
        Bell::check(&own, &other).unwrap();
        (one, Bell::new(own, other))
    }

    fn is_readable(bell: &Bell) -> bool {
        !poll_now(bell.as_fd(), PollFlags::IN).unwrap().is_empty()
    }

    #[test]
    fn a_bell_is_readable_from_its_ringing_until_it_is_silenced() {
        let (mut one, mut other) = bells();
        for _ in 0..3 {
            for bell in [&mut one, &mut other] {
                assert!(is_readable(bell));
                assert_eq!(bell.silence(), Connection::Open);
                assert!(!is_readable(bell));
                assert_eq!(bell.silence(), Connection::Open);
            }
            one.ring();
            assert!(!is_readable(&one));
            other.ring();
        }
    }

    #[test]
    fn a_bell_that_is_rung_for_ever_stays_readable_and_blocks_nobody() {
        let (mut one, mut other) = bells();
        for _ in 0..100_000 {
            one.ring();
        }
        assert_eq!(other.silence(), Connection::Open);
        assert!(is_readable(&other));
    }

    #[test]
    fn a_bell_whose_other_end_is_gone_shows_that_behind_the_last_ringing() {
        let (mut one, mut other) = bells();
        one.ring();
        drop(one);
        assert!(is_readable(&other));
        assert_eq!(other.silence(), Connection::Gone);
        other.ring();
    }
}
