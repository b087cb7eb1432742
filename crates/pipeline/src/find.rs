//! The processes and the pipes between them at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::Serialize;

use crate::proc::{End, PipeId, Proc};

/// A process, safe against reuse of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
}

/// A process and its pipes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its identity.
    #[serde(flatten)]
    pub id: ProcessId,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its name.
    pub name: String,
    /// Its descriptors of pipes and FIFOs.
    pub ends: Vec<End>,
}

impl Process {
    /// Whether it can read from a pipe.
    pub fn reads(&self, pipe: PipeId) -> bool {
        self.ends.iter().any(|end| end.pipe == pipe && end.reads)
    }

    /// Whether it can write to a pipe.
    pub fn writes(&self, pipe: PipeId) -> bool {
        self.ends.iter().any(|end| end.pipe == pipe && end.writes)
    }

    /// Its pipes.
    pub fn pipes(&self) -> BTreeSet<PipeId> {
        self.ends.iter().map(|end| end.pipe).collect()
    }
}

/// All processes that this process may examine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Processes, by number.
    pub processes: BTreeMap<i32, Process>,
    /// The number of processes whose descriptors may not be read.
    pub hidden: usize,
}

/// Which processes to examine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A process with its descendants and its process group.
    Pid(i32),
    /// The descendants of a process, without itself.
    Below(i32),
    /// The processes of a user.
    User(u32),
    /// All processes.
    All,
}

impl Scope {
    /// The process whose descendants belong to the scope.
    pub fn root(&self) -> Option<i32> {
        match self {
            Scope::Pid(pid) | Scope::Below(pid) => Some(*pid),
            Scope::User(_) | Scope::All => None,
        }
    }
}

impl Snapshot {
    /// Reads all processes, except `excluded`.
    pub fn read(proc: &Proc, excluded: &[i32]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for pid in proc.processes() {
            if !excluded.contains(&pid) {
                snapshot.add(proc, pid);
            }
        }
        snapshot
    }

    /// Reads these processes again, and those that are new among them. Removes those that
    /// have ended.
    pub fn update(&mut self, proc: &Proc, pids: &BTreeSet<i32>) {
        for pid in pids {
            self.processes.remove(pid);
            self.add(proc, *pid);
        }
    }

    fn add(&mut self, proc: &Proc, pid: i32) {
        let Some(stat) = proc.stat(pid) else { return };
        if matches!(stat.state, 'Z' | 'X') {
            return;
        }
        let ends = match proc.ends(pid) {
            Ok(ends) => ends,
            Err(error) => {
                self.hidden += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
                return;
            }
        };
        let process = Process {
            id: ProcessId {
                pid,
                start: stat.start,
            },
            parent: stat.parent,
            group: stat.group,
            name: proc.name(pid).unwrap_or_default(),
            ends,
        };
        // Another process may have got the number meanwhile.
        if proc.stat(pid).is_some_and(|now| now.start == stat.start) {
            self.processes.insert(pid, process);
        }
    }

    /// Whether a process was among them.
    pub fn is_running(&self, id: ProcessId) -> bool {
        let now = self.processes.get(&id.pid);
        now.is_some_and(|process| process.id == id)
    }

    /// The descendants of a process, and itself.
    pub fn below(&self, pid: i32) -> BTreeSet<i32> {
        let children = |of: i32| {
            let all = self.processes.values();
            let own = all.filter(|process| process.parent == of);
            own.map(|process| process.id.pid).collect()
        };
        let tree = crate::proc::tree(pid, &children);
        let exists = |pid: &i32| self.processes.contains_key(pid);
        tree.into_iter().filter(exists).collect()
    }

    /// The processes of a scope.
    pub fn asked(&self, proc: &Proc, scope: &Scope) -> BTreeSet<i32> {
        let all = self.processes.values();
        match scope {
            Scope::Pid(pid) => {
                let mut chosen = self.below(*pid);
                let group = self.processes.get(pid).map(|process| process.group);
                let is_own = |process: &&Process| Some(process.group) == group;
                chosen.extend(all.filter(is_own).map(|process| process.id.pid));
                chosen
            }
            Scope::Below(pid) => {
                let mut chosen = self.below(*pid);
                chosen.remove(pid);
                chosen
            }
            Scope::User(user) => {
                let pids = all.map(|process| process.id.pid);
                pids.filter(|pid| proc.user(*pid) == Some(*user)).collect()
            }
            Scope::All => all.map(|process| process.id.pid).collect(),
        }
    }

    /// These processes and all that share a pipe with them, directly or through others.
    /// Stops once there are [`MAX_PROCESSES`].
    pub fn connected(&self, pids: &BTreeSet<i32>) -> BTreeSet<i32> {
        let mut holders: BTreeMap<PipeId, Vec<i32>> = BTreeMap::new();
        for process in self.processes.values() {
            for pipe in process.pipes() {
                holders.entry(pipe).or_default().push(process.id.pid);
            }
        }
        let mut found = pids.clone();
        let mut open: Vec<i32> = pids.iter().copied().collect();
        while let Some(pid) = open.pop() {
            let process = self.processes.get(&pid);
            let pipes = process.map(Process::pipes).unwrap_or_default();
            for pid in pipes.iter().flat_map(|pipe| &holders[pipe]) {
                if found.len() < MAX_PROCESSES && found.insert(*pid) {
                    open.push(*pid);
                }
            }
        }
        found
    }
}

/// At most this many processes are examined because they share a pipe with others.
pub const MAX_PROCESSES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads, writes};

    #[test]
    fn processes_are_connected_through_pipes_of_others() {
        let processes = [
            process(1, "a", vec![writes(1, 7)]),
            process(2, "b", vec![reads(0, 7), writes(1, 8)]),
            process(3, "c", vec![reads(0, 8)]),
            process(4, "d", vec![reads(0, 9)]),
        ];
        let snapshot = Snapshot {
            processes: processes.into_iter().map(|it| (it.id.pid, it)).collect(),
            hidden: 0,
        };
        assert_eq!(snapshot.connected(&[1].into()), [1, 2, 3].into());
        assert_eq!(snapshot.connected(&[4].into()), [4].into());
    }

    #[test]
    fn a_scope_includes_descendants_and_the_process_group() {
        let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
        for (pid, parent, group) in [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 1, 2), (5, 1, 5)] {
            let process = Process {
                parent,
                group,
                ..process(pid, "x", Vec::new())
            };
            processes.insert(pid, process);
        }
        let snapshot = Snapshot {
            processes,
            hidden: 0,
        };
        let proc = Proc::default();
        assert_eq!(snapshot.asked(&proc, &Scope::Pid(2)), [2, 3, 4].into());
        assert_eq!(snapshot.asked(&proc, &Scope::Below(2)), [3].into());
        assert_eq!(snapshot.asked(&proc, &Scope::All).len(), 5);
    }
}
