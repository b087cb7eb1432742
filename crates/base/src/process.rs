//! Other processes, referred to even if their numbers are reused, and their ends.
//!
//! That is what pidfds are for. Where pidfd_open(2) is refused (before Linux 5.3, by the seccomp
//! filters of older container runtimes, in gVisor), a process's directory in /proc takes their
//! place, which refers to one process, too. It is not readable at the process's end, so that is
//! polled.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};

use crate::failure::{fork_error, say};
use crate::interrupt::first_signal;

/// The shell of system(3). It is not looked for in PATH, which a command may need otherwise.
pub const SHELL: &str = "/bin/sh";

/// Interval of polling for the end of a process without a pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Checks that /proc has the numbers that processes have here. That of another PID namespace has
/// other processes under the same numbers. Without any /proc there is nothing to mistake.
///
/// # Errors
/// It shows another PID namespace; the message says how to mount that of this one.
pub fn require_own_proc() -> anyhow::Result<()> {
    let own = Path::new("/proc/self");
    // The link leads nowhere in a namespace that this process is not in.
    let is_own = match own.read_link() {
        Ok(number) => number == Path::new(&getpid().as_raw_pid().to_string()),
        Err(_) => own.symlink_metadata().is_err(),
    };
    anyhow::ensure!(
        is_own,
        "/proc shows another PID namespace, in which processes have other numbers: mount the /proc \
         of this one (unshare --mount-proc; in a container: mount -t proc proc /proc)"
    );
    Ok(())
}

/// A command line for [`SHELL`], as system(3) runs it.
pub fn shell(line: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SHELL);
    command.arg0("sh").arg("-c").arg(line);
    command
}

/// Another process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    /// A pidfd, or the directory.
    file: OwnedFd,
    /// Why it is the directory.
    refusal: Option<Errno>,
}

impl ProcessHandle {
    /// Refers to a process.
    ///
    /// # Errors
    /// ESRCH if there is no such process, those of pidfd_open(2), and those of opening its directory.
    pub fn open(pid: Pid) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(file) => Ok(ProcessHandle {
                pid,
                file,
                refusal: None,
            }),
            Err(errno) if is_refusal(errno) => ProcessHandle::open_directory(pid, errno),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Says so, once, if there are no pidfds.
    pub fn say_refusal(&self) {
        if let Some(errno) = self.refusal {
            say_refusal(errno);
        }
    }

    fn open_directory(pid: Pid, refusal: Errno) -> io::Result<Self> {
        let file = File::open(format!("/proc/{}", pid.as_raw_pid()));
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Errno::SRCH.into(),
            _ => error,
        })?;
        Ok(ProcessHandle {
            pid,
            file: file.into(),
            refusal: Some(refusal),
        })
    }

    /// Waits until the process ends, at most for `within`. Returns whether it has ended.
    ///
    /// # Errors
    /// Those of poll(2): it is refused, say, so that the end can't be noticed.
    pub fn ends_within(&self, within: Duration) -> io::Result<bool> {
        let start = Instant::now();
        // The pidfd, if it is one.
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        loop {
            // A time out of range for poll(2) means no timeout.
            let left = within.saturating_sub(start.elapsed());
            let is_pidfd = self.refusal.is_none();
            if !is_pidfd && self.runs() {
                thread::sleep(POLL_INTERVAL.min(left));
            } else if !is_pidfd || is_any_ready(&mut fds, Timespec::try_from(left).ok().as_ref())? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Whether the process of a directory runs: it can't be read after the process was reaped.
    fn runs(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| openat(&self.file, "stat", flags, Mode::empty()));
        let mut text = String::new();
        match opened.map(|stat| File::from(stat).read_to_string(&mut text)) {
            Ok(Ok(_)) => is_running(&text),
            Err(Errno::NOENT | Errno::SRCH) => false,
            Ok(Err(error)) => Errno::from_io_error(&error) != Some(Errno::SRCH),
            // There is no descriptor left, say.
            Err(_) => true,
        }
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// Those of pidfd_send_signal(2).
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.file, signal) {
            // The call is refused, too, or does not take directories (before Linux 5.1).
            Err(Errno::NOSYS | Errno::PERM | Errno::BADF)
                if self.refusal.is_some() && self.runs() =>
            {
                Ok(kill_process(self.pid, signal)?)
            }
            sent => Ok(sent?),
        }
    }
}

/// Of the descriptor that refers to the process.
impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads what a child prints on its standard output, a pipe, and waits for it. One that is not done in
/// time, or when this process has received a signal, is killed, which also ends one that was stopped.
///
/// # Errors
/// `TimedOut` and `Interrupted` for these; those of read(2).
pub fn read_output(child: &mut Child, within: Duration) -> io::Result<(Vec<u8>, ExitStatus)> {
    let start = Instant::now();
    let mut bytes = Vec::new();
    let outcome = loop {
        let Some(output) = &mut child.stdout else {
            break Ok(());
        };
        if first_signal().is_some() {
            break Err(io::ErrorKind::Interrupted.into());
        }
        if start.elapsed() > within {
            break Err(io::ErrorKind::TimedOut.into());
        }
        let interval = Timespec::try_from(POLL_INTERVAL).ok();
        match is_any_ready(&mut [PollFd::new(output, PollFlags::IN)], interval.as_ref()) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) => break Err(error),
        }
        let mut part = [0; 1 << 16];
        match output.read(&mut part) {
            Ok(0) => break Ok(()),
            Ok(count) => bytes.extend(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    if outcome.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    outcome.map(|()| (bytes, status))
}

/// Waits until a descriptor is ready, at most for `within`. False after a signal, too.
///
/// # Errors
/// Those of poll(2) but EINTR: it is refused by a seccomp filter, say, or RLIMIT_NOFILE was lowered.
/// Whoever waits in a loop must end it.
pub fn is_any_ready(fds: &mut [PollFd<'_>], within: Option<&Timespec>) -> io::Result<bool> {
    match poll(fds, within) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(io::Error::new(
            io::Error::from(errno).kind(),
            format!("poll(2): {}", io::Error::from(errno)),
        )),
    }
}

/// Whether proc_pid_stat(5) is that of a running process. Its first thread may have ended before
/// others.
fn is_running(stat: &str) -> bool {
    let Some((_, after)) = stat.rsplit_once(')') else {
        return false;
    };
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let threads = fields.get(17).and_then(|count| count.parse().ok());
    !matches!(fields.first(), Some(&("Z" | "X"))) || threads.unwrap_or(0) > 1
}

/// Whether there are no pidfds: pidfd_open(2) itself knows neither error.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::PERM)
}

fn say_refusal(errno: Errno) {
    static ONCE: Once = Once::new();
    let cause = if errno == Errno::PERM {
        "by a seccomp filter"
    } else {
        "by Linux before 5.3, or by a sandbox"
    };
    ONCE.call_once(|| {
        say(&format!(
            "pipespeed: pidfd_open(2) is refused ({cause}): {errno}; processes are watched in /proc \
             instead"
        ));
    });
}

/// What it takes to notice the end of a child while other descriptors are polled, too. Prepared
/// before the child is started, so that nearly nothing can fail after that.
#[derive(Debug)]
pub struct ChildWatch(Means);

#[derive(Debug)]
enum Means {
    /// Makes room for the pidfd.
    Pidfd(OwnedFd),
    /// A thread that waits for the child, and then closes the other end of the pipe.
    Thread {
        subject: mpsc::Sender<Pid>,
        ended: OwnedFd,
    },
}

impl ChildWatch {
    /// Prepares to watch a child.
    ///
    /// # Errors
    /// There is no descriptor left, or without pidfds no thread.
    pub fn prepare() -> io::Result<Self> {
        match pidfd_open(getpid(), PidfdFlags::empty()) {
            Ok(reserved) => Ok(ChildWatch(Means::Pidfd(reserved))),
            Err(errno) if is_refusal(errno) => {
                say_refusal(errno);
                ChildWatch::with_thread().map_err(fork_error)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn with_thread() -> io::Result<Self> {
        let (ended, held) = io::pipe()?;
        let (subject, received) = mpsc::channel();
        let wait = move || {
            if let Ok(child) = received.recv() {
                // An error means that it has been reaped. Otherwise others reap it.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let _ = retry_on_intr(|| waitid(WaitId::Pid(child), options));
            }
            drop(held);
        };
        // Signals are for the thread that handles them.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let spawned = thread::Builder::new().spawn(wait);
        before.thread_set_mask()?;
        spawned?;
        Ok(ChildWatch(Means::Thread {
            subject,
            ended: ended.into(),
        }))
    }

    /// Returns a descriptor that is readable once the child has ended.
    ///
    /// # Errors
    /// Neither a pidfd can be opened, whatever `prepare` found, nor a thread started.
    pub fn watch(self, child: Pid) -> io::Result<OwnedFd> {
        match self.0 {
            Means::Pidfd(reserved) => {
                drop(reserved);
                match pidfd_open(child, PidfdFlags::empty()) {
                    Ok(pidfd) => Ok(pidfd),
                    Err(_) => ChildWatch::with_thread().map_err(fork_error)?.watch(child),
                }
            }
            Means::Thread { subject, ended } => {
                let sent = subject.send(child);
                sent.map_err(|_| io::Error::other("the thread that waits has ended"))?;
                Ok(ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Whether a descriptor is readable within this time.
    fn is_readable(fd: &OwnedFd, within: Option<&Timespec>) -> bool {
        retry_on_intr(|| poll(&mut [PollFd::new(fd, PollFlags::IN)], within)).unwrap() > 0
    }

    #[test]
    fn a_childs_end_is_noticed_without_pidfds_with_its_status() {
        let watch = ChildWatch::with_thread().unwrap();
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
        let ended = watch.watch(Pid::from_child(&cat)).unwrap();
        assert!(!is_readable(&ended, Some(&Timespec::default())));
        drop(cat.stdin.take());
        assert!(is_readable(&ended, None));
        assert!(cat.wait().unwrap().success());
    }

    #[test]
    fn output_is_read_to_its_end_and_a_stopped_child_is_killed() {
        let start = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdout(Stdio::piped());
            shell.spawn().unwrap()
        };
        let mut shell = start("echo out; exit 3");
        let (bytes, status) = read_output(&mut shell, Duration::MAX).unwrap();
        assert_eq!((&bytes[..], status.code()), (&b"out\n"[..], Some(3)));
        let mut stopped = start("kill -STOP $$");
        let outcome = read_output(&mut stopped, Duration::from_millis(10));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(stopped.try_wait().unwrap().is_some());
    }

    #[test]
    fn a_directory_stands_for_one_process() {
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
        let process = ProcessHandle::open_directory(Pid::from_child(&cat), Errno::NOSYS).unwrap();
        assert!(!process.ends_within(Duration::ZERO).unwrap());
        process.send(Signal::TERM).unwrap();
        assert!(process.ends_within(Duration::MAX).unwrap());
        cat.wait().unwrap();
        assert!(process.ends_within(Duration::ZERO).unwrap());
        assert!(process.send(Signal::TERM).is_err());
        let reaped = ProcessHandle::open_directory(Pid::from_child(&cat), Errno::NOSYS).map(drop);
        assert_eq!(
            Errno::from_io_error(&reaped.unwrap_err()),
            Some(Errno::SRCH)
        );
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_runs() {
        let stat = |state: char, threads: u32| {
            format!("1 (a) b) {state} 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 {threads} 21 22")
        };
        for (state, threads, expected) in [
            ('R', 1, true),
            ('T', 1, true),
            ('Z', 2, true),
            ('Z', 1, false),
            ('X', 0, false),
        ] {
            assert_eq!(
                is_running(&stat(state, threads)),
                expected,
                "{state} {threads}"
            );
        }
    }
}
