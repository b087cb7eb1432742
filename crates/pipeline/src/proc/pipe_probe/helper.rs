//! The helper process, and its side of the pipes between it and this process.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use pipespeed_base::interrupt::first_signal;
use pipespeed_base::orphan::run_orphan;
use pipespeed_base::standard;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::pread;
use rustix::process::getpid;
use rustix::stdio;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_name};

use super::{HelperLaunch, MAX_ANSWER, MAX_SOCKETS, NoAnswer, PipeState, is_readable};
use crate::proc::{Proc, ProcessId, sockets};

/// Interval of looking whether a helper that does not answer is blocked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// No answer is waited for longer than this, on a machine that is too busy to run the helper.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// A helper that takes longer to start is given up, on a machine that is too busy, or where it was
/// stopped.
const MAX_START: Duration = Duration::from_secs(10);
/// The same once this process has received a signal.
const MAX_START_AFTER_SIGNAL: Duration = Duration::from_millis(250);
/// Opens pipes and files so that nothing else comes of it.
const HARMLESS: OFlags = OFlags::NONBLOCK
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// A request for a file begins with this.
pub(super) const FILE: &str = "file ";
/// A request for the sockets of a process's network namespace begins with this.
pub(super) const SOCKETS: &str = "sockets ";
/// A list of more sockets does not fit into an answer.
const MAX_LISTED: usize = 60_000;
/// The link to the file of a process's program.
const PROGRAM: &str = "exe";

/// A process that is no child of this one, which would have to reap it.
#[derive(Debug)]
pub(super) struct Helper {
    requests: PipeWriter,
    answers: BufReader<PipeReader>,
    pub(super) id: ProcessId,
}

impl Helper {
    /// Starts the helper, whose first line is its process id.
    pub(super) fn start(launch: HelperLaunch, proc: &Proc) -> io::Result<Helper> {
        let (input, requests) = io::pipe()?;
        let (answers, output) = io::pipe()?;
        let mut answers = BufReader::new(answers);
        match launch {
            HelperLaunch::Program(program) => {
                let mut command = program();
                command.stdin(input).stdout(output).stderr(Stdio::null());
                let mut child = command.spawn()?;
                // It holds the other end of the answers.
                drop(command);
                await_start(&answers);
                // It has started the helper, or was stopped.
                let _ = child.kill();
                child.wait()?;
            }
            HelperLaunch::Copy(answer) => {
                run_orphan(|| use_only(input, output).map(|()| move || drop(serve(answer))))?;
            }
        }
        if !is_readable(&answers, MAX_WAIT)? {
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

    /// Sends a request. `patience` is how long the helper may be blocked.
    pub(super) fn ask(
        &mut self,
        proc: &Proc,
        request: &str,
        patience: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let sent = self.requests.write_all(request.as_bytes());
        sent.map_err(|_| NoAnswer::Late)?;
        let start = Instant::now();
        let mut blocked_since = None;
        while !is_readable(&self.answers, CHECK_INTERVAL).map_err(|_| NoAnswer::Late)? {
            let now = Instant::now();
            if !self.is_blocked(proc) {
                blocked_since = None;
            } else if now - *blocked_since.get_or_insert(now) >= patience {
                return Err(NoAnswer::Blocked);
            }
            if now - start > MAX_WAIT {
                return Err(NoAnswer::Late);
            }
        }
        self.receive().ok_or(NoAnswer::Late)
    }

    /// Receives an answer: a line with its length, and as many bytes.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        let len: usize = line.trim_end().parse().ok()?;
        let mut bytes = vec![0; len.min(MAX_SOCKETS)];
        self.answers.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether it waits for a lock, uninterruptibly or until it is killed.
    fn is_blocked(&self, proc: &Proc) -> bool {
        let stat = proc.stat(self.id.pid);
        stat.is_some_and(|stat| stat.start == self.id.start && stat.state == 'D')
    }
}

/// Waits for the helper's first line, or for its end; after a signal only for a short while, and not at
/// all where that can't be noticed.
fn await_start(answers: &BufReader<PipeReader>) {
    let start = Instant::now();
    while matches!(is_readable(answers, CHECK_INTERVAL), Ok(false)) {
        let most = if first_signal().is_some() {
            MAX_START_AFTER_SIGNAL
        } else {
            MAX_START
        };
        if start.elapsed() > most {
            return;
        }
    }
}

/// Parses an answer about a pipe: capacity, unread bytes and owner.
pub(super) fn parse_state(answer: &[u8]) -> Option<PipeState> {
    let mut words = str::from_utf8(answer).ok()?.split(' ');
    Some(PipeState::Seen {
        capacity: words.next()?.parse().ok()?,
        unread: words.next()?.parse().ok()?,
        owner: words.next()?.parse().ok()?,
    })
}

/// Answers a request that concerns neither a file nor a pipe's state. `None` if what it asks for
/// can't be opened.
pub type Answer = fn(&str) -> Option<Vec<u8>>;

/// Starts the helper process as an orphan. It answers requests from standard input until its
/// end: other ones than for files and states by `answer`.
pub fn main(answer: Answer) -> ExitCode {
    let outcome = run_orphan(|| {
        // It may be left behind, and must not keep a stranger's pipe open.
        standard::close_inherited(&[]);
        Ok(move || drop(serve(answer)))
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

fn serve(other: Answer) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", getpid().as_raw_pid())?;
    for request in io::stdin().lock().lines() {
        let answer = answer(&request?, other).unwrap_or_default();
        // In one call, so that it is there as a whole.
        let mut message = format!("{}\n", answer.len()).into_bytes();
        message.extend(answer);
        out.write_all(&message)?;
        out.flush()?;
    }
    Ok(())
}

/// Answers a request. `None` if what it asks for can't be opened.
fn answer(request: &str, other: Answer) -> Option<Vec<u8>> {
    if let Some(request) = request.strip_prefix(FILE) {
        read_file(request)
    } else if let Some(request) = request.strip_prefix(SOCKETS) {
        let (pid, network) = request.split_once(' ')?;
        list_sockets(pid.parse().ok()?, network.parse().ok()?)
    } else if request.starts_with(|letter: char| !letter.is_ascii_digit()) {
        other(request)
    } else {
        let (capacity, unread, owner) = examine(request)?;
        Some(format!("{capacity} {unread} {owner}").into_bytes())
    }
}

/// Reads the part of a file that is given by process, file, offset and length: less at its end, or
/// where memory can't be read.
fn read_file(request: &str) -> Option<Vec<u8>> {
    let mut words = request.split(' ');
    let pid: i32 = words.next()?.parse().ok()?;
    let file = words.next().filter(|file| is_readable_file(file))?;
    let offset: u64 = words.next()?.parse().ok()?;
    let len: usize = words.next()?.parse().ok()?;
    let mut flags = HARMLESS | OFlags::RDONLY;
    // The link is one of the kernel's: it leads to the file that is run, not to a path.
    if file != PROGRAM {
        flags |= OFlags::NOFOLLOW;
    }
    let file = openat(CWD, format!("/proc/{pid}/{file}"), flags, Mode::empty()).ok()?;
    let mut bytes = vec![0; len.min(MAX_ANSWER)];
    let mut filled = 0;
    while filled < bytes.len() {
        match pread(
            &file,
            &mut bytes[filled..],
            offset.wrapping_add(filled as u64),
        ) {
            Ok(0) | Err(_) => break,
            Ok(more) => filled += more,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

/// Lists the sockets of a process's network namespace, which has this inode number. `None` if that may not
/// be entered, or not be left.
fn list_sockets(pid: i32, inode: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = |path: &str| openat(CWD, path, flags, Mode::empty()).ok();
    let own = open("/proc/self/ns/net")?;
    let other = open(&format!("/proc/{pid}/ns/net"))?;
    if fstat(&other).ok()?.st_ino != inode {
        return None;
    }
    let enter = |namespace: &OwnedFd| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).ok()
    };
    // It must be able to return: with CAP_SYS_ADMIN only in its own user namespace it is not.
    enter(&own)?;
    enter(&other)?;
    let sockets = sockets::list(MAX_LISTED);
    if enter(&own).is_none() {
        std::process::exit(1);
    }
    let list = serde_json::to_vec(&sockets.ok()?).ok()?;
    (list.len() <= MAX_SOCKETS).then_some(list)
}

/// Whether it is one of the files that are read for this program, of a process or of a thread.
fn is_readable_file(file: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    match file.split('/').collect::<Vec<_>>()[..] {
        ["mem" | "cmdline" | PROGRAM] => true,
        ["fdinfo", fd] => is_number(fd),
        ["task", tid, "mem"] => is_number(tid),
        ["task", tid, "fdinfo", fd] => is_number(tid) && is_number(fd),
        _ => false,
    }
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
    openat(CWD, own, HARMLESS | OFlags::RDONLY, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

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
    fn a_fifo_is_never_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &path, 0o600.into()).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let inode = fstat(&file).unwrap().st_ino;
        assert_eq!(examine(&request(inode, &file)), None);
    }

    #[test]
    fn only_some_files_are_read_and_only_in_part() {
        let own = std::process::id();
        let word = *b"in memory";
        let memory = format!("{own} mem {} {}", word.as_ptr().addr(), word.len());
        assert_eq!(read_file(&memory).as_deref(), Some(&word[..]));
        let start = read_file(&format!("{own} cmdline 0 3")).unwrap();
        assert_eq!(start.len(), 3);
        let magic = read_file(&format!("{own} exe 0 4"));
        assert_eq!(magic.as_deref(), Some(&b"\x7fELF"[..]));
        for file in [
            "environ",
            "fd/0",
            "task/1/../mem",
            "fdinfo/../mem",
            "cwd",
            "exe/x",
            "",
            "/mem",
        ] {
            assert_eq!(read_file(&format!("{own} {file} 0 9")), None, "{file}");
        }
    }
}
