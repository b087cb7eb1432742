//! Reads the processes, again and again: only those that may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pipespeed_base::interrupt;
use rustix::process::getpid;

use super::{Graph, Process};
use crate::proc::files::{DescriptorTable, FdTableStamp, ProcessFiles};
use crate::proc::sockets::{self, Sockets, receivers};
use crate::proc::terminals::{TerminalFd, TerminalId, terminal};
use crate::proc::{Proc, ProcessId};

/// Sockets of at most this many other network namespaces are listed.
const MAX_NETWORKS: usize = 8;
/// Of a process at most this many descriptors of terminals are looked at: each takes several calls.
const MAX_TERMINALS: usize = 256;
/// With more sockets than this, those of the own namespace are not followed.
const MAX_OWN_SOCKETS: usize = 250_000;
/// After a signal, processes are read for at most this long: what was found so far may depend on it.
const MAX_AFTER_SIGNAL: Duration = Duration::from_millis(250);

/// Reads processes again and again: those that may have changed.
#[derive(Debug, Default)]
pub struct Scanner {
    /// The processes as last read.
    pub graph: Graph,
    /// The sockets as last listed.
    pub(crate) sockets: Sockets,
    /// Other network namespaces to list sockets of, each with a process in it.
    networks: BTreeMap<u64, i32>,
    /// Those whose sockets are in the list.
    listed_networks: BTreeSet<u64>,
    /// Those that could not be listed: they are not tried again.
    refused_networks: BTreeSet<u64>,
    /// Why those of the own namespace could not be listed.
    pub(crate) unlisted: Option<String>,
    /// Processes with sockets in another namespace that are not in the list.
    pub(crate) other_networks: Vec<i32>,
    stamps: BTreeMap<i32, FdTableStamp>,
    counts_descriptors: bool,
    /// Whether sockets are not followed: listing all of them takes longer than reading a process.
    is_without_sockets: bool,
    /// Whether a signal to this process ends a scan.
    is_interruptible: bool,
    /// When it was noticed.
    interrupted: Option<Instant>,
    /// Whether one has: not all processes are known.
    pub(crate) is_cut_short: bool,
    /// Whether pseudo-terminals are followed.
    pub(crate) follows_terminals: bool,
}

impl Scanner {
    /// A scanner that follows pipes only.
    pub(crate) fn without_sockets() -> Self {
        Scanner {
            is_without_sockets: true,
            ..Scanner::default()
        }
    }

    /// A scanner that soon reads no more processes once this one has received a signal: see
    /// [`is_cut_short`](Self::is_cut_short).
    pub(crate) fn interruptible() -> Self {
        Scanner {
            is_interruptible: true,
            ..Scanner::default()
        }
    }

    /// Reads all processes, except `excluded`. If that is cut short, those that were known before
    /// stay as they are.
    pub fn read_all(&mut self, proc: &Proc, excluded: &[i32]) {
        let mut fresh = Scanner {
            counts_descriptors: proc.counts_descriptors(),
            is_without_sockets: self.is_without_sockets,
            follows_terminals: self.follows_terminals,
            is_interruptible: self.is_interruptible,
            interrupted: self.interrupted,
            networks: self.networks.clone(),
            refused_networks: self.refused_networks.clone(),
            ..Scanner::default()
        };
        for pid in proc.processes() {
            if fresh.is_interrupted() {
                break;
            }
            if !excluded.contains(&pid) {
                fresh.read(proc, pid);
            }
        }
        if fresh.is_cut_short && !self.graph.processes.is_empty() {
            (self.is_cut_short, self.interrupted) = (true, fresh.interrupted);
            return;
        }
        fresh.join(proc);
        *self = fresh;
    }

    /// Whether a scan must end, which is remembered.
    fn is_interrupted(&mut self) -> bool {
        if self.is_interruptible && interrupt::first_signal().is_some() {
            let noticed = *self.interrupted.get_or_insert_with(Instant::now);
            self.is_cut_short |= noticed.elapsed() > MAX_AFTER_SIGNAL;
        }
        self.is_cut_short
    }

    /// Reads those processes that are new, that have more or fewer descriptors than before, or
    /// that are in `again`, and forgets those that have ended. Before Linux 6.2, which does not
    /// tell the number of descriptors, reads all.
    pub fn read_changed(&mut self, proc: &Proc, excluded: &[i32], again: &BTreeSet<i32>) {
        self.read_only(proc, &all_but(proc, excluded), again);
    }

    /// As [`read_changed`](Self::read_changed), only among `pids`. Forgets all others.
    pub fn read_only(&mut self, proc: &Proc, pids: &BTreeSet<i32>, again: &BTreeSet<i32>) {
        self.retain(pids);
        self.read_some(proc, pids, again);
    }

    /// As [`read_changed`](Self::read_changed), only among `pids`.
    pub fn read_some(&mut self, proc: &Proc, pids: &BTreeSet<i32>, again: &BTreeSet<i32>) {
        self.reread(proc, pids, again);
        self.join(proc);
    }

    /// As [`read_changed`](Self::read_changed), but sockets and terminals are as before if no process
    /// with one was read: to list them takes long where there are thousands.
    pub(crate) fn search(&mut self, proc: &Proc, excluded: &[i32], again: &BTreeSet<i32>) {
        let pids = all_but(proc, excluded);
        self.retain(&pids);
        self.search_some(proc, &pids, again);
    }

    /// As [`search`](Self::search), only among `pids`.
    pub(crate) fn search_some(&mut self, proc: &Proc, pids: &BTreeSet<i32>, again: &BTreeSet<i32>) {
        let read = self.reread(proc, pids, again);
        let read = read.iter().filter_map(|pid| self.graph.processes.get(pid));
        let joins =
            |process: &Process| !process.sockets.is_empty() || !process.terminals.is_empty();
        if read.into_iter().any(joins) {
            self.join(proc);
        }
    }

    /// Forgets all processes but these.
    fn retain(&mut self, pids: &BTreeSet<i32>) {
        self.graph.processes.retain(|pid, _| pids.contains(pid));
        self.graph.hidden.retain(|pid, _| pids.contains(pid));
        self.stamps.retain(|pid, _| pids.contains(pid));
    }

    /// Reads those that may have changed, and returns them.
    fn reread(&mut self, proc: &Proc, pids: &BTreeSet<i32>, again: &BTreeSet<i32>) -> Vec<i32> {
        let mut read = Vec::new();
        for pid in pids {
            if self.is_interrupted() {
                break;
            }
            let is_known = self.counts_descriptors && {
                let stamp = ProcessFiles::new(proc, *pid).fd_table_stamp();
                stamp.is_some() && self.stamps.get(pid) == stamp.as_ref()
            };
            if !is_known || again.contains(pid) {
                let before = self.graph.processes.get(pid).cloned();
                self.forget(*pid);
                self.read(proc, *pid);
                if let Some(before) = before {
                    self.find_lost(proc, &before);
                }
                read.push(*pid);
            }
        }
        read
    }

    /// Lists the sockets, if a process has one, and makes ends of them. They may have been
    /// connected, or lost their peers, since their processes were read. So with terminals.
    fn join(&mut self, proc: &Proc) {
        if self.follows_terminals {
            self.join_terminals();
        }
        let mut processes = self.graph.processes.values();
        if self.is_without_sockets || !processes.any(|process| !process.sockets.is_empty()) {
            return;
        }
        self.list_sockets(proc);
        let receivers = receivers(&self.sockets);
        for process in self.graph.processes.values_mut() {
            if !process.sockets.is_empty() {
                process.join(&self.sockets, &receivers);
            }
        }
    }

    /// Makes ends of the terminals both sides of which are held by known processes.
    fn join_terminals(&mut self) {
        let all = self.graph.processes.values();
        let (masters, others): (Vec<&TerminalFd>, Vec<&TerminalFd>) = all
            .flat_map(|process| &process.terminals)
            .partition(|end| end.is_master);
        let others: BTreeSet<TerminalId> = others.iter().map(|end| end.terminal).collect();
        let joined = masters
            .iter()
            .map(|end| end.terminal)
            .filter(|terminal| others.contains(terminal))
            .collect();
        for process in self.graph.processes.values_mut() {
            if !process.terminals.is_empty() {
                process.join_terminals(&joined);
            }
        }
    }

    /// Lists the sockets of this network namespace and of those found by
    /// [`find_networks`](Self::find_networks).
    pub(crate) fn list_sockets(&mut self, proc: &Proc) {
        // Without permission, or the kernel's support, sockets join nothing.
        let listed = sockets::list(MAX_OWN_SOCKETS);
        self.unlisted = listed.as_ref().err().map(ToString::to_string);
        self.sockets = listed.unwrap_or_default();
        self.listed_networks.clear();
        let Some(pipe_probe) = proc.pipe_probe() else {
            return;
        };
        for (network, pid) in &self.networks {
            if self.refused_networks.contains(network) {
                continue;
            }
            let Some(sockets) = pipe_probe.list_sockets(proc, *pid, *network) else {
                self.refused_networks.insert(*network);
                continue;
            };
            self.listed_networks.insert(*network);
            for (inode, socket) in sockets {
                self.sockets.entry(inode).or_insert(socket);
            }
        }
    }

    /// Finds the other network namespaces of these processes, and lists the sockets there, too.
    pub(crate) fn find_networks(&mut self, proc: &Proc, pids: &BTreeSet<i32>) {
        let own = proc.network(getpid().as_raw_pid());
        let mut found: BTreeMap<u64, i32> = BTreeMap::new();
        for process in pids.iter().filter_map(|pid| self.graph.processes.get(pid)) {
            let other = process.network.filter(|network| Some(*network) != own);
            if let Some(network) = other
                && found.len() < MAX_NETWORKS
            {
                found.entry(network).or_insert(process.id.pid);
            }
        }
        let are_known = found == self.networks;
        self.networks = found;
        if !are_known {
            self.join(proc);
        }
        let is_missed = |process: &&Process| {
            let mut inodes = process.sockets.iter().map(|(_, inode)| inode);
            process.network.is_some_and(|network| {
                Some(network) != own && !self.listed_networks.contains(&network)
            }) && inodes.any(|inode| !self.sockets.contains_key(inode))
        };
        let processes = pids.iter().filter_map(|pid| self.graph.processes.get(pid));
        let missed = processes.filter(is_missed).map(|process| process.id.pid);
        self.other_networks = missed.collect();
    }

    fn forget(&mut self, pid: i32) {
        self.graph.processes.remove(&pid);
        self.stamps.remove(&pid);
        self.graph.hidden.remove(&pid);
    }

    /// Reads a process again that seems to have lost pipes since `before`: its descriptors are read one by
    /// one, and a shell moves some of them meanwhile, for each redirection.
    fn find_lost(&mut self, proc: &Proc, before: &Process) {
        /// Each is as likely to miss one, by a quarter or so.
        const MAX_READS: usize = 4;
        let pid = before.id.pid;
        let held = before.held_pipes();
        for _ in 0..MAX_READS {
            let now = self.graph.processes.get(&pid);
            let has_lost =
                now.is_some_and(|now| now.id == before.id && !held.is_subset(&now.held_pipes()));
            if !has_lost || self.has_many_descriptors(pid) {
                return;
            }
            self.forget(pid);
            self.read(proc, pid);
        }
    }

    /// Whether reading a process takes longer than everything else in a search.
    pub(crate) fn has_many_descriptors(&self, pid: i32) -> bool {
        const MANY: u64 = 1024;
        self.stamps
            .get(&pid)
            .is_some_and(|stamp| stamp.count > MANY)
    }

    /// Whether any process has a descriptor that could be read: kernel threads have none.
    pub(crate) fn reads_any(&self) -> bool {
        let mut pids = self.graph.processes.keys();
        pids.any(|pid| {
            let stamp = self.stamps.get(pid).filter(|_| self.counts_descriptors);
            stamp.is_none_or(|stamp| stamp.count > 0)
        })
    }

    fn hide(&mut self, proc: &Proc, pid: i32) {
        let stat = proc.stat(pid);
        let exists = || proc.path(&format!("proc/{pid}")).exists();
        if stat.is_some() || exists() {
            self.graph.hidden.insert(pid, stat);
        }
    }

    fn read(&mut self, proc: &Proc, pid: i32) {
        if proc.is_left_out(pid) {
            self.graph.hidden.insert(pid, proc.status(pid));
            return;
        }
        let files = ProcessFiles::new(proc, pid);
        // Files below it belong to one process.
        let directory = match files.directory() {
            Ok(directory) => directory,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    self.hide(proc, pid);
                }
                return;
            }
        };
        let files = files.below(directory.as_fd());
        let stamp = files.fd_table_stamp();
        // Kernel threads, mostly.
        let has_none = self.counts_descriptors && stamp.is_some_and(|stamp| stamp.count == 0);
        match read_process(files, pid, has_none, self.follows_terminals) {
            Ok(Some(mut process)) => {
                if !self.is_without_sockets && !process.sockets.is_empty() {
                    process.network = proc.network(pid);
                }
                self.graph.processes.insert(pid, process);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.hide(proc, pid);
            }
            // It has ended.
            Ok(None) | Err(_) => return,
        }
        if let Some(stamp) = stamp {
            self.stamps.insert(pid, stamp);
        }
    }
}

/// All processes, except `excluded`.
fn all_but(proc: &Proc, excluded: &[i32]) -> BTreeSet<i32> {
    let mut pids: BTreeSet<i32> = proc.processes().into_iter().collect();
    pids.retain(|pid| !excluded.contains(pid));
    pids
}

/// Reads a process. `None` if it has ended.
fn read_process(
    files: ProcessFiles<'_>,
    pid: i32,
    has_none: bool,
    follows_terminals: bool,
) -> io::Result<Option<Process>> {
    let (stat, name) = files.stat()?;
    let has_ended = matches!(stat.state, 'Z' | 'X');
    let living = if has_ended {
        files.without_leader()
    } else {
        Some(files)
    };
    let Some(files) = living else {
        return Ok(None);
    };
    let table = if has_none && !has_ended {
        DescriptorTable::default()
    } else {
        files.descriptor_table()?
    };
    let terminals = if follows_terminals {
        table.terminals
    } else {
        Vec::new()
    };
    Ok(Some(Process {
        id: ProcessId {
            pid,
            start: stat.start,
        },
        parent: stat.parent,
        group: stat.group,
        name,
        ends: table.ends.into(),
        sockets: table.sockets,
        terminals: terminals
            .into_iter()
            .take(MAX_TERMINALS)
            .filter_map(|(fd, is_master)| terminal(files, fd, is_master))
            .collect(),
        network: None,
        remotes: BTreeSet::new(),
        others: table.others,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::LinkSide;
    use crate::proc::LinkId;

    /// For each redirection a shell moves its standard output to another descriptor and back.
    #[test]
    fn a_pipe_that_a_shell_moves_to_another_descriptor_is_still_held() {
        const READS: usize = 200;
        let script = "while :; do echo a >/dev/null; done";
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", script]);
        let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let pipe = rustix::fs::fstat(shell.stdout.as_ref().unwrap()).unwrap();
        let pipe = LinkId::pipe(pipe.st_ino);
        let pid = BTreeSet::from([shell.id() as i32]);
        let (proc, mut scanner) = (Proc::default(), Scanner::default());
        let held = (0..READS).filter(|_| {
            scanner.read_some(&proc, &pid, &pid);
            let mut holders = scanner.graph.holders(pipe, LinkSide::Room);
            holders.next().is_some()
        });
        let held = held.count();
        shell.kill().unwrap();
        shell.wait().unwrap();
        // Those before it is found for the first time may miss it.
        assert!(held >= READS * 9 / 10, "{held}");
    }

    #[test]
    fn scanner_keeps_nothing_of_processes_that_are_no_longer_read() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (own, pid) = (std::process::id() as i32, child.id() as i32);
        let (proc, mut scanner) = (Proc::default(), Scanner::default());
        let both = BTreeSet::from([own, pid]);
        scanner.read_only(&proc, &both, &both);
        scanner.graph.hidden.insert(pid, None);
        assert!(scanner.graph.processes.contains_key(&pid));
        scanner.read_only(&proc, &[own].into(), &[own].into());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(scanner.graph.processes.len(), 1);
        assert!(scanner.stamps.keys().all(|pid| *pid == own));
        assert!(scanner.graph.hidden.is_empty());
    }
}
