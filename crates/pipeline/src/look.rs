//! Looks into pipes: their capacity and how full they are.
//!
//! A pipe is opened for reading for a moment, which delays no end of file: that depends on
//! the write ends. FIFOs are never opened, since that may release a stranger's open(2).
//!
//! Opening can block beyond SIGKILL: while a process splices from a pipe into a full socket,
//! it holds the pipe's lock (splice_file_to_pipe() and fifo_open() in fs). So the opening is
//! done by a process that can be left behind. It is no child of this process, which would
//! have to reap it.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pipespeed_base::orphan::run_orphan;
use pipespeed_base::standard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::retry_on_intr;
use rustix::process::getpid;
use rustix::stdio;
use rustix::thread::set_name;

use crate::find::ProcessId;
use crate::proc::{PipeId, Proc};
use crate::raise;

/// The argument of the hidden subcommand under which the helper process starts.
pub const ROLE: &str = "look";

/// An answer that takes longer is examined: the helper may be blocked.
const PATIENCE: Duration = Duration::from_millis(20);
/// No answer is waited for longer than this, on a machine that is too busy to run the helper.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What was seen of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its size and its unread bytes.
    Seen {
        /// The capacity in bytes.
        capacity: u64,
        /// Unread bytes.
        unread: u64,
        /// The user who made it.
        owner: u32,
    },
    /// Its lock is held: opening it blocks.
    Held,
    /// It could not be opened, for lack of permission or because it is gone.
    Unknown,
}

/// Opens pipes in a helper process.
#[derive(Debug)]
pub struct Looker {
    program: Option<fn() -> Command>,
    helper: Option<Helper>,
    /// Helpers that are blocked in the kernel.
    left_behind: Vec<ProcessId>,
}

/// A process that is no child of this one.
#[derive(Debug)]
struct Helper {
    requests: PipeWriter,
    answers: BufReader<PipeReader>,
    id: ProcessId,
}

impl Looker {
    /// Opens pipes in processes that `program` starts: this program with the hidden
    /// subcommand and [`ROLE`].
    pub fn new(program: fn() -> Command) -> Self {
        Looker::with(Some(program))
    }

    /// Opens pipes in copies of this process, which must have only one thread.
    pub fn forking() -> Self {
        Looker::with(None)
    }

    fn with(program: Option<fn() -> Command>) -> Self {
        Looker {
            program,
            helper: None,
            left_behind: Vec::new(),
        }
    }

    /// The helper processes that still exist.
    pub fn pids(&self, proc: &Proc) -> Vec<i32> {
        let current = self.helper.iter().map(|helper| helper.id);
        let all = current.chain(self.left_behind.iter().copied());
        all.filter(|id| id.is_running(proc))
            .map(|id| id.pid)
            .collect()
    }

    /// Looks into the pipe that is open under this descriptor, a read end.
    pub fn look(&mut self, proc: &Proc, pid: i32, fd: i32, pipe: PipeId) -> Look {
        if pipe.is_fifo() {
            return Look::Unknown;
        }
        match self.ask(proc, &format!("{pid} {fd} {}\n", pipe.inode)) {
            Ok(answer) => parse(&answer).unwrap_or(Look::Unknown),
            Err(look) => look,
        }
    }

    /// Starts the helper process, so that the first request need not wait for it.
    pub(crate) fn prepare(&mut self, proc: &Proc) {
        if self.helper.is_none() {
            self.helper = Helper::start(self.program, proc).ok();
        }
    }

    /// Sends a request to the helper process. Without an answer the pipe is held, or nothing
    /// is known.
    pub(crate) fn ask(&mut self, proc: &Proc, request: &str) -> Result<String, Look> {
        self.prepare(proc);
        let Some(mut helper) = self.helper.take() else {
            return Err(Look::Unknown);
        };
        if let Some(answer) = helper.ask(proc, request) {
            self.helper = Some(helper);
            return Ok(answer);
        }
        // It ends once its call returns: its input is closed.
        self.left_behind.push(helper.id);
        if helper.is_blocked(proc) {
            Err(Look::Held)
        } else {
            Err(Look::Unknown)
        }
    }
}

impl Helper {
    /// Starts the helper, whose first line is its process id.
    fn start(program: Option<fn() -> Command>, proc: &Proc) -> io::Result<Helper> {
        let (input, requests) = io::pipe()?;
        let (answers, output) = io::pipe()?;
        match program {
            Some(program) => {
                let mut command = program();
                command.stdin(input).stdout(output).stderr(Stdio::null());
                command.status()?;
            }
            None => run_orphan(|| use_only(input, output).map(|()| || drop(serve())))?,
        }
        let mut answers = BufReader::new(answers);
        if !is_readable(&answers, MAX_WAIT) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let id = line.trim().parse().ok().and_then(|pid| {
            let start = proc.stat(pid)?.start;
            Some(ProcessId { pid, start })
        });
        Ok(Helper {
            requests,
            answers,
            id: id.ok_or(io::ErrorKind::InvalidData)?,
        })
    }

    /// Sends a request. `None` if there is no answer.
    fn ask(&mut self, proc: &Proc, request: &str) -> Option<String> {
        self.requests.write_all(request.as_bytes()).ok()?;
        let start = Instant::now();
        let mut was_blocked = false;
        while !is_readable(&self.answers, PATIENCE) {
            let is_blocked = self.is_blocked(proc);
            if was_blocked && is_blocked || start.elapsed() > MAX_WAIT {
                return None;
            }
            was_blocked = is_blocked;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        Some(line)
    }

    /// Whether it waits for a lock, which it does uninterruptibly.
    fn is_blocked(&self, proc: &Proc) -> bool {
        let stat = proc.stat(self.id.pid);
        stat.is_some_and(|stat| stat.start == self.id.start && stat.state == 'D')
    }
}

/// Parses an answer: capacity, unread bytes and owner.
fn parse(line: &str) -> Option<Look> {
    let mut words = line.split_ascii_whitespace();
    Some(Look::Seen {
        capacity: words.next()?.parse().ok()?,
        unread: words.next()?.parse().ok()?,
        owner: words.next()?.parse().ok()?,
    })
}

/// Whether a pipe can be read from, or has ended, within this time.
pub fn is_readable(fd: &BufReader<PipeReader>, within: Duration) -> bool {
    let mut fds = [PollFd::new(fd.get_ref(), PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    retry_on_intr(|| poll(&mut fds, within.as_ref())).is_ok_and(|ready| ready > 0)
}

/// Starts the helper process as an orphan. It answers requests from standard input until its
/// end.
pub fn main() -> ExitCode {
    let outcome = run_orphan(|| {
        // It may be left behind, and must not keep a stranger's pipe open.
        standard::close_inherited(&[]);
        Ok(|| drop(serve()))
    });
    ExitCode::from(u8::from(outcome.is_err()))
}

/// Makes pipes the standard input and output of a helper that is a copy of this process, and
/// closes what else is open but standard error.
fn use_only(input: PipeReader, output: PipeWriter) -> io::Result<()> {
    stdio::dup2_stdin(input)?;
    stdio::dup2_stdout(output)?;
    standard::close_inherited(&[]);
    Ok(set_name(c"pipespeed-look")?)
}

fn serve() -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", getpid().as_raw_pid())?;
    for request in io::stdin().lock().lines() {
        let request = request?;
        if let Some(request) = request.strip_prefix(raise::REQUEST) {
            serde_json::to_writer(&mut out, &raise::answer(request))?;
            writeln!(out)?;
        } else if let Some((capacity, unread, owner)) = examine(&request) {
            writeln!(out, "{capacity} {unread} {owner}")?;
        } else {
            writeln!(out, "-")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Opens a pipe for reading and closes it at once.
fn examine(request: &str) -> Option<(usize, usize, u32)> {
    let mut words = request.split(' ');
    let end = open(words.next()?, words.next()?, words.next()?)?;
    Some((
        fastpipe::pipe::capacity(&end).ok()?,
        fastpipe::pipe::unread(&end).ok()?,
        fstat(&end).ok()?.st_uid,
    ))
}

/// Opens a pipe for reading, if it is still the same.
pub(crate) fn open(pid: &str, fd: &str, inode: &str) -> Option<OwnedFd> {
    let place = format!("/proc/{pid}/fd/{fd}");
    let path = openat(CWD, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let about = fstat(&path).ok()?;
    let own = format!("/proc/self/fd/{}", path.as_raw_fd());
    let link = std::fs::read_link(&own).ok()?;
    // A FIFO's link is its path.
    if about.st_ino.to_string() != inode || link.as_os_str() != &*format!("pipe:[{inode}]") {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, own, flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn request(inode: u64, fd: &impl AsRawFd) -> String {
        format!("{} {} {inode}", std::process::id(), fd.as_raw_fd())
    }

    #[test]
    fn a_look_shows_capacity_and_unread_bytes_and_takes_none() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"four").unwrap();
        let inode = fstat(&reader).unwrap().st_ino;
        let capacity = fastpipe::pipe::capacity(&reader).unwrap();
        let owner = fstat(&reader).unwrap().st_uid;
        assert_eq!(
            examine(&request(inode, &reader)),
            Some((capacity, 4, owner))
        );
        assert_eq!(examine(&request(inode + 1, &reader)), None);
        drop(writer);
        let mut left = Vec::new();
        (&reader).read_to_end(&mut left).unwrap();
        assert_eq!(left, b"four");
    }

    #[test]
    fn a_helper_whose_number_is_reused_is_forgotten() {
        let (proc, pid) = (Proc::default(), getpid().as_raw_pid());
        let mut looker = Looker::forking();
        looker.left_behind = vec![ProcessId { pid, start: 0 }];
        assert!(looker.pids(&proc).is_empty());
        looker.left_behind[0].start = proc.stat(pid).unwrap().start;
        assert_eq!(looker.pids(&proc), [pid]);
    }

    #[test]
    fn a_fifo_is_never_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &path, 0o600.into()).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let inode = fstat(&file).unwrap().st_ino;
        assert_eq!(examine(&request(inode, &file)), None);
    }
}
