//! What a sleeping thread waits for, by its system call and its descriptors.

use super::call::Call;
use super::{Asleep, BlockedOn, LinkSide, LinkWait, Outside};
use crate::graph::HeldEnds;
use crate::proc::files::ProcessFiles;
use crate::proc::{LinkId, Target, visible};

/// A sleeping thread of a process, and its pipes.
pub(super) struct Thread<'a> {
    pub(super) files: ProcessFiles<'a>,
    pub(super) ends: &'a HeldEnds,
}

impl Thread<'_> {
    /// What it waits for, by the kernel function and the system call in which it sleeps.
    pub(super) fn wait(&self, kind: Option<Asleep>, call: Option<Call>) -> BlockedOn {
        match (kind, call) {
            (Some(Asleep::Input), call) => self.on_pipe(LinkSide::Input, call),
            (Some(Asleep::Room), call) => self.on_pipe(LinkSide::Room, call),
            (Some(Asleep::FifoPeer), call) => BlockedOn::FifoPeer {
                path: call.and_then(|call| self.opened_path(call)),
            },
            (Some(Asleep::Child), call) => self.on_child(call),
            (Some(Asleep::Timer), _) => BlockedOn::Outside(Outside::Timer),
            (Some(Asleep::Frozen), _) => BlockedOn::Outside(Outside::Frozen),
            (Some(Asleep::Signal), None) => BlockedOn::Outside(Outside::Signal),
            (Some(Asleep::Futex), Some(call)) => self.on_futex(call),
            (Some(Asleep::Futex), None) => BlockedOn::Outside(Outside::Lock),
            (Some(Asleep::KernelLock), Some(call)) => self.on_lock(call),
            // In whatever call it is.
            (Some(Asleep::AddressSpace | Asleep::Supervisor), _) => {
                BlockedOn::Outside(Outside::Other)
            }
            // A function that is not known, or may not be seen.
            (None, Some(call)) if call.is_on_pipe(self.files, LinkSide::Input) => {
                self.on_pipe(LinkSide::Input, Some(call))
            }
            (None, Some(call)) if call.is_on_pipe(self.files, LinkSide::Room) => {
                self.on_pipe(LinkSide::Room, Some(call))
            }
            // A poll of the master of a terminal first works off what was written there.
            (_, Some(call)) => self
                .on_direction(call)
                .or_else(|| self.on_any(call))
                .unwrap_or_else(|| BlockedOn::Outside(self.outside_of(call))),
            (Some(Asleep::TerminalOrSocket), None) => BlockedOn::Outside(Outside::Socket),
            _ => BlockedOn::Outside(Outside::Other),
        }
    }

    /// A wait in a read, write, splice or similar. Without the call it may be any pipe that
    /// the process has open on this side.
    fn on_pipe(&self, side: LinkSide, call: Option<Call>) -> BlockedOn {
        let fd = call.and_then(|call| call.descriptor(side));
        let known = fd.and_then(|fd| match self.files.target(fd)? {
            Target::Pipe(pipe, _) => Some(LinkWait {
                pipe,
                fd: Some(fd),
                side,
            }),
            _ => None,
        });
        let any_of = known.map_or_else(|| self.candidates(side), |one| vec![one]);
        if any_of.is_empty() {
            BlockedOn::Outside(Outside::Other)
        } else {
            BlockedOn::Pipes { any_of, or: None }
        }
    }

    /// A wait in a call on a socket that is connected with another one on this machine, or on a
    /// pseudo-terminal.
    fn on_direction(&self, call: Call) -> Option<BlockedOn> {
        let sides = [LinkSide::Input, LinkSide::Room].into_iter();
        let any_of: Vec<LinkWait> = sides
            .filter_map(|side| self.direction_wait(call.descriptor(side)?, side))
            .collect();
        (!any_of.is_empty()).then_some(BlockedOn::Pipes { any_of, or: None })
    }

    /// The wait on this side of a socket, if it is connected with another one on this machine, or of a
    /// pseudo-terminal. Who waits for input at the terminal itself waits for a person.
    fn direction_wait(&self, fd: i32, side: LinkSide) -> Option<LinkWait> {
        let mut ends = self.ends.of_descriptor(fd);
        let is_typed =
            |link: LinkId| matches!(link, LinkId::Terminal { is_output, .. } if !is_output);
        let end = ends.find(|end| {
            end.pipe.is_direction()
                && !(is_typed(end.pipe) && side == LinkSide::Input)
                && match side {
                    LinkSide::Input => end.reads,
                    LinkSide::Room => end.writes,
                }
        })?;
        Some(LinkWait {
            pipe: end.pipe,
            fd: Some(fd),
            side,
        })
    }

    fn candidates(&self, side: LinkSide) -> Vec<LinkWait> {
        let ends = self.ends.iter().filter(|end| match side {
            _ if end.pipe.is_direction() => false,
            LinkSide::Input => end.reads,
            LinkSide::Room => end.writes,
        });
        let mut waits: Vec<LinkWait> = ends
            .map(|end| LinkWait {
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

    fn on_child(&self, call: Option<Call>) -> BlockedOn {
        /// The kinds of waitid(2) that name one child (include/uapi/linux/wait.h).
        const P_PID: u64 = 1;
        const P_PIDFD: u64 = 3;
        let pid = call.and_then(|call| match (call.number, call.args[0]) {
            (libc::SYS_wait4, pid) => i32::try_from(pid as i64).ok(),
            (libc::SYS_waitid, P_PID) => i32::try_from(call.args[1]).ok(),
            (libc::SYS_waitid, P_PIDFD) => self.pidfd_target(i32::try_from(call.args[1]).ok()?),
            _ => None,
        });
        BlockedOn::Child(pid.filter(|pid| *pid > 0))
    }

    /// The process that a pidfd refers to (pidfd_show_fdinfo() in fs/pidfs.c).
    fn pidfd_target(&self, fd: i32) -> Option<i32> {
        let info = self.files.fdinfo(fd)?;
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
        pid.trim().parse().ok()
    }

    /// A wait of a thread for another thread of its process has no timeout, and is either
    /// private, or a pthread_join(3): its futex holds the thread's id.
    fn on_futex(&self, call: Call) -> BlockedOn {
        const PRIVATE: u64 = 128;
        let [_, operation, value, timeout, ..] = call.args;
        let own = |tid: i32| self.files.threads().contains(&tid);
        let is_own = operation & PRIVATE != 0 || i32::try_from(value).is_ok_and(own);
        if call.number == libc::SYS_futex && timeout == 0 && is_own {
            BlockedOn::Thread
        } else if timeout == 0 {
            BlockedOn::Outside(Outside::Lock)
        } else {
            BlockedOn::Outside(Outside::LockOrTimer)
        }
    }

    /// A wait for a lock of the kernel: of a pipe, if the call is on one.
    fn on_lock(&self, call: Call) -> BlockedOn {
        let mut sides = [LinkSide::Input, LinkSide::Room].into_iter();
        let is_pipe = sides.any(|side| {
            let fd = call.descriptor(side);
            fd.is_some_and(|fd| matches!(self.files.target(fd), Some(Target::Pipe(..))))
        });
        if is_pipe {
            BlockedOn::PipeLock
        } else {
            BlockedOn::Outside(Outside::Other)
        }
    }

    /// A wait in poll, select or epoll. `None` if the call is another one, or its descriptors can't be read.
    fn on_any(&self, call: Call) -> Option<BlockedOn> {
        let (descriptors, has_timeout) = self.polled(call)?;
        let mut any_of = Vec::new();
        let mut others = Vec::new();
        let is_only = descriptors.len() == 1 && !has_timeout;
        for (fd, sides) in descriptors {
            match self.files.target(fd) {
                // By a pipe to itself a program wakes itself, as in a handler of signals. A FIFO anybody may open.
                Some(Target::Pipe(pipe, _)) if self.is_own(pipe) && !is_only => {
                    others.push(if pipe.is_fifo() {
                        Outside::FifoPeer
                    } else {
                        Outside::Event
                    });
                }
                Some(Target::Pipe(pipe, _)) => {
                    let before = any_of.len();
                    let sides = sides.iter().filter(|side| self.permits(fd, pipe, **side));
                    any_of.extend(sides.map(|side| LinkWait {
                        pipe,
                        fd: Some(fd),
                        side: *side,
                    }));
                    // Only the end of the other side wakes it, or the timeout, as in a pause.
                    if any_of.len() == before && !has_timeout {
                        others.push(Outside::Event);
                    }
                }
                other => {
                    let waits = sides
                        .iter()
                        .filter_map(|side| self.direction_wait(fd, *side));
                    let waits: Vec<LinkWait> = waits.collect();
                    let is_own = waits.iter().any(|wait| self.is_own(wait.pipe));
                    if is_own && !is_only {
                        others.push(Outside::Event);
                    } else if waits.is_empty() {
                        others.push(outside(other.as_ref()));
                    } else {
                        any_of.extend(waits);
                    }
                }
            }
        }
        others.extend(has_timeout.then_some(Outside::Timer));
        let or = others.into_iter().reduce(Outside::or);
        Some(match (any_of.is_empty(), or) {
            (false, or) => BlockedOn::Pipes { any_of, or },
            // Without any descriptor and without a timeout.
            (true, or) => BlockedOn::Outside(or.unwrap_or(Outside::Signal)),
        })
    }

    /// Whether it has both ends of a pipe. Who keeps a terminal open beside its master reads what others
    /// write there.
    fn is_own(&self, pipe: LinkId) -> bool {
        if pipe.is_terminal() {
            return false;
        }
        let mut ends = self.ends.of_link(pipe);
        ends.clone().any(|end| end.reads) && ends.any(|end| end.writes)
    }

    /// Whether a descriptor is an end of the pipe that ever gets input, or room.
    fn permits(&self, fd: i32, pipe: LinkId, side: LinkSide) -> bool {
        let mut ends = self.ends.of_descriptor(fd);
        let end = ends.find(|end| end.pipe == pipe);
        end.is_none_or(|end| match side {
            LinkSide::Input => end.reads,
            LinkSide::Room => end.writes,
        })
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
        let sets: [(u64, &'static [LinkSide]); 2] =
            [(args[1], &[LinkSide::Input]), (args[2], &[LinkSide::Room])];
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
        // The kernel writes out all of them, however few are read.
        let count = self.files.descriptors().unwrap_or(0);
        if count > MAX_POLLED as u64 {
            return None;
        }
        let info = self.files.fdinfo(i32::try_from(args[0]).ok()?)?;
        let targets = info.lines().filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let fd = words.next()?.parse().ok()?;
            let events = words.nth(1)?;
            Some((fd, epoll_sides(u32::from_str_radix(events, 16).ok()?)))
        });
        let targets: Vec<Polled> = targets.take(MAX_POLLED + 1).collect();
        (targets.len() <= MAX_POLLED).then_some(targets)
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
            // The only waits in this call.
            libc::SYS_flock | libc::SYS_fcntl => return Outside::FileLock,
            libc::SYS_wait4 | libc::SYS_waitid => return Outside::Child,
            _ => {}
        }
        let mut sides = [LinkSide::Input, LinkSide::Room].into_iter();
        sides
            .find_map(|side| match self.files.target(call.descriptor(side)?)? {
                Target::Pipe(..) => None,
                target => Some(outside(Some(&target))),
            })
            .unwrap_or(Outside::Other)
    }
}

/// A descriptor in a poll, and the sides of it that the poll waits for.
type Polled = (i32, &'static [LinkSide]);

/// A longer list of descriptors is not read, nor an epoll instance of a process with more: each
/// takes about a microsecond a sample.
const MAX_POLLED: usize = 256;

/// The sides of a pipe that these events of poll(2) or epoll_ctl(2) wait for. Without any, the
/// wait is for errors only, which are always reported.
fn sides(events: u32) -> &'static [LinkSide] {
    const IN: u32 = libc::POLLIN as u32 | libc::POLLRDNORM as u32;
    const OUT: u32 = libc::POLLOUT as u32 | libc::POLLWRNORM as u32;
    match (events & IN != 0, events & OUT != 0) {
        (true, false) => &[LinkSide::Input],
        (false, true) => &[LinkSide::Room],
        (true, true) => &[LinkSide::Input, LinkSide::Room],
        (false, false) => &[],
    }
}

/// The same of an epoll instance. What is registered for edges, or for one event, is so once and for
/// all: that a runtime wants to know of room does not say that it has something to write.
fn epoll_sides(events: u32) -> &'static [LinkSide] {
    const ONCE: u32 = libc::EPOLLET as u32 | libc::EPOLLONESHOT as u32;
    match sides(events) {
        [LinkSide::Input, LinkSide::Room] if events & ONCE != 0 => &[LinkSide::Input],
        sides => sides,
    }
}

fn outside(target: Option<&Target>) -> Outside {
    match target {
        Some(Target::Socket(_)) => Outside::Socket,
        Some(Target::Terminal) => Outside::Terminal,
        Some(Target::Anonymous(kind)) => match kind.as_str() {
            "timerfd" => Outside::Timer,
            "signalfd" => Outside::Signal,
            // What another epoll instance has may be anything.
            "eventpoll" => Outside::Other,
            _ => Outside::Event,
        },
        _ => Outside::Other,
    }
}
