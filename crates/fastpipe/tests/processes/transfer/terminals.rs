//! Transfers that must not block, to and from terminals: no other terminal than that of the descriptor is
//! read or written.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use crate::common::ends::terminal;
use crate::common::process::in_child;
use crate::common::skip::skip;
use crate::common::state::until;
use fastpipe::transfer::{Input, Output};
use fastpipe::wait::Wait;
use rustix::process::{ioctl_tiocsctty, setsid};

const NONBLOCKING_WAITS: [Wait; 4] = [Wait::Poll, Wait::Spin, Wait::Adaptive, Wait::Never];

fn path_of(fd: &OwnedFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap()
}

fn for_writing(terminal: &OwnedFd) -> File {
    File::options().write(true).open(path_of(terminal)).unwrap()
}

/// Number of bytes written to a terminal that have arrived.
fn written(master: &OwnedFd) -> u64 {
    rustix::io::ioctl_fionread(master).unwrap()
}

/// Makes this process the leader of a session at the terminal.
fn start_session_at(terminal: &OwnedFd) {
    setsid().unwrap();
    ioctl_tiocsctty(terminal).unwrap();
}

/// Revokes all descriptors of the terminal. Returns false if that is not permitted.
fn hang_up(terminal: &OwnedFd) -> bool {
    // SAFETY: it takes no argument.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCVHANGUP) };
    if result != 0 {
        skip("can't hang a terminal up here");
    }
    result == 0
}

fn error_of_write(terminal: impl AsFd, wait: Wait) -> Option<i32> {
    let outcome = Output::new(terminal, wait).write(b"secret");
    outcome.err().and_then(|error| error.source.raw_os_error())
}

#[test]
fn terminal_of_another_session_is_not_mistaken_for_ours() {
    for wait in NONBLOCKING_WAITS {
        let (first_master, first) = terminal();
        let (second_master, second) = terminal();
        assert!(in_child(|| {
            start_session_at(&first);
            let of_first = File::options().write(true).open("/dev/tty").unwrap();
            in_child(|| {
                start_session_at(&second);
                Output::new(&of_first, wait).write(b"secret").unwrap();
                until("it arrives", || written(&first_master) == 6);
                written(&second_master) == 0
            })
        }));
    }
}

#[test]
fn a_revoked_terminal_is_not_written_to() {
    for wait in NONBLOCKING_WAITS {
        let (master, slave) = terminal();
        if !hang_up(&slave) {
            return;
        }
        let _next_session = for_writing(&slave);
        assert_eq!(error_of_write(&slave, wait), Some(libc::EIO), "{wait:?}");
        assert_eq!(written(&master), 0, "{wait:?}");
    }
}

#[test]
fn a_revoked_terminal_is_not_read() {
    for wait in NONBLOCKING_WAITS {
        let (master, slave) = terminal();
        if !hang_up(&slave) {
            return;
        }
        let next_session = File::open(path_of(&slave)).unwrap();
        File::from(master.try_clone().unwrap())
            .write_all(b"password\n")
            .unwrap();
        until("it has arrived", || {
            rustix::io::ioctl_fionread(&next_session).unwrap() > 0
        });
        let read = Input::new(&slave, wait).read_some(&mut [0; 10]);
        assert_eq!(read.unwrap(), 0, "{wait:?}");
    }
}

#[test]
fn a_terminal_is_used_only_as_it_was_opened() {
    for wait in NONBLOCKING_WAITS {
        let (master, slave) = terminal();
        let read_only = File::open(path_of(&slave)).unwrap();
        assert_eq!(
            error_of_write(read_only, wait),
            Some(libc::EBADF),
            "{wait:?}"
        );
        assert_eq!(written(&master), 0);
        File::from(master.try_clone().unwrap())
            .write_all(b"typed\n")
            .unwrap();
        let read = Input::new(for_writing(&slave), wait).read_some(&mut [0; 10]);
        let error = read.unwrap_err().source.raw_os_error();
        assert_eq!(error, Some(libc::EBADF), "{wait:?}");
    }
}
