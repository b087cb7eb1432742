//! Standard error as a display, written without blocking.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::transfer::Output;
use fastpipe::wait::Wait;
use nix::sys::signal::{SigSet, Signal};
use pipespeed_base::standard::has_colours;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};

/// Timeout for writing the last line: the terminal may be stopped by Ctrl-S, or the
/// reader may not read.
const LAST_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Standard error.
#[derive(Debug)]
pub struct Screen {
    /// The terminal, reopened with O_NONBLOCK: other processes share the original
    /// open file, which must stay blocking.
    own: Option<OwnedFd>,
    /// Standard error itself, used if it could not be reopened.
    plain: Output<io::Stderr>,
    is_terminal: bool,
    coloured: bool,
}

impl Screen {
    /// Inspects standard error and prepares writing to it.
    pub fn new() -> Self {
        let stderr = io::stderr();
        let is_terminal = isatty(&stderr);
        let own = is_terminal.then(reopen).flatten();
        if is_terminal {
            // A write must not stop the process if it goes to the background after the
            // check. Blocking a valid set can't fail (sigprocmask(2)).
            let _ = SigSet::from(Signal::SIGTTOU).thread_block();
        }
        Screen {
            own,
            plain: Output::new(stderr, Wait::Never),
            is_terminal,
            coloured: is_terminal && has_colours(),
        }
    }

    /// Whether standard error is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether to use colours.
    pub fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// The terminal's current columns and rows, if known.
    pub fn size(&self) -> (Option<u16>, Option<u16>) {
        match tcgetwinsize(self.plain.get_ref()) {
            Ok(size) => (
                Some(size.ws_col).filter(|columns| *columns > 0),
                Some(size.ws_row).filter(|rows| *rows > 0),
            ),
            Err(_) => (None, None),
        }
    }

    /// Whether this process is in the terminal's foreground, or the terminal is not its
    /// controlling terminal.
    pub fn is_in_foreground(&self) -> bool {
        tcgetpgrp(self.plain.get_ref()).map_or(true, |group| group == getpgrp())
    }

    /// Writes without blocking.
    ///
    /// # Errors
    /// Not all was written: `WouldBlock` for lack of room, or another error.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        match &self.own {
            None => Ok(self.plain.write(text.as_bytes()).map(|_| ())?),
            Some(own) if rustix::io::write(own, text.as_bytes())? == text.len() => Ok(()),
            Some(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes after waiting at most a second for the terminal or reader.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_last(&mut self, text: &str) -> io::Result<()> {
        let stderr = self.plain.get_ref().as_fd();
        let mut fds = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
        // If poll fails, try to write anyway.
        let _ = poll(&mut fds, Some(&LAST_TIMEOUT));
        self.write(text)
    }
}

fn reopen() -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let own = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty()).ok()?;
    let (theirs, ours) = (
        rustix::fs::fstat(io::stderr()).ok()?,
        rustix::fs::fstat(&own).ok()?,
    );
    (theirs.st_rdev == ours.st_rdev && theirs.st_ino == ours.st_ino).then_some(own)
}
