//! Writing that waits for room, also where somebody has set O_NONBLOCK, until a signal arrives.
//!
//! O_NONBLOCK belongs to the open file, which other processes share, and any of them may set
//! it. A plain write(2) then fails with EAGAIN where it would have waited, and the rest of the
//! text is lost. Without it, a write(2) that waits for room goes on after a signal with a handler
//! (SA_RESTART), so that a signal could not end it.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, major, minor, open};
use rustix::io::{Errno, retry_on_intr};

use crate::interrupt::{first_signal, is_noticed, signal_name};
use crate::standard;

/// A pipe in which poll(2) sees room takes this many bytes at once (pipe(7)).
const PIPE_BUF: usize = 4096;
/// Interval of looking for a signal that arrives just before poll(2).
const INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Time until a descriptor is tried again that is ready and takes nothing.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// What is said on standard error after a signal waits for room no longer than this, so that one
/// signal ends the program also if nobody reads there.
const MAX_WAIT_AFTER_SIGNAL: Duration = Duration::from_secs(2);

/// The signal that ended a wait for room; 0 before. Nothing is waited for after that.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);

/// Writes a text to a descriptor as if it had no O_NONBLOCK. A signal ends the wait for room,
/// unless the program has noticed it before the text: what a run shows after a signal is written
/// to its end, on standard error if somebody reads it.
#[derive(Debug)]
pub struct Patient<F> {
    file: F,
    /// The file if it is a terminal, opened once more, so that O_NONBLOCK is this one's own: where there
    /// is room for a part of a text, a write(2) waits for the rest.
    terminal: Option<OwnedFd>,
    /// Whether a signal was noticed before the text.
    was_interrupted: bool,
    can_block: bool,
    /// How long it waits for room after a signal that was noticed before the text.
    after_signal: Option<Duration>,
}

impl<F: AsFd> Patient<F> {
    /// Begins a text.
    pub fn new(file: F) -> Self {
        let kind = fstat(&file).map(|found| FileType::from_raw_mode(found.st_mode));
        Patient {
            was_interrupted: is_noticed(),
            can_block: match kind {
                Ok(FileType::Fifo | FileType::Socket) => true,
                Ok(FileType::CharacterDevice) => file.as_fd().is_terminal(),
                _ => false,
            },
            after_signal: None,
            terminal: reopen_terminal(file.as_fd()),
            file,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        let terminal = self.terminal.as_ref().map(AsFd::as_fd);
        terminal.unwrap_or_else(|| self.file.as_fd())
    }

    /// Begins a text that is not waited for after any signal: that of a screen.
    pub fn until_signal(file: F) -> Self {
        Patient {
            was_interrupted: false,
            ..Patient::new(file)
        }
    }

    /// Returns whether there is room; not if poll(2) is refused, say. A plain write then waits.
    fn wait_for_room(&self) -> io::Result<bool> {
        let since = Instant::now();
        loop {
            let signal = self.ending_signal(since);
            let timeout = match signal {
                Some(_) => Timespec::default(),
                None => INTERVAL,
            };
            let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)];
            match (poll(&mut fds, Some(&timeout)), signal) {
                (Ok(0), Some(signal)) => {
                    ENDED_BY.store(signal, Ordering::Relaxed);
                    let name = signal_name(signal);
                    return Err(io::Error::other(format!("interrupted by {name}")));
                }
                (Ok(0) | Err(Errno::INTR), _) => {}
                (outcome, _) => return Ok(outcome.is_ok()),
            }
        }
    }

    /// The signal after which nothing is waited for. There is no room `since` this time.
    fn ending_signal(&self, since: Instant) -> Option<i32> {
        let is_over = || self.after_signal.is_some_and(|max| since.elapsed() >= max);
        ended_by().or_else(|| first_signal().filter(|_| !self.was_interrupted || is_over()))
    }
}

impl<F: AsFd> Write for Patient<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = if self.can_block {
            &bytes[..bytes.len().min(PIPE_BUF)]
        } else {
            bytes
        };
        loop {
            let may_retry = !self.can_block || self.wait_for_room()?;
            match retry_on_intr(|| rustix::io::write(self.fd(), bytes)) {
                // Another process has taken the room, or a terminal's is too small for a whole character.
                Err(Errno::AGAIN) if may_retry => {
                    if std::mem::replace(&mut self.can_block, true) {
                        let _ = poll(&mut [], Some(&PAUSE));
                    }
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a terminal once more without blocking, if that is allowed. A master would be that of another terminal.
fn reopen_terminal(file: BorrowedFd<'_>) -> Option<OwnedFd> {
    const MASTER: (u32, u32) = (5, 2);
    let device = fstat(file).ok()?.st_rdev;
    if !file.is_terminal() || (major(device), minor(device)) == MASTER {
        return None;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok()
}

/// The signal that ended a wait for room, so that a text was not written to its end.
pub(crate) fn ended_by() -> Option<i32> {
    Some(ENDED_BY.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Prints text on standard error.
///
/// # Errors
/// Those of write(2): EBADF, too, where this process found it closed.
pub fn print_on_stderr(text: impl AsRef<[u8]>) -> io::Result<()> {
    if standard::is_closed(2) {
        return Err(Errno::BADF.into());
    }
    let mut stderr = Patient {
        after_signal: Some(MAX_WAIT_AFTER_SIGNAL),
        ..Patient::new(io::stderr())
    };
    stderr.write_all(text.as_ref())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    #[test]
    fn all_text_is_written_to_full_pipe_with_o_nonblock() {
        let (mut from, into) = io::pipe().unwrap();
        fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
        let text = vec![b'x'; 1 << 20];
        let expected = text.len();
        let writer = thread::spawn(move || Patient::new(into).write_all(&text));
        let mut read = Vec::new();
        from.read_to_end(&mut read).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(read.len(), expected);
    }

    #[test]
    fn a_reader_that_leaves_ends_the_wait() {
        let (from, into) = io::pipe().unwrap();
        fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&into, &[0; 4096]).is_ok() {}
        let writer = thread::spawn(move || Patient::new(into).write_all(b"more"));
        drop(from);
        let error = writer.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
