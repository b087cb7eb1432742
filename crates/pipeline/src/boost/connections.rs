//! Sockets between the programs of a command, which are left as they are.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Party;
use crate::graph::Process;
use crate::proc::ProcessId;
use crate::proc::sockets::{self, SocketPeer};

/// The programs that were seen connected by a socket.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Processes and their sockets when these were listed last, and who was involved.
    listed: (BTreeSet<(i32, u64)>, BTreeSet<i32>),
    pairs: BTreeMap<[ProcessId; 2], [Party; 2]>,
}

impl Connections {
    /// Updates the names of processes, and finds new connections of those that are involved. Lists the
    /// sockets only if a process has another one than before.
    pub(super) fn update(&mut self, processes: &BTreeMap<i32, Process>, involved: &BTreeSet<i32>) {
        for party in self.pairs.values_mut().flatten() {
            party.update(processes);
        }
        let mut held: BTreeSet<(i32, u64)> = BTreeSet::new();
        let mut holders: BTreeMap<u64, ProcessId> = BTreeMap::new();
        for process in processes.values() {
            for (_, inode) in &process.sockets {
                held.insert((process.id.pid, *inode));
                // A child holds the end that it inherited for good, its parent until it closes it.
                let holder = holders.entry(*inode).or_insert(process.id);
                if process.id.start >= holder.start {
                    *holder = process.id;
                }
            }
        }
        let is_possible = holders.values().collect::<BTreeSet<_>>().len() > 1;
        let held = (held, involved.clone());
        if !is_possible || held == self.listed {
            return;
        }
        self.listed = held;
        let Ok(sockets) = sockets::list(usize::MAX) else {
            return;
        };
        let has_ended = |id: &ProcessId| processes.get(&id.pid).is_none_or(|now| now.id != *id);
        self.pairs.retain(|pair, _| pair.iter().any(has_ended));
        for (inode, holder) in &holders {
            let Some(SocketPeer::Local(peer)) = sockets.get(inode).map(|socket| socket.peer) else {
                continue;
            };
            if let Some(other) = holders.get(&peer).filter(|other| *other > holder) {
                let pair = [*holder, *other];
                if !pair.iter().any(|id| involved.contains(&id.pid)) {
                    continue;
                }
                let parties = pair.map(|id| Party::new(processes.get(&id.pid)));
                self.pairs.insert(pair, parties);
            }
        }
    }

    /// The names of the programs, each pair once.
    pub(super) fn take_names(&mut self) -> Vec<[String; 2]> {
        let pairs = std::mem::take(&mut self.pairs).into_values();
        let names: BTreeSet<[String; 2]> = pairs.map(|pair| pair.map(|party| party.name)).collect();
        names.into_iter().collect()
    }
}
