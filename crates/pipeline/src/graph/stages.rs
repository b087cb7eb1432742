//! The stages of pipelines: which processes use the ends of their links, which edges join them, and
//! in what order they stand.

use std::collections::{BTreeMap, BTreeSet};

use super::{LinkSide, Process};
use crate::proc::LinkId;

/// Standard input of a process started from a shell.
pub(crate) const STDIN: i32 = 0;
/// Its standard output.
pub(crate) const STDOUT: i32 = 1;
/// Its standard error.
pub(crate) const STDERR: i32 = 2;

/// A process, and what is known of how it uses the links whose ends it holds.
pub trait Node {
    /// The process.
    fn process(&self) -> &Process;

    /// The number by which edges name it.
    fn number(&self) -> i32 {
        self.process().id.pid
    }

    /// Its ancestors as far as they are known, the nearest first.
    fn ancestors(&self) -> &[i32];

    /// Whether it waited on this side of a link.
    fn waited_on(&self, link: LinkId, side: LinkSide) -> bool;

    /// Whether it only waits for its children, as a shell does.
    fn only_waits_for_children(&self) -> bool;

    /// Whether it did nothing by which it could have used this side of any link.
    fn is_idle(&self, side: LinkSide) -> bool;

    /// Whether it did not run at all.
    fn is_frozen(&self) -> bool;

    /// Whether it only waits for children, one after another, as a shell does, of which this one is none: those may
    /// write for it.
    fn waits_for_other_children(&self, than: &Self) -> bool {
        let _ = than;
        false
    }

    /// Whether an end of a link is among the descriptors by which a process started from a
    /// shell reads or writes.
    fn is_standard(&self, link: LinkId, side: LinkSide) -> bool {
        let standard: &[i32] = match side {
            LinkSide::Input => &[STDIN],
            LinkSide::Room => &[STDOUT, STDERR],
        };
        let mut ends = self.process().ends.of_link(link);
        ends.any(|end| standard.contains(&end.fd))
    }

    /// Whether it may have written to a link that others have, too: it waited there, or the link is
    /// its standard output and it wrote something. Other descriptors are mostly inherited by
    /// accident.
    fn seems_to_write(&self, link: LinkId) -> bool {
        let is_output = self.has_as(link, STDOUT);
        self.waited_on(link, LinkSide::Room) || is_output && !self.is_idle(LinkSide::Room)
    }

    /// Whether it has an end of a link under this descriptor.
    fn has_as(&self, link: LinkId, fd: i32) -> bool {
        let mut ends = self.process().ends.of_link(link);
        ends.any(|end| end.fd == fd)
    }

    /// Whether it holds an end of a link without using it: it never waited there, and only waits for
    /// others, or started another one that has this end, or did nothing by which it could have
    /// been used.
    fn holds_idly(&self, link: LinkId, side: LinkSide, is_wrapper: bool) -> bool {
        !self.waited_on(link, side)
            && (self.only_waits_for_children()
                || self.is_idle(side) && !self.is_standard(link, side)
                || self.is_frozen() && is_wrapper)
    }
}

/// A writer and a reader, by their numbers, and the link between them.
pub type Edge = (i32, i32, LinkId);

/// By a link, the positions of the processes that have an end of it.
#[derive(Debug, Clone, Default)]
pub struct Holders(BTreeMap<LinkId, Vec<usize>>);

impl Holders {
    /// Finds the holders among these processes.
    pub fn new<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Self {
        let mut holders: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
        for (position, process) in processes.into_iter().enumerate() {
            for end in &process.ends {
                let positions = holders.entry(end.pipe).or_default();
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        Holders(holders)
    }

    /// The positions of those of a link.
    pub fn of_link(&self, link: LinkId) -> &[usize] {
        self.0.get(&link).map_or(&[], Vec::as_slice)
    }
}

/// Finds the processes that use links.
#[derive(Debug)]
pub struct Stages<'a, N, L> {
    /// The processes.
    pub nodes: &'a [N],
    /// Which of them hold the ends of each link.
    pub holders: &'a Holders,
    /// Whether one was there for long enough to be the user of a link.
    pub is_lasting: L,
}

impl<'a, N: Node, L: Fn(&N, LinkId) -> bool> Stages<'a, N, L> {
    /// The processes that use an end of a link for most of the time. If all hold it idly, as a
    /// shell that waits for one short-lived child after another, any of them may.
    pub fn users(&self, link: LinkId, side: LinkSide) -> Vec<&'a N> {
        let holders: Vec<&N> = self
            .holders
            .of_link(link)
            .iter()
            .filter_map(|position| self.nodes.get(*position))
            .filter(|node| node.process().holds(link, side) && (self.is_lasting)(node, link))
            .collect();
        let mut above: BTreeSet<i32> = BTreeSet::new();
        for holder in &holders {
            above.insert(holder.process().parent);
            above.extend(holder.ancestors());
        }
        let mut by_pid: BTreeMap<i32, Vec<&N>> = BTreeMap::new();
        for holder in &holders {
            let pid = holder.process().id.pid;
            by_pid.entry(pid).or_default().push(holder);
        }
        let mut users = holders.clone();
        users.retain(|node| {
            let is_wrapper = above.contains(&node.process().id.pid);
            let is_inherited = !node.waited_on(link, side) && inherits(*node, link, side, &by_pid);
            !node.holds_idly(link, side, is_wrapper) && !is_inherited
        });
        // A shell may have left one that writes nothing in the background.
        if side == LinkSide::Room && !users.is_empty() {
            let writers = holders.iter().filter(|node| {
                node.is_standard(link, side)
                    && users.iter().all(|user| {
                        user.is_idle(side)
                            && !user.waited_on(link, side)
                            && node.waits_for_other_children(user)
                    })
            });
            users.extend(writers.copied().collect::<Vec<_>>());
        }
        let uses = |node: &&N| node.waited_on(link, side) || !node.is_idle(side);
        // Who waits for room in a link writes to it, though it may have kept the other end, too.
        if !users.iter().all(|node| is_opposite(*node, link, side)) {
            users.retain(|node| !is_opposite(*node, link, side));
        }
        // What a shell substitutes inherits the input of the others.
        if side == LinkSide::Input && users.iter().any(uses) {
            users.retain(uses);
        }
        // What a stage has started in the background, and what keeps its end open for later.
        let is_active = |node: &&N| {
            node.waited_on(link, side) || !node.is_frozen() && node.is_standard(link, side)
        };
        if users.iter().any(is_active) {
            users.retain(|node| node.waited_on(link, side) || !node.is_frozen());
        } else {
            // A shell that writes itself mostly waits for its children all the same.
            let writes = |node: &&N| is_active(node) && !node.is_idle(side);
            let writers = holders.iter().copied().filter(writes);
            let writers: Vec<&N> = writers.collect();
            if side == LinkSide::Room && !writers.is_empty() {
                users = writers;
            }
        }
        if users.is_empty() {
            users = holders;
            // One that waits for a stage which has children itself, as timeout(1), is none.
            if users.iter().any(|node| !node.is_frozen()) {
                users.retain(|node| !node.is_frozen() || !above.contains(&node.process().id.pid));
            }
        }
        users
    }

    /// The edges by these links, without those by which whole pipelines would be joined that have
    /// nothing to do with each other: what collects the output or the errors of many (a terminal
    /// multiplexer, a CI runner) is no stage of those that write nothing there.
    pub fn edges(&self, links: impl IntoIterator<Item = LinkId>) -> Vec<Edge> {
        let (mut edges, mut silent) = (BTreeSet::new(), BTreeSet::new());
        for link in links {
            let writers = self.users(link, LinkSide::Room);
            let readers = self.users(link, LinkSide::Input);
            // Who gets data from children alone gets it from some of them, though these have other outputs, too.
            let are_workers = writers.iter().all(|writer| !writer.seems_to_write(link))
                && readers.iter().any(|reader| {
                    let mut parents = writers.iter().map(|writer| writer.process().parent);
                    reader.waited_on(link, LinkSide::Input)
                        && !reader.is_idle(LinkSide::Input)
                        && parents.all(|parent| parent == reader.process().id.pid)
                });
            for writer in &writers {
                let is_worker = are_workers && !writer.is_idle(LinkSide::Room);
                let is_silent = writers.len() > 1 && !writer.seems_to_write(link) && !is_worker;
                for reader in &readers {
                    if writer.process().id != reader.process().id {
                        let found = if is_silent { &mut silent } else { &mut edges };
                        found.insert((writer.number(), reader.number(), link));
                    }
                }
            }
        }
        let groups = groups_of(&edges);
        let is_output = |number: i32, link: LinkId| {
            let holders = self.holders.of_link(link).iter();
            let mut nodes = holders.filter_map(|position| self.nodes.get(*position));
            nodes.any(|node| node.number() == number && node.has_as(link, STDOUT))
        };
        // The standard output of one pipeline alone goes on to what reads it.
        let mut outputs: BTreeMap<LinkId, BTreeSet<i32>> = BTreeMap::new();
        for (from, _, link) in &silent {
            if is_output(*from, *link) {
                let group = groups.get(from).unwrap_or(from);
                outputs.entry(*link).or_default().insert(*group);
            }
        }
        silent.retain(|(from, _, link)| {
            let is_only = outputs.get(link).is_some_and(|groups| groups.len() == 1);
            !groups.contains_key(from) || is_only && is_output(*from, *link)
        });
        edges.extend(silent);
        edges.into_iter().collect()
    }
}

/// For each process with an edge, the smallest number of those that edges connect it with.
fn groups_of(edges: &BTreeSet<Edge>) -> BTreeMap<i32, i32> {
    let edges: Vec<Edge> = edges.iter().copied().collect();
    let numbers = edges.iter().flat_map(|(from, to, _)| [*from, *to]);
    let mut groups = BTreeMap::new();
    for group in pipelines(numbers, &edges) {
        let first = group.iter().copied().min().unwrap_or_default();
        groups.extend(group.into_iter().map(|number| (number, first)));
    }
    groups
}

/// Whether a process has both ends of a link, and waits at the other one only.
fn is_opposite<N: Node>(node: &N, link: LinkId, side: LinkSide) -> bool {
    node.process().holds(link, side.other())
        && node.waited_on(link, side.other())
        && !node.waited_on(link, side)
}

/// Whether all ends that a process has of a link were left to it by an ancestor that uses them under
/// the same number, as the second filter of `tee >(a) >(b)` has the pipe to the first. Not if that one only
/// waits at the other end: a process of the same program, as of Python's multiprocessing, may be its peer.
fn inherits<N: Node>(
    node: &N,
    link: LinkId,
    side: LinkSide,
    holders: &BTreeMap<i32, Vec<&N>>,
) -> bool {
    let fds = |node: &N| -> BTreeSet<i32> {
        let ends = node.process().ends.of_link(link);
        ends.map(|end| end.fd).collect()
    };
    let own = fds(node);
    let above = [node.process().parent].into_iter();
    let mut above = above.chain(node.ancestors().iter().copied());
    own.iter().all(|fd| *fd > STDERR)
        && above.any(|pid| {
            let mut same = holders.get(&pid).into_iter().flatten();
            same.any(|holder| {
                let may_be_peer = holder.process().name == node.process().name
                    && is_opposite(*holder, link, side);
                !holder.only_waits_for_children() && !may_be_peer && own.is_subset(&fds(holder))
            })
        })
}

/// By a process, those at the other ends of its links in one direction.
pub type Neighbours = BTreeMap<i32, Vec<(i32, LinkId)>>;

/// The neighbours before each process, and those after it.
#[derive(Debug, Clone)]
pub struct Adjacency {
    /// Those that write to it.
    pub before: Neighbours,
    /// Those that read from it.
    pub after: Neighbours,
}

impl Adjacency {
    /// The neighbours by these edges.
    pub fn new(edges: &[Edge]) -> Self {
        let (mut before, mut after) = (Neighbours::new(), Neighbours::new());
        for (from, to, link) in edges {
            before.entry(*to).or_default().push((*from, *link));
            after.entry(*from).or_default().push((*to, *link));
        }
        Adjacency { before, after }
    }
}

/// The processes that can be reached from one, and the links on the way.
pub fn reach(number: i32, neighbours: &Neighbours) -> (BTreeSet<i32>, BTreeSet<LinkId>) {
    let (mut found, mut links) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![number];
    while let Some(at) = open.pop() {
        for (next, link) in neighbours.get(&at).into_iter().flatten() {
            links.insert(*link);
            if *next != number && found.insert(*next) {
                open.push(*next);
            }
        }
    }
    (found, links)
}

/// The groups of processes, given by number, that are connected by edges, each in the order of the
/// flow: by the number of stages before each.
pub fn pipelines(numbers: impl IntoIterator<Item = i32>, edges: &[Edge]) -> Vec<Vec<i32>> {
    let adjacency = Adjacency::new(edges);
    let mut open: BTreeSet<i32> = numbers.into_iter().collect();
    let mut groups = Vec::new();
    while let Some(first) = open.pop_first() {
        let mut group = vec![first];
        let mut at = 0;
        while let Some(number) = group.get(at).copied() {
            for neighbours in [&adjacency.before, &adjacency.after] {
                let others = neighbours.get(&number).into_iter().flatten();
                group.extend(others.filter_map(|(other, _)| open.take(other)));
            }
            at += 1;
        }
        if group.len() > 1 {
            group.sort_by_cached_key(|number| (reach(*number, &adjacency.before).0.len(), *number));
            groups.push(group);
        }
    }
    groups
}
