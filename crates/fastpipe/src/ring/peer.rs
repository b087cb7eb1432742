//! [`Peer`]: detection of the death of the process at the other end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};

/// State of the process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerState {
    /// None of the others, as far as is known.
    Running,
    /// Stopped by SIGSTOP or a debugger; it may continue at any time. Detected if
    /// its process is known (not from a socket alone) and /proc is mounted.
    Stopped,
    /// It has dropped its end.
    Closed,
    /// It has died without dropping its end.
    Died,
}

/// Means to notice the death of a peer: a process, a socket, or both.
///
/// Both are reported by the kernel. A hostile peer can substitute another process
/// and so appear to live on, just as it could live on itself.
#[derive(Debug)]
pub struct Peer {
    pidfd: Option<OwnedFd>,
    socket: Option<OwnedFd>,
}

impl Peer {
    /// A child that was given an end when it was spawned, and has not been waited for:
    /// after that, its process id may belong to another process.
    ///
    /// # Errors
    /// Those of pidfd_open(2): `Unsupported` before Linux 5.3.
    pub fn child(child: &Child) -> io::Result<Self> {
        Self::from_pid(Pid::from_child(child))
    }

    /// The process that spawned this one. Call this early: if that process died before, this is the one
    /// that has adopted it (usually the init of its pid namespace). An end that was
    /// [accepted](super::Consumer::accept) needs no such care.
    ///
    /// # Errors
    /// Those of [`child`](Self::child); `NotFound` if the parent dies during the call, or is outside of
    /// this process's pid namespace.
    pub fn parent() -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the parent process is gone");
        let parent = getppid().ok_or_else(gone)?;
        let peer = match Self::from_pid(parent) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => return Err(gone()),
            found => found?,
        };
        // If it had died and its id been reused, our parent would be another one now.
        if getppid() == Some(parent) {
            Ok(peer)
        } else {
            Err(gone())
        }
    }

    /// The process that `pidfd` refers to (pidfd_open(2), clone(2)).
    ///
    /// # Errors
    /// `InvalidInput` if it is not a pidfd, or /proc is not mounted, which would tell.
    pub fn process(pidfd: OwnedFd) -> io::Result<Self> {
        if !Self::is_pidfd(&pidfd) {
            let reason = "not a pidfd, as far as /proc tells";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(Peer {
            pidfd: Some(pidfd),
            socket: None,
        })
    }

    /// The process at the other end of `stream`. It counts as dead when all its
    /// descriptors of the stream are closed, or the stream is shut down in both
    /// directions. Keeps a duplicate of `stream`.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn socket(stream: &UnixStream) -> io::Result<Self> {
        Ok(Peer {
            pidfd: None,
            socket: Some(duplicate(stream)?),
        })
    }

    /// Whether `fd` is a pidfd.
    pub(super) fn is_pidfd(fd: &OwnedFd) -> bool {
        pid_of(fd).is_some()
    }

    /// The process that sent its `pidfd` over `stream`.
    pub(super) fn handed_over(pidfd: Option<OwnedFd>, stream: &UnixStream) -> io::Result<Self> {
        Ok(Peer {
            pidfd,
            ..Self::socket(stream)?
        })
    }

    fn from_pid(process: Pid) -> io::Result<Self> {
        let pidfd = match pidfd_open(process, PidfdFlags::empty()) {
            Err(Errno::NOSYS) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            opened => Ok(opened?),
        }?;
        Ok(Peer {
            pidfd: Some(pidfd),
            socket: None,
        })
    }

    /// Whether it has died. False if unknown.
    pub(super) fn is_dead(&self) -> bool {
        // POLLHUP is always reported.
        let watched = [
            (self.pidfd.as_ref(), PollFlags::IN),
            (self.socket.as_ref(), PollFlags::empty()),
        ];
        let mut fds: Vec<PollFd<'_>> = watched
            .iter()
            .filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd(fd.as_ref()?.as_fd(), *flags)))
            .collect();
        // After EINTR the next check comes soon.
        let _ = poll(&mut fds, Some(&Timespec::default()));
        fds.iter()
            .any(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP))
    }

    /// Whether it is stopped. False if unknown.
    pub(super) fn is_stopped(&self) -> bool {
        let Some(pid) = self.pidfd.as_ref().and_then(pid_of) else {
            return false;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return false;
        };
        // proc_pid_stat(5): the name, in brackets, may contain anything; then the state.
        let stopped = stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
        // If it has died, its id may have been reused by the process just examined.
        stopped && self.pidfd.as_ref().and_then(pid_of) == Some(pid)
    }
}

/// Returns a pidfd of this process, to be sent to a peer. `None` if there are no
/// pidfds (before Linux 5.3, or by a seccomp filter).
pub(super) fn own_pidfd() -> Option<OwnedFd> {
    pidfd_open(getpid(), PidfdFlags::empty()).ok()
}

/// Returns the process id of a pidfd: "Pid:" in its fdinfo, which is -1 after the
/// process has ended and 0 if it is not visible here (proc_pid_fdinfo(5)). `None`
/// if `fd` is not a pidfd.
fn pid_of(fd: &OwnedFd) -> Option<i32> {
    // This thread may have its own table of descriptors.
    let path = format!("/proc/thread-self/fdinfo/{}", fd.as_raw_fd());
    let info = std::fs::read_to_string(path).ok()?;
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
    use crate::skip::skip;

    #[test]
    fn a_socket_reports_a_closed_peer_but_not_data() {
        let (mine, mut theirs) = UnixStream::pair().unwrap();
        let peer = Peer::socket(&mine).unwrap();
        assert!(!peer.is_dead());
        std::io::Write::write_all(&mut theirs, b"x").unwrap();
        assert!(!peer.is_dead());
        drop(theirs);
        assert!(peer.is_dead());
    }

    #[test]
    fn only_a_pidfd_is_accepted_as_one() {
        let (mine, theirs) = UnixStream::pair().unwrap();
        assert!(!Peer::is_pidfd(&theirs.into()));
        let Some(own) = own_pidfd() else {
            skip("no pidfd_open here");
            return;
        };
        assert!(Peer::is_pidfd(&own));
        let peer = Peer::handed_over(Some(own), &mine).unwrap();
        assert!(!peer.is_stopped());
    }

    #[test]
    fn a_process_is_watched_by_its_pidfd() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = Peer::process(file.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let peer = pidfd.map(|pidfd| Peer::process(pidfd).unwrap());
        let was_dead = peer.as_ref().map(Peer::is_dead);
        child.kill().unwrap();
        child.wait().unwrap();
        match (&peer, was_dead) {
            (Ok(peer), Ok(was_dead)) => assert!(!was_dead && peer.is_dead()),
            _ => skip("no pidfd_open here"),
        }
    }

    #[test]
    fn the_parent_lives() {
        match Peer::parent() {
            Ok(parent) => assert!(!parent.is_dead()),
            Err(error) => skip(error),
        }
    }
}
