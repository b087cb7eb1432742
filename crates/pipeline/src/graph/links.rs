//! The links between processes: who holds their ends, and which processes they connect.

use std::collections::{BTreeMap, BTreeSet};

use super::{LinkSide, Process};
use crate::proc::{LinkFd, LinkId, ProcessId};

/// A process's end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd {
    /// The process.
    pub pid: i32,
    /// Its descriptor.
    pub fd: i32,
    /// Whether the process can read from it.
    pub reads: bool,
    /// Whether the process can write to it.
    pub writes: bool,
}

/// What joins processes: data that one writes can be read by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its identity.
    pub id: LinkId,
    /// Its ends, in the order of the processes.
    pub ends: Vec<LinkEnd>,
}

impl Link {
    /// The processes that hold this side of it, each once.
    pub fn holders(&self, side: LinkSide) -> Vec<i32> {
        let mut pids: Vec<i32> = self
            .ends
            .iter()
            .filter(|end| match side {
                LinkSide::Input => end.reads,
                LinkSide::Room => end.writes,
            })
            .map(|end| end.pid)
            .collect();
        pids.dedup();
        pids
    }

    /// Whether one process writes and another one reads. Where all do both, as with the tokens of
    /// make, nothing flows.
    fn has_flow(&self) -> bool {
        let (readers, writers) = (self.holders(LinkSide::Input), self.holders(LinkSide::Room));
        !readers.is_empty() && !writers.is_empty() && readers != writers
    }
}

/// The links whose ends these processes hold.
pub fn links<'a>(processes: impl IntoIterator<Item = &'a Process>) -> BTreeMap<LinkId, Link> {
    let mut links: BTreeMap<LinkId, Link> = BTreeMap::new();
    for process in processes {
        for end in &process.ends {
            let link = links.entry(end.pipe).or_insert_with(|| Link {
                id: end.pipe,
                ends: Vec::new(),
            });
            link.ends.push(LinkEnd {
                pid: process.id.pid,
                fd: end.fd,
                reads: end.reads,
                writes: end.writes,
            });
        }
    }
    links
}

/// The groups of processes that these links connect.
pub fn groups<'a>(links: impl IntoIterator<Item = &'a Link>) -> Vec<BTreeSet<i32>> {
    let mut groups: Vec<BTreeSet<i32>> = Vec::new();
    let mut group_of: BTreeMap<i32, usize> = BTreeMap::new();
    for link in links {
        let mut joined: BTreeSet<usize> = BTreeSet::new();
        let mut all: BTreeSet<i32> = BTreeSet::new();
        for end in &link.ends {
            match group_of.get(&end.pid) {
                Some(group) => {
                    joined.insert(*group);
                }
                None => {
                    all.insert(end.pid);
                }
            }
        }
        let target = joined.pop_first().unwrap_or_else(|| {
            groups.push(BTreeSet::new());
            groups.len() - 1
        });
        for group in joined {
            all.append(&mut groups[group]);
        }
        group_of.extend(all.iter().map(|pid| (*pid, target)));
        groups[target].append(&mut all);
    }
    groups.retain(|group| group.len() > 1);
    groups.sort();
    groups
}

/// A process with those of its links through which data probably flows: standard input and
/// output, links on which it waited, links that no other process has, and those that it has twice,
/// since it opened one that it was given (`paste <(...)`). Others are mostly
/// inherited by accident, and standard error is often collected from all stages.
pub(crate) fn with_flow(
    process: &Process,
    used: &BTreeMap<(LinkId, LinkSide), u32>,
    links: &BTreeMap<LinkId, Link>,
) -> Option<Process> {
    let flows = |end: &LinkFd, side: LinkSide, standard: i32| {
        let link = &links[&end.pipe];
        let is_own = || end.fd > 2 && link.holders(side).len() < 2;
        let is_opened = || {
            let own = process.ends.of_link(end.pipe).filter(|other| {
                let is_side = match side {
                    LinkSide::Input => other.reads && !other.writes,
                    LinkSide::Room => other.writes && !other.reads,
                };
                other.fd > 2 && is_side
            });
            end.fd > 2 && own.count() > 1
        };
        end.fd == standard || used.contains_key(&(end.pipe, side)) || is_own() || is_opened()
    };
    let mut ends = process.ends.to_vec();
    for end in &mut ends {
        end.reads &= flows(end, LinkSide::Input, 0);
        end.writes &= flows(end, LinkSide::Room, 1);
    }
    ends.retain(|end| end.reads || end.writes);
    (!ends.is_empty()).then(|| Process {
        ends: ends.into(),
        name: process.name.clone(),
        sockets: process.sockets.clone(),
        terminals: process.terminals.clone(),
        remotes: process.remotes.clone(),
        ..*process
    })
}

/// Groups of processes between which data flows.
pub(crate) fn connected<'a>(
    processes: impl Iterator<Item = &'a Process> + Clone,
) -> Vec<Vec<ProcessId>> {
    let mut links = links(processes.clone());
    links.retain(|_, link| link.has_flow());
    let ids: BTreeMap<i32, ProcessId> = processes
        .map(|process| (process.id.pid, process.id))
        .collect();
    groups(links.values())
        .into_iter()
        .map(|group| group.iter().map(|pid| ids[pid]).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads, writes};

    #[test]
    fn inherited_ends_and_stderr_connect_only_if_used() {
        let stage = |pid| process(pid, "a", vec![writes(1, 7), writes(2, 9), writes(251, 8)]);
        let all = [stage(1), stage(2), process(3, "b", vec![reads(5, 8)])];
        let links = links(all.iter());
        let unused = BTreeMap::new();
        let flowing = with_flow(&all[0], &unused, &links).unwrap();
        assert_eq!(*flowing.ends, [writes(1, 7)]);
        assert_eq!(with_flow(&all[2], &unused, &links), Some(all[2].clone()));
        let inherits = process(4, "c", vec![writes(2, 9)]);
        assert_eq!(with_flow(&inherits, &unused, &links), None);
        // `paste <(a) <(b)`: b has inherited what paste opened.
        let paste = process(5, "paste", vec![reads(3, 12), reads(63, 12)]);
        let inherits = process(6, "b", vec![writes(1, 13), reads(63, 12)]);
        let both = [paste, inherits];
        let of_paste = super::links(both.iter());
        let flowing = |at: usize| with_flow(&both[at], &unused, &of_paste).unwrap().ends;
        assert_eq!(*flowing(0), [reads(3, 12), reads(63, 12)]);
        assert_eq!(*flowing(1), [writes(1, 13)]);
        let used = [9, 8].map(|inode| ((LinkId::pipe(inode), LinkSide::Room), 1));
        let flowing = with_flow(&all[0], &used.into(), &links);
        assert_eq!(flowing, Some(all[0].clone()));
    }

    #[test]
    fn processes_are_connected_by_pipes_with_writer_and_another_reader() {
        let processes = [
            process(1, "a", vec![writes(1, 7)]),
            process(2, "b", vec![reads(0, 7), writes(1, 8)]),
            process(3, "c", vec![reads(0, 8)]),
            // Wakes itself.
            process(4, "d", vec![reads(3, 9), writes(4, 9)]),
            // Tokens.
            process(7, "make", vec![reads(3, 11), writes(4, 11)]),
            process(8, "sh", vec![reads(3, 11), writes(4, 11)]),
            // Two writers without a reader.
            process(5, "e", vec![writes(1, 10)]),
            process(6, "f", vec![writes(1, 10)]),
        ];
        let groups = connected(processes.iter());
        let pids = |group: &Vec<ProcessId>| group.iter().map(|id| id.pid).collect();
        let groups: Vec<Vec<i32>> = groups.iter().map(pids).collect();
        assert_eq!(groups, [[1, 2, 3]]);
    }
}
