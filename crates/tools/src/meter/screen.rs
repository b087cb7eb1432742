//! Standard error as a place to draw: what it is, and writing to it without ever
//! sleeping.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::transfer::Output;
use fastpipe::wait::Wait;
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};

/// How long the last line may take to get out: a terminal that was stopped by
/// Ctrl-S, or a reader that does not read, is not waited for longer.
const LAST: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Standard error.
#[derive(Debug)]
pub struct Screen {
    /// The terminal, opened once more and without blocking: an open file of our
    /// own, so that nobody else's gets non-blocking.
    own: Option<OwnedFd>,
    /// For all else.
    plain: Output<io::Stderr>,
    is_terminal: bool,
    coloured: bool,
}

impl Screen {
    /// Looks at standard error.
    pub fn new() -> Self {
        let stderr = io::stderr();
        let is_terminal = isatty(&stderr);
        let own = is_terminal.then(open_again).flatten();
        if is_terminal {
            // Drawing in the background, where the check came too early, is not
            // worth being stopped for.
            let mut never_stop = SigSet::empty();
            never_stop.add(Signal::SIGTTOU);
            // Then it would be stopped: no harm but the wait.
            let _ = never_stop.thread_block();
        }
        let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = says("TERM").is_none_or(|term| term == "dumb");
        Screen {
            own,
            plain: Output::new(stderr, Wait::Never),
            is_terminal,
            coloured: is_terminal && !dumb && says("NO_COLOR").is_none(),
        }
    }

    /// Whether somebody may be looking.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether colours are wanted.
    pub fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// Columns and rows, where it is a terminal that knows them. Asked anew each
    /// time: it may have been resized.
    pub fn size(&self) -> (Option<u16>, Option<u16>) {
        match tcgetwinsize(self.plain.get_ref()) {
            Ok(size) => (
                Some(size.ws_col).filter(|columns| *columns > 0),
                Some(size.ws_row).filter(|rows| *rows > 0),
            ),
            Err(_) => (None, None),
        }
    }

    /// Whether this process may draw: it is in the terminal's foreground, or the
    /// terminal is not the one that controls it.
    pub fn is_in_foreground(&self) -> bool {
        tcgetpgrp(self.plain.get_ref()).map_or(true, |group| group == getpgrp())
    }

    /// Writes what finds room at once. Whether that was all.
    pub fn write(&mut self, text: &str) -> bool {
        match &self.own {
            Some(own) => rustix::io::write(own, text.as_bytes()) == Ok(text.len()),
            None => self.plain.write(text.as_bytes()).is_ok(),
        }
    }

    /// Writes what is not to be lost, waiting for a second at most.
    pub fn write_last(&mut self, text: &str) {
        let stderr = self.plain.get_ref().as_fd();
        let mut fds = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
        // If it can't tell, the write will.
        let _ = poll(&mut fds, Some(&LAST));
        self.write(text);
    }
}

fn open_again() -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let own = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty()).ok()?;
    let (theirs, ours) = (
        rustix::fs::fstat(io::stderr()).ok()?,
        rustix::fs::fstat(&own).ok()?,
    );
    (theirs.st_rdev == ours.st_rdev && theirs.st_ino == ours.st_ino).then_some(own)
}
