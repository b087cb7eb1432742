//! What a command prints on the terminal while the terminal shows a screen.
//!
//! The command gets a pipe in place of the terminal. A file would not do: a program that opens /dev/stderr
//! empties it, and has a position of its own there. A process of its own keeps what arrives, and prints it once the
//! screen is gone, or this program: so nothing is lost if this program is killed, and what the command leaves
//! behind is printed for as long as it lasts.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::orphan::{block_signals, leave_all_but, run_orphan};
use pipespeed_base::output::Patient;
use pipespeed_base::process::is_any_ready;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::fstatvfs;
use rustix::io::ioctl_fionbio;
use rustix::process::getpid;

/// Name of the process, for ps(1).
const NAME: &CStr = c"pipespeed-top";
/// A pipe holds no more, in bytes, unless root has raised the limit.
const MAX_PIPE: usize = 1 << 20;
/// What is more than this, in bytes, is kept on disk.
const MAX_IN_MEMORY: usize = 16 << 20;
/// How long a terminal that takes nothing is waited for after a signal.
const MAX_WAIT_AFTER_SIGNAL: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// The process that keeps a command's messages.
#[derive(Debug)]
pub(super) struct TerminalMessages {
    /// A byte asks for the messages, and one that comes back says that they are printed.
    requests: UnixStream,
    unanswered: usize,
    /// For the command.
    pipe: Option<PipeWriter>,
    pub(super) pid: i32,
}

impl TerminalMessages {
    /// Starts it. `None` if there is no terminal for messages, or no process can be started: then they disturb the
    /// screen. This process must have only one thread.
    pub(super) fn start() -> Option<Self> {
        let terminal = terminal()?;
        let (messages, pipe) = io::pipe().ok()?;
        let (mut requests, answers) = UnixStream::pair().ok()?;
        ioctl_fionbio(&messages, true).ok()?;
        let relay = Relay {
            terminal,
            messages: Some(messages),
            requests: Some(answers),
            kept: Some(Kept::default()),
        };
        run_orphan(|| {
            block_signals()?;
            let inputs = relay.inputs().chain([relay.terminal.as_fd()]);
            leave_all_but(&inputs.collect::<Vec<_>>(), NAME)?;
            Ok(|| drop(relay.run()))
        })
        .ok()?;
        let mut pid = [0; size_of::<i32>()];
        requests.read_exact(&mut pid).ok()?;
        Some(TerminalMessages {
            requests,
            unanswered: 0,
            pipe: Some(pipe),
            pid: i32::from_ne_bytes(pid),
        })
    }

    /// Makes its pipe what a command has where this process has a terminal.
    pub(super) fn take_from(&mut self, command: &mut Command) -> io::Result<()> {
        if let Some(pipe) = self.pipe.take() {
            if io::stdout().is_terminal() {
                command.stdout(pipe.try_clone()?);
            }
            if io::stderr().is_terminal() {
                command.stderr(pipe);
            }
        }
        Ok(())
    }

    /// Prints what the command has written so far, and from now on at once. A signal ends the wait for that.
    pub(super) fn show(&mut self, interrupt: &Interrupt) {
        // What is not printed now is printed at the end of this process.
        let _ = self.request(interrupt);
    }

    fn request(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        self.requests.write_all(&[0])?;
        self.unanswered += 1;
        while self.unanswered > 0 {
            let is_interrupted = interrupt.signal().is_some();
            let timeout = is_interrupted.then_some(&MAX_WAIT_AFTER_SIGNAL);
            let mut fds = vec![PollFd::new(&self.requests, PollFlags::IN)];
            if !is_interrupted {
                fds.push(PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::IN));
            }
            let is_ready = is_any_ready(&mut fds, timeout)?;
            if !fds[0].revents().is_empty() {
                self.requests.read_exact(&mut [0])?;
                self.unanswered -= 1;
            } else if !is_ready && is_interrupted {
                break;
            }
        }
        Ok(())
    }
}

/// Where messages would go: standard error, or standard output if only that is a terminal.
fn terminal() -> Option<OwnedFd> {
    let (err, out) = (io::stderr(), io::stdout());
    let terminal = if err.is_terminal() {
        err.as_fd().try_clone_to_owned()
    } else if out.is_terminal() {
        out.as_fd().try_clone_to_owned()
    } else {
        return None;
    };
    terminal.ok()
}

/// What that process does.
#[derive(Debug)]
struct Relay {
    terminal: OwnedFd,
    /// `None` at their end.
    messages: Option<PipeReader>,
    /// `None` once the other program has ended.
    requests: Option<UnixStream>,
    /// What is not printed yet. `None` once messages are printed as they arrive.
    kept: Option<Kept>,
}

impl Relay {
    fn inputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let messages = self.messages.iter().map(AsFd::as_fd);
        messages.chain(self.requests.iter().map(AsFd::as_fd))
    }

    /// Until neither the other program nor a writer of messages is left.
    fn run(mut self) -> io::Result<()> {
        if let Some(requests) = &mut self.requests {
            requests.write_all(&getpid().as_raw_pid().to_ne_bytes())?;
            requests.set_nonblocking(true)?;
        }
        while self.messages.is_some() || self.requests.is_some() {
            let inputs = self.inputs();
            let polled = inputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let waited = is_any_ready(&mut polled.collect::<Vec<_>>(), None);
            let requests = self.take_requests();
            self.take_messages();
            if requests > 0 || self.requests.is_none() || waited.is_err() {
                self.print_kept();
            }
            waited?;
            if let Some(stream) = &mut self.requests {
                // It has room for more answers than there can be requests.
                let _ = stream.write(&vec![0; requests]);
            }
        }
        Ok(())
    }

    /// The number of requests that have arrived.
    fn take_requests(&mut self) -> usize {
        let Some(requests) = &mut self.requests else {
            return 0;
        };
        match requests.read(&mut [0; 16]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Ok(count) if count > 0 => count,
            _ => {
                self.requests = None;
                0
            }
        }
    }

    /// Takes what lies in the pipe by now, and not all of what goes on arriving.
    fn take_messages(&mut self) {
        let mut left = MAX_PIPE;
        let mut buffer = [0; 65_536];
        while left > 0
            && let Some(messages) = &mut self.messages
        {
            match messages.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(count) if count > 0 => {
                    left = left.saturating_sub(count);
                    self.take(&buffer[..count]);
                }
                _ => self.messages = None,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let left = match &mut self.kept {
            Some(kept) => kept.add(bytes),
            None => bytes,
        };
        if !left.is_empty() {
            // What can't be kept disturbs the screen.
            self.print_kept();
            // A terminal that is gone takes nothing, and the command goes on.
            let _ = Patient::new(&self.terminal).write_all(left);
        }
    }

    fn print_kept(&mut self) {
        if let Some(kept) = self.kept.take() {
            let _ = kept.print(&mut Patient::new(&self.terminal));
        }
    }
}

/// Messages that are not printed yet.
#[derive(Debug, Default)]
struct Kept {
    first: Vec<u8>,
    /// What follows. `None` if there is nothing, or no disk takes it.
    disk: Option<File>,
    /// What the disk did not take.
    last: Vec<u8>,
}

impl Kept {
    /// Returns those that can't be kept.
    fn add<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let has_room = self.first.len() + bytes.len() <= MAX_IN_MEMORY;
        if has_room && self.disk.is_none() && self.last.is_empty() {
            return extend(&mut self.first, bytes);
        }
        let mut left = bytes;
        if self.last.is_empty() {
            self.disk = self.disk.take().or_else(|| tempfile::tempfile().ok());
            while let Some(disk) = &mut self.disk
                && !left.is_empty()
                && leaves_room(disk)
                && let Ok(count) = disk.write(left)
                && count > 0
            {
                left = &left[count..];
            }
        }
        extend(&mut self.last, left)
    }

    fn print(mut self, into: &mut impl Write) -> io::Result<()> {
        into.write_all(&self.first)?;
        if let Some(disk) = &mut self.disk {
            disk.rewind()?;
            io::copy(disk, into)?;
        }
        into.write_all(&self.last)
    }
}

/// Adds bytes, and returns those for which there is no memory.
fn extend<'a>(all: &mut Vec<u8>, bytes: &'a [u8]) -> &'a [u8] {
    if all.try_reserve(bytes.len()).is_err() {
        return bytes;
    }
    all.extend_from_slice(bytes);
    &[]
}

/// Whether a disk has more room left than this file takes: others need some, too.
fn leaves_room(mut file: &File) -> bool {
    let taken = file.stream_position().unwrap_or(u64::MAX);
    fstatvfs(file).is_ok_and(|disk| disk.f_bavail * disk.f_frsize > taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_wherever_they_are_kept() {
        let line = vec![b'a'; MAX_IN_MEMORY / 2];
        let mut kept = Kept::default();
        let mut added = Vec::new();
        for byte in 0..5 {
            let mut line = line.clone();
            line[0] = byte;
            assert!(kept.add(&line).is_empty());
            added.extend(line);
        }
        // As of a full disk.
        kept.last.push(b'b');
        assert!(kept.add(b"c").is_empty());
        added.extend(b"bc");
        assert!(kept.disk.is_some());
        let mut printed = Vec::new();
        kept.print(&mut printed).unwrap();
        assert!(printed == added);
    }
}
