//! Processes, threads and descriptors in /proc.

pub(crate) mod files;
mod idle;
mod language;
mod link;
mod locks;
pub mod pipe_probe;
pub mod silent;
pub mod sockets;
pub mod terminals;
mod watches;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pipespeed_base::text::{command_line, is_printable};
use pipespeed_host::{CpuList, Root};
use rustix::param::clock_ticks_per_second;
use rustix::process::getpid;
use serde::Serialize;

use self::files::{ProcessFiles, ThreadFiles};
pub use self::language::Language;
pub use self::link::{LinkFd, LinkId};
use self::pipe_probe::PipeProbe;
use self::silent::{ReadGuard, ReadWatch, SilentList, SilentProcess};

/// Command lines are read up to this length, in bytes.
const MAX_COMMAND_LINE: usize = 4096;

/// The files of /proc.
#[derive(Debug, Clone, Default)]
pub struct Proc {
    root: Root,
    hides_calls: bool,
    slow_files: SlowFiles,
    watch: Option<ReadWatch>,
}

/// How files are read whose reading may block for good (see [`pipe_probe`]).
#[derive(Debug, Clone, Default)]
pub(crate) enum SlowFiles {
    /// Not at all.
    #[default]
    Unread,
    /// As all others: those of another root are no files of /proc.
    Plain,
    /// By a helper process.
    By(PipeProbe),
}

/// A process, safe against reuse of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
}

impl ProcessId {
    /// Whether this process still exists, not another one with its number.
    pub fn is_running(self, proc: &Proc) -> bool {
        let now = proc.stat(self.pid);
        now.is_some_and(|now| now.start == self.start)
    }
}

/// What a descriptor refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A pipe, or a FIFO with its path.
    Pipe(LinkId, Option<String>),
    /// A socket, with its inode number.
    Socket(u64),
    /// A terminal.
    Terminal,
    /// The master of a pseudo-terminal.
    TerminalMaster,
    /// /dev/null.
    Null,
    /// A kernel object without a name, such as `eventfd` or `inotify`.
    Anonymous(String),
    /// A file or a device.
    File,
}

/// Whether a process has other files than pipes through which its bytes may go, or may have had some for a
/// moment: files, devices and sockets, without standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherFiles {
    /// One from which it can read.
    pub reads: bool,
    /// One to which it can write.
    pub writes: bool,
    /// An io_uring(7) instance, by which it may read and write while all its threads wait.
    pub has_uring: bool,
}

/// Fields of proc_pid_stat(5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    /// The state of the main thread: R, S, D, T, t, Z, X or I.
    pub state: char,
    /// The parent process.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session; 0 if its leader is in no PID namespace of ours.
    pub session: i32,
    /// The process group in the foreground of its terminal; -1 without a terminal.
    pub foreground: i32,
    /// When it started, in ticks since boot. With the process id this identifies it.
    pub start: u64,
    /// The number of its threads.
    pub threads: usize,
    /// Processor time of all its threads, in ticks.
    pub ran_ticks: u64,
    /// The part of that in which the kernel worked for them, in ticks.
    pub kernel_ticks: u64,
    /// Processor time of the children it has waited for, and of theirs, in ticks.
    pub children_ticks: u64,
    /// Page faults of these children. Every child has some, so that the number grows with each.
    pub children_faults: u64,
    /// Where its stack begins, which execve(2) changes; 0 if that may not be read (do_task_stat() in fs/proc/array.c).
    pub stack: u64,
    /// The processor on which it ran last.
    pub processor: Option<usize>,
    /// Whether it ignores SIGINT and SIGQUIT, as what a shell without job control runs in the background
    /// (POSIX, Shell Command Language, "Asynchronous Lists").
    pub ignores_interrupts: bool,
}

/// What a process has read and written (proc_pid_io(5)), with the children it has waited
/// for. Bytes moved by splice(2), tee(2) and vmsplice(2) are not counted (fs/splice.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Io {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Calls of read(2) and similar.
    pub reads: u64,
    /// Calls of write(2) and similar.
    pub writes: u64,
}

impl Proc {
    /// The files below another root.
    pub fn below(root: Root) -> Self {
        Proc {
            root,
            hides_calls: false,
            slow_files: SlowFiles::Plain,
            watch: None,
        }
    }

    /// The files of this system, with those whose reading may block for good. They are not known
    /// otherwise.
    pub fn with_pipe_probe(pipe_probe: PipeProbe) -> Self {
        Proc {
            slow_files: SlowFiles::By(pipe_probe),
            ..Proc::default()
        }
    }

    /// The same files, with marks of each read for a thread that supervises this one.
    pub(crate) fn watched_by(self, watch: ReadWatch) -> Self {
        Proc {
            watch: Some(watch),
            ..self
        }
    }

    /// Marks that files of a process are being read, which may block (see [`silent`]). `None` if it is left
    /// out.
    pub(crate) fn reading(&self, pid: i32) -> Option<ReadGuard<'_>> {
        match &self.watch {
            Some(watch) => watch.begin(pid),
            None => Some(ReadGuard(None)),
        }
    }

    fn silent(&self) -> Option<&SilentList> {
        let by_probe = || self.pipe_probe().map(PipeProbe::silent);
        let watch = self.watch.as_ref();
        watch.map(|watch| &watch.silent).or_else(by_probe)
    }

    /// The processes that are left out because they do not answer.
    pub(crate) fn left_out(&self) -> Vec<SilentProcess> {
        self.silent().map_or(Vec::new(), SilentList::left_out)
    }

    /// Whether a process is left out because it does not answer.
    pub(crate) fn is_left_out(&self, pid: i32) -> bool {
        self.silent().is_some_and(|list| list.find(pid).is_some())
    }

    /// Whether files of some processes were not read because too many helpers were blocked.
    pub(crate) fn lacks_helpers(&self) -> bool {
        self.silent().is_some_and(SilentList::lacks_helpers)
    }

    /// Whether nobody waits for what this thread reads.
    pub fn is_abandoned(&self) -> bool {
        let watch = self.watch.as_ref();
        watch.is_some_and(|watch| watch.current.is_abandoned.load(Ordering::Relaxed))
    }

    /// The helper process, if there is one.
    pub fn pipe_probe(&self) -> Option<&PipeProbe> {
        match &self.slow_files {
            SlowFiles::By(pipe_probe) => Some(pipe_probe),
            SlowFiles::Unread | SlowFiles::Plain => None,
        }
    }

    pub(crate) fn slow_files(&self) -> &SlowFiles {
        &self.slow_files
    }

    /// The files as they are where Yama restricts ptrace: system calls and memory of other
    /// processes can't be read.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn without_calls(self) -> Self {
        Proc {
            hides_calls: true,
            ..self
        }
    }

    pub(crate) fn hides_calls(&self) -> bool {
        self.hides_calls
    }

    /// The path of a file, given from the root without a leading slash.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path(file)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.root.text(path)
    }

    /// The text of a file below a process's directory.
    fn text_of(&self, pid: i32, file: &str) -> Option<String> {
        let _reading = self.reading(pid)?;
        self.text(&format!("proc/{pid}/{file}"))
    }

    /// A value in the `status` of a process.
    fn status_field(&self, pid: i32, key: &str) -> Option<String> {
        let _reading = self.reading(pid)?;
        self.root.field(format!("proc/{pid}/status"), key)
    }

    fn numbers_in(&self, path: &str) -> io::Result<Vec<i32>> {
        let entries = fs::read_dir(self.root.path(path))?.flatten();
        Ok(entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect())
    }

    /// All processes.
    pub fn processes(&self) -> Vec<i32> {
        self.numbers_in("proc").unwrap_or_default()
    }

    /// Whether processes of other users are not even listed (mount option `hidepid` of proc(5)):
    /// process 1 always exists.
    pub fn hides_processes(&self) -> bool {
        !self.root.path("proc/1").exists()
    }

    /// Whether the size of `/proc/PID/fd` is the number of descriptors (Linux 6.2).
    pub(crate) fn counts_descriptors(&self) -> bool {
        let own = ProcessFiles::new(self, getpid().as_raw_pid()).fd_table_stamp();
        own.is_some_and(|own| own.count > 0)
    }

    /// The threads of a process.
    pub fn threads(&self, pid: i32) -> Vec<i32> {
        ProcessFiles::new(self, pid).threads()
    }

    /// The children of a process; empty without CONFIG_PROC_CHILDREN.
    pub fn children(&self, pid: i32) -> Vec<i32> {
        self.children_of(pid, &self.threads(pid))
    }

    /// As [`children`](Self::children), of a process with these threads.
    pub(crate) fn children_of(&self, pid: i32, threads: &[i32]) -> Vec<i32> {
        let mut children = Vec::new();
        for task in threads {
            let list = self.text_of(pid, &format!("task/{task}/children"));
            let list = list.unwrap_or_default();
            let pids = list.split_ascii_whitespace();
            children.extend(pids.filter_map(|pid| pid.parse::<i32>().ok()));
        }
        children
    }

    /// A process and its descendants, each before its children.
    pub fn tree(&self, pid: i32) -> Vec<i32> {
        tree(pid, &|pid| self.children(pid))
    }

    /// Whether a process exists and descends from this one.
    pub fn is_descendant(&self, pid: i32) -> bool {
        let own = getpid().as_raw_pid();
        self.ancestors(pid).any(|pid| pid == own)
    }

    /// The ancestors of a process, the nearest first.
    pub(crate) fn ancestors(&self, pid: i32) -> impl Iterator<Item = i32> {
        // The parents may change meanwhile, so the walk is bounded.
        const MAX_DEPTH: usize = 4096;
        let parent = |pid: i32| Some(self.stat(pid)?.parent);
        let parents = std::iter::successors(parent(pid), move |pid| parent(*pid));
        parents.take(MAX_DEPTH)
    }

    /// The name of a process, also of a zombie: 15 bytes of its program's file name
    /// (proc_pid_comm(5)). A process chooses its own name, so control characters are
    /// replaced.
    pub fn name(&self, pid: i32) -> Option<String> {
        let name = self.text(&format!("proc/{pid}/comm"))?;
        Some(visible(&name))
    }

    /// The words of a process's command line (proc_pid_cmdline(5)), quoted as for sh, with `...` in
    /// place of what exceeds 4 KiB; `None` if it has ended, or if it is not known.
    pub fn command_line(&self, pid: i32) -> Option<String> {
        let bytes = ProcessFiles::new(self, pid).slow("cmdline", 0, MAX_COMMAND_LINE)?;
        let mut line = visible(&parse_command_line(&String::from_utf8_lossy(&bytes)));
        if bytes.len() == MAX_COMMAND_LINE {
            line.push_str("...");
        }
        (!line.is_empty()).then_some(line)
    }

    /// The inode number of a process's network namespace; `None` without permission.
    pub(crate) fn network(&self, pid: i32) -> Option<u64> {
        let _reading = self.reading(pid)?;
        let namespace = fs::metadata(self.path(&format!("proc/{pid}/ns/net"))).ok()?;
        Some(namespace.ino())
    }

    /// Whether a process has this number.
    pub(crate) fn is_listed(&self, pid: i32) -> bool {
        rustix::fs::access(
            self.path(&format!("proc/{pid}")),
            rustix::fs::Access::EXISTS,
        )
        .is_ok()
    }

    /// The fields of a process's `stat`.
    pub fn stat(&self, pid: i32) -> Option<Stat> {
        parse_stat(&self.text_of(pid, "stat")?)
    }

    /// State, parent and group of a process as in [`stat`](Self::stat), by its `status`, whose reading
    /// never blocks: for threads that nobody supervises, and for processes that are left out.
    pub(crate) fn status(&self, pid: i32) -> Option<Stat> {
        let text = self.text(&format!("proc/{pid}/status"))?;
        let value = |key: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            value.split_ascii_whitespace().next()
        };
        Some(Stat {
            state: value("State")?.chars().next()?,
            parent: value("PPid")?.parse().ok()?,
            threads: value("Threads")?.parse().ok()?,
            group: value("NSpgid").map_or(Some(0), |group| group.parse().ok())?,
            // Not known: as late as any.
            start: u64::MAX,
            ..Stat::default()
        })
    }

    /// Whether a process exists and is not a zombie. Its first thread may have ended before others.
    pub fn runs(&self, pid: i32) -> bool {
        let stat = self.status(pid);
        stat.is_some_and(|stat| stat.state != 'Z' || stat.threads > 1)
    }

    /// The state of a thread, by the third field of proc_pid_stat(5).
    pub fn thread_state(&self, pid: i32, tid: i32) -> Option<char> {
        let text = self.text_of(pid, &format!("task/{tid}/stat"))?;
        Some(parse_stat(&text)?.state)
    }

    /// The real user id of a process.
    pub fn user(&self, pid: i32) -> Option<u32> {
        let users = self.status_field(pid, "Uid")?;
        users.split_ascii_whitespace().next()?.parse().ok()
    }

    /// The signals that a process handles, as a bit mask: bit 0 is signal 1.
    pub fn handled_signals(&self, pid: i32) -> Option<u64> {
        let mask = self.status_field(pid, "SigCgt")?;
        u64::from_str_radix(&mask, 16).ok()
    }

    /// Whether a process has timers of timer_create(2), which send it signals (proc_pid_timers(5)).
    pub fn has_timers(&self, pid: i32) -> bool {
        let text = self.text_of(pid, "timers");
        text.is_some_and(|text| !text.is_empty())
    }

    /// The number of times that a thread gave up or lost its processor. It stays the same
    /// exactly as long as the thread does not run or runs without a break.
    pub fn switches(&self, pid: i32, tid: i32) -> Option<u64> {
        let text = self.text_of(pid, &format!("task/{tid}/status"))?;
        let mut counts = text.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let count = value.trim().parse::<u64>().ok()?;
            key.ends_with("voluntary_ctxt_switches").then_some(count)
        });
        Some(counts.next()? + counts.next()?)
    }

    /// The processors on which the threads of a process may run; of many threads only the first are asked.
    pub fn allowed_processors(&self, pid: i32) -> Option<CpuList> {
        let mut allowed: Option<CpuList> = None;
        for tid in self.threads(pid).into_iter().take(idle::MAX_THREADS) {
            if let Some(text) = self.status_field(tid, "Cpus_allowed_list") {
                let own = CpuList::parse(&text)?;
                let before = allowed.iter().flat_map(|cpus| cpus.as_slice());
                allowed = Some(before.chain(own.as_slice()).copied().collect());
            }
        }
        allowed
    }

    /// Whether this process may exceed the limits on pipes: it has CAP_SYS_RESOURCE or
    /// CAP_SYS_ADMIN in the first user namespace (pipe_is_unprivileged_user() in fs/pipe.c).
    pub(crate) fn may_exceed_pipe_limits(&self) -> bool {
        const SYS_ADMIN: u64 = 1 << 21;
        const SYS_RESOURCE: u64 = 1 << 24;
        let mask = self.root.field("proc/self/status", "CapEff");
        let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        let has_any = mask.is_some_and(|mask| mask & (SYS_ADMIN | SYS_RESOURCE) != 0);
        has_any && self.root.in_first_user_namespace()
    }

    /// The control groups of a process: the text of proc_pid_cgroup(5).
    pub(crate) fn control_groups(&self, pid: i32) -> Option<String> {
        self.text_of(pid, "cgroup")
    }

    /// The directory that contains `proc` and `sys`.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Running time of a thread, and its time waiting for a processor
    /// (Documentation/scheduler/sched-stats.rst).
    pub fn schedule(&self, pid: i32, tid: i32) -> Option<(Duration, Duration)> {
        let text = self.text_of(pid, &format!("task/{tid}/schedstat"))?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
        Some((next()?, next()?))
    }

    /// Bytes and calls of a process, also of a zombie. Those of its children that have ended
    /// are included.
    pub fn io(&self, pid: i32) -> Option<Io> {
        parse_io(&self.text_of(pid, "io")?)
    }

    /// Bytes and calls of one thread.
    pub fn thread_io(&self, pid: i32, tid: i32) -> Option<Io> {
        parse_io(&self.text_of(pid, &format!("task/{tid}/io"))?)
    }

    /// The kernel function in which a thread sleeps. `None` if it does not, or if this
    /// process may not know.
    pub fn sleeps_in(&self, pid: i32, tid: i32) -> Option<String> {
        ThreadFiles::new(tid).function(ProcessFiles::new(self, pid), None)
    }

    /// The text of a thread's `syscall` (proc_pid_syscall(5)).
    pub fn syscall(&self, pid: i32, tid: i32) -> Option<String> {
        ThreadFiles::new(tid).call(ProcessFiles::new(self, pid), None)
    }

    /// What a descriptor refers to. `None` if it does not exist.
    pub fn target(&self, pid: i32, fd: i32) -> Option<Target> {
        ProcessFiles::new(self, pid).target(fd)
    }

    /// The descriptors of pipes and FIFOs of a process.
    ///
    /// # Errors
    /// Those of reading the directory: no such process, or no permission.
    pub fn ends(&self, pid: i32) -> io::Result<Vec<LinkFd>> {
        Ok(ProcessFiles::new(self, pid).descriptor_table()?.ends)
    }
}

/// Replaces characters that a terminal would obey, or that change the order of others.
pub fn visible(text: &str) -> String {
    text.replace(|letter: char| !is_printable(letter), "?")
}

/// A process and its descendants, each before its children.
pub fn tree(pid: i32, children: &dyn Fn(i32) -> Vec<i32>) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let next = children(*pid);
        // A number may be reused meanwhile.
        let new: Vec<i32> = next.into_iter().filter(|pid| !all.contains(pid)).collect();
        all.extend(new);
        at += 1;
    }
    all
}

/// The words of proc_pid_cmdline(5), quoted as for sh. Programs may replace them by a title: one
/// word, followed by blanks or by the zeros that are left of the others.
fn parse_command_line(text: &str) -> String {
    let text = text.strip_suffix('\0').unwrap_or(text);
    let words: Vec<&str> = text.split('\0').collect();
    let is_one = words[1..].iter().all(|word| word.is_empty());
    if is_one && words.len() != 2 {
        words[0].trim_end().to_owned()
    } else {
        command_line(&words)
    }
}

/// Parses proc_pid_io(5).
pub(crate) fn parse_io(text: &str) -> Option<Io> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(Io {
        read_bytes: field("rchar:")?,
        written_bytes: field("wchar:")?,
        reads: field("syscr:")?,
        writes: field("syscw:")?,
    })
}

/// Parses proc_pid_stat(5). The second field is a name in parentheses, which may contain
/// anything.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    /// SIGINT and SIGQUIT, as bits.
    const INTERRUPTS: u64 = 0b110;
    Some(Stat {
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        foreground: field(8)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        ran_ticks: number(14)? + number(15)?,
        kernel_ticks: number(15)?,
        children_ticks: number(16)? + number(17)?,
        children_faults: number(11)?,
        stack: number(28).unwrap_or(0),
        processor: number(39).and_then(|cpu| usize::try_from(cpu).ok()),
        ignores_interrupts: number(33).is_some_and(|ignored| ignored & INTERRUPTS == INTERRUPTS),
    })
}

/// A time in clock ticks.
pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests;
