//! The signal that a writer without readers gets.

use std::os::unix::process::ExitStatusExt;

use anyhow::Context;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::io::Errno;

use super::shell::{Mask, Shell};
use crate::check::pipes::Ends;
use crate::check::{Check, Group, Outcome};
use crate::runner::signal_name;

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "sigpipe-thread",
        group: Group::Semantics,
        statement: "writing where no reader is left sends the thread SIGPIPE",
        explanation: "With the signal blocked it stays pending, and signalfd(2) tells of it: once \
                      for the write(2), to the thread that made it.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; POSIX.1-2024, write(), EPIPE",
        run: sigpipe_thread,
    },
    Check {
        name: "sigpipe-kills",
        group: Group::Semantics,
        statement: "a program that does nothing about SIGPIPE is killed by it",
        explanation: "A shell writes a line to a pipe that nobody reads. That is how `yes | head -1` \
                      ends; a program that ignores the signal must look at the errors of write(2) \
                      itself.",
        reference: "signal(7); pipe(7), \"I/O on pipes and FIFOs\"",
        run: sigpipe_kills,
    },
];

fn sigpipe_thread() -> anyhow::Result<Outcome> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGPIPE);
    // Also where it is ignored, a blocked signal is kept (sig_ignored() in
    // kernel/signal.c).
    let blocked = Mask::change(&set, SigmaskHow::SIG_BLOCK).context("sigprocmask")?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&set, flags).context("signalfd")?;
    let Ends { read, write } = Ends::new()?;
    drop(read);
    let written = rustix::io::write(&write, b"x");
    let mut count = 0;
    while signals.read_signal().context("signalfd")?.is_some() {
        count += 1;
    }
    drop(blocked);
    Ok(match (written, count) {
        (Err(Errno::PIPE), 1) => Outcome::pass("SIGPIPE, and EPIPE"),
        (written, count) => Outcome::fail(format!("{count} signals, {written:?}")),
    })
}

fn sigpipe_kills() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    drop(read);
    // A child is started with SIGPIPE as it is by default, and not blocked.
    let mut shell = match Shell::start("echo a line", std::process::Stdio::null(), write) {
        Ok(shell) => shell,
        Err(refused) => return refused,
    };
    let status = shell.wait()?;
    Ok(match status.signal() {
        Some(13) => Outcome::pass("killed by SIGPIPE"),
        Some(other) => Outcome::fail(format!("killed by {}", signal_name(other))),
        None => Outcome::fail(format!("{status}")),
    })
}
