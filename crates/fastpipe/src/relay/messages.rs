//! Inputs that are sockets which keep messages apart: what of a message does not
//! fit into the buffer is lost, so its length is asked for before it is taken.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType, recv, sockopt};

use crate::wait::poll_now;

/// What is next in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A message of so many bytes, which may be 0.
    Message(usize),
    /// No message, now or later.
    End,
}

/// Looks at what is next without taking it.
///
/// # Errors
/// `AGAIN` if nothing is there yet, and those of recv(2).
pub(super) fn next(fd: BorrowedFd<'_>) -> rustix::io::Result<Next> {
    match length(fd) {
        Ok(0) if is_the_end(fd) => Ok(Next::End),
        // Datagrams that nobody may receive any more: a call that may sleep would
        // return 0. Looked at again, for what came before it was shut down.
        Err(Errno::AGAIN) if is_shut_down(fd) => length(fd).map_or_else(
            |errno| match errno {
                Errno::AGAIN => Ok(Next::End),
                errno => Err(errno),
            },
            |len| Ok(Next::Message(len)),
        ),
        length => length.map(Next::Message),
    }
}

/// Takes the next message. Returns its bytes, and how long it was before it was
/// cut to `buffer`.
///
/// # Errors
/// Those of [`next`].
pub(super) fn take(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<(usize, usize)> {
    receive(fd, buffer, RecvFlags::empty())
}

fn length(fd: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    receive(fd, &mut [], RecvFlags::PEEK).map(|(_, len)| len)
}

/// With MSG_TRUNC recv(2) returns the length of the whole message.
fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, usize)> {
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    loop {
        match recv(fd, &mut *buffer, flags) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Whether the 0 that recv(2) returned is the end, and not a message without
/// bytes. For datagrams it never is: a call that does not sleep returns EAGAIN
/// where they have an end.
///
/// For the others (SOCK_SEQPACKET) the two look the same. But the end comes only
/// once nothing more can: where no byte is left then, none is lost with messages
/// that have none.
fn is_the_end(fd: BorrowedFd<'_>) -> bool {
    let datagrams = [SocketType::DGRAM, SocketType::RAW].map(Ok);
    !datagrams.contains(&sockopt::socket_type(fd))
        && is_shut_down(fd)
        && rustix::io::ioctl_fionread(fd).unwrap_or(0) == 0
}

/// Whether no message can come any more, says poll(2).
fn is_shut_down(fd: BorrowedFd<'_>) -> bool {
    let over = PollFlags::RDHUP | PollFlags::HUP;
    poll_now(fd, PollFlags::RDHUP).is_ok_and(|found| found.intersects(over))
}
