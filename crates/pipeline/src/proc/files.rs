//! The files of one process in /proc.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, openat, readlinkat, statx,
};
use rustix::io::{Errno, pread};

use pipespeed_base::limits::{Resource, soft_limit};

use super::silent::ReadGuard;
use super::{
    Io, LinkFd, LinkId, OtherFiles, Proc, SlowFiles, Stat, Target, parse_io, parse_stat, visible,
};

/// The files read here are shorter: most are one line.
const MAX_BYTES: usize = 1024;
/// Of fdinfo, an epoll instance has the longest: about 90 bytes a descriptor.
const MAX_FDINFO: usize = 32 << 10;
/// Files kept open without a limit on descriptors.
const MAX_KEPT: u64 = 4096;
/// Of a process at most this many descriptors are read: it can have a million, each with a long path.
const MAX_DESCRIPTORS: usize = 1 << 16;
/// Why descriptors that are listed can't be read: ptrace(2) access is missing.
const REFUSED: &str = "Permission denied: a sandbox (Landlock, say) or the lack of CAP_SYS_PTRACE keeps its \
                       descriptors from being read";

/// The files of one process: found by its number, or below its directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessFiles<'a> {
    proc: &'a Proc,
    pid: i32,
    directory: Option<BorrowedFd<'a>>,
    /// The thread that still has the process's descriptors and memory.
    thread: Option<i32>,
}

/// Fingerprint of a descriptor table. Equal fingerprints mean that no descriptor was added or
/// removed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FdTableStamp {
    /// The directory's inode number, which differs from process to process.
    inode: u64,
    /// The number of descriptors (Linux 6.2); 0 before.
    pub(crate) count: u64,
}

impl<'a> ProcessFiles<'a> {
    /// The files of the process that has this number when they are opened.
    pub(crate) fn new(proc: &'a Proc, pid: i32) -> Self {
        ProcessFiles {
            proc,
            pid,
            directory: None,
            thread: None,
        }
    }

    /// The files of the process with this directory: none once it has ended, even if another
    /// process gets its number.
    pub(crate) fn below(self, directory: BorrowedFd<'a>) -> Self {
        ProcessFiles {
            directory: Some(directory),
            ..self
        }
    }

    /// The files of a process whose main thread has ended before others, as the kernel shows them
    /// for one of these. `None` if there is none.
    pub(crate) fn without_leader(self) -> Option<Self> {
        let lives = |tid: &i32| {
            let state = ThreadFiles::new(*tid).state(self, None);
            state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
        };
        let thread = self.threads().into_iter().find(lives)?;
        Some(self.through(Some(thread)))
    }

    /// The files of the process as one of its threads has them.
    pub(crate) fn through(self, thread: Option<i32>) -> Self {
        ProcessFiles { thread, ..self }
    }

    /// The thread by which it shows the files.
    pub(crate) fn thread(self) -> Option<i32> {
        self.thread
    }

    /// Marks that its files are being read.
    ///
    /// # Errors
    /// It is left out, since it does not answer.
    fn reading(self) -> io::Result<ReadGuard<'a>> {
        let reading = self.proc.reading(self.pid);
        reading.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Opens the directory, for [`below`](Self::below).
    pub(crate) fn directory(self) -> io::Result<OwnedFd> {
        let _reading = self.reading()?;
        self.open(".", OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The path of a file below the process's directory.
    fn name(self, file: &str) -> String {
        let is_threads = ["fd", "mem", "cwd"]
            .iter()
            .any(|prefix| file.starts_with(prefix));
        match self.thread.filter(|_| is_threads) {
            Some(tid) => format!("task/{tid}/{file}"),
            None => file.to_owned(),
        }
    }

    fn place(self, file: &str) -> (BorrowedFd<'a>, PathBuf) {
        let file = self.name(file);
        match self.directory {
            Some(directory) => (directory, PathBuf::from(file)),
            None => (CWD, self.proc.path(&format!("proc/{}/{file}", self.pid))),
        }
    }

    fn open(self, file: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let (directory, path) = self.place(file);
        Ok(openat(
            directory,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    fn entries(self, directory: &str) -> io::Result<(OwnedFd, Vec<i32>)> {
        let _reading = self.reading()?;
        let fd = self.open(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let numbers = Dir::read_from(&fd)?.filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str().ok()?.parse().ok()
        });
        let numbers = numbers.collect();
        Ok((fd, numbers))
    }

    /// The threads.
    pub(crate) fn threads(self) -> Vec<i32> {
        self.entries("task").map_or(Vec::new(), |(_, all)| all)
    }

    /// The number of threads: their directory has two links more.
    pub(crate) fn thread_count(self) -> Option<usize> {
        let _reading = self.reading().ok()?;
        let (directory, path) = self.place("task");
        let found = statx(directory, path, AtFlags::empty(), StatxFlags::NLINK).ok()?;
        usize::try_from(found.stx_nlink).ok()?.checked_sub(2)
    }

    /// Whether the descriptors may have changed.
    pub(crate) fn fd_table_stamp(self) -> Option<FdTableStamp> {
        let _reading = self.reading().ok()?;
        let (directory, path) = self.place("fd");
        let wanted = StatxFlags::INO | StatxFlags::SIZE;
        let found = statx(directory, path, AtFlags::empty(), wanted).ok()?;
        Some(FdTableStamp {
            inode: found.stx_ino,
            count: found.stx_size,
        })
    }

    /// The number of descriptors (Linux 6.2); `None` before.
    pub(crate) fn descriptors(self) -> Option<u64> {
        if self.proc.counts_descriptors() {
            self.fd_table_stamp().map(|stamp| stamp.count)
        } else {
            None
        }
    }

    /// The fields of `stat`, and the name.
    ///
    /// # Errors
    /// Those of reading it: no such process, or no permission.
    pub(crate) fn stat(self) -> io::Result<(Stat, String)> {
        let _reading = self.reading()?;
        let text = read(&self.open("stat", OFlags::RDONLY)?)?;
        let name = text.split_once('(').and_then(|(_, after)| {
            let (name, _) = after.rsplit_once(')')?;
            Some(visible(name))
        });
        parse_stat(&text)
            .zip(name)
            .ok_or(io::ErrorKind::InvalidData.into())
    }

    /// At most `len` bytes of a file whose reading may block for good. `None` if it can't be read,
    /// or is empty.
    pub(crate) fn slow(self, file: &str, offset: u64, len: usize) -> Option<Vec<u8>> {
        let reading = self.reading().ok()?;
        match self.proc.slow_files() {
            SlowFiles::Unread => None,
            SlowFiles::Plain => {
                let mut bytes = vec![0; len];
                let filled =
                    pread(self.open(file, OFlags::RDONLY).ok()?, &mut bytes, offset).ok()?;
                bytes.truncate(filled);
                (filled > 0).then_some(bytes)
            }
            SlowFiles::By(pipe_probe) => {
                // The helper is waited for with a timeout.
                drop(reading);
                let bytes = pipe_probe.read(self.proc, self.pid, &self.name(file), offset, len)?;
                // As long as a process exists, no other one has its number.
                self.thread_count().map(|_| bytes)
            }
        }
    }

    /// The beginning of a file's text about a descriptor (proc_pid_fdinfo(5)).
    pub(crate) fn fdinfo(self, fd: i32) -> Option<String> {
        let bytes = self.slow(&format!("fdinfo/{fd}"), 0, MAX_FDINFO)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether a descriptor is non-blocking (O_NONBLOCK).
    pub(crate) fn is_nonblocking(self, fd: i32) -> bool {
        let info = self.fdinfo(fd).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        flags.is_some_and(|flags| flags & OFlags::NONBLOCK.bits() != 0)
    }

    /// Bytes of its memory. `None` if not all can be read.
    pub(crate) fn memory(self, address: u64, len: usize) -> Option<Vec<u8>> {
        if self.proc.hides_calls() {
            return None;
        }
        // A poll(2) may have no descriptors.
        if len == 0 {
            return Some(Vec::new());
        }
        let bytes = self.slow("mem", address, len)?;
        (bytes.len() == len).then_some(bytes)
    }

    /// Its working directory.
    pub(crate) fn working_directory(self) -> Option<PathBuf> {
        self.linked("cwd")
    }

    /// The file of its program.
    pub(crate) fn program(self) -> Option<PathBuf> {
        self.linked("exe")
    }

    /// What a symbolic link below its directory contains; `None` without permission.
    pub(crate) fn linked(self, file: &str) -> Option<PathBuf> {
        let _reading = self.reading().ok()?;
        let (directory, path) = self.place(file);
        let link = readlinkat(directory, path, Vec::new()).ok()?;
        Some(PathBuf::from(link.to_string_lossy().into_owned()))
    }

    /// The file of a descriptor. `None` if it does not exist.
    pub(crate) fn about(self, fd: i32) -> Option<Statx> {
        let _reading = self.reading().ok()?;
        let (directory, path) = self.place(&format!("fd/{fd}"));
        statx(directory, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()
    }

    /// What a descriptor refers to. `None` if it does not exist.
    pub(crate) fn target(self, fd: i32) -> Option<Target> {
        let _reading = self.reading().ok()?;
        let (directory, path) = self.place(&format!("fd/{fd}"));
        target(directory, &path)
    }

    /// What its descriptors refer to, as far as bytes go through them.
    ///
    /// # Errors
    /// Those of reading the directory: no such process, or no permission. The links may be refused
    /// although they are listed (proc_pid_fd(5)).
    pub(crate) fn descriptor_table(self) -> io::Result<DescriptorTable> {
        let (directory, mut fds) = self.entries("fd")?;
        fds.truncate(MAX_DESCRIPTORS);
        let link = |fd: &i32| readlinkat(&directory, fd.to_string(), Vec::new());
        if fds.first().map(link) == Some(Err(Errno::ACCESS)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, REFUSED));
        }
        let mut named: BTreeSet<LinkId> = BTreeSet::new();
        let DescriptorTable {
            mut ends,
            mut sockets,
            mut terminals,
            mut others,
        } = DescriptorTable::default();
        for fd in fds {
            let _reading = self.reading()?;
            let path = PathBuf::from(fd.to_string());
            let access = || access(directory.as_fd(), &path);
            match target(directory.as_fd(), &path) {
                Some(Target::Pipe(pipe, fifo)) => {
                    // A path may be long, and have many descriptors.
                    let fifo = fifo.filter(|_| named.insert(pipe));
                    ends.extend(access().map(|(reads, writes)| LinkFd {
                        fd,
                        pipe,
                        reads,
                        writes,
                        path: fifo,
                    }));
                }
                // Nothing is read from it.
                Some(Target::Null) if !others.writes => {
                    let writes = access().is_some_and(|(_, writes)| writes);
                    others.writes |= writes && !matches!(fd, 0 | 2);
                }
                Some(Target::Socket(inode)) => {
                    sockets.push((fd, inode));
                    others.reads |= !matches!(fd, 1 | 2);
                    others.writes |= !matches!(fd, 0 | 2);
                }
                Some(target @ (Target::Terminal | Target::TerminalMaster)) => {
                    let is_master = target == Target::TerminalMaster;
                    terminals.push((fd, is_master));
                    others.reads |= is_master;
                    others.writes |= is_master;
                }
                Some(Target::File) if !(others.reads && others.writes) => {
                    let (reads, writes) = access().unwrap_or_default();
                    others.reads |= reads && !matches!(fd, 1 | 2);
                    others.writes |= writes && !matches!(fd, 0 | 2);
                }
                Some(Target::Anonymous(kind)) => others.has_uring |= kind == "io_uring",
                _ => {}
            }
        }
        ends.sort_by_key(|end| end.fd);
        Ok(DescriptorTable {
            ends,
            sockets,
            terminals,
            others,
        })
    }
}

/// What the descriptors of a process refer to.
#[derive(Debug, Default)]
pub(crate) struct DescriptorTable {
    /// Those of pipes and FIFOs, by number.
    pub(crate) ends: Vec<LinkFd>,
    /// Those of sockets, with their inode numbers.
    pub(crate) sockets: Vec<(i32, u64)>,
    /// Those of terminals, and whether each is a master.
    pub(crate) terminals: Vec<(i32, bool)>,
    pub(crate) others: OtherFiles,
}

/// What the link of a descriptor refers to.
fn target(directory: BorrowedFd<'_>, path: &Path) -> Option<Target> {
    let name = readlinkat(directory, path, Vec::new()).ok()?;
    let link = name.to_string_lossy();
    let inner = |prefix: &str| link.strip_prefix(prefix)?.strip_suffix(']');
    if let Some(inode) = inner("pipe:[") {
        return Some(Target::Pipe(LinkId::pipe(inode.parse().ok()?), None));
    }
    if let Some(inode) = inner("socket:[") {
        return Some(Target::Socket(inode.parse().ok()?));
    }
    if let Some(kind) = link.strip_prefix("anon_inode:") {
        let kind = kind.trim_start_matches('[').trim_end_matches(']');
        return Some(Target::Anonymous(kind.to_owned()));
    }
    if link == "/dev/null" {
        return Some(Target::Null);
    }
    if ["/dev/ptmx", "/dev/pts/ptmx"].contains(&&*link) {
        return Some(Target::TerminalMaster);
    }
    if ["/dev/pts/", "/dev/tty", "/dev/console"]
        .iter()
        .any(|prefix| link.starts_with(prefix))
    {
        return Some(Target::Terminal);
    }
    // Without synchronisation, a dead network file system can't block the call.
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(directory, path, flags, StatxFlags::TYPE | StatxFlags::INO);
    let fifo = found
        .ok()
        .filter(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::Fifo);
    // The descriptor may have become that of a pipe after its link was read.
    let is_same = || readlinkat(directory, path, Vec::new()).is_ok_and(|now| now == name);
    Some(match fifo.filter(|_| is_same()) {
        Some(found) => {
            let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
            let id = LinkId::Fifo {
                device,
                inode: found.stx_ino,
            };
            Target::Pipe(id, Some(visible(&link)))
        }
        None => Target::File,
    })
}

/// Whether a descriptor can read and write: the owner's permission bits of its link
/// (proc_pid_fd(5)).
fn access(directory: BorrowedFd<'_>, path: &Path) -> Option<(bool, bool)> {
    let about = statx(directory, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MODE).ok()?;
    let mode = about.stx_mode;
    Some((mode & 0o400 != 0, mode & 0o200 != 0))
}

/// Reads a short file from its beginning.
fn read(file: &OwnedFd) -> io::Result<String> {
    let mut bytes = [0; MAX_BYTES];
    let len = pread(file, &mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..len]).trim_end().to_owned())
}

/// The number of files that may still be kept open.
#[derive(Debug, Clone)]
pub(crate) struct FdBudget(Rc<Cell<u64>>);

impl FdBudget {
    /// Half of the descriptors that this process may have.
    pub(crate) fn new() -> Self {
        let limit = soft_limit(Resource::RLIMIT_NOFILE);
        let half = limit.map_or(MAX_KEPT, |limit| limit / 2);
        FdBudget::with_count(half.min(MAX_KEPT))
    }

    /// Fewer where readers were left behind, which keep theirs: in all at most three quarters.
    pub(crate) fn beside_left_behind(proc: &Proc) -> Self {
        let usual = FdBudget::new();
        if proc.left_out().is_empty() {
            return usual;
        }
        FdBudget::with_count(usual.0.get() / 32)
    }

    /// An allowance of `count` files.
    pub(crate) fn with_count(count: u64) -> Self {
        FdBudget(Rc::new(Cell::new(count)))
    }

    /// Keeps a file open, if one more may be.
    pub(crate) fn keep(&self, file: OwnedFd) -> Option<CachedFile> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(CachedFile {
            file,
            fd_budget: self.clone(),
        })
    }
}

/// A file that is kept open.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: OwnedFd,
    fd_budget: FdBudget,
}

impl AsFd for CachedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let count = &self.fd_budget.0;
        count.set(count.get() + 1);
    }
}

/// What a thread has done so far (Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    /// Running time.
    pub(crate) ran: Duration,
    /// Time waiting for a processor.
    pub(crate) delayed: Duration,
    /// How often it got a processor. It stays the same exactly as long as the thread sleeps,
    /// or runs without a break. 0 if the kernel doesn't count it (CONFIG_SCHED_INFO).
    pub(crate) turns: u64,
}

/// The files of one thread. They may be kept open, which saves most of the cost of reading
/// them again: such a file shows nothing once its thread has ended.
#[derive(Debug)]
pub(crate) struct ThreadFiles {
    pub(crate) tid: i32,
    schedule: Option<CachedFile>,
    call: Option<CachedFile>,
    function: Option<CachedFile>,
    stat: Option<CachedFile>,
}

impl ThreadFiles {
    pub(crate) fn new(tid: i32) -> Self {
        ThreadFiles {
            tid,
            schedule: None,
            call: None,
            function: None,
            stat: None,
        }
    }

    /// Running and waiting time. The file is kept open as far as `fd_budget` goes; so below.
    pub(crate) fn schedule(
        &mut self,
        files: ProcessFiles<'_>,
        fd_budget: Option<&FdBudget>,
    ) -> Option<SchedStat> {
        let Some(text) = text(&mut self.schedule, files, self.tid, "schedstat", fd_budget) else {
            // The kernel doesn't count it, unless the thread has ended.
            return self.state(files, None).map(|_| SchedStat::default());
        };
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(SchedStat {
            ran: Duration::from_nanos(next()?),
            delayed: Duration::from_nanos(next()?),
            turns: next()?,
        })
    }

    /// The text of `syscall` (proc_pid_syscall(5)). `None` if this process may not know.
    pub(crate) fn call(
        &mut self,
        files: ProcessFiles<'_>,
        fd_budget: Option<&FdBudget>,
    ) -> Option<String> {
        if files.proc.hides_calls() {
            return None;
        }
        text(&mut self.call, files, self.tid, "syscall", fd_budget)
    }

    /// The kernel function in which it sleeps. `None` if it does not, or if this process may
    /// not know.
    pub(crate) fn function(
        &mut self,
        files: ProcessFiles<'_>,
        fd_budget: Option<&FdBudget>,
    ) -> Option<String> {
        let function = text(&mut self.function, files, self.tid, "wchan", fd_budget)?;
        (function != "0").then_some(function)
    }

    /// What it has read and written itself, unlike `/proc/PID/io` without the children for which
    /// the process has waited.
    pub(crate) fn io(&self, files: ProcessFiles<'_>) -> Option<Io> {
        let place = format!("task/{}/io", self.tid);
        let _reading = files.reading().ok()?;
        parse_io(&read(&files.open(&place, OFlags::RDONLY).ok()?).ok()?)
    }

    /// Its state, by the third field of proc_pid_stat(5).
    pub(crate) fn state(
        &mut self,
        files: ProcessFiles<'_>,
        fd_budget: Option<&FdBudget>,
    ) -> Option<char> {
        Some(self.stat(files, fd_budget)?.state)
    }

    /// The processor on which it runs or waits to.
    pub(crate) fn processor(
        &mut self,
        files: ProcessFiles<'_>,
        fd_budget: Option<&FdBudget>,
    ) -> Option<usize> {
        self.stat(files, fd_budget)?.processor
    }

    fn stat(&mut self, files: ProcessFiles<'_>, fd_budget: Option<&FdBudget>) -> Option<Stat> {
        let text = text(&mut self.stat, files, self.tid, "stat", fd_budget)?;
        parse_stat(&text)
    }
}

/// Reads a file of a thread, by the file kept open if there is one.
fn text(
    kept: &mut Option<CachedFile>,
    files: ProcessFiles<'_>,
    tid: i32,
    name: &str,
    fd_budget: Option<&FdBudget>,
) -> Option<String> {
    let _reading = files.reading().ok()?;
    let text = match kept {
        Some(kept) => read(&kept.file).ok()?,
        None => {
            let place = format!("task/{tid}/{name}");
            let file = files.open(&place, OFlags::RDONLY).ok()?;
            let text = read(&file).ok()?;
            *kept = fd_budget.and_then(|fd_budget| fd_budget.keep(file));
            text
        }
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
