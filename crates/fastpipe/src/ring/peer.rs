//! Whether the process at the other end is still there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};

/// How the process at the other end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerState {
    /// Nothing else is known of it.
    Running,
    /// Stopped, by SIGSTOP or a debugger: it may go on at any time. Told where
    /// its process is known (not from a socket alone) and /proc is mounted.
    Stopped,
    /// Its end was dropped.
    Closed,
    /// It is gone without that.
    Died,
}

/// By what a peer's death is noticed: a process, a socket, or both.
///
/// Each of them is the kernel's word. A hostile peer can have another process
/// stand in for it, and so pretend to live on, as it could by living on.
#[derive(Debug, Default)]
pub struct Peer {
    pidfd: Option<OwnedFd>,
    socket: Option<OwnedFd>,
}

impl Peer {
    /// A child, to which an end was given when it was spawned, and which was not waited for yet:
    /// after that its number may be another process's.
    ///
    /// # Errors
    /// Those of pidfd_open(2): `Unsupported` before Linux 5.3.
    pub fn child(child: &Child) -> io::Result<Self> {
        Self::of(Pid::from_child(child))
    }

    /// The process that spawned this one. To be called early: when that one is dead, this process
    /// gets another parent (the init of its pid namespace, as a rule), which will hardly die.
    ///
    /// # Errors
    /// As [`child`](Self::child); `NotFound` if it is gone.
    pub fn parent() -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the parent process is gone");
        let parent = getppid().ok_or_else(gone)?;
        let peer = Self::of(parent)?;
        // If it had died, and its number been given to another, we would have
        // another parent now.
        if getppid() == Some(parent) {
            Ok(peer)
        } else {
            Err(gone())
        }
    }

    /// Whoever has the other end of `stream`: it counts as dead when all of
    /// its descriptors for it are closed, or the stream is shut down both ways.
    /// A duplicate is kept.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn socket(stream: &UnixStream) -> io::Result<Self> {
        Ok(Peer {
            pidfd: None,
            socket: Some(duplicate(stream)?),
        })
    }

    /// Whoever handed over `pidfd`, if it is one, on `stream`.
    pub(super) fn handed_over(pidfd: Option<OwnedFd>, stream: &UnixStream) -> io::Result<Self> {
        let pidfd = pidfd.filter(|fd| pid_of(fd).is_some());
        Ok(Peer {
            pidfd,
            ..Self::socket(stream)?
        })
    }

    fn of(process: Pid) -> io::Result<Self> {
        let pidfd = match pidfd_open(process, PidfdFlags::empty()) {
            Err(Errno::NOSYS) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            opened => Ok(opened?),
        }?;
        Ok(Peer {
            pidfd: Some(pidfd),
            socket: None,
        })
    }

    /// Whether it is gone. False where that can't be told.
    pub(super) fn is_dead(&self) -> bool {
        // POLLHUP needs no asking.
        let watched = [
            (self.pidfd.as_ref(), PollFlags::IN),
            (self.socket.as_ref(), PollFlags::empty()),
        ];
        let mut fds: Vec<PollFd<'_>> = watched
            .iter()
            .filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd(fd.as_ref()?.as_fd(), *flags)))
            .collect();
        // An interrupted one is asked again soon.
        let _ = poll(&mut fds, Some(&Timespec::default()));
        fds.iter()
            .any(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP))
    }

    /// Whether it is stopped. False where that can't be told.
    pub(super) fn is_stopped(&self) -> bool {
        let Some(pid) = self.pidfd.as_ref().and_then(pid_of) else {
            return false;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return false;
        };
        // proc(5): the name, in brackets, may hold anything; then the state.
        let stopped = stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
        // If it has died, that may have been another process of its number.
        stopped && self.pidfd.as_ref().and_then(pid_of) == Some(pid)
    }
}

/// A descriptor of this process, to be handed to a peer. `None` where there is
/// no such thing (before Linux 5.3, or by a seccomp filter).
pub(super) fn ourselves() -> Option<OwnedFd> {
    pidfd_open(getpid(), PidfdFlags::empty()).ok()
}

/// The process that a pidfd stands for: "Pid:" of its fdinfo, -1 when it is
/// gone and 0 where this process can't see it (proc(5)). `None` if it is no
/// pidfd.
fn pid_of(fd: &OwnedFd) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    info.lines()
        .find_map(|line| line.strip_prefix("Pid:"))?
        .trim()
        .parse()
        .ok()
}

fn duplicate(stream: &UnixStream) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_says_that_its_other_end_is_gone_and_not_that_bytes_came() {
        let (mine, mut theirs) = UnixStream::pair().unwrap();
        let peer = Peer::socket(&mine).unwrap();
        assert!(!peer.is_dead());
        std::io::Write::write_all(&mut theirs, b"x").unwrap();
        assert!(!peer.is_dead());
        drop(theirs);
        assert!(peer.is_dead());
    }

    #[test]
    fn what_is_no_pidfd_is_not_taken_for_one() {
        let (mine, theirs) = UnixStream::pair().unwrap();
        let peer = Peer::handed_over(Some(theirs.try_clone().unwrap().into()), &mine).unwrap();
        assert!(peer.pidfd.is_none());
        let Some(own) = ourselves() else {
            eprintln!("skipped: no pidfd_open here");
            return;
        };
        let peer = Peer::handed_over(Some(own), &mine).unwrap();
        assert!(peer.pidfd.is_some());
        assert!(!peer.is_dead());
        assert!(!peer.is_stopped());
    }

    #[test]
    fn the_parent_lives() {
        match Peer::parent() {
            Ok(parent) => assert!(!parent.is_dead()),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
