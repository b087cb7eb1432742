//! Workers that have nothing to do.

use std::borrow::Cow;

use super::MIN_TURNS;
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::{Observed, OnLink};
use crate::wait::Outside;

/// The waits by which workers take turns.
const LOCKS: [Outside; 3] = [Outside::Lock, Outside::LockOrTimer, Outside::FileLock];

/// The observation, in which a worker that waits for its turn to read counts as one that waits for input.
///
/// The workers of a pool get their jobs from one link, and take turns at it by a lock. If there is no job,
/// one waits for input and the others for the lock, all for who writes the jobs.
pub(super) fn with_idle_workers(observation: &Observation) -> Cow<'_, Observation> {
    let mut changed = Cow::Borrowed(observation);
    for (position, worker) in observation.processes.iter().enumerate() {
        if let Some((link, share)) = awaited_turn(observation, worker)
            && let Some(worker) = changed.to_mut().processes.get_mut(position)
        {
            count_as_input(worker, link, share);
        }
    }
    changed
}

/// The link at which a worker waits for its turn to read, and the share of the time in which it does: while
/// it waits for a lock, an equal worker waits for input there. The only job of a pool may wait for another
/// lock: that looks the same, and nothing is said of it.
fn awaited_turn(observation: &Observation, worker: &Observed) -> Option<(LinkId, f64)> {
    let locked = locked_share(worker);
    if locked < MIN_TURNS {
        return None;
    }
    let links = worker.process.pipes().into_iter();
    let inputs = links.filter(|link| worker.process.holds(*link, LinkSide::Input));
    let inputs: Vec<LinkId> = inputs.collect();
    if inputs.iter().any(|link| has_data(observation, *link)) {
        return None;
    }
    let turns = inputs.into_iter().filter_map(|link| {
        let readers = observation.holders(link, LinkSide::Input);
        let equal = readers.filter(|reader| reader.is_fellow(worker));
        let waited: f64 = equal
            .map(|reader| reader.share_on(link, LinkSide::Input))
            .sum();
        // In the rest of the time somebody may hold the lock who works.
        let share = locked - (1.0 - waited).max(0.0);
        (share >= MIN_TURNS).then_some((link, share))
    });
    turns.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The share of the time in which a process waits for a lock.
pub(crate) fn locked_share(process: &Observed) -> f64 {
    let waits = LOCKS.iter().filter_map(|lock| process.outside.get(lock));
    waits.sum()
}

/// Whether a reader of a link has something to read there: if it waits for a lock, it may hold up the link.
fn has_data(observation: &Observation, link: LinkId) -> bool {
    let unread = observation.link(link).and_then(|link| link.unread);
    let mut writers = observation.holders(link, LinkSide::Room);
    unread.is_some_and(|bytes| bytes > 0)
        || writers.any(|writer| writer.share_on(link, LinkSide::Room) >= MIN_TURNS)
}

/// Counts a share of a worker's waits for locks as waits for input from a link.
fn count_as_input(worker: &mut Observed, link: LinkId, share: f64) {
    let rest = 1.0 - share / locked_share(worker);
    for lock in LOCKS {
        if let Some(locked) = worker.outside.get_mut(&lock) {
            *locked *= rest;
        }
    }
    worker.shares.elsewhere = (worker.shares.elsewhere - share).max(0.0);
    worker.shares.starved += share;
    let mut on = worker.on.iter_mut();
    let same = on.find(|on| (on.pipe, on.side) == (link, LinkSide::Input));
    if let Some(on) = same {
        on.share += share;
        on.thread_share += share;
    } else {
        worker.on.push(OnLink {
            pipe: link,
            side: LinkSide::Input,
            share,
            thread_share: share,
        });
    }
}
