//! Links of processes with very many that nobody uses.

use std::collections::{BTreeMap, BTreeSet};

use super::Observer;
use crate::graph::Process;
use crate::proc::{LinkId, ProcessId};
use crate::sample::Observed;

/// Of more sockets, or pipes, only those that are used are kept: each is compared with those of all
/// processes.
const MAX_LINKS: usize = 512;

impl Observer<'_> {
    /// Leaves out the links of processes with very many on which nobody waited: sockets in which
    /// nothing lies, and pipes of which one process has both sides.
    pub(super) fn leave_idle(
        &self,
        processes: &mut [Observed],
        links: &mut BTreeMap<LinkId, Option<String>>,
    ) {
        let sockets = links.keys().filter(|link| link.is_socket()).count();
        let leaves_sockets = sockets > MAX_LINKS;
        let own = if links.len() - sockets > MAX_LINKS {
            self.own_pipes()
        } else {
            BTreeSet::new()
        };
        if !leaves_sockets && own.is_empty() {
            return;
        }
        let waits = processes.iter().flat_map(|process| &process.on);
        let waited: BTreeSet<LinkId> = waits.map(|on| on.pipe).collect();
        let has_data = |link: &LinkId| {
            let seen = self.pipes.get(link).and_then(|seen| seen.fills.last());
            seen.is_some_and(|look| look.bytes > 0)
        };
        let is_used = |link: &LinkId| {
            let is_idle = if link.is_socket() {
                leaves_sockets && !has_data(link)
            } else {
                own.contains(link)
            };
            !is_idle || waited.contains(link)
        };
        links.retain(|link, _| is_used(link));
        for observed in processes {
            observed.process.ends.retain(|end| is_used(&end.pipe));
        }
    }

    /// Leaves out of very many pipes to look into those on which nobody waited so far, and of which
    /// one process has both sides.
    pub(super) fn leave_idle_looks<T>(&self, pipes: &mut BTreeMap<LinkId, T>) {
        if pipes.keys().filter(|link| !link.is_socket()).count() <= MAX_LINKS {
            return;
        }
        let own = self.own_pipes();
        let tallies = self.tallies.values();
        let waits = tallies.flat_map(|tally| tally.counts.on.keys());
        let waited: BTreeSet<LinkId> = waits.map(|(link, _)| *link).collect();
        pipes.retain(|link, _| !own.contains(link) || waited.contains(link));
    }

    /// The pipes both sides of which one process has, and no other has any.
    fn own_pipes(&self) -> BTreeSet<LinkId> {
        let graph = self.scanner.graph.processes.values();
        // Also those that have ended.
        let ended = self.tallies.values().filter(|tally| tally.has_ended);
        let all = graph.chain(ended.map(|tally| &tally.process));
        own_pipes(all)
    }
}

fn own_pipes<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeSet<LinkId> {
    /// Who has a pipe, unless several do, and whether it reads and writes.
    struct Holder {
        sole: Option<ProcessId>,
        reads: bool,
        writes: bool,
    }
    let mut holders: BTreeMap<LinkId, Holder> = BTreeMap::new();
    for process in processes {
        for end in process.ends.iter().filter(|end| !end.pipe.is_direction()) {
            let holder = holders.entry(end.pipe).or_insert(Holder {
                sole: Some(process.id),
                reads: false,
                writes: false,
            });
            holder.sole = holder.sole.filter(|sole| *sole == process.id);
            holder.reads |= end.reads;
            holder.writes |= end.writes;
        }
    }
    let own = holders
        .into_iter()
        .filter(|(_, holder)| holder.sole.is_some() && holder.reads && holder.writes);
    own.map(|(link, _)| link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads, writes};

    #[test]
    fn own_pipes_are_those_of_one_process_with_both_sides() {
        let all = [
            process(
                1,
                "a",
                vec![reads(3, 7), writes(4, 7), reads(5, 8), writes(6, 9)],
            ),
            process(2, "b", vec![writes(3, 8), reads(4, 10), writes(5, 10)]),
            process(3, "c", vec![reads(4, 10), writes(5, 10)]),
        ];
        assert_eq!(own_pipes(all.iter()), [LinkId::pipe(7)].into());
    }
}
