//! Sockets in an observation.

use std::collections::{BTreeMap, BTreeSet};

use super::Observer;
use crate::proc::LinkId;
use crate::sample::Observed;

/// Of more sockets only those that are used are kept: each is compared with those of all processes.
const MAX_SOCKETS: usize = 512;

impl Observer<'_> {
    /// Leaves out the sockets of processes with very many on which nobody waited, and in which nothing lies.
    pub(super) fn leave_idle_sockets(
        &self,
        processes: &mut [Observed],
        links: &mut BTreeMap<LinkId, Option<String>>,
    ) {
        if links.keys().filter(|link| link.is_socket()).count() <= MAX_SOCKETS {
            return;
        }
        let waits = processes.iter().flat_map(|process| &process.on);
        let waited: BTreeSet<LinkId> = waits.map(|on| on.pipe).collect();
        let has_data = |link: &LinkId| {
            let seen = self.pipes.get(link).and_then(|seen| seen.fills.last());
            seen.is_some_and(|look| look.bytes > 0)
        };
        let is_used = |link: &LinkId| !link.is_socket() || waited.contains(link) || has_data(link);
        links.retain(|link, _| is_used(link));
        for observed in processes {
            observed.process.ends.retain(|end| is_used(&end.pipe));
        }
    }
}
