//! Writing to an output without sleeping.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::ends::{Kind, Place};
use crate::transfer::Output;
use crate::wait::Wait;

/// What is written at once where poll(2) says that there is room, but not for
/// how much: a terminal sleeps until all of it is written.
const SMALL: usize = 512;

/// How an output is written to.
#[derive(Debug)]
pub(super) enum Sink<'a> {
    /// A socket: MSG_DONTWAIT is per call, and works on every kernel.
    Socket(BorrowedFd<'a>),
    /// A terminal, opened once more and without blocking: an open file of ours.
    Own(OwnedFd),
    /// As [`Output`] knows how to, at most so many bytes at once.
    Plain(Output<BorrowedFd<'a>>, usize),
}

impl<'a> Sink<'a> {
    pub(super) fn new(output: &Place<'a>) -> Self {
        let most = match output.kind {
            Kind::Stream { .. } | Kind::Messages => return Sink::Socket(output.fd),
            Kind::Terminal { master: false } => match open_again(output.fd) {
                Ok(own) => return Sink::Own(own),
                Err(_) => SMALL,
            },
            // To open a master again would make a new pseudo-terminal.
            Kind::Terminal { master: true } | Kind::Other => SMALL,
            _ => usize::MAX,
        };
        Sink::Plain(Output::new(output.fd, Wait::Never), most)
    }

    /// Gives a part of `data`. Returns the bytes.
    ///
    /// # Errors
    /// `WouldBlock`, and those of write(2) and send(2).
    pub(super) fn give(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Socket(fd) => uninterrupted(|| {
                rustix::net::send(*fd, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }),
            Sink::Own(own) => uninterrupted(|| rustix::io::write(&*own, data)),
            Sink::Plain(output, most) => {
                let data = &data[..data.len().min(*most)];
                match output.write(data) {
                    Ok(()) => Ok(data.len()),
                    // What kept it from the rest keeps the next call too.
                    Err(incomplete) if incomplete.moved > 0 => Ok(incomplete.moved as usize),
                    Err(incomplete) => Err(incomplete.source),
                }
            }
        }
    }
}

fn uninterrupted(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn open_again(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    // Of this thread: it may have a table of descriptors of its own.
    let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let own = rustix::fs::open(path, flags, Mode::empty())?;
    let (theirs, ours) = (rustix::fs::fstat(fd)?, rustix::fs::fstat(&own)?);
    if theirs.st_rdev == ours.st_rdev && theirs.st_ino == ours.st_ino {
        Ok(own)
    } else {
        Err(Errno::NXIO)
    }
}
