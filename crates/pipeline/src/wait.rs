//! What a thread waits for: from the kernel function in which it sleeps, and from its
//! system call where that may be read.

mod call;
mod thread;

use std::collections::{BTreeMap, BTreeSet};

use pipespeed_base::named;
use serde::Serialize;

use self::call::{Call, parse_call};
use self::thread::Thread;
use crate::graph::{Graph, HeldEnds, LinkSide};
use crate::proc::files::{FdBudget, ProcessFiles, ThreadFiles};
use crate::proc::{LinkId, Proc, Target};

named! {
    /// The kind of kernel function in which a thread sleeps, and what it waits for there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Asleep {
        /// Until a pipe has data.
        Input = "input (pipe empty)",
        /// Until a pipe has room.
        Room = "room for output (pipe full)",
        /// Until somebody opens the other end of a FIFO.
        FifoPeer = "the other end of a FIFO",
        /// Until a child process ends.
        Child = "a child process",
        /// In poll, select or epoll_wait.
        Poll = "poll or select",
        /// Until a time.
        Timer = "a timer (sleep)",
        /// Until a signal arrives: often that of a child.
        Signal = "a signal",
        /// For another thread.
        Futex = "another thread (futex)",
        /// For a file's data.
        Disk = "a file's data (disk)",
        /// For a terminal or a socket.
        TerminalOrSocket = "the terminal or a socket",
        /// Until SIGCONT.
        Stopped = "SIGCONT (it is stopped)",
        /// Until a debugger continues it.
        Traced = "a debugger",
        /// Until its control group is thawed.
        Frozen = "its frozen control group",
        /// For a lock of the kernel.
        KernelLock = "a lock of the kernel",
        /// The lock of an address space, or of the mappings of a file, which every program takes that
        /// starts or ends.
        AddressSpace = "a lock of the address space",
        /// For a process that decides about its system calls (seccomp_unotify(2)).
        Supervisor = "a supervisor of its system calls",
    }
}

/// The kind of a kernel function, by its names in several versions: those of pipes are in
/// fs/pipe.c and fs/splice.c.
pub fn asleep(function: &str) -> Option<Asleep> {
    Some(match function.split('.').next()? {
        "pipe_read" | "anon_pipe_read" | "fifo_pipe_read" => Asleep::Input,
        "pipe_wait_readable" | "ipipe_prep" | "splice_from_pipe_next" => Asleep::Input,
        "pipe_write" | "anon_pipe_write" | "fifo_pipe_write" => Asleep::Room,
        "pipe_wait_writable" | "opipe_prep" | "wait_for_space" => Asleep::Room,
        "wait_for_partner" | "fifo_open" => Asleep::FifoPeer,
        "do_wait" | "kernel_wait4" | "do_wait4" => Asleep::Child,
        // vfork(2): until the child has become another program.
        "kernel_clone" | "wait_for_vfork_done" => Asleep::Child,
        "poll_schedule_timeout" | "do_sys_poll" | "do_poll" | "do_select" => Asleep::Poll,
        "ep_poll" | "do_epoll_wait" => Asleep::Poll,
        "hrtimer_nanosleep" | "do_nanosleep" | "common_nsleep" => Asleep::Timer,
        "sigsuspend" | "do_sigtimedwait" | "__do_sys_pause" => Asleep::Signal,
        "futex_wait" | "futex_wait_queue" | "futex_wait_queue_me" | "__futex_wait" => Asleep::Futex,
        "futex_do_wait" => Asleep::Futex,
        "folio_wait_bit_common" | "folio_wait_bit" | "wait_on_page_bit" => Asleep::Disk,
        "submit_bio_wait" | "__wait_on_buffer" | "folio_wait_writeback" => Asleep::Disk,
        "filemap_read" | "io_schedule" | "blk_io_schedule" => Asleep::Disk,
        "n_tty_read" | "wait_woken" => Asleep::TerminalOrSocket,
        // What was written to the other side of a pseudo-terminal is worked off first.
        "__flush_work" | "flush_work" => Asleep::TerminalOrSocket,
        "unix_stream_read_generic" | "unix_wait_for_peer" => Asleep::TerminalOrSocket,
        "sock_alloc_send_pskb" | "__skb_wait_for_more_packets" => Asleep::TerminalOrSocket,
        "inet_csk_accept" | "sk_wait_data" | "sk_stream_wait_memory" => Asleep::TerminalOrSocket,
        "do_signal_stop" => Asleep::Stopped,
        "ptrace_stop" => Asleep::Traced,
        // do_freezer_trap() is mostly inlined in it; the other one is that of version 1.
        "get_signal" | "do_freezer_trap" | "__refrigerator" => Asleep::Frozen,
        "__mutex_lock" | "mutex_lock" | "__mutex_lock_slowpath" => Asleep::KernelLock,
        // mm/mmap.c, mm/vma.c.
        "mmap_region" | "__mmap_region" | "vm_mmap_pgoff" | "__vm_munmap" => Asleep::AddressSpace,
        "unlink_file_vma" | "unlink_file_vma_batch_process" | "vma_link" => Asleep::AddressSpace,
        "vma_link_file" | "vma_prepare" | "dup_mmap" | "exit_mmap" => Asleep::AddressSpace,
        "lock_mm_and_find_vma" | "madvise_lock" | "do_madvise" => Asleep::AddressSpace,
        "seccomp_do_user_notification" | "__seccomp_filter" => Asleep::Supervisor,
        _ => return None,
    })
}

/// A pipe on which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkWait {
    /// The pipe.
    pub pipe: LinkId,
    /// The descriptor, if known.
    pub fd: Option<i32>,
    /// The side.
    pub side: LinkSide,
}

/// What a thread waits for that is neither a pipe nor a process of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// A socket.
    Socket,
    /// A terminal.
    Terminal,
    /// A time, or a wait with a timeout.
    Timer,
    /// Another thread or process, by a futex.
    Lock,
    /// A lock on a file (flock(2), fcntl(2)).
    FileLock,
    /// Somebody who opens the other end of a FIFO.
    FifoPeer,
    /// A child process.
    Child,
    /// A signal: programs that run another one often wait for SIGCHLD.
    Signal,
    /// An event: eventfd, inotify and similar.
    Event,
    /// A socket, with a timeout: which of them ends the wait can't be seen.
    SocketOrTimer,
    /// An event, with a timeout.
    EventOrTimer,
    /// Another thread or process, by a futex, with a timeout.
    LockOrTimer,
    /// Its control group is frozen (cgroups(7)).
    Frozen,
    /// Its tracer: strace(1), a debugger.
    Tracer,
    /// Anything else, or unknown.
    Other,
}

impl Outside {
    /// The same with a timeout.
    pub(crate) fn or_timer(self) -> Self {
        match self {
            Outside::Socket => Outside::SocketOrTimer,
            Outside::Event | Outside::Signal => Outside::EventOrTimer,
            Outside::Lock => Outside::LockOrTimer,
            other => other,
        }
    }

    /// What a wait for either is: that for which somebody else is most likely to come.
    pub(crate) fn or(self, other: Self) -> Self {
        let rank = |outside: &Outside| match outside {
            Outside::Timer => 0,
            // Runtimes wake themselves so.
            Outside::Event | Outside::EventOrTimer => 1,
            Outside::Child => 2,
            Outside::Signal => 3,
            Outside::FifoPeer => 4,
            Outside::Terminal => 5,
            Outside::Socket | Outside::SocketOrTimer => 6,
            _ => 7,
        };
        let first = if rank(&self) >= rank(&other) {
            self
        } else {
            other
        };
        if self.may_be_timer() || other.may_be_timer() {
            first.or_timer()
        } else {
            first
        }
    }

    /// Whether a timeout ends the wait, or may.
    pub fn may_be_timer(self) -> bool {
        matches!(
            self,
            Outside::Timer | Outside::SocketOrTimer | Outside::EventOrTimer | Outside::LockOrTimer
        )
    }

    /// The longest of these waits, which are shares of the time.
    pub fn longest(waits: &BTreeMap<Outside, f64>) -> Option<Outside> {
        let longest = waits.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(*longest.0)
    }

    /// Its name in a sentence: "waits for ...".
    pub fn name(self) -> &'static str {
        match self {
            Outside::Socket => "a socket",
            Outside::Terminal => "a terminal",
            Outside::Timer => "a timer",
            Outside::Lock => "a lock",
            Outside::FileLock => "a file lock",
            Outside::FifoPeer => "another process to open its FIFO",
            Outside::Child => "a child process",
            Outside::Signal => "a signal",
            Outside::Event => "an event",
            Outside::SocketOrTimer => "a socket or a timer",
            Outside::EventOrTimer => "an event or a timer",
            Outside::LockOrTimer => "a lock or a timer",
            Outside::Frozen => "its frozen control group",
            Outside::Tracer => "its tracer (strace or a debugger)",
            Outside::Other => "something else",
        }
    }
}

/// What a sleeping thread waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedOn {
    /// Any of these pipes, or something outside.
    Pipes {
        /// The pipes.
        any_of: Vec<LinkWait>,
        /// What else would end the wait.
        or: Option<Outside>,
    },
    /// Somebody who opens the other end of a FIFO.
    FifoPeer {
        /// The FIFO's path, if known.
        path: Option<String>,
    },
    /// A child process: this one, or any.
    Child(Option<i32>),
    /// Another thread of its process.
    Thread,
    /// The lock of a pipe that another process splices from or to.
    PipeLock,
    /// Something outside of the pipeline.
    Outside(Outside),
}

/// The state of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// Running or runnable.
    Working,
    /// It waits for a file's data.
    Disk,
    /// It is stopped by a signal.
    Stopped,
    /// It sleeps.
    Waiting(BlockedOn),
}

impl ThreadState {
    /// Whether a timeout ends its wait, or may.
    pub(crate) fn may_time_out(&self) -> bool {
        let outside = match self {
            ThreadState::Waiting(BlockedOn::Pipes { or, .. }) => *or,
            ThreadState::Waiting(BlockedOn::Outside(outside)) => Some(*outside),
            _ => None,
        };
        outside.is_some_and(Outside::may_be_timer)
    }
}

/// The state of a thread, and whether it sleeps in a call whose bytes the kernel does not
/// count. `None` if it has ended.
pub fn examine(proc: &Proc, pid: i32, tid: i32, ends: &HeldEnds) -> Option<(ThreadState, bool)> {
    let files = ProcessFiles::new(proc, pid);
    let seen = examine_files(files, &mut ThreadFiles::new(tid), ends, None)?;
    Some((seen.state, seen.is_uncounted))
}

/// A thread whose files seem to contradict each other is examined again so often.
const MAX_AGAIN: usize = 2;

/// One sample of a thread.
#[derive(Debug, Clone)]
pub(crate) struct ThreadSample {
    pub(crate) state: ThreadState,
    /// Whether it sleeps in a call whose bytes the kernel does not count.
    pub(crate) is_uncounted: bool,
    /// Whether its system call may not be read.
    pub(crate) is_hidden: bool,
}

/// As [`examine`], by these files.
pub(crate) fn examine_files(
    files: ProcessFiles<'_>,
    thread: &mut ThreadFiles,
    ends: &HeldEnds,
    fd_budget: Option<&FdBudget>,
) -> Option<ThreadSample> {
    // It may go on between two reads, which then contradict each other.
    let may_contradict = |state: &ThreadState| {
        matches!(
            state,
            ThreadState::Waiting(BlockedOn::Outside(Outside::Other | Outside::Signal))
        )
    };
    let mut seen = examine_once(files, thread, ends, fd_budget)?;
    for _ in 0..MAX_AGAIN {
        if !may_contradict(&seen.state) {
            break;
        }
        seen = examine_once(files, thread, ends, fd_budget)?;
    }
    Some(seen)
}

fn examine_once(
    files: ProcessFiles<'_>,
    thread: &mut ThreadFiles,
    ends: &HeldEnds,
    fd_budget: Option<&FdBudget>,
) -> Option<ThreadSample> {
    let text = thread.call(files, fd_budget);
    let call = text.as_deref().and_then(parse_call);
    let known = |state| {
        Some(ThreadSample {
            state,
            is_uncounted: call.is_some_and(Call::is_uncounted),
            is_hidden: text.is_none(),
        })
    };
    if text.as_deref() == Some("running") {
        return known(ThreadState::Working);
    }
    let function = thread.function(files, fd_budget);
    let kind = function.as_deref().and_then(asleep);
    match kind {
        Some(Asleep::Disk) => return known(ThreadState::Disk),
        Some(Asleep::Stopped) => return known(ThreadState::Stopped),
        Some(Asleep::Traced) => {
            return known(ThreadState::Waiting(BlockedOn::Outside(Outside::Tracer)));
        }
        _ => {}
    }
    let is_unclear = matches!(kind, None | Some(Asleep::Frozen));
    if is_unclear || text.is_none() {
        match thread.state(files, fd_budget)? {
            'R' => return known(ThreadState::Working),
            'T' => return known(ThreadState::Stopped),
            // The state of a process that its debugger has stopped (proc_pid_stat(5)).
            't' => return known(ThreadState::Waiting(BlockedOn::Outside(Outside::Tracer))),
            'Z' | 'X' | 'x' => return None,
            'D' if kind.is_none() => return known(ThreadState::Disk),
            _ => {}
        }
    }
    // Waiting for the pipe's lock looks alike but for the state.
    if kind == Some(Asleep::FifoPeer) && thread.state(files, fd_budget) == Some('D') {
        return known(ThreadState::Waiting(BlockedOn::PipeLock));
    }
    let sleeper = Thread { files, ends };
    known(ThreadState::Waiting(sleeper.wait(kind, call)))
}

impl Graph {
    /// The processes that could wake one in these states: those that hold the other side of a
    /// pipe on which it waits, and its children if it waits for one.
    pub fn wakers(&self, pid: i32, threads: &[ThreadState]) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for state in threads {
            match state {
                ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
                    // Behind a terminal emulator's other descriptors is half of the system.
                    let is_emulator = any_of.len() > 1;
                    let any_of = any_of.iter();
                    for on in any_of.filter(|on| !(is_emulator && on.pipe.is_terminal())) {
                        found.extend(self.holders(on.pipe, on.side.other()));
                    }
                }
                ThreadState::Waiting(BlockedOn::Child(_)) => {
                    let all = self.processes.values();
                    let children = all.filter(|process| process.parent == pid);
                    found.extend(children.map(|process| process.id.pid));
                }
                _ => {}
            }
        }
        found
    }
}

/// Whether a process is in a splice or a similar call from or to this pipe.
pub fn is_moving(proc: &Proc, pid: i32, pipe: LinkId) -> bool {
    let is_of = |call: Call| {
        let sides = [LinkSide::Input, LinkSide::Room].into_iter();
        let mut targets = sides.filter_map(|side| proc.target(pid, call.descriptor(side)?));
        let moves = call.is_uncounted() || call.number == libc::SYS_sendfile;
        moves && targets.any(|target| matches!(target, Target::Pipe(id, _) if id == pipe))
    };
    let mut threads = proc.threads(pid).into_iter();
    threads.any(|tid| {
        let call = proc.syscall(pid, tid).as_deref().and_then(parse_call);
        call.is_some_and(is_of)
    })
}

#[cfg(test)]
mod tests;
