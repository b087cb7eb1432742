//! The processes and the pipes between them at one moment.

mod ends;
mod feeders;
mod links;
mod scanner;
mod stages;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rustix::process::getpid;
use serde::Serialize;

pub use self::ends::HeldEnds;
pub(crate) use self::feeders::Feeders;
pub use self::links::{Link, LinkEnd, groups, links};
pub(crate) use self::links::{connected, with_flow};
pub use self::scanner::Scanner;
pub use self::stages::{Adjacency, Edge, Holders, Node, Stages, pipelines, reach};
pub(crate) use self::stages::{STDERR, STDIN, STDOUT};
use crate::proc::sockets::{SocketPeer, Sockets};
use crate::proc::terminals::{TerminalFd, TerminalId};
use crate::proc::{LinkFd, LinkId, OtherFiles, Proc, ProcessId, Stat};

/// A side of a pipe, by what a process waits for there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkSide {
    /// That which it reads from: it waits for data.
    Input,
    /// That which it writes to: it waits for room.
    Room,
}

impl LinkSide {
    /// The side of the pipe's other end.
    pub fn other(self) -> Self {
        match self {
            LinkSide::Input => LinkSide::Room,
            LinkSide::Room => LinkSide::Input,
        }
    }

    /// Whether a descriptor is of this side.
    pub(crate) fn has(self, end: &LinkFd) -> bool {
        match self {
            LinkSide::Input => end.reads,
            LinkSide::Room => end.writes,
        }
    }
}

/// The process that adopts those whose parents have ended.
pub(crate) const INIT: i32 = 1;

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
    /// Its ends of links.
    pub ends: HeldEnds,
    /// Its descriptors of sockets, with their inode numbers.
    #[serde(skip)]
    pub sockets: Vec<(i32, u64)>,
    /// Its descriptors of terminals.
    #[serde(skip)]
    pub terminals: Vec<TerminalFd>,
    /// The inode number of its network namespace; `None` if it has no socket.
    #[serde(skip)]
    pub network: Option<u64>,
    /// The addresses of other machines with which its sockets are connected.
    #[serde(skip)]
    pub remotes: BTreeSet<SocketAddr>,
    /// Its other files.
    #[serde(skip)]
    pub others: OtherFiles,
}

impl Process {
    /// Whether it has this side of a pipe: it can read from it (`Input`) or write to it.
    pub fn holds(&self, pipe: LinkId, side: LinkSide) -> bool {
        self.ends.of_link(pipe).any(|end| match side {
            LinkSide::Input => end.reads,
            LinkSide::Room => end.writes,
        })
    }

    /// Makes ends of its sockets, by the sockets that there are now: those that are connected with
    /// another one on this machine, and those that receive datagrams.
    fn join(&mut self, sockets: &Sockets, receivers: &BTreeSet<u64>) {
        self.ends.retain(|end| !end.pipe.is_socket());
        let peers = self
            .sockets
            .iter()
            .filter_map(|(_, inode)| sockets.get(inode));
        let remotes = peers.filter_map(|socket| match socket.peer {
            SocketPeer::Remote(address) => Some(address),
            SocketPeer::Local(_) | SocketPeer::None => None,
        });
        self.remotes = remotes.collect();
        let own = self.sockets.iter();
        let connected = own.filter_map(|(fd, inode)| match sockets.get(inode)?.peer {
            SocketPeer::Local(peer) => Some((*fd, *inode, peer)),
            SocketPeer::Remote(_) | SocketPeer::None => None,
        });
        let ends = connected.flat_map(|(fd, inode, peer)| {
            let end = |inode: u64, reads: bool| LinkFd {
                fd,
                pipe: LinkId::socket(inode),
                reads,
                writes: !reads,
                path: None,
            };
            [end(inode, true), end(peer, false)]
        });
        let receiving = self.sockets.iter();
        let receiving = receiving.filter(|(_, inode)| receivers.contains(inode));
        let receiving = receiving.map(|(fd, inode)| LinkFd {
            fd: *fd,
            pipe: LinkId::socket(*inode),
            reads: true,
            writes: false,
            path: None,
        });
        let ends: Vec<LinkFd> = ends.chain(receiving).collect();
        self.ends.extend(ends);
    }

    /// Makes ends of its descriptors of these terminals.
    fn join_terminals(&mut self, joined: &BTreeSet<TerminalId>) {
        self.ends.retain(|end| !end.pipe.is_terminal());
        let own = self.terminals.iter();
        let own = own.filter(|own| joined.contains(&own.terminal));
        self.ends.extend(own.flat_map(|own| own.ends()));
    }

    /// Its ends of pipes and FIFOs, whatever their descriptors are.
    fn held_pipes(&self) -> BTreeSet<(LinkId, bool, bool)> {
        let pipes = self.ends.iter().filter(|end| !end.pipe.is_direction());
        pipes.map(|end| (end.pipe, end.reads, end.writes)).collect()
    }

    /// Its links.
    pub fn pipes(&self) -> BTreeSet<LinkId> {
        self.ends.iter().map(|end| end.pipe).collect()
    }
}

/// All processes that this process may examine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// Processes, by number.
    pub processes: BTreeMap<i32, Process>,
    /// Processes whose descriptors may not be read, with what is known of them.
    pub hidden: BTreeMap<i32, Option<Stat>>,
}

/// Whether processes that can't be examined may have inherited the pipes of another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unseen {
    /// None has.
    #[default]
    None,
    /// One may have: a parent, a distant relative, one whose parent has ended, or one of which nothing
    /// is known.
    Strangers,
    /// A descendant, a later sibling, or one of its process group.
    Relatives,
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

impl Graph {
    /// Reads all processes, except `excluded`.
    pub fn read(proc: &Proc, excluded: &[i32]) -> Graph {
        let mut scanner = Scanner::default();
        scanner.read_all(proc, excluded);
        scanner.graph
    }

    /// The processes, by number.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ProcessId> {
        self.processes.values().map(|process| process.id)
    }

    /// Whether a process was among them.
    pub fn is_running(&self, id: ProcessId) -> bool {
        let now = self.processes.get(&id.pid);
        now.is_some_and(|process| process.id == id)
    }

    /// The ancestors of a process as far as they can be seen, the nearest first.
    pub fn ancestors(&self, pid: i32) -> Vec<i32> {
        let parent = |pid: &i32| {
            let hidden = || Some(self.hidden.get(pid)?.as_ref()?.parent);
            let seen = self.processes.get(pid).map(|process| process.parent);
            seen.or_else(hidden).filter(|parent| *parent > 0)
        };
        let mut found: Vec<i32> = Vec::new();
        let mut next = parent(&pid);
        // The parents were not all read at the same moment.
        while let Some(pid) = next.filter(|pid| !found.contains(pid)) {
            found.push(pid);
            next = parent(&pid);
        }
        found
    }

    /// The same below a user's service manager, which is an ancestor of that user's terminals.
    pub(crate) fn family(&self, pid: i32) -> Vec<i32> {
        let mut ancestors = self.ancestors(pid);
        let manager = ancestors.iter().position(|pid| self.is_manager(*pid));
        ancestors.truncate(manager.unwrap_or(ancestors.len()));
        ancestors
    }

    /// Whether the parent of a process has ended: then it is a child of process 1, or of its user's service
    /// manager (PR_SET_CHILD_SUBREAPER).
    pub(crate) fn is_orphan(&self, process: &Process) -> bool {
        process.parent == INIT || self.is_manager(process.parent)
    }

    fn is_manager(&self, pid: i32) -> bool {
        let process = self.processes.get(&pid);
        process.is_some_and(|process| process.parent == INIT && process.name == "systemd")
    }

    /// Whether processes that can't be examined may have inherited the pipes of this one. Orphans
    /// among the descendants of the `observers` become children of those.
    pub(crate) fn unseen(&self, of: &Process, observers: &[i32]) -> Unseen {
        let own = self.ancestors(of.id.pid);
        let is_below = own.iter().any(|pid| observers.contains(pid));
        let is_later = |stat: &Stat| stat.start >= of.id.start;
        // Not the sudo or timeout that has started it, or the observer.
        let is_in_group =
            |pid: i32, stat: &Stat| stat.group == of.group && !is_below && !own.contains(&pid);
        let each = self.hidden.iter().map(|(pid, stat)| {
            let Some(stat) = stat else {
                return Unseen::Strangers;
            };
            let above = self.ancestors(*pid);
            let shares = |ancestor: i32| ancestor > INIT && above.contains(&ancestor);
            let is_sibling = is_later(stat) && shares(of.parent);
            if is_in_group(*pid, stat) || shares(of.id.pid) || is_sibling {
                Unseen::Relatives
            } else if *pid > INIT && *pid == of.parent
                || is_later(stat)
                    && (stat.parent == INIT && !is_below || own.iter().any(|pid| shares(*pid)))
            {
                Unseen::Strangers
            } else {
                Unseen::None
            }
        });
        each.max().unwrap_or_default()
    }

    /// The number of processes whose descriptors may not be read.
    pub(crate) fn count_hidden(&self, proc: &Proc) -> usize {
        let hidden = self.hidden.keys();
        hidden.filter(|pid| !proc.is_left_out(**pid)).count()
    }

    /// The number of those among the processes of a user, or of all users.
    pub(crate) fn count_hidden_asked(&self, proc: &Proc, scope: &Scope) -> usize {
        let is_asked = |pid: &&i32| match scope {
            Scope::User(user) => proc.user(**pid) == Some(*user),
            Scope::All => true,
            Scope::Pid(_) | Scope::Below(_) => false,
        };
        let hidden = self.hidden.keys().filter(is_asked);
        hidden.filter(|pid| !proc.is_left_out(**pid)).count()
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
            Scope::Pid(pid) => self.around(*pid, &proc.ancestors(getpid().as_raw_pid()).collect()),
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

    /// A process, those below it and of its process group, and those that the data of all these comes
    /// from or goes to. In a script all pipelines are of one group, with the shell that waits for
    /// this process, which has these `ancestors`: then only those of the group count that the pipes
    /// of its pipeline connect with it, and no link is followed whose end the script has, too.
    fn around(&self, pid: i32, ancestors: &BTreeSet<i32>) -> BTreeSet<i32> {
        let mut chosen = self.below(pid);
        let group = self.processes.get(&pid).map(|process| process.group);
        let all = self.processes.values();
        let mut members: Vec<&Process> =
            all.filter(|process| Some(process.group) == group).collect();
        let pids: BTreeSet<i32> = members.iter().map(|process| process.id.pid).collect();
        if ancestors.contains(&pid) || pids.is_disjoint(ancestors) {
            chosen.extend(pids);
            members.clear();
        }
        members.retain(|process| !ancestors.contains(&process.id.pid));
        let above = ancestors.iter().filter_map(|pid| self.processes.get(pid));
        // They inherit these from the script.
        let inherited: BTreeSet<LinkId> = above.flat_map(Process::pipes).collect();
        let mut pipes: BTreeSet<LinkId> = BTreeSet::new();
        let mut followed: BTreeSet<i32> = BTreeSet::new();
        let mut ends: BTreeSet<(LinkId, LinkSide)> = BTreeSet::new();
        loop {
            let open: Vec<i32> = chosen.difference(&followed).copied().collect();
            if open.is_empty() {
                return chosen;
            }
            for process in open.iter().filter_map(|pid| self.processes.get(pid)) {
                pipes.extend(process.pipes().difference(&inherited));
                let found = flow_ends(process, process.id.pid == pid);
                let is_new = |end: &(LinkId, LinkSide)| ends.insert(*end);
                for (link, side) in found.into_iter().filter(is_new) {
                    let mut beside = self.holders(link, side);
                    let is_above = |holder| holder != process.id.pid && ancestors.contains(&holder);
                    if !beside.any(is_above) {
                        let others = self.holders(link, side.other());
                        // Those wait for the observer.
                        chosen.extend(others.filter(|pid| !ancestors.contains(pid)));
                    }
                }
            }
            followed.extend(open);
            let connected = members
                .iter()
                .filter(|process| !process.pipes().is_disjoint(&pipes));
            chosen.extend(connected.map(|process| process.id.pid));
        }
    }

    /// The processes that hold this side of a pipe.
    pub(crate) fn holders(&self, pipe: LinkId, side: LinkSide) -> impl Iterator<Item = i32> {
        let all = self.processes.values();
        all.filter(move |process| process.holds(pipe, side))
            .map(|process| process.id.pid)
    }
}

/// The ends by which data flows through a process: its standard input and output, and its few other
/// links if it is the `root` that was asked for or passes data on, as a client does. Of another one with few links,
/// those of FIFOs and the pipes to which it writes, as `tee one two <file`.
fn flow_ends(process: &Process, is_root: bool) -> BTreeSet<(LinkId, LinkSide)> {
    /// A process with more links serves many.
    const MAX_LINKS: usize = 4;
    let ends = process.ends.iter();
    let ends = ends.filter(|end| !end.pipe.is_terminal());
    let is_standard = |end: &LinkFd| end.fd == 0 && end.reads || end.fd == 1 && end.writes;
    let others = ends.clone().map(|end| end.fd).filter(|fd| *fd > 2);
    let has_few = others.collect::<BTreeSet<i32>>().len() <= MAX_LINKS;
    let follows_all = has_few && (is_root || ends.clone().any(is_standard));
    // What collects the output of several has nothing else to do with them, nor have the holders of tokens.
    let is_given = |end: &LinkFd| {
        end.pipe.is_fifo()
            || end.pipe.is_pipe() && end.writes && !process.holds(end.pipe, LinkSide::Input)
    };
    let mut found = BTreeSet::new();
    for end in ends
        .filter(|end| is_standard(end) || end.fd > 2 && (follows_all || has_few && is_given(end)))
    {
        let sides = [(end.reads, LinkSide::Input), (end.writes, LinkSide::Room)];
        let sides = sides.into_iter().filter(|(has_it, _)| *has_it);
        found.extend(sides.map(|(_, side)| (end.pipe, side)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{on_input, on_room, process, reads, writes};
    use crate::wait::{BlockedOn, ThreadState};

    #[test]
    fn those_who_hold_the_other_side_could_wake_a_process() {
        let processes = [
            process(1, "a", vec![writes(1, 7)]),
            process(2, "b", vec![reads(0, 7), writes(1, 8)]),
            process(3, "c", vec![reads(0, 8), writes(5, 7)]),
            process(4, "d", vec![reads(0, 9)]),
        ];
        let graph = Graph {
            processes: processes
                .into_iter()
                .map(|process| (process.id.pid, process))
                .collect(),
            hidden: BTreeMap::new(),
        };
        assert_eq!(graph.wakers(2, &[on_input(7)]), [1, 3].into());
        assert_eq!(graph.wakers(2, &[on_room(8)]), [3].into());
        let child = ThreadState::Waiting(BlockedOn::Child(None));
        assert_eq!(graph.wakers(1, &[child]), [1, 2, 3, 4].into());
        assert_eq!(graph.wakers(2, &[ThreadState::Working]), [].into());
    }

    #[test]
    fn hidden_process_may_have_inherited_the_pipes_of_its_relatives() {
        let below = |observers: &[i32], parent, group, start| {
            let own = Process {
                id: ProcessId { pid: 5, start: 50 },
                parent: 4,
                group: 5,
                ..process(5, "cat", Vec::new())
            };
            let shells = [process(3, "sh", vec![]), process(4, "sh", vec![])];
            let shells = shells.map(|process| Process {
                parent: process.id.pid - 1,
                ..process
            });
            let stat = Stat {
                state: 'S',
                parent,
                group,
                start,
                ..Stat::default()
            };
            let between = Stat {
                parent: 5,
                ..stat.clone()
            };
            let hidden = [(8, Some(stat)), (7, Some(between))];
            let graph = Graph {
                processes: shells
                    .into_iter()
                    .chain([own.clone()])
                    .map(|process| (process.id.pid, process))
                    .collect(),
                hidden: hidden
                    .into_iter()
                    .filter(|(pid, _)| *pid == 8 || parent == 7)
                    .collect(),
            };
            graph.unseen(&own, observers)
        };
        let unseen = |parent, group, start| below(&[], parent, group, start);
        // A child, a grandchild by sudo, one of its group, a later sibling.
        for (parent, group, start) in [(5, 9, 60), (7, 9, 60), (9, 5, 10), (4, 9, 60)] {
            assert_eq!(unseen(parent, group, start), Unseen::Relatives, "{parent}");
        }
        // An orphan, one of the same session.
        for parent in [1, 3] {
            assert_eq!(unseen(parent, 9, 60), Unseen::Strangers);
        }
        // An orphan would be a child of the observer.
        assert_eq!(below(&[3], 1, 9, 60), Unseen::None);
        assert_eq!(below(&[3], 9, 5, 10), Unseen::None);
        // One that was there before, and one that a server has started.
        for (parent, start) in [(1, 10), (4, 10), (9, 60)] {
            assert_eq!(unseen(parent, 9, start), Unseen::None);
        }
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
        let graph = Graph {
            processes,
            hidden: BTreeMap::new(),
        };
        let proc = Proc::default();
        assert_eq!(graph.asked(&proc, &Scope::Pid(2)), [2, 3, 4].into());
        assert_eq!(graph.asked(&proc, &Scope::Below(2)), [3].into());
        assert_eq!(graph.asked(&proc, &Scope::All).len(), 5);
    }

    #[test]
    fn in_a_script_only_the_pipeline_of_a_process_belongs_to_it() {
        // sh script | cut: the script runs a | b & c | d & doctor b
        let child = |pid: i32, parent: i32, ends| Process {
            parent,
            ..process(pid, "x", ends)
        };
        let out = || writes(1, 9);
        let all = [
            child(2, 1, vec![out()]),
            child(3, 1, vec![reads(0, 9)]),
            child(4, 2, vec![writes(1, 7)]),
            child(5, 2, vec![reads(0, 7), out()]),
            child(6, 2, vec![writes(1, 8)]),
            child(7, 2, vec![reads(0, 8), out()]),
        ];
        let graph = Graph {
            processes: all.map(|process| (process.id.pid, process)).into(),
            hidden: BTreeMap::new(),
        };
        assert_eq!(graph.around(5, &[2, 1].into()), [4, 5].into());
        // From elsewhere, and of the script itself, all are shown.
        assert_eq!(graph.around(5, &[1].into()).len(), 6);
        assert_eq!(graph.around(2, &[2, 1].into()).len(), 6);
    }

    #[test]
    fn stages_of_other_groups_belong_to_a_pipeline_but_clients_of_a_server_do_not() {
        // timeout a | b | client, server, another client; each of its own group
        let alone = |pid: i32, ends| Process {
            parent: 1,
            group: pid,
            ..process(pid, "x", ends)
        };
        let mut server = vec![reads(3, 21), writes(3, 20)];
        server.extend((0..10).map(|at| reads(10 + at, 30 + at as u64)));
        let all = [
            alone(2, vec![writes(1, 7)]),
            alone(3, vec![reads(0, 7), writes(1, 8)]),
            alone(4, vec![reads(0, 8), writes(3, 21), reads(3, 20)]),
            alone(5, server),
            alone(6, vec![writes(1, 30)]),
        ];
        let graph = Graph {
            processes: all.map(|process| (process.id.pid, process)).into(),
            hidden: BTreeMap::new(),
        };
        for pid in [2, 3, 4] {
            assert_eq!(graph.around(pid, &[1].into()), [2, 3, 4, 5].into(), "{pid}");
        }
    }

    #[test]
    fn both_readers_of_a_process_without_standard_pipes_belong_to_its_pipeline() {
        // tee one two <file >log, its readers, and what collects the errors of all; each of its own group
        let fifo = |fd: i32, inode: u64, reads: bool| LinkFd {
            pipe: LinkId::Fifo { device: 1, inode },
            reads,
            writes: !reads,
            ..crate::fixtures::reads(fd, 0)
        };
        let alone = |pid: i32, ends| Process {
            parent: 1,
            group: pid,
            ..process(pid, "x", ends)
        };
        let all = [
            alone(2, vec![fifo(3, 7, false), fifo(4, 8, false), writes(2, 9)]),
            alone(3, vec![fifo(0, 7, true)]),
            alone(4, vec![fifo(0, 8, true)]),
            alone(5, vec![reads(10, 9), reads(11, 19)]),
            alone(6, vec![writes(1, 19)]),
        ];
        let graph = Graph {
            processes: all.map(|process| (process.id.pid, process)).into(),
            hidden: BTreeMap::new(),
        };
        for pid in [2, 3, 4] {
            assert_eq!(graph.around(pid, &[1].into()), [2, 3, 4].into(), "{pid}");
        }
    }
}
