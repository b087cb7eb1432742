//! The helper process: it does what may block for good, and can be left behind.
//!
//! Two kinds of calls can block beyond any signal that this program handles:
//!
//! - Opening a pipe: while a process splices from it into a full socket, that process holds the
//!   pipe's lock (splice_file_to_pipe() and fifo_open() in fs).
//! - Reading files of /proc that need a process's memory map (`mem`, `cmdline`, `environ`, `maps`,
//!   `smaps`, `numa_maps`, `pagemap`, `map_files`), or the lock of an epoll instance, which is held
//!   while events are copied to memory (`fdinfo`). A thread that waits for a dead or frozen file
//!   system in a page fault holds the map's lock.
//!
//! The other files that are read here need neither, but many of them (`stat`, `syscall`, `wchan`, `io` and the
//! links `fd/N`, `cwd`, `exe` and `ns/net`; tried on Linux 6.18) wait for a process in execve(2). See
//! [`silent`](super::silent) for these.
//!
//! # Security
//!
//! | question | answer |
//! |---|---|
//! | privileges | those of the command that starts it: it gets none, and gives none up |
//! | what it opens | pipes without a name that are open in the processes asked for, for reading; `mem`, `cmdline` and `fdinfo/N` of such processes, the beginning of their `exe`, for reading; and `ns/net`, to enter it; nothing else of others |
//! | where it goes | with CAP_SYS_ADMIN into the network namespace of a process asked for (by its inode number, so that it is no other), to list its sockets, and back; it enters none if it could not return |
//! | what it never opens | FIFOs, which may release a stranger's open(2), and files by a path that another process gave (`exe` is the kernel's link to what runs, a regular file); of /proc only names made of numbers, `task` and these words |
//! | what stays open | nothing: each is closed before the answer is sent. What it inherits is closed at its start |
//! | what it never reads | data in pipes: only their capacity, their fill and their owner. It has a pipe open for some microseconds, only to read: no end of file comes later, but a writer may learn that much later that its last reader has left. Nor `environ`, nor more memory than the arguments of poll(2), select(2) or open(2) |
//! | what it changes | nothing, but the capacity of a pipe for `boost` (and the access time of an `exe`, where that is kept) |
//! | how it opens | O_NONBLOCK, O_CLOEXEC, O_NOCTTY, and O_NOFOLLOW in /proc, but for `exe` and `ns/net`. A pipe is opened by a descriptor for its path (O_PATH) that was found to be that pipe |
//! | who may ask | the process that started it, by a pipe. No descriptor is passed in either direction |
//!
//! What a hostile process can do:
//!
//! - Have it hang: it is killed and replaced, and that pipe, or that process (by number and start
//!   time), is not tried again, nor that network namespace. After 16 such processes no file of this kind is read,
//!   and while 16 killed helpers are still blocked no other is started; while 4 are blocked by processes of one
//!   user, none of these is asked for. The report says if something was not examined for that reason.
//! - Have a huge command line, or huge lists in poll(2): answers are bounded (32 KiB; a list of sockets, which
//!   is the kernel's, 4 MiB: messages of others are dropped), and parsed only as numbers and words.
//! - Write escape sequences into its name or its arguments: [`visible`](crate::proc::visible)
//!   replaces them before they are shown or saved.
//! - Pretend: its name, its arguments and its poll sets are what it says they are. A wrong answer
//!   leads to a wrong report on that process, and to nothing else.

mod helper;

use std::cell::RefCell;
use std::io::{self, BufReader, PipeReader};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::helper::Helper;
pub(crate) use self::helper::open;
pub use self::helper::{Answer, main};
use super::silent::{MAX_SILENT, SilentList};
use super::sockets::Sockets;
use super::{LinkId, Proc, ProcessId};

/// The argument of the hidden subcommand under which the helper process starts.
pub const ROLE: &str = "look";

/// A helper that is blocked for longer opens a pipe whose lock is held.
const PIPE_PATIENCE: Duration = Duration::from_millis(20);
/// A helper that is blocked for longer reads a file of a process whose map is locked. Pages that
/// were swapped out take a while.
const FILE_PATIENCE: Duration = Duration::from_millis(100);
/// After a helper that could not run in time none is started for this long: each costs up to a second
/// without an eye on signals.
const BACKOFF: Duration = Duration::from_millis(500);
/// Answers are at most this long, in bytes: an epoll instance has about 90 a descriptor.
const MAX_ANSWER: usize = 32 << 10;
/// A longer list of sockets, in bytes, is not sent: a socket has about 70.
const MAX_SOCKETS: usize = 4 << 20;

/// The state of a pipe at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeState {
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

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The helper is blocked by a lock.
    Blocked,
    /// The machine is too busy to run the helper, or the helper was killed.
    Late,
    /// No helper can be started.
    NoHelper,
}

/// How a helper process is started.
#[derive(Debug, Clone, Copy)]
enum HelperLaunch {
    /// As a program.
    Program(fn() -> Command),
    /// As a copy of this process.
    Copy(Answer),
}

/// Asks a helper process, which it starts when it is needed. Clones share it.
#[derive(Debug, Clone)]
pub struct PipeProbe {
    state: Rc<RefCell<ProbeState>>,
    silent: SilentList,
}

#[derive(Debug)]
struct ProbeState {
    launch: HelperLaunch,
    helper: Option<Helper>,
    silent: SilentList,
    /// Processor time of all helpers before this one.
    spent_before: Duration,
    /// Processor time of this helper when it was last read.
    spent: Duration,
    /// Whether it was asked since.
    was_asked: bool,
    /// When the next one may be started.
    start_at: Option<Instant>,
}

impl PipeProbe {
    /// Asks processes that `program` starts: this program with the hidden subcommand and [`ROLE`].
    pub fn new(program: fn() -> Command) -> Self {
        PipeProbe::sharing(program, SilentList::default())
    }

    /// As [`new`](Self::new), with the list of other threads.
    pub fn sharing(program: fn() -> Command, silent: SilentList) -> Self {
        PipeProbe::with(HelperLaunch::Program(program), silent)
    }

    /// Asks copies of this process, which must have only one thread. They answer other requests than
    /// for files and states by `answer`.
    pub fn forking(answer: Answer) -> Self {
        PipeProbe::with(HelperLaunch::Copy(answer), SilentList::default())
    }

    fn with(launch: HelperLaunch, silent: SilentList) -> Self {
        let state = ProbeState {
            launch,
            helper: None,
            silent: silent.clone(),
            spent_before: Duration::ZERO,
            spent: Duration::ZERO,
            was_asked: false,
            start_at: None,
        };
        PipeProbe {
            state: Rc::new(RefCell::new(state)),
            silent,
        }
    }

    /// What did not answer.
    pub fn silent(&self) -> &SilentList {
        &self.silent
    }

    /// The helper processes that still exist.
    pub fn pids(&self, proc: &Proc) -> Vec<i32> {
        self.silent.forget(|id| !id.is_running(proc));
        let helpers = self.silent.helpers().into_iter();
        helpers.map(|id| id.pid).collect()
    }

    /// Processor time of all helpers so far.
    pub fn spent(&self, proc: &Proc) -> Duration {
        let state = &mut *self.state.borrow_mut();
        if std::mem::take(&mut state.was_asked)
            && let Some(Helper { id, .. }) = state.helper
            && let Some((ran, _)) = proc.schedule(id.pid, id.pid)
        {
            state.spent = ran;
        }
        state.spent_before + state.spent
    }

    /// Reads the state of the pipe that is open under this descriptor, a read end.
    pub fn read_state(&self, proc: &Proc, pid: i32, fd: i32, pipe: LinkId) -> PipeState {
        let LinkId::Pipe { inode } = pipe else {
            return PipeState::Unknown;
        };
        let request = format!("{pid} {fd} {inode}\n");
        let mut state = self.state.borrow_mut();
        match state.ask_about(proc, pid, &request, PIPE_PATIENCE) {
            Ok(answer) => helper::parse_state(&answer).unwrap_or(PipeState::Unknown),
            Err(NoAnswer::Blocked) => PipeState::Held,
            Err(_) => PipeState::Unknown,
        }
    }

    /// Starts the helper process, so that the first request need not wait for it.
    pub fn prepare(&self, proc: &Proc) {
        self.state.borrow_mut().prepare(proc);
    }

    /// Ends the helper process. The next request starts another one.
    pub fn end(&self) {
        self.state.borrow_mut().helper = None;
    }

    /// Sends a request on a pipe to the helper process.
    pub(crate) fn ask(&self, proc: &Proc, request: &str) -> Result<Vec<u8>, NoAnswer> {
        self.state
            .borrow_mut()
            .ask(proc, request, None, PIPE_PATIENCE)
    }

    /// Lists the sockets of a process's network namespace, which has this inode number. `None` if that may
    /// not be entered, or takes too long.
    pub(crate) fn list_sockets(&self, proc: &Proc, pid: i32, network: u64) -> Option<Sockets> {
        let request = format!("{}{pid} {network}\n", helper::SOCKETS);
        let mut state = self.state.borrow_mut();
        let answer = state.ask_about(proc, pid, &request, FILE_PATIENCE);
        serde_json::from_slice(&answer.ok()?).ok()
    }

    /// Reads at most `len` bytes of a process's file, given below its directory. `None` if that
    /// fails, or if the process did not answer before.
    pub(crate) fn read(
        &self,
        proc: &Proc,
        pid: i32,
        file: &str,
        offset: u64,
        len: usize,
    ) -> Option<Vec<u8>> {
        let state = &mut *self.state.borrow_mut();
        let is_it = |id: &ProcessId| id.pid == pid && id.is_running(proc);
        let silent = self.silent.without_slow_files();
        if silent.iter().any(is_it) {
            return None;
        }
        if silent.len() >= MAX_SILENT {
            self.silent.give_up();
            return None;
        }
        let request = format!("{}{pid} {file} {offset} {len}\n", helper::FILE);
        match state.ask_about(proc, pid, &request, FILE_PATIENCE) {
            Ok(bytes) => (!bytes.is_empty()).then_some(bytes),
            Err(NoAnswer::NoHelper) => None,
            Err(NoAnswer::Blocked | NoAnswer::Late) => {
                let start = proc.stat(pid)?.start;
                self.silent.add_without_slow_files(ProcessId { pid, start });
                None
            }
        }
    }
}

impl ProbeState {
    fn prepare(&mut self, proc: &Proc) {
        if self.helper.is_some() {
            return;
        }
        self.silent.forget(|id| !id.is_running(proc));
        if self.silent.count_blocked_helpers() >= MAX_SILENT {
            self.silent.give_up();
            return;
        }
        if self.start_at.is_none_or(|at| Instant::now() >= at) {
            self.spent_before += std::mem::take(&mut self.spent);
            self.helper = Helper::start(self.launch, proc).ok();
            if let Some(helper) = &self.helper {
                self.silent.add_helper(helper.id);
            }
            self.start_at = self.helper.is_none().then(|| Instant::now() + BACKOFF);
        }
    }

    /// Sends a request about a process to the helper process, unless the processes of its user have blocked
    /// too many helpers.
    fn ask_about(
        &mut self,
        proc: &Proc,
        pid: i32,
        request: &str,
        patience: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        if self.silent.count_blocked_helpers() == 0 {
            return self.ask(proc, request, Some(pid), patience);
        }
        self.silent.forget(|id| !id.is_running(proc));
        if self.silent.has_blocked_enough(proc.user(pid)) {
            self.silent.give_up();
            return Err(NoAnswer::NoHelper);
        }
        self.ask(proc, request, Some(pid), patience)
    }

    /// Sends a request to the helper process, on a process if there is a `pid`. A helper that does not
    /// answer is killed.
    fn ask(
        &mut self,
        proc: &Proc,
        request: &str,
        pid: Option<i32>,
        patience: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        self.prepare(proc);
        let mut helper = self.helper.take().ok_or(NoAnswer::NoHelper)?;
        self.was_asked = true;
        match helper.ask(proc, request, patience) {
            Ok(answer) => {
                self.helper = Some(helper);
                Ok(answer)
            }
            Err(reason) => {
                kill(proc, helper.id);
                let user = pid.and_then(|pid| proc.user(pid));
                self.silent.add_blocked_helper(helper.id, user);
                if reason == NoAnswer::Late {
                    self.start_at = Some(Instant::now() + BACKOFF);
                }
                Err(reason)
            }
        }
    }
}

/// Kills a helper. One that is blocked beyond SIGKILL ends once its call returns.
fn kill(proc: &Proc, id: ProcessId) {
    let descriptor = Pid::from_raw(id.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    // The descriptor refers to one process, which is not a later one with its number.
    if let Some(Ok(descriptor)) = descriptor
        && id.is_running(proc)
    {
        let _ = pidfd_send_signal(descriptor, Signal::KILL);
    }
}

/// Whether a pipe can be read from, or has ended, within this time.
///
/// # Errors
/// Those of poll(2): it is refused by a seccomp filter, say. Whoever waits in a loop must end it.
pub fn is_readable(fd: &BufReader<PipeReader>, within: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.get_ref(), PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    Ok(retry_on_intr(|| poll(&mut fds, within.as_ref()))? > 0)
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_helper_whose_number_is_reused_is_forgotten() {
        let (proc, pid) = (Proc::default(), getpid().as_raw_pid());
        let pipe_probe = PipeProbe::forking(|_| None);
        let leave = |start| {
            let list = pipe_probe.silent();
            list.add_blocked_helper(ProcessId { pid, start }, None);
        };
        leave(0);
        assert!(pipe_probe.pids(&proc).is_empty());
        leave(proc.stat(pid).unwrap().start);
        assert_eq!(pipe_probe.pids(&proc), [pid]);
    }

    #[test]
    fn a_silent_process_is_asked_once_its_numbers_successor_again() {
        let (proc, pid) = (Proc::default(), getpid().as_raw_pid());
        // It starts no process, which shows whether it wanted to ask.
        let pipe_probe = PipeProbe::new(|| Command::new("false"));
        let list = pipe_probe.silent();
        let start = proc.stat(pid).unwrap().start;
        list.add_without_slow_files(ProcessId { pid, start });
        assert_eq!(pipe_probe.read(&proc, pid, "cmdline", 0, 9), None);
        assert!(!pipe_probe.state.borrow().was_asked);
        assert_eq!(list.without_slow_files().len(), 1);
    }
}
