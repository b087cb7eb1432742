//! Raises the pipes of a running pipeline as they appear: a process beside the pipeline that
//! ends with it. Nothing stands in the data's way, so it may be killed at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use libc::c_long;
use pipespeed_base::orphan::run_orphan;
use pipespeed_base::standard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::stdio;
use rustix::thread::set_name;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::find::{Process, ProcessId, Scanner};
use crate::look::Looker;
use crate::proc::{PipeId, Proc};
use crate::raise::{Decision, Left, Link, Raised, Seen, decide, links, raise};

/// Interval of scans right after a process has started.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// Longest interval between two looks for new processes.
const MAX_INTERVAL: Duration = Duration::from_millis(10);
/// Longest interval between two scans of descriptors while a pipe is undecided.
const MAX_UNDECIDED_INTERVAL: Duration = Duration::from_millis(250);
/// Longest interval between two scans of descriptors.
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Scans come at intervals of this share of the time since the last change.
const SCAN_SHARE: u32 = 8;
/// A process id is given out before the process is listed as a child.
const LISTING_DELAY: Duration = Duration::from_millis(20);
/// The sidecar takes at most this share of one processor.
const BUDGET: f64 = 0.05;
/// How long the pipes of a running process are examined if it is not followed.
const ONCE: Duration = Duration::from_millis(300);

/// What to raise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The process whose pipes, and those of its descendants, are raised.
    pub root: i32,
    /// Names of writer and reader of pipes that are left alone.
    pub except: Vec<(String, String)>,
}

/// Pipes that were raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedPipe {
    /// Name of the process that wrote most.
    pub writer: String,
    /// Name of the reader.
    pub reader: String,
    /// The capacity before, in bytes.
    pub from_bytes: u64,
    /// The capacity then, in bytes.
    pub to_bytes: u64,
    /// How many there were.
    pub count: u64,
}

/// Pipes that were left as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPipe {
    /// Name of the process that wrote most.
    pub writer: String,
    /// Name of the reader.
    pub reader: String,
    /// The reason.
    pub reason: Left,
    /// How many there were.
    pub count: u64,
}

/// What was done to the pipes of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The pipes raised.
    pub raised: Vec<RaisedPipe>,
    /// The pipes left as they are.
    pub left: Vec<LeftPipe>,
    /// Processor time that this took, in seconds.
    pub cpu_s: f64,
    /// How long the pipeline was attended to, in seconds.
    pub seconds: f64,
    /// Number of scans of the descriptors.
    pub scans: u64,
    /// The processes that did it.
    pub pids: Vec<i32>,
}

impl Account {
    fn add(&mut self, settled: Settled) {
        let (writer, reader) = (settled.writer.name, settled.reader.name);
        match settled.outcome {
            Raised::From(from_bytes, to_bytes) => {
                let mut known = self.raised.iter_mut();
                let known = known.find(|it| {
                    (&it.writer, &it.reader) == (&writer, &reader)
                        && (it.from_bytes, it.to_bytes) == (from_bytes, to_bytes)
                });
                match known {
                    Some(known) => known.count += 1,
                    None => self.raised.push(RaisedPipe {
                        writer,
                        reader,
                        from_bytes,
                        to_bytes,
                        count: 1,
                    }),
                }
            }
            Raised::Not(reason) => {
                let mut known = self.left.iter_mut();
                let known = known
                    .find(|it| (&it.writer, &it.reader, it.reason) == (&writer, &reader, reason));
                match known {
                    Some(known) => known.count += 1,
                    None => self.left.push(LeftPipe {
                        writer,
                        reader,
                        reason,
                        count: 1,
                    }),
                }
            }
        }
    }
}

/// A process at an end of a pipe, with its last name.
#[derive(Debug, Clone, Default)]
struct Party {
    id: Option<ProcessId>,
    name: String,
}

impl Party {
    fn of(process: Option<&Process>) -> Self {
        Party {
            id: process.map(|it| it.id),
            name: process.map(|it| it.name.clone()).unwrap_or_default(),
        }
    }
}

/// What was decided about a pipe.
#[derive(Debug)]
struct Settled {
    outcome: Raised,
    writer: Party,
    reader: Party,
    /// The pipe's place among all that were decided.
    place: u64,
}

/// Raises the pipes of a process and its descendants.
#[derive(Debug)]
pub struct Booster {
    proc: Proc,
    looker: Looker,
    plan: Plan,
    newest: Newest,
    scanner: Scanner,
    /// The processes in the order of their tree.
    tree: Vec<i32>,
    /// The pipes that still exist.
    settled: BTreeMap<PipeId, Settled>,
    decisions: u64,
    /// About those that don't.
    account: Account,
    undecided: usize,
    is_limited: bool,
    scans: u64,
    began: Instant,
    new_pid_at: Instant,
    changed_at: Instant,
    scanned_at: Option<Instant>,
}

impl Booster {
    /// Begins to attend to a process. `looker` opens the pipes.
    pub fn new(plan: Plan, looker: Looker) -> Self {
        let now = Instant::now();
        Booster {
            proc: Proc::default(),
            looker,
            plan,
            newest: Newest::open(),
            scanner: Scanner::default(),
            tree: Vec::new(),
            settled: BTreeMap::new(),
            decisions: 0,
            account: Account::default(),
            undecided: 0,
            is_limited: false,
            scans: 0,
            began: now,
            new_pid_at: now,
            changed_at: now,
            scanned_at: None,
        }
    }

    /// Raises pipes until `pause`, which waits for that long at most, returns false. Begins with
    /// a pause: a shell has no pipes at once.
    pub fn run(&mut self, pause: &mut dyn FnMut(Duration) -> bool) -> Account {
        let mut interval = MIN_INTERVAL;
        while pause(interval) {
            let before = cpu_time();
            let next = self.step();
            let cost = cpu_time().saturating_sub(before);
            interval = next.max(cost.div_f64(BUDGET));
        }
        self.account()
    }

    /// Raises what a running process has now: looks for `ONCE`, or until all is decided.
    pub fn run_once(&mut self, pause: &mut dyn FnMut(Duration) -> bool) -> Account {
        loop {
            self.scan();
            let is_over = self.began.elapsed() >= ONCE || self.undecided == 0;
            if is_over || !pause(MIN_INTERVAL) {
                return self.account();
            }
        }
    }

    /// Looks for new processes, and scans descriptors if that is due. Returns the time until
    /// the next step.
    fn step(&mut self) -> Duration {
        let now = Instant::now();
        if self.newest.has_changed() {
            self.new_pid_at = now;
        }
        if now.duration_since(self.new_pid_at) <= LISTING_DELAY {
            self.update_tree();
        }
        let interval = self.scan_interval(now);
        let is_due = |at: Instant| now.duration_since(at) >= interval;
        if self.scanned_at.is_none_or(is_due) {
            self.scan();
            self.scanned_at = Some(now);
        }
        self.scan_interval(now).min(MAX_INTERVAL)
    }

    fn scan_interval(&self, now: Instant) -> Duration {
        let max = if self.undecided > 0 {
            MAX_UNDECIDED_INTERVAL
        } else {
            MAX_SCAN_INTERVAL
        };
        let since = now.duration_since(self.changed_at);
        (since / SCAN_SHARE).clamp(MIN_INTERVAL, max)
    }

    fn update_tree(&mut self) {
        let mut tree = self.proc.tree(self.plan.root);
        let own = getpid().as_raw_pid();
        let helpers = self.looker.pids(&self.proc);
        tree.retain(|pid| *pid != own && !helpers.contains(pid));
        if tree != self.tree {
            self.tree = tree;
            self.changed_at = Instant::now();
        }
    }

    /// Reads the descriptors of all processes, and raises what may be raised.
    fn scan(&mut self) {
        self.scans += 1;
        self.update_tree();
        let pids: BTreeSet<i32> = self.tree.iter().copied().collect();
        self.scanner
            .snapshot
            .processes
            .retain(|pid, _| pids.contains(pid));
        self.scanner.read_some(&self.proc, &pids, &pids);
        let processes = &self.scanner.snapshot.processes;
        let in_order = self.tree.iter().filter_map(|pid| processes.get(pid));
        let links = links(&in_order.collect::<Vec<&Process>>());
        self.follow();
        self.undecided = 0;
        for link in links {
            if !self.settled.contains_key(&link.pipe) {
                self.looker.prepare(&self.proc);
                self.settle(&link);
            }
        }
    }

    /// Updates the names of processes, which exec changes, and forgets pipes that are gone.
    fn follow(&mut self) {
        let processes = &self.scanner.snapshot.processes;
        let ends = processes.values().flat_map(|process| &process.ends);
        let held: BTreeSet<PipeId> = ends.map(|end| end.pipe).collect();
        let known = self.settled.keys().copied();
        let gone: Vec<PipeId> = known.filter(|pipe| !held.contains(pipe)).collect();
        let mut gone: Vec<Settled> = gone
            .iter()
            .filter_map(|pipe| self.settled.remove(pipe))
            .collect();
        gone.sort_by_key(|settled| settled.place);
        gone.into_iter()
            .for_each(|settled| self.account.add(settled));
        for settled in self.settled.values_mut() {
            for party in [&mut settled.writer, &mut settled.reader] {
                let now = party.id.and_then(|id| processes.get(&id.pid));
                if let Some(now) = now.filter(|now| Some(now.id) == party.id) {
                    party.name.clone_from(&now.name);
                }
            }
        }
    }

    fn settle(&mut self, link: &Link) {
        let (writer, seen) = self.look_at_writers(link);
        let is_raised = |settled: &&Settled| matches!(settled.outcome, Raised::From(..));
        let raised = self.settled.values().filter(is_raised).count();
        let find = |pid: i32| self.scanner.snapshot.processes.get(&pid);
        let writer = Party::of(writer.and_then(find));
        let reader = Party::of(find(link.reader));
        let outcome = match decide(seen, raised, self.is_limited) {
            Decision::Wait => {
                self.undecided += 1;
                return;
            }
            Decision::Leave(left) => Raised::Not(left),
            Decision::Raise if self.is_excepted(&writer, &reader) => Raised::Not(Left::Excluded),
            Decision::Raise => raise(&mut self.looker, &self.proc, link),
        };
        self.is_limited |= outcome == Raised::Not(Left::Limit);
        self.decisions += 1;
        let settled = Settled {
            outcome,
            writer,
            reader,
            place: self.decisions,
        };
        self.settled.insert(link.pipe, settled);
    }

    fn is_excepted(&self, writer: &Party, reader: &Party) -> bool {
        let mut except = self.plan.except.iter();
        except.any(|(from, to)| (from, to) == (&writer.name, &reader.name))
    }

    /// The writer that has written most, and what was seen of all writers.
    fn look_at_writers(&self, link: &Link) -> (Option<i32>, Seen) {
        let mut seen = Seen::default();
        let mut most = None;
        for pid in &link.writers {
            let written = self.proc.io(*pid).map_or(0, |io| io.written_bytes);
            let in_call = self.calls(*pid, link.pipe);
            seen.vmsplices |= in_call.contains(&InCall::Vmsplice);
            let waits = in_call.contains(&InCall::WaitsForRoom);
            seen.waits_for_room |= waits;
            seen.written_bytes = seen.written_bytes.max(written);
            if most.is_none_or(|(before, _)| (waits, written) > before) {
                most = Some(((waits, written), *pid));
            }
        }
        (most.map(|(_, pid)| pid), seen)
    }

    fn calls(&self, pid: i32, pipe: PipeId) -> Vec<InCall> {
        let Some(process) = self.scanner.snapshot.processes.get(&pid) else {
            return Vec::new();
        };
        let is_pipe = |fd: i32| {
            let mut ends = process.ends.iter();
            ends.any(|end| end.fd == fd && end.pipe == pipe)
        };
        let calls = self.proc.threads(pid).into_iter();
        let calls = calls.filter_map(|tid| in_call(&self.proc.syscall(pid, tid)?, &is_pipe));
        calls.collect()
    }

    fn account(&mut self) -> Account {
        let mut account = std::mem::take(&mut self.account);
        let mut existing: Vec<Settled> = std::mem::take(&mut self.settled).into_values().collect();
        existing.sort_by_key(|settled| settled.place);
        existing
            .into_iter()
            .for_each(|settled| account.add(settled));
        account.scans = self.scans;
        account.seconds = self.began.elapsed().as_secs_f64();
        account.pids = self.looker.pids(&self.proc);
        let helpers = account.pids.iter();
        let helpers = helpers.filter_map(|pid| self.proc.schedule(*pid, *pid));
        let helpers: Duration = helpers.map(|(ran, _)| ran).sum();
        account.cpu_s = (cpu_time() + helpers).as_secs_f64();
        account.pids.push(getpid().as_raw_pid());
        account
    }
}

/// What a thread was doing with a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InCall {
    Vmsplice,
    WaitsForRoom,
}

/// Reads proc_pid_syscall(5): a thread in vmsplice(2), or one that sleeps in a call that
/// writes to the pipe.
fn in_call(text: &str, is_pipe: &dyn Fn(i32) -> bool) -> Option<InCall> {
    let mut words = text.split_ascii_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    let output = match number {
        libc::SYS_vmsplice => return Some(InCall::Vmsplice),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => 0,
        libc::SYS_splice => 2,
        _ => return None,
    };
    let word = words.nth(output)?.strip_prefix("0x")?;
    let fd = u64::from_str_radix(word, 16).ok()? as i32;
    is_pipe(fd).then_some(InCall::WaitsForRoom)
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Notices new processes and threads, anywhere, by the last process id in proc_loadavg(5).
/// That is far cheaper than reading the children of each process.
#[derive(Debug)]
struct Newest {
    file: Option<File>,
    last: Vec<u8>,
}

impl Newest {
    fn open() -> Self {
        Newest {
            file: File::open("/proc/loadavg").ok(),
            last: Vec::new(),
        }
    }

    /// Whether there may be a new process since the last call.
    fn has_changed(&mut self) -> bool {
        let mut buffer = [0; 128];
        let file = self.file.as_ref();
        let Some(Ok(len)) = file.map(|file| file.read_at(&mut buffer, 0)) else {
            return true;
        };
        let last = buffer[..len].rsplit(|byte| *byte == b' ').next();
        let last = last.unwrap_or_default();
        let has_changed = last != self.last;
        self.last = last.to_vec();
        has_changed || last.is_empty()
    }
}

/// Starts a sidecar that raises the pipes of a process until that ends. It is an orphan with a
/// session of its own and no descriptor of this process, which must have only one thread. It
/// writes its [`Account`] as JSON to the file `account`, and before that a line with its
/// process id.
///
/// Does not wait until the sidecar looks at the process, whose pipes it finds whenever they
/// were made.
///
/// # Errors
/// The process does not exist, the file can't be opened, or no process can be started.
pub fn start(plan: Plan, account: Option<&str>) -> io::Result<()> {
    // Opened here, since both may be gone when the sidecar runs.
    let root = open_process(plan.root)?;
    let account = account.map(|path| File::options().write(true).open(path));
    let account = account.transpose()?;
    run_orphan(|| {
        let kept = account.iter().map(AsFd::as_fd).chain([root.as_fd()]);
        leave_all_but(&kept.collect::<Vec<_>>())?;
        Ok(|| drop(attend(plan, root, account)))
    })
}

/// Gives up the descriptors and the directory of the process that was copied.
fn leave_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    stdio::dup2_stdin(&null)?;
    stdio::dup2_stdout(&null)?;
    stdio::dup2_stderr(&null)?;
    drop(null);
    standard::close_inherited(kept);
    std::env::set_current_dir("/")
}

/// In the sidecar.
fn attend(plan: Plan, root: OwnedFd, mut account_file: Option<File>) -> io::Result<()> {
    // For ps(1), beside the arguments of the process that was copied.
    let _ = set_name(c"pipespeed-boost");
    if let Some(file) = &mut account_file {
        writeln!(file, "{}", getpid().as_raw_pid())?;
    }
    let mut booster = Booster::new(plan, Looker::forking());
    let account = booster.run(&mut |interval| !has_ended(&root, interval));
    if let Some(mut file) = account_file {
        let text = serde_json::to_string(&account)?;
        writeln!(file, "{text}")?;
    }
    Ok(())
}

/// Refers to a running process, even if its number is reused.
///
/// # Errors
/// ESRCH if there is no such process.
pub fn open_process(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Whether a process ends within this time.
fn has_ended(process: &OwnedFd, within: Duration) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    poll(&mut fds, within.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_writes_to_the_pipe_is_told_from_vmsplice() {
        let is_pipe = |fd: i32| fd == 1;
        let call = |number: c_long, args: &str| in_call(&format!("{number} {args}"), &is_pipe);
        let waits = Some(InCall::WaitsForRoom);
        assert_eq!(call(libc::SYS_write, "0x1 0x7f00 0x10 0x0 0x0 0x0"), waits);
        assert_eq!(call(libc::SYS_write, "0x2 0x7f00 0x10 0x0 0x0 0x0"), None);
        assert_eq!(call(libc::SYS_splice, "0x0 0x0 0x1 0x0 0x10 0x0"), waits);
        assert_eq!(call(libc::SYS_splice, "0x1 0x0 0x2 0x0 0x10 0x0"), None);
        assert_eq!(call(libc::SYS_read, "0x1 0x7f00 0x10 0x0 0x0 0x0"), None);
        let vmsplice = Some(InCall::Vmsplice);
        assert_eq!(
            call(libc::SYS_vmsplice, "0x5 0x0 0x0 0x0 0x0 0x0"),
            vmsplice
        );
        assert_eq!(in_call("running", &is_pipe), None);
    }

    #[test]
    fn a_new_process_is_noticed() {
        let mut newest = Newest::open();
        assert!(newest.has_changed());
        std::process::Command::new("true").status().unwrap();
        assert!(newest.has_changed());
    }
}
