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
            Outside::Event => Outside::EventOrTimer,
            Outside::Lock => Outside::LockOrTimer,
            other => other,
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use libc::c_long;
    use pipespeed_host::Root;
    use tempfile::TempDir;

    use super::*;
    use crate::fixtures::{reads, writes};

    /// A process 7 with one thread, as files.
    struct Files(TempDir);

    impl Files {
        fn new(function: &str) -> Self {
            let files = Files(tempfile::tempdir().unwrap());
            files
                .file("task/7/wchan", function.as_bytes())
                .file(
                    "task/7/stat",
                    b"7 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0",
                )
                .link("3", "pipe:[77]")
                .link("4", "pipe:[88]")
                .link("5", "socket:[99]")
                .link("6", "anon_inode:[timerfd]");
            files
        }

        fn file(&self, name: &str, bytes: &[u8]) -> &Self {
            let path = self.0.path().join("proc/7").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
            self
        }

        fn link(&self, fd: &str, target: &str) -> &Self {
            let path = self.0.path().join("proc/7/fd");
            fs::create_dir_all(&path).unwrap();
            symlink(target, path.join(fd)).unwrap();
            self
        }

        fn call(&self, number: c_long, args: [u64; 6]) -> &Self {
            let args = args.map(|arg| format!("{arg:#x}")).join(" ");
            let text = format!("{number} {args} 0x7ffc 0x7f8a\n");
            self.file("task/7/syscall", text.as_bytes())
        }

        fn state(&self) -> Option<ThreadState> {
            let proc = Proc::below(Root(self.0.path().to_owned()));
            let mut ends = vec![reads(3, 77), writes(4, 88), writes(8, 89)];
            if self.0.path().join("proc/7/fd/7").is_symlink() {
                ends.extend([reads(7, 99), writes(9, 99)]);
            }
            examine(&proc, 7, 7, &ends.into()).map(|(state, _)| state)
        }

        #[track_caller]
        fn waits(&self, expected: BlockedOn) {
            assert_eq!(self.state(), Some(ThreadState::Waiting(expected)));
        }
    }

    fn pipes(any_of: &[(u64, Option<i32>, LinkSide)], or: Option<Outside>) -> BlockedOn {
        let any_of = any_of.iter().map(|(inode, fd, side)| LinkWait {
            pipe: LinkId::pipe(*inode),
            fd: *fd,
            side: *side,
        });
        BlockedOn::Pipes {
            any_of: any_of.collect(),
            or,
        }
    }

    #[test]
    fn a_read_and_a_write_name_their_pipe() {
        let reading = Files::new("anon_pipe_read");
        reading.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        reading.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
        let writing = Files::new("pipe_write");
        writing.call(libc::SYS_write, [4, 0, 0, 0, 0, 0]);
        writing.waits(pipes(&[(88, Some(4), LinkSide::Room)], None));
    }

    #[test]
    fn a_wait_for_the_other_side_of_a_terminal_is_no_wait_for_a_disk() {
        let files = Files::new("__flush_work");
        files.link("9", "/dev/pts/3");
        files.call(libc::SYS_read, [9, 0, 0, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Terminal));
    }

    #[test]
    fn without_the_call_any_pipe_of_that_side_is_possible() {
        let possible = [(88, None, LinkSide::Room), (89, None, LinkSide::Room)];
        Files::new("pipe_write").waits(pipes(&possible, None));
        Files::new("unix_stream_read_generic").waits(BlockedOn::Outside(Outside::Socket));
    }

    #[test]
    fn without_a_known_function_the_call_suffices() {
        let files = Files::new("renamed_in_a_later_kernel");
        files.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        files.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
        files.call(libc::SYS_read, [5, 0, 0, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Socket));
        // From a pipe to a socket: it may wait for either.
        files.call(libc::SYS_splice, [3, 0, 5, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Socket));
    }

    #[test]
    fn poll_names_all_its_pipes_and_whatever_else_ends_it() {
        let entry = |fd: i32, events: i16| {
            let [a, b, c, d] = fd.to_ne_bytes();
            let [e, f] = events.to_ne_bytes();
            [a, b, c, d, e, f, 0, 0]
        };
        let list = [
            entry(3, libc::POLLIN),
            entry(-1, libc::POLLIN),
            entry(4, libc::POLLOUT),
        ];
        let both = [
            (77, Some(3), LinkSide::Input),
            (88, Some(4), LinkSide::Room),
        ];
        // What was written to a terminal is worked off by a poll of its master.
        for function in ["__flush_work", "poll_schedule_timeout"] {
            let files = Files::new(function);
            files.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
            files.call(libc::SYS_ppoll, [8, 3, 0, 0, 0, 0]);
            files.waits(pipes(&both, None));
        }
        let files = Files::new("poll_schedule_timeout");
        files.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
        files.call(libc::SYS_ppoll, [8, 3, 1, 0, 0, 0]);
        files.waits(pipes(&both, Some(Outside::Timer)));
        // Only for the reader's end, as in a pause.
        let nothing = [entry(4, 0)];
        let pausing = Files::new("poll_schedule_timeout");
        pausing.file("mem", &[[0; 8].as_slice(), &nothing.concat()].concat());
        pausing.call(libc::SYS_ppoll, [8, 1, 1, 0, 0, 0]);
        pausing.waits(BlockedOn::Outside(Outside::Timer));
        // By a pipe of which it has both ends it wakes itself.
        let own = Files::new("poll_schedule_timeout");
        own.link("7", "pipe:[99]");
        let list = [entry(7, libc::POLLIN)];
        own.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
        own.call(libc::SYS_ppoll, [8, 1, 1, 0, 0, 0]);
        own.waits(BlockedOn::Outside(Outside::EventOrTimer));
        // Nothing but a signal ends this.
        files.call(libc::SYS_ppoll, [8, 0, 0, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Signal));
        // More than can be read.
        files.call(libc::SYS_ppoll, [8, 4, 0, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Other));
    }

    #[test]
    fn poll_for_input_at_write_end_waits_for_its_errors() {
        let mut list = [0; 16];
        list[8..12].copy_from_slice(&4_i32.to_ne_bytes());
        list[12..14].copy_from_slice(&libc::POLLIN.to_ne_bytes());
        let files = Files::new("poll_schedule_timeout");
        files.file("mem", &list);
        files.call(libc::SYS_ppoll, [8, 1, 0, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Event));
    }

    #[test]
    fn a_large_epoll_instance_is_a_poll_for_anything() {
        let files = Files::new("ep_poll");
        files.call(libc::SYS_epoll_pwait, [9, 0, 1, u64::MAX, 0, 0]);
        files.file(
            "fdinfo/9",
            "tfd: 3 events: 19 data: 0\n".repeat(257).as_bytes(),
        );
        files.waits(BlockedOn::Outside(Outside::Other));
    }

    #[test]
    fn read_of_a_pipe_that_is_gone_waits_for_anything() {
        let files = Files::new("pipe_read");
        let proc = Proc::below(Root(files.0.path().to_owned()));
        let state = examine(&proc, 7, 7, &HeldEnds::default()).map(|(state, _)| state);
        let other = ThreadState::Waiting(BlockedOn::Outside(Outside::Other));
        assert_eq!(state, Some(other));
    }

    #[test]
    fn an_epoll_instance_lists_its_targets() {
        let line = |fd: i32, events: u32| {
            format!("tfd: {fd:8} events: {events:8x} data: 0  pos:0 ino:1 sdev:1\n")
        };
        let files = Files::new("ep_poll");
        files.call(libc::SYS_epoll_pwait, [9, 0, 1, u64::MAX, 0, 0]);
        let text = format!("pos:\t0\nflags:\t02\n{}", line(3, 0x19));
        files.file("fdinfo/9", text.as_bytes());
        files.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
        files.file("fdinfo/9", (text + &line(6, 1)).as_bytes());
        let timer = Some(Outside::Timer);
        files.waits(pipes(&[(77, Some(3), LinkSide::Input)], timer));
    }

    #[test]
    fn a_select_lists_its_sets() {
        let files = Files::new("do_select");
        let sets: [u64; 3] = [0, 1 << 3, 1 << 4];
        files.file("mem", &sets.map(u64::to_ne_bytes).concat());
        files.call(libc::SYS_pselect6, [5, 8, 16, 0, 0, 0]);
        let both = [
            (77, Some(3), LinkSide::Input),
            (88, Some(4), LinkSide::Room),
        ];
        files.waits(pipes(&both, None));
    }

    #[test]
    fn futex_is_thread_of_its_own_unless_shared_or_timed() {
        const PRIVATE: u64 = 128;
        let files = Files::new("futex_wait_queue");
        files.call(libc::SYS_futex, [8, PRIVATE, 2, 0, 0, 0]);
        files.waits(BlockedOn::Thread);
        // pthread_join(3) waits for the word with the thread's id.
        files.call(libc::SYS_futex, [8, 0, 7, 0, 0, 0]);
        files.waits(BlockedOn::Thread);
        files.call(libc::SYS_futex, [8, 0, 2, 0, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::Lock));
        files.call(libc::SYS_futex, [8, PRIVATE, 2, 4096, 0, 0]);
        files.waits(BlockedOn::Outside(Outside::LockOrTimer));
    }

    #[test]
    fn states_without_a_wait_are_told_by_their_files() {
        let running = Files::new("0");
        running.file("task/7/syscall", b"running\n");
        assert_eq!(running.state(), Some(ThreadState::Working));
        assert_eq!(Files::new("io_schedule").state(), Some(ThreadState::Disk));
        assert_eq!(
            Files::new("do_signal_stop").state(),
            Some(ThreadState::Stopped)
        );
        let frozen = Files::new("get_signal");
        frozen.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        frozen.waits(BlockedOn::Outside(Outside::Frozen));
        // Every program that starts maps files, on a busy machine not without a wait.
        let mapping = Files::new("__mmap_region");
        mapping.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        mapping.waits(BlockedOn::Outside(Outside::Other));
        let ended = Files::new("0");
        ended.file(
            "task/7/stat",
            b"7 (x) Z 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0",
        );
        assert_eq!(ended.state(), None);
    }

    #[test]
    fn a_wait_for_one_child_names_it() {
        let vfork = Files::new("kernel_clone");
        vfork.call(libc::SYS_clone3, [0; 6]);
        vfork.waits(BlockedOn::Child(None));
        let files = Files::new("do_wait");
        files.call(libc::SYS_wait4, [12, 0, 0, 0, 0, 0]);
        files.waits(BlockedOn::Child(Some(12)));
        files.call(libc::SYS_wait4, [u64::MAX, 0, 0, 0, 0, 0]);
        files.waits(BlockedOn::Child(None));
    }

    #[test]
    fn only_a_call_on_the_pipe_itself_holds_its_lock() {
        let files = Files::new("sock_alloc_send_pskb");
        let proc = Proc::below(Root(files.0.path().to_owned()));
        let is_moving = |inode| is_moving(&proc, 7, LinkId::pipe(inode));
        files.call(libc::SYS_splice, [3, 0, 5, 0, 0, 0]);
        assert!(is_moving(77) && !is_moving(88));
        files.call(libc::SYS_write, [4, 0, 0, 0, 0, 0]);
        assert!(!is_moving(88));
    }
}
