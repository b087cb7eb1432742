//! Raises the pipes of a running pipeline as they appear: a process beside the pipeline that
//! ends with it. Nothing stands in the data's way, so it may be killed at any moment.

mod account;
mod budget;
mod call;
mod connections;
mod sidecar;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};

use self::account::Register;
pub use self::account::{Account, PipeName, TreatedPipe};
use self::budget::Budget;
use self::call::{InCall, examine_call};
use self::connections::Connections;
pub use self::sidecar::{find_other, open_process, start};
use crate::graph::{Link, LinkSide, Process, Scanner};
use crate::proc::pipe_probe::PipeProbe;
use crate::proc::{LinkId, Proc};
use crate::raise::{
    Decision, Exemption, MIN_WRITTEN, Treatment, WriterActivity, decide, find_connected,
    find_links, has_memory, raise,
};
use crate::wait::{BlockedOn, LinkWait, ThreadState, examine};

/// Interval of scans right after a process has started.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// Longest interval between two looks for new processes.
const MAX_INTERVAL: Duration = Duration::from_millis(10);
/// Longest interval between two scans of descriptors while a pipe is undecided.
const MAX_UNDECIDED_INTERVAL: Duration = Duration::from_millis(250);
/// Longest interval between two scans of descriptors.
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Scans come at intervals of this share of the time since the last change.
const SCAN_SHARE: u32 = 4;
/// A process id is given out before the process is listed as a child.
const LISTING_DELAY: Duration = Duration::from_millis(20);
/// How long the pipes of a running process are examined if it is not followed.
const ONCE: Duration = Duration::from_millis(300);
/// How long opening such a pipe is tried again: the helper may have to wait for a processor.
const MAX_OPENING: Duration = Duration::from_secs(5);
/// Once the user's limit was reached, no other pipe is raised for this time.
const LIMITED: Duration = Duration::from_secs(10);

/// Whose pipes are raised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RaiseScope {
    /// A process, with its descendants.
    pub pid: i32,
    /// Whether the rest of its pipeline belongs to it: processes of its group with the same
    /// parent that pipes connect with it.
    pub with_group: bool,
    /// The [name](PipeName) of pipes that are left alone, as text.
    pub except: Option<String>,
}

/// Raises the pipes of a process and its descendants.
#[derive(Debug)]
pub struct Booster {
    proc: Proc,
    pipe_probe: PipeProbe,
    subject: RaiseScope,
    newest: Newest,
    scanner: Scanner,
    /// The processes in the order of their tree.
    tree: Vec<i32>,
    register: Register,
    connections: Connections,
    limited_at: Option<Instant>,
    scans: u64,
    began: Instant,
    new_pid_at: Instant,
    changed_at: Instant,
    scanned_at: Option<Instant>,
}

impl Booster {
    /// Begins to attend to a process. `pipe_probe` opens the pipes.
    pub fn new(subject: RaiseScope, pipe_probe: PipeProbe) -> Self {
        let now = Instant::now();
        Booster {
            proc: Proc::with_pipe_probe(pipe_probe.clone()),
            pipe_probe,
            subject,
            newest: Newest::open(),
            scanner: Scanner::without_sockets(),
            tree: Vec::new(),
            register: Register::default(),
            connections: Connections::default(),
            limited_at: None,
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
        let (mut budget, mut stepped_at) = (Budget::full(), Instant::now());
        let mut interval = MIN_INTERVAL;
        while pause(interval) {
            let before = self.cpu_time();
            let next = self.step();
            let cost = self.cpu_time().saturating_sub(before);
            let now = Instant::now();
            interval = next.max(budget.spend(cost, now.duration_since(stepped_at)));
            stepped_at = now;
        }
        self.account()
    }

    /// Raises what a running process has now: looks for `ONCE`, or until all is decided. The
    /// account says why the others were left as they are.
    pub fn run_once(&mut self, pause: &mut dyn FnMut(Duration) -> bool) -> Account {
        loop {
            self.scan();
            let limit = if self.register.waits_for_opening() {
                MAX_OPENING
            } else {
                ONCE
            };
            let is_over = self.began.elapsed() >= limit || !self.register.is_undecided();
            if is_over || !pause(MIN_INTERVAL) {
                self.register.give_up();
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
        let max = if self.register.is_undecided() {
            MAX_UNDECIDED_INTERVAL
        } else {
            MAX_SCAN_INTERVAL
        };
        let since = now.duration_since(self.changed_at);
        (since / SCAN_SHARE).clamp(MIN_INTERVAL, max)
    }

    fn update_tree(&mut self) {
        let mut tree = self.proc.tree(self.subject.pid);
        if self.subject.with_group {
            let siblings = self.find_siblings().into_iter();
            let all: Vec<i32> = siblings.flat_map(|pid| self.proc.tree(pid)).collect();
            tree.extend(all);
        }
        let own = getpid().as_raw_pid();
        let helpers = self.pipe_probe.pids(&self.proc);
        tree.retain(|pid| *pid != own && !helpers.contains(pid));
        if tree != self.tree {
            self.tree = tree;
            self.changed_at = Instant::now();
        }
    }

    /// The processes with the same parent and group.
    fn find_siblings(&self) -> Vec<i32> {
        let own = self.subject.pid;
        let Some(stat) = self.proc.stat(own) else {
            return Vec::new();
        };
        let mut siblings = self.proc.children(stat.parent);
        let group = |pid: i32| self.proc.stat(pid).map(|stat| stat.group);
        siblings.retain(|pid| *pid != own && group(*pid) == Some(stat.group));
        siblings
    }

    /// Reads the descriptors of all processes, and raises what may be raised.
    fn scan(&mut self) {
        self.scans += 1;
        self.update_tree();
        let pids: BTreeSet<i32> = self.tree.iter().copied().collect();
        self.scanner.read_only(&self.proc, &pids, &pids);
        let processes = &self.scanner.graph.processes;
        let in_order = self.tree.iter().filter_map(|pid| processes.get(pid));
        let mut links = find_links(&in_order.collect::<Vec<&Process>>());
        let mut involved = pids;
        if self.subject.with_group {
            involved = self.proc.tree(self.subject.pid).into_iter().collect();
            links = find_connected(links, &involved);
            involved.extend(links.iter().flat_map(|link| &link.ends).map(|end| end.pid));
        }
        self.register.update(processes);
        self.connections.update(processes, &involved);
        let (settled, open): (Vec<Link>, Vec<Link>) = links
            .into_iter()
            .partition(|link| self.register.is_settled(link.id));
        // One that is raised at once has hardly been read from.
        for link in settled
            .iter()
            .filter(|link| link.holders(LinkSide::Input).len() > 1)
        {
            let process = |pid: i32| self.scanner.graph.processes.get(&pid);
            if let Some(reader) = self.find_reader(link).and_then(process) {
                self.register.set_reader(link.id, reader);
            }
        }
        if !open.is_empty() {
            self.pipe_probe.prepare(&self.proc);
        }
        for link in &open {
            self.settle(link);
        }
    }

    /// Decides on a pipe, and does it.
    fn settle(&mut self, link: &Link) {
        let (writer, activity) = self.examine_writers(link);
        let reader = self
            .find_reader(link)
            .or(link.holders(LinkSide::Input).last().copied());
        let process = |pid: Option<i32>| self.scanner.graph.processes.get(&pid?);
        let (writer, reader) = (process(writer), process(reader));
        let name = self.register.set_parties(link.id, writer, reader);
        let is_excluded = self.subject.except.as_ref() == Some(&name.to_string());
        let raised = self.register.count_raised();
        let is_limited = self
            .limited_at
            .is_some_and(|limited| limited.elapsed() < LIMITED);
        let treatment = match decide(activity, raised, is_limited) {
            Decision::Wait(reason) => Err(reason),
            Decision::Leave(exemption) => Ok(Treatment::Left(exemption)),
            Decision::Raise if is_excluded => Ok(Treatment::Left(Exemption::Excluded)),
            Decision::Raise if !has_memory(&self.proc, link) => {
                Ok(Treatment::Left(Exemption::LittleMemory))
            }
            // If it fails, the next scan finds another reader, or no pipe.
            Decision::Raise => {
                raise(&self.pipe_probe, &self.proc, link).ok_or(Exemption::NotOpened)
            }
        };
        match treatment {
            Ok(treatment) => {
                if treatment == Treatment::Left(Exemption::Limit) {
                    self.limited_at = Some(Instant::now());
                }
                self.register.settle(link.id, treatment);
            }
            Err(reason) => self.register.wait(link.id, reason),
        }
    }

    /// The writer that has written most, and what was seen of all writers.
    fn examine_writers(&self, link: &Link) -> (Option<i32>, WriterActivity) {
        let mut activity = WriterActivity::default();
        let mut most = None;
        for pid in &link.holders(LinkSide::Room) {
            let written = self.proc.io(*pid).map_or(0, |io| io.written_bytes);
            let in_call = self.find_calls(*pid, link.id);
            let vmsplice = in_call.iter().find_map(|call| call.exemption());
            activity.vmsplice = activity.vmsplice.or(vmsplice);
            let waits = in_call.contains(&InCall::WaitsForRoom);
            activity.waits_for_room |= waits;
            activity.written_bytes = activity.written_bytes.max(written);
            if most.is_none_or(|(before, _)| (waits, written) > before) {
                most = Some(((waits, written), *pid));
            }
        }
        (most.map(|(_, pid)| pid), activity)
    }

    /// Of several readers the one that has read most, or else waits for data. `None` if none was
    /// seen to read.
    fn find_reader(&self, link: &Link) -> Option<i32> {
        let readers = link.holders(LinkSide::Input);
        if let [reader] = readers[..] {
            return Some(reader);
        }
        let reading = |pid: &i32| {
            // Not the whole process's: a shell's includes its children that have ended.
            let threads = self.proc.threads(*pid).into_iter();
            let read = threads.filter_map(|tid| Some(self.proc.thread_io(*pid, tid)?.read_bytes));
            // Programs read some to start.
            let much = read.max().filter(|bytes| *bytes >= MIN_WRITTEN);
            (much, self.waits_for_data(*pid, link.id))
        };
        let readers = readers.iter().map(|pid| (reading(pid), *pid));
        let (seen, reader) = readers.max()?;
        (seen != (None, false)).then_some(reader)
    }

    fn waits_for_data(&self, pid: i32, pipe: LinkId) -> bool {
        let Some(process) = self.scanner.graph.processes.get(&pid) else {
            return false;
        };
        let is_on_pipe = |wait: &LinkWait| wait.pipe == pipe && wait.side == LinkSide::Input;
        let mut threads = self.proc.threads(pid).into_iter();
        threads.any(|tid| match examine(&self.proc, pid, tid, &process.ends) {
            Some((ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }), _)) => {
                any_of.iter().any(is_on_pipe)
            }
            _ => false,
        })
    }

    fn find_calls(&self, pid: i32, pipe: LinkId) -> Vec<InCall> {
        let Some(process) = self.scanner.graph.processes.get(&pid) else {
            return Vec::new();
        };
        let is_pipe = |fd: i32| {
            let mut ends = process.ends.iter();
            ends.any(|end| end.fd == fd && end.pipe == pipe)
        };
        let threads = self.proc.threads(pid).into_iter();
        let calls = threads.filter_map(|tid| examine_call(&self.proc, pid, tid, &is_pipe));
        calls.collect()
    }

    fn account(&mut self) -> Account {
        let mut account = self.register.take_account();
        account.connected = self.connections.take_names();
        account.scans = self.scans;
        account.seconds = self.began.elapsed().as_secs_f64();
        account.cpu_s = self.cpu_time().as_secs_f64();
        account
    }

    /// Processor time of this process and its helpers.
    fn cpu_time(&self) -> Duration {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + self.pipe_probe.spent(&self.proc)
    }
}

/// Notices new processes and threads, anywhere, by the last process id in proc_loadavg(5).
/// That is far cheaper than reading the children of each process.
#[derive(Debug)]
struct Newest {
    /// `None` if it does not show them: some containers replace it by a file that is updated
    /// rarely or never (lxcfs, gVisor).
    file: Option<File>,
    last: Vec<u8>,
}

impl Newest {
    fn open() -> Self {
        Newest::open_file(Path::new("/proc/loadavg"))
    }

    /// Opens the file, and tries out whether it shows a new thread.
    fn open_file(path: &Path) -> Self {
        let mut newest = Newest {
            file: File::open(path).ok(),
            last: Vec::new(),
        };
        newest.has_changed();
        let thread = std::thread::Builder::new().spawn(|| ());
        let is_started = thread.is_ok_and(|thread| thread.join().is_ok());
        if is_started && !newest.has_changed() {
            newest.file = None;
        }
        // What is new from now on counts.
        newest.last.clear();
        newest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_is_noticed() {
        let mut newest = Newest::open();
        assert!(newest.has_changed());
        std::process::Command::new("true").status().unwrap();
        assert!(newest.has_changed());
    }

    #[test]
    fn file_that_does_not_show_new_processes_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("loadavg");
        std::fs::write(&path, "0.10 0.20 0.30 1/100 4711\n").unwrap();
        let mut newest = Newest::open_file(&path);
        assert!(newest.file.is_none());
        assert!(newest.has_changed() && newest.has_changed());
        assert!(Newest::open().file.is_some());
    }
}
