//! Children that give their parent data: what a shell substitutes (`< <(cat | tr)`), and what a program has started
//! to read from.

use std::collections::{BTreeMap, BTreeSet};

use super::{Graph, LinkSide, Process, STDERR};
use crate::proc::LinkId;

/// By a child that gives its parent data, itself or through other children, the links of the parent to which it
/// does.
pub(crate) type Feeders = BTreeMap<i32, BTreeSet<LinkId>>;

impl Graph {
    /// The children of each of these processes that feed it.
    pub(crate) fn feeders(&self, parents: impl Iterator<Item = i32>) -> BTreeMap<i32, Feeders> {
        let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
        for process in self.processes.values() {
            children.entry(process.parent).or_default().push(process);
        }
        let feeders = parents.filter_map(|pid| {
            let feeders = feeders(self.processes.get(&pid)?, children.get(&pid)?);
            (!feeders.is_empty()).then_some((pid, feeders))
        });
        feeders.collect()
    }
}

/// Those of these children that feed their parent. Who has both sides of a link may use either of them.
fn feeders(parent: &Process, children: &[&Process]) -> Feeders {
    let only = |process: &Process, link: LinkId, side: LinkSide| {
        process.holds(link, side) && !process.holds(link, side.other())
    };
    let inputs = parent.pipes().into_iter();
    let inputs = inputs.filter(|link| only(parent, *link, LinkSide::Input));
    // By a link, those of the parent to which leads what is written there.
    let mut leads: BTreeMap<LinkId, BTreeSet<LinkId>> =
        inputs.map(|link| (link, [link].into())).collect();
    let mut feeders = Feeders::new();
    // As many steps as the longest chain has links.
    for _ in children {
        let before = feeders.clone();
        for child in children {
            let outputs = child.ends.iter();
            let outputs = outputs.filter(|end| end.fd != STDERR && end.writes);
            let fed = outputs
                .filter(|end| only(child, end.pipe, LinkSide::Room))
                .filter_map(|end| leads.get(&end.pipe));
            let fed: BTreeSet<LinkId> = fed.flatten().copied().collect();
            if fed.is_empty() {
                continue;
            }
            for link in child.pipes() {
                // What the parent reads, too, was inherited.
                if only(child, link, LinkSide::Input) && !parent.holds(link, LinkSide::Input) {
                    leads.entry(link).or_default().extend(&fed);
                }
            }
            feeders.entry(child.id.pid).or_default().extend(fed);
        }
        if feeders == before {
            break;
        }
    }
    feeders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{child_of, process, reads, writes};

    #[test]
    fn children_feed_their_parent_directly_or_through_each_other() {
        // A program that has started `cat | tr`, reads what that writes, and runs other commands.
        let all = [
            process(
                1,
                "python3",
                vec![reads(0, 6), reads(5, 8), writes(7, 9), reads(9, 9)],
            ),
            child_of(1, process(2, "cat", vec![writes(1, 7)])),
            child_of(1, process(3, "tr", vec![reads(0, 7), writes(1, 8)])),
            child_of(1, process(4, "openssl", vec![reads(0, 6), writes(1, 10)])),
            child_of(
                1,
                process(5, "worker", vec![writes(7, 9), reads(9, 9), writes(2, 8)]),
            ),
            child_of(3, process(6, "helper", vec![writes(1, 8)])),
        ];
        let graph = Graph {
            processes: all.into_iter().map(|one| (one.id.pid, one)).collect(),
            ..Graph::default()
        };
        let found = graph.feeders([1, 3, 5].into_iter());
        let input = BTreeSet::from([LinkId::pipe(8)]);
        let expected = Feeders::from([(2, input.clone()), (3, input)]);
        assert_eq!(found, BTreeMap::from([(1, expected)]));
    }
}
