//! What a thread waits for: from the kernel function in which it sleeps, and from its
//! system call where that may be read.

use libc::c_long;
use serde::Serialize;

use crate::files::{Allowance, Files, ThreadFiles};
use crate::proc::{End, PipeId, Proc, Target, visible};

/// The kind of kernel function in which a thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asleep {
    /// Until a pipe has data.
    Input,
    /// Until a pipe has room.
    Room,
    /// Until somebody opens the other end of a FIFO.
    FifoPeer,
    /// Until a child process ends.
    Child,
    /// In poll, select or epoll_wait.
    Poll,
    /// Until a time.
    Timer,
    /// Until a signal arrives.
    Signal,
    /// For another thread.
    Futex,
    /// For a file's data.
    Disk,
    /// For a terminal or a socket.
    TerminalOrSocket,
    /// Until SIGCONT.
    Stopped,
    /// Until a debugger continues it.
    Traced,
    /// For a lock of the kernel.
    KernelLock,
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
        "poll_schedule_timeout" | "do_sys_poll" | "do_poll" | "do_select" => Asleep::Poll,
        "ep_poll" | "do_epoll_wait" => Asleep::Poll,
        "hrtimer_nanosleep" | "do_nanosleep" | "common_nsleep" => Asleep::Timer,
        "sigsuspend" | "do_sigtimedwait" | "__do_sys_pause" => Asleep::Signal,
        "futex_wait" | "futex_wait_queue" | "futex_wait_queue_me" | "__futex_wait" => Asleep::Futex,
        "futex_do_wait" => Asleep::Futex,
        "folio_wait_bit_common" | "wait_on_page_bit" => Asleep::Disk,
        "filemap_read" | "io_schedule" | "blk_io_schedule" => Asleep::Disk,
        "n_tty_read" | "wait_woken" => Asleep::TerminalOrSocket,
        "do_signal_stop" => Asleep::Stopped,
        "ptrace_stop" => Asleep::Traced,
        "__mutex_lock" | "mutex_lock" | "__mutex_lock_slowpath" => Asleep::KernelLock,
        _ => return None,
    })
}

/// A side of a pipe on which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It waits for data.
    Input,
    /// It waits for room.
    Room,
}

impl Side {
    /// The side of the pipe's other end.
    pub fn other(self) -> Self {
        match self {
            Side::Input => Side::Room,
            Side::Room => Side::Input,
        }
    }
}

/// A pipe on which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PipeWait {
    /// The pipe.
    pub pipe: PipeId,
    /// The descriptor, if known.
    pub fd: Option<i32>,
    /// The side.
    pub side: Side,
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
    /// A child process.
    Child,
    /// A signal: programs that run another one often wait for SIGCHLD.
    Signal,
    /// An event: eventfd, inotify and similar.
    Event,
    /// Anything else, or unknown.
    Other,
}

impl Outside {
    /// Its name in a sentence: "waits for ...".
    pub fn name(self) -> &'static str {
        match self {
            Outside::Socket => "a socket",
            Outside::Terminal => "a terminal",
            Outside::Timer => "a timer",
            Outside::Lock => "a lock",
            Outside::Child => "a child process",
            Outside::Signal => "a signal",
            Outside::Event => "an event",
            Outside::Other => "something else",
        }
    }
}

/// What a sleeping thread waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Any of these pipes, or something outside.
    Pipes {
        /// The pipes.
        any_of: Vec<PipeWait>,
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
pub enum State {
    /// Running or runnable.
    Working,
    /// It waits for a file's data.
    Disk,
    /// It is stopped by a signal or a debugger.
    Stopped,
    /// It sleeps.
    Waiting(Wait),
}

/// A system call with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    number: c_long,
    args: [u64; 6],
}

/// Parses the text of proc_pid_syscall(5). `None` for a thread that runs, or sleeps outside
/// of a system call.
fn parse_call(text: &str) -> Option<Call> {
    let mut words = text.split_ascii_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    (number >= 0).then_some(Call { number, args })
}

/// The state of a thread, and whether it sleeps in a call whose bytes the kernel does not
/// count. `None` if it has ended.
pub fn examine(proc: &Proc, pid: i32, tid: i32, ends: &[End]) -> Option<(State, bool)> {
    let files = Files::of(proc, pid);
    let seen = examine_files(files, &mut ThreadFiles::new(tid), ends, None)?;
    Some((seen.state, seen.is_uncounted))
}

/// What was seen of a thread.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) state: State,
    /// Whether it sleeps in a call whose bytes the kernel does not count.
    pub(crate) is_uncounted: bool,
    /// Whether its system call may not be read.
    pub(crate) is_hidden: bool,
}

/// As [`examine`], by these files.
pub(crate) fn examine_files(
    files: Files<'_>,
    thread: &mut ThreadFiles,
    ends: &[End],
    allowance: Option<&Allowance>,
) -> Option<Seen> {
    let text = thread.call(files, allowance);
    let call = text.as_deref().and_then(parse_call);
    let known = |state| {
        Some(Seen {
            state,
            is_uncounted: call.is_some_and(Call::is_uncounted),
            is_hidden: text.is_none(),
        })
    };
    if text.as_deref() == Some("running") {
        return known(State::Working);
    }
    let function = thread.function(files, allowance);
    let kind = function.as_deref().and_then(asleep);
    match kind {
        Some(Asleep::Disk) => return known(State::Disk),
        Some(Asleep::Stopped) => return known(State::Stopped),
        Some(Asleep::Traced) => return known(State::Waiting(Wait::Outside(Outside::Other))),
        _ => {}
    }
    if kind.is_none() || text.is_none() {
        match thread.state(files, allowance)? {
            'R' => return known(State::Working),
            'T' => return known(State::Stopped),
            'Z' | 'X' | 'x' => return None,
            'D' if kind.is_none() => return known(State::Disk),
            _ => {}
        }
    }
    // Waiting for the pipe's lock looks alike but for the state.
    if kind == Some(Asleep::FifoPeer) && thread.state(files, allowance) == Some('D') {
        return known(State::Waiting(Wait::PipeLock));
    }
    let sleeper = Thread { files, ends };
    known(State::Waiting(sleeper.wait(kind, call)))
}

/// A sleeping thread of a process, and its pipes.
struct Thread<'a> {
    files: Files<'a>,
    ends: &'a [End],
}

impl Thread<'_> {
    fn wait(&self, kind: Option<Asleep>, call: Option<Call>) -> Wait {
        match (kind, call) {
            (Some(Asleep::Input), call) => self.on_pipe(Side::Input, call),
            (Some(Asleep::Room), call) => self.on_pipe(Side::Room, call),
            (Some(Asleep::FifoPeer), call) => Wait::FifoPeer {
                path: call.and_then(|call| self.opened_path(call)),
            },
            (Some(Asleep::Child), call) => self.on_child(call),
            (Some(Asleep::Timer), _) => Wait::Outside(Outside::Timer),
            (Some(Asleep::Signal), None) => Wait::Outside(Outside::Signal),
            (Some(Asleep::Poll), Some(call)) => self.on_any(call),
            (Some(Asleep::Futex), Some(call)) => self.on_futex(call),
            (Some(Asleep::Futex), None) => Wait::Outside(Outside::Lock),
            (Some(Asleep::KernelLock), Some(call)) => self.on_lock(call),
            // A function that is not known, or may not be seen.
            (None, Some(call)) if call.is_on_pipe(self, Side::Input) => {
                self.on_pipe(Side::Input, Some(call))
            }
            (None, Some(call)) if call.is_on_pipe(self, Side::Room) => {
                self.on_pipe(Side::Room, Some(call))
            }
            (_, Some(call)) => Wait::Outside(self.outside_of(call)),
            (Some(Asleep::TerminalOrSocket), None) => Wait::Outside(Outside::Socket),
            _ => Wait::Outside(Outside::Other),
        }
    }

    /// A wait in a read, write, splice or similar. Without the call it may be any pipe that
    /// the process has open on this side.
    fn on_pipe(&self, side: Side, call: Option<Call>) -> Wait {
        let fd = call.and_then(|call| call.descriptor(side));
        let known = fd.and_then(|fd| match self.files.target(fd)? {
            Target::Pipe(pipe, _) => Some(PipeWait {
                pipe,
                fd: Some(fd),
                side,
            }),
            _ => None,
        });
        let any_of = known.map_or_else(|| self.candidates(side), |one| vec![one]);
        Wait::Pipes { any_of, or: None }
    }

    fn candidates(&self, side: Side) -> Vec<PipeWait> {
        let ends = self.ends.iter().filter(|end| match side {
            Side::Input => end.reads,
            Side::Room => end.writes,
        });
        let mut waits: Vec<PipeWait> = ends
            .map(|end| PipeWait {
                pipe: end.pipe,
                fd: None,
                side,
            })
            .collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    /// The path of an open(2), relative to the process's directory if it is relative.
    fn opened_path(&self, call: Call) -> Option<String> {
        let address = match call.number {
            libc::SYS_openat | libc::SYS_openat2 => call.args[1],
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => call.args[0],
            _ => return None,
        };
        // The string may end just before memory that can't be read.
        let len = (256 - address % 256) as usize;
        let mut bytes = self.files.memory(address, len)?;
        if !bytes.contains(&0) {
            bytes.extend(self.files.memory(address + len as u64, 256)?);
        }
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(&bytes[..end]);
        let path = self
            .files
            .working_directory()
            .unwrap_or_default()
            .join(&*text);
        Some(visible(&path.to_string_lossy()))
    }

    fn on_child(&self, call: Option<Call>) -> Wait {
        let pid = call.and_then(|call| match call.number {
            libc::SYS_wait4 => i32::try_from(call.args[0] as i64).ok(),
            // Only P_PID (1) names one child.
            libc::SYS_waitid if call.args[0] == 1 => i32::try_from(call.args[1]).ok(),
            _ => None,
        });
        Wait::Child(pid.filter(|pid| *pid > 0))
    }

    /// A wait of a thread for another thread of its process has no timeout, and is either
    /// private, or a pthread_join(3): its futex holds the thread's id.
    fn on_futex(&self, call: Call) -> Wait {
        const PRIVATE: u64 = 128;
        let [_, operation, value, timeout, ..] = call.args;
        let own = |tid: i32| self.files.threads().contains(&tid);
        let is_own = operation & PRIVATE != 0 || i32::try_from(value).is_ok_and(own);
        if call.number == libc::SYS_futex && timeout == 0 && is_own {
            Wait::Thread
        } else {
            Wait::Outside(Outside::Lock)
        }
    }

    /// A wait for a lock of the kernel: of a pipe, if the call is on one.
    fn on_lock(&self, call: Call) -> Wait {
        let mut sides = [Side::Input, Side::Room].into_iter();
        let is_pipe = sides.any(|side| {
            let fd = call.descriptor(side);
            fd.is_some_and(|fd| matches!(self.files.target(fd), Some(Target::Pipe(..))))
        });
        if is_pipe {
            Wait::PipeLock
        } else {
            Wait::Outside(Outside::Other)
        }
    }

    /// A wait in poll, select or epoll.
    fn on_any(&self, call: Call) -> Wait {
        let Some((descriptors, has_timeout)) = self.polled(call) else {
            return Wait::Outside(Outside::Other);
        };
        let mut any_of = Vec::new();
        let mut or = has_timeout.then_some(Outside::Timer);
        for (fd, sides) in descriptors {
            match self.files.target(fd) {
                Some(Target::Pipe(..)) if sides.is_empty() => or = or.or(Some(Outside::Event)),
                Some(Target::Pipe(pipe, _)) => any_of.extend(sides.iter().map(|side| PipeWait {
                    pipe,
                    fd: Some(fd),
                    side: *side,
                })),
                other => or = Some(outside(other.as_ref())),
            }
        }
        match (any_of.is_empty(), or) {
            (false, or) => Wait::Pipes { any_of, or },
            (true, or) => Wait::Outside(or.unwrap_or(Outside::Other)),
        }
    }

    /// The descriptors of a poll, select or epoll_wait, and whether it has a timeout.
    /// `None` if they can't be read.
    fn polled(&self, call: Call) -> Option<(Vec<Polled>, bool)> {
        let args = call.args;
        match call.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => Some((self.poll_list(args)?, args[2] as i32 >= 0)),
            libc::SYS_ppoll => Some((self.poll_list(args)?, args[2] != 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => Some((self.select_sets(args)?, args[4] != 0)),
            libc::SYS_pselect6 => Some((self.select_sets(args)?, args[4] != 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => Some((self.epoll_set(args)?, args[3] as i32 >= 0)),
            libc::SYS_epoll_pwait => Some((self.epoll_set(args)?, args[3] as i32 >= 0)),
            libc::SYS_epoll_pwait2 => Some((self.epoll_set(args)?, args[3] != 0)),
            _ => None,
        }
    }

    /// Reads the `struct pollfd` of poll(2): a descriptor, and the requested events.
    fn poll_list(&self, args: [u64; 6]) -> Option<Vec<Polled>> {
        const SIZE: usize = 8;
        let count = usize::try_from(args[1]).ok().filter(|n| *n <= MAX_POLLED)?;
        let bytes = self.files.memory(args[0], count * SIZE)?;
        let entries = bytes.chunks_exact(SIZE).map(|entry| {
            let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let events = i16::from_ne_bytes([entry[4], entry[5]]);
            (fd, sides(u32::from(events as u16)))
        });
        // Negative descriptors are ignored.
        Some(entries.filter(|(fd, _)| *fd >= 0).collect())
    }

    /// Reads the sets of select(2): of those to read from, and to write to.
    fn select_sets(&self, args: [u64; 6]) -> Option<Vec<Polled>> {
        let count = usize::try_from(args[0]).ok().filter(|n| *n <= MAX_POLLED)?;
        let mut all: Vec<Polled> = Vec::new();
        let sets: [(u64, &'static [Side]); 2] =
            [(args[1], &[Side::Input]), (args[2], &[Side::Room])];
        for (address, side) in sets {
            if address == 0 {
                continue;
            }
            let words = self.files.memory(address, count.div_ceil(64) * 8)?;
            let is_set = |fd: &usize| {
                let word = words[fd / 64 * 8..][..8].try_into().map(u64::from_ne_bytes);
                word.is_ok_and(|word| word >> (fd % 64) & 1 == 1)
            };
            let fds = (0..count).filter(is_set);
            all.extend(fds.map(|fd| (fd as i32, side)));
        }
        Some(all)
    }

    /// Reads an epoll instance's targets: `tfd:        5 events:       19 data: ...`.
    fn epoll_set(&self, args: [u64; 6]) -> Option<Vec<Polled>> {
        let info = self.files.fdinfo(i32::try_from(args[0]).ok()?)?;
        let targets = info.lines().filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let fd = words.next()?.parse().ok()?;
            let events = words.nth(1)?;
            Some((fd, sides(u32::from_str_radix(events, 16).ok()?)))
        });
        Some(targets.collect())
    }

    /// What a call waits for that is no wait on a pipe, by its descriptor.
    fn outside_of(&self, call: Call) -> Outside {
        match call.number {
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => return Outside::Timer,
            libc::SYS_rt_sigsuspend => return Outside::Signal,
            libc::SYS_rt_sigtimedwait if call.args[2] == 0 => return Outside::Signal,
            libc::SYS_rt_sigtimedwait => return Outside::Timer,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_pause => return Outside::Signal,
            libc::SYS_futex => return Outside::Lock,
            libc::SYS_wait4 | libc::SYS_waitid => return Outside::Child,
            _ => {}
        }
        let mut sides = [Side::Input, Side::Room].into_iter();
        sides
            .find_map(|side| match self.files.target(call.descriptor(side)?)? {
                Target::Pipe(..) => None,
                target => Some(outside(Some(&target))),
            })
            .unwrap_or(Outside::Other)
    }
}

/// A descriptor in a poll, and the sides of it that the poll waits for.
type Polled = (i32, &'static [Side]);

/// A longer list of descriptors is not read.
const MAX_POLLED: usize = 1024;

/// The sides of a pipe that these events of poll(2) or epoll_ctl(2) wait for. Without any, the
/// wait is for errors only, which are always reported.
fn sides(events: u32) -> &'static [Side] {
    const IN: u32 = libc::POLLIN as u32 | libc::POLLRDNORM as u32;
    const OUT: u32 = libc::POLLOUT as u32 | libc::POLLWRNORM as u32;
    match (events & IN != 0, events & OUT != 0) {
        (true, false) => &[Side::Input],
        (false, true) => &[Side::Room],
        (true, true) => &[Side::Input, Side::Room],
        (false, false) => &[],
    }
}

fn outside(target: Option<&Target>) -> Outside {
    match target {
        Some(Target::Socket) => Outside::Socket,
        Some(Target::Terminal) => Outside::Terminal,
        Some(Target::Anonymous(kind)) if kind == "timerfd" => Outside::Timer,
        Some(Target::Anonymous(_)) => Outside::Event,
        _ => Outside::Other,
    }
}

impl Call {
    /// Whether it moves data by splice(2), vmsplice(2) or tee(2), which the kernel does not
    /// count.
    fn is_uncounted(self) -> bool {
        matches!(
            self.number,
            libc::SYS_splice | libc::SYS_vmsplice | libc::SYS_tee
        )
    }

    /// Whether it can only wait on this side of a pipe: it is no splice, which has two
    /// descriptors.
    fn is_on_pipe(self, thread: &Thread<'_>, side: Side) -> bool {
        let fd = self.descriptor(side).filter(|_| !self.is_uncounted());
        let target = fd.and_then(|fd| thread.files.target(fd));
        self.number != libc::SYS_sendfile && matches!(target, Some(Target::Pipe(..)))
    }

    /// The descriptor that the call reads from (`Input`) or writes to (`Room`).
    fn descriptor(self, side: Side) -> Option<i32> {
        let args = self.args;
        let fd = match (self.number, side) {
            (libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2, Side::Input) => args[0],
            (libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2, Side::Room) => args[0],
            (libc::SYS_splice, Side::Input) => args[0],
            (libc::SYS_splice, Side::Room) => args[2],
            (libc::SYS_tee, Side::Input) => args[0],
            (libc::SYS_tee, Side::Room) => args[1],
            (libc::SYS_vmsplice, _) => args[0],
            (libc::SYS_sendfile, Side::Input) => args[1],
            (libc::SYS_sendfile, Side::Room) => args[0],
            (libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_accept, Side::Input) => args[0],
            (libc::SYS_accept4 | libc::SYS_recvmmsg | libc::SYS_connect, Side::Input) => args[0],
            (libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg, Side::Room) => args[0],
            _ => return None,
        };
        i32::try_from(fd).ok()
    }
}

/// Whether a thread is in a call whose bytes the kernel does not count.
pub fn is_splicing(proc: &Proc, pid: i32, tid: i32) -> bool {
    let call = proc.syscall(pid, tid).as_deref().and_then(parse_call);
    call.is_some_and(Call::is_uncounted)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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

        fn state(&self) -> Option<State> {
            let proc = Proc::below(Root(self.0.path().to_owned()));
            let ends = [reads(3, 77), writes(4, 88), writes(8, 89)];
            examine(&proc, 7, 7, &ends).map(|(state, _)| state)
        }

        #[track_caller]
        fn waits(&self, expected: Wait) {
            assert_eq!(self.state(), Some(State::Waiting(expected)));
        }
    }

    fn pipes(any_of: &[(u64, Option<i32>, Side)], or: Option<Outside>) -> Wait {
        let any_of = any_of.iter().map(|(inode, fd, side)| PipeWait {
            pipe: PipeId::pipe(*inode),
            fd: *fd,
            side: *side,
        });
        Wait::Pipes {
            any_of: any_of.collect(),
            or,
        }
    }

    #[test]
    fn a_read_and_a_write_name_their_pipe() {
        let reading = Files::new("anon_pipe_read");
        reading.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        reading.waits(pipes(&[(77, Some(3), Side::Input)], None));
        let writing = Files::new("pipe_write");
        writing.call(libc::SYS_write, [4, 0, 0, 0, 0, 0]);
        writing.waits(pipes(&[(88, Some(4), Side::Room)], None));
    }

    #[test]
    fn without_the_call_any_pipe_of_that_side_is_possible() {
        let possible = [(88, None, Side::Room), (89, None, Side::Room)];
        Files::new("pipe_write").waits(pipes(&possible, None));
    }

    #[test]
    fn without_a_known_function_the_call_suffices() {
        let files = Files::new("renamed_in_a_later_kernel");
        files.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
        files.waits(pipes(&[(77, Some(3), Side::Input)], None));
        files.call(libc::SYS_read, [5, 0, 0, 0, 0, 0]);
        files.waits(Wait::Outside(Outside::Socket));
        // From a pipe to a socket: it may wait for either.
        files.call(libc::SYS_splice, [3, 0, 5, 0, 0, 0]);
        files.waits(Wait::Outside(Outside::Socket));
    }

    #[test]
    fn a_poll_names_all_its_pipes_and_whatever_else_ends_it() {
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
        let files = Files::new("poll_schedule_timeout");
        files.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
        let both = [(77, Some(3), Side::Input), (88, Some(4), Side::Room)];
        files.call(libc::SYS_ppoll, [8, 3, 0, 0, 0, 0]);
        files.waits(pipes(&both, None));
        files.call(libc::SYS_ppoll, [8, 3, 1, 0, 0, 0]);
        files.waits(pipes(&both, Some(Outside::Timer)));
        // Only for the reader's end, as in a pause.
        let nothing = [entry(4, 0)];
        let pausing = Files::new("poll_schedule_timeout");
        pausing.file("mem", &[[0; 8].as_slice(), &nothing.concat()].concat());
        pausing.call(libc::SYS_ppoll, [8, 1, 1, 0, 0, 0]);
        pausing.waits(Wait::Outside(Outside::Timer));
        // More than can be read.
        files.call(libc::SYS_ppoll, [8, 4, 0, 0, 0, 0]);
        files.waits(Wait::Outside(Outside::Other));
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
        files.waits(pipes(&[(77, Some(3), Side::Input)], None));
        files.file("fdinfo/9", (text + &line(6, 1)).as_bytes());
        let timer = Some(Outside::Timer);
        files.waits(pipes(&[(77, Some(3), Side::Input)], timer));
    }

    #[test]
    fn a_select_lists_its_sets() {
        let files = Files::new("do_select");
        let sets: [u64; 3] = [0, 1 << 3, 1 << 4];
        files.file("mem", &sets.map(u64::to_ne_bytes).concat());
        files.call(libc::SYS_pselect6, [5, 8, 16, 0, 0, 0]);
        let both = [(77, Some(3), Side::Input), (88, Some(4), Side::Room)];
        files.waits(pipes(&both, None));
    }

    #[test]
    fn a_futex_is_a_thread_of_its_own_unless_shared_or_timed() {
        const PRIVATE: u64 = 128;
        let files = Files::new("futex_wait_queue");
        files.call(libc::SYS_futex, [8, PRIVATE, 2, 0, 0, 0]);
        files.waits(Wait::Thread);
        // pthread_join(3) waits for the word with the thread's id.
        files.call(libc::SYS_futex, [8, 0, 7, 0, 0, 0]);
        files.waits(Wait::Thread);
        for args in [[8, 0, 2, 0, 0, 0], [8, PRIVATE, 2, 4096, 0, 0]] {
            files.call(libc::SYS_futex, args);
            files.waits(Wait::Outside(Outside::Lock));
        }
    }

    #[test]
    fn states_without_a_wait_are_told_by_their_files() {
        let running = Files::new("0");
        running.file("task/7/syscall", b"running\n");
        assert_eq!(running.state(), Some(State::Working));
        assert_eq!(Files::new("io_schedule").state(), Some(State::Disk));
        assert_eq!(Files::new("do_signal_stop").state(), Some(State::Stopped));
        let ended = Files::new("0");
        ended.file(
            "task/7/stat",
            b"7 (x) Z 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0",
        );
        assert_eq!(ended.state(), None);
    }

    #[test]
    fn a_wait_for_one_child_names_it() {
        let files = Files::new("do_wait");
        files.call(libc::SYS_wait4, [12, 0, 0, 0, 0, 0]);
        files.waits(Wait::Child(Some(12)));
        files.call(libc::SYS_wait4, [u64::MAX, 0, 0, 0, 0, 0]);
        files.waits(Wait::Child(None));
    }
}
