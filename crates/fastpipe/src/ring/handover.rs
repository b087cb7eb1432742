//! Passing an end of a ring to another process, over a Unix socket.
//!
//! The offering process sends eight bytes that name the end, with the descriptor
//! of the memory, two of pipes by which the ends wake each other, and a pidfd of itself
//! (SCM_RIGHTS, unix(7)). The other process
//! attaches the end and answers with one byte and a pidfd of its own. So each
//! knows the other by a descriptor that can't come to refer to another process,
//! whoever created the socket and whatever the pid namespaces are. Each also keeps
//! a duplicate of the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::bell::Bell;
use super::cursor::Role;
use super::memory::Memory;
use super::peer::{Peer, own_pidfd};
use super::side::RingSide;
use crate::sealed::{self, refused};

/// Returns the message that offers the end `role`.
fn offer_of(role: Role) -> &'static [u8; 8] {
    match role {
        Role::Producer => b"ringput2",
        Role::Consumer => b"ringget2",
    }
}

const TAKEN: &[u8; 1] = b"y";
const REFUSED: &[u8; 1] = b"n";

/// Creates a ring, keeps the end `role` and passes the other one on.
pub(super) fn offer(stream: &UnixStream, role: Role, capacity: usize) -> io::Result<RingSide> {
    // Attached before the offer, so that a process that accepts an offer which has
    // failed meanwhile finds an abandoned ring.
    let mut side = RingSide::attach(Memory::create(capacity)?, role)?;
    let handed_over = Bell::pair().and_then(|(bell, theirs)| {
        side.set_bell(bell);
        hand_over(stream, role.other(), side.memory(), &theirs)
    });
    match handed_over {
        Ok(peer) => {
            side.watch_first(peer);
            Ok(side)
        }
        Err(error) => {
            side.abandon();
            Err(error)
        }
    }
}

/// Sends the end `role` and waits for the answer.
fn hand_over(
    stream: &UnixStream,
    role: Role,
    memory: &Memory,
    bell: &[OwnedFd; 2],
) -> io::Result<Peer> {
    let own = own_pidfd();
    let mut fds = vec![memory.as_fd()];
    fds.extend(bell.iter().chain(&own).map(AsFd::as_fd));
    send(stream, offer_of(role), &fds)?;
    let mut answer = [0];
    let mut fds = receive(stream, &mut answer)?.0;
    if answer != *TAKEN {
        return Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "the other process did not take its end of the ring",
        ));
    }
    Peer::handed_over(fds.take_if(Peer::is_pidfd), stream)
}

/// Takes the end `role` of a ring of at most `limit` bytes that is offered.
pub(super) fn accept(stream: &UnixStream, role: Role, limit: usize) -> io::Result<RingSide> {
    let mut offered = [0; 8];
    let (fds, cut_off) = receive(stream, &mut offered)?;
    let attached = if offered != *offer_of(role) {
        Err(refused(
            "the message received is not an offer of that end of a ring",
        ))
    } else if cut_off && fds.0.len() < NEEDED {
        // There is room for them, so the limit on descriptors is the cause (unix(7)).
        Err(Errno::MFILE.into())
    } else {
        attach(fds, role, limit, stream)
    };
    match attached {
        Ok(side) => {
            let own = own_pidfd();
            let own: Vec<_> = own.iter().map(AsFd::as_fd).collect();
            send(stream, TAKEN, &own)?;
            Ok(side)
        }
        Err(error) => {
            // Report the first error, not one of this answer.
            let _ = send(stream, REFUSED, &[]);
            Err(error)
        }
    }
}

/// Attaches the end `role` of the ring whose memory, bell and pidfd these are.
fn attach(
    mut fds: Strangers,
    role: Role,
    limit: usize,
    stream: &UnixStream,
) -> io::Result<RingSide> {
    let [memory, own, other, ..] = &fds.0[..] else {
        return Err(refused("the offer of a ring lacked descriptors"));
    };
    // Before one is taken, and so could be closed here.
    sealed::check(memory)?;
    Bell::check(own, other)?;
    let mut needed = fds.0.drain(..NEEDED);
    let (Some(memory), Some(own), Some(other)) = (needed.next(), needed.next(), needed.next())
    else {
        unreachable!("there are as many");
    };
    drop(needed);
    let memory = Memory::open_up_to(memory, limit)?;
    let bell = Bell::received(own, other)?;
    let mut side = RingSide::attach(memory, role)?;
    side.set_bell(bell);
    side.watch_first(Peer::handed_over(fds.take_if(Peer::is_pidfd), stream)?);
    Ok(side)
}

fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let deadline = deadline(stream.write_timeout()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        let sent = sendmsg(
            stream,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
        match sent {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(stream, PollFlags::OUT, deadline)?,
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(closed()),
            // So few bytes are never sent partially.
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Number of descriptors that an offer has at least: the memory, and a bell.
const NEEDED: usize = 3;

/// The most that one message can have (SCM_MAX_FD; unix(7)).
const MAX_RECEIVED: usize = 253;

/// Descriptors from another process, which may be of any kind: closing one may take as long as that
/// process likes (SO_LINGER, a file system of its own). So they are closed in another thread.
#[derive(Default)]
struct Strangers(Vec<OwnedFd>);

impl Strangers {
    /// Takes the first one, if it is of the kind wanted.
    fn take_if(&mut self, is_wanted: impl Fn(&OwnedFd) -> bool) -> Option<OwnedFd> {
        let is_wanted = self.0.first().is_some_and(is_wanted);
        is_wanted.then(|| self.0.remove(0))
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        let fds = std::mem::take(&mut self.0);
        if !fds.is_empty() {
            // Without a thread, the closure and its descriptors are dropped here.
            let _ = thread::Builder::new().spawn(move || drop(fds));
        }
    }
}

/// Fills `bytes`. Returns the descriptors received, and whether some were dropped: the kernel closes
/// those above this process's limit.
fn receive(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(Strangers, bool)> {
    let deadline = deadline(stream.read_timeout()?);
    let mut fds = Strangers::default();
    let mut cut_off = false;
    let mut filled = 0;
    while filled < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RECEIVED))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match recvmsg(stream, &mut rest, &mut control, flags) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                wait(stream, PollFlags::IN, deadline)?;
                continue;
            }
            Err(Errno::CONNRESET) => return Err(closed()),
            Err(errno) => return Err(errno.into()),
            Ok(message) if message.bytes == 0 => return Err(closed()),
            Ok(message) => {
                filled += message.bytes;
                cut_off |= message.flags.contains(ReturnFlags::CTRUNC);
            }
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.0.extend(received);
            }
        }
        if fds.0.len() > MAX_RECEIVED {
            return Err(refused("the other process sent too many descriptors"));
        }
    }
    Ok((fds, cut_off))
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the socket was closed while a ring was being handed over",
    )
}

fn deadline(limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

/// Waits until `stream` is ready for `events`, even if it is non-blocking, since a
/// handover can't be resumed.
fn wait(stream: &UnixStream, events: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    let mut fds = [PollFd::new(stream, events)];
    loop {
        let left = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            .and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the other process took too long to hand over or take a ring",
                ));
            }
            ready => return ready.map(drop).map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::PeerState;
    use crate::skip::skip;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    /// As of a process that passes its end on, answers, and ends before the answer is
    /// read.
    #[test]
    fn an_end_passed_on_early_outlives_its_first_owner() {
        let mut ended = Command::new("true").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&ended), PidfdFlags::empty());
        ended.wait().unwrap();
        let Ok(pidfd) = pidfd else {
            return skip("no pidfd_open here");
        };
        let (here, there) = UnixStream::pair().unwrap();
        let taking = thread::spawn(move || {
            let mut offered = [0; 8];
            let file = receive(&there, &mut offered).unwrap().0.0.remove(0);
            let taken = RingSide::attach(Memory::open(file).unwrap(), Role::Consumer).unwrap();
            let passed_on = Memory::open(taken.into_fd().unwrap()).unwrap();
            let next = RingSide::attach(passed_on, Role::Consumer).unwrap();
            send(&there, TAKEN, &[pidfd.as_fd()]).unwrap();
            (there, next)
        });
        let side = offer(&here, Role::Producer, 1).unwrap();
        let _taken = taking.join().unwrap();
        assert_eq!(side.peer_state().unwrap(), PeerState::Running);
    }
}
