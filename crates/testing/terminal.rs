//! A pseudo-terminal to run a command in; the test holds the other end.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{TIMEOUT, wait_for_end};

/// A pseudo-terminal with all text written to it.
#[derive(Debug)]
pub struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
    text: String,
}

impl Terminal {
    /// Opens a terminal with `columns` columns and 24 rows.
    pub fn new(columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        let terminal = Terminal {
            master,
            slave,
            text: String::new(),
        };
        terminal.resize(columns);
        terminal
    }

    /// Changes the width, which sends SIGWINCH to the processes on the terminal.
    pub fn resize(&self, columns: u16) {
        let size = Winsize {
            ws_col: columns,
            ws_row: 24,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size).unwrap();
    }

    /// The terminal, for a command's standard input.
    pub fn input(&self) -> OwnedFd {
        self.slave.try_clone().unwrap()
    }

    /// Sends `text` as keyboard input.
    pub fn type_in(&self, text: &str) {
        let mut master = File::from(self.master.try_clone().unwrap());
        master.write_all(text.as_bytes()).unwrap();
    }

    /// Starts a command with this terminal as standard error and as its controlling
    /// terminal.
    pub fn start(&self, mut command: Command) -> OnTerminal {
        command.stderr(self.slave.try_clone().unwrap());
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        let attach = || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(std::io::stderr())?;
            Ok(())
        };
        // SAFETY: two system calls that are safe after a fork.
        unsafe { command.pre_exec(attach) };
        OnTerminal(command.spawn().unwrap())
    }

    /// Reads until the text written so far satisfies `wanted`, and returns that text.
    /// Panics after the deadline with `what`, such as "drawn".
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> &str {
        let deadline = Instant::now() + TIMEOUT;
        while !wanted(&self.text) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            assert!(!remaining.is_zero(), "never {what}: {:?}", self.text);
            self.read(Timespec::try_from(remaining).unwrap());
        }
        &self.text
    }

    /// All text written so far.
    pub fn text(&mut self) -> &str {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        while self.read(now) {}
        &self.text
    }

    /// Discards the text written so far.
    pub fn forget(&mut self) {
        self.text();
        self.text.clear();
    }

    fn read(&mut self, timeout: Timespec) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))).unwrap();
        if ready == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let n = rustix::io::read(&self.master, &mut bytes).unwrap();
        self.text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        n > 0
    }
}

/// The non-empty lines of a display that redraws a line.
pub fn drawings(text: &str) -> Vec<&str> {
    let lines = text.split(['\r', '\n']);
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// A process on a terminal, killed when dropped.
#[derive(Debug)]
pub struct OnTerminal(Child);

impl OnTerminal {
    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Sends a signal to the process.
    pub fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end of the process. Panics after the deadline.
    #[track_caller]
    pub fn finish(mut self) -> ExitStatus {
        if self.0.try_wait().unwrap().is_none() {
            assert!(wait_for_end(self.pid()), "hangs");
        }
        self.0.wait().unwrap()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
