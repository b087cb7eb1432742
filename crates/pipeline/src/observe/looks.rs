//! Looks into pipes and sockets: how much lies in them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pipespeed_base::interrupt;

use super::{FillChange, FillSample, ObservedLink, Observer, PipeSamples};
use crate::proc::pipe_probe::PipeState;
use crate::proc::{LinkId, ProcessId};
use crate::wait::is_moving;

/// A look at more pipes is continued at the next one: each is a question to the helper.
const MAX_LOOKED: usize = 1024;
/// A pipe whose lock was held is looked into again after this time: each such look may cost a helper.
const MIN_HELD: Duration = Duration::from_secs(10);

impl Observer<'_> {
    /// Looks into each pipe by one of its read ends; of very many, only into some at a time.
    pub(super) fn look(&mut self) {
        let Some(pipe_probe) = self.proc.pipe_probe().filter(|_| self.plan.opens_pipes) else {
            return;
        };
        let mut ends: BTreeMap<LinkId, (i32, i32)> = BTreeMap::new();
        let wanted = self.tallies.keys().copied();
        let wanted: Vec<ProcessId> = wanted.filter(|id| self.asked.contains(id)).collect();
        for id in wanted {
            let only = self.plan.only_user;
            if only.is_some_and(|only| self.user(id) != Some(only)) {
                continue;
            }
            let is_wanted = |pipe| self.wanted.as_ref().is_none_or(|all| all.contains(pipe));
            let reads = self.tallies[&id].process.ends.iter();
            let reads = reads.filter(|end| end.reads && !end.pipe.is_terminal());
            for end in reads.filter(|end| is_wanted(&end.pipe)) {
                ends.entry(end.pipe).or_insert((id.pid, end.fd));
            }
        }
        self.leave_idle_looks(&mut ends);
        let (sockets, pipes): (Vec<LinkId>, Vec<LinkId>) =
            ends.keys().partition(|link| link.is_socket());
        self.look_at_sockets(&sockets);
        // Those after the last one come first.
        let first = pipes.partition_point(|pipe| Some(*pipe) <= self.looked);
        let count = pipes.len().min(MAX_LOOKED);
        self.looked = None;
        for pipe in pipes.iter().cycle().skip(first).take(count).copied() {
            if interrupt::first_signal().is_some() {
                return;
            }
            self.looked = Some(pipe);
            let (pid, fd) = ends[&pipe];
            let seen = self.pipes.entry(pipe).or_default();
            if seen.held.is_some_and(|held| held.elapsed() < MIN_HELD) {
                continue;
            }
            match pipe_probe.read_state(self.proc, pid, fd, pipe) {
                PipeState::Seen {
                    capacity,
                    unread,
                    owner,
                } => {
                    seen.held = None;
                    seen.held_by = None;
                    seen.capacity = Some(capacity);
                    seen.owner = Some(owner);
                    seen.fills.push(FillSample {
                        at: Instant::now(),
                        bytes: unread,
                        share: Some(unread as f64 / capacity.max(1) as f64),
                    });
                }
                PipeState::Held => {
                    seen.held = Some(Instant::now());
                    let holders = self.tallies.values().map(|tally| &tally.process);
                    let mut holders =
                        holders.filter(|process| process.ends.of_link(pipe).next().is_some());
                    seen.held_by = holders
                        .find(|process| is_moving(self.proc, process.id.pid, pipe))
                        .map(|process| process.id.pid);
                }
                PipeState::Unknown => {}
            }
        }
    }

    /// How many bytes these sockets have not read. No socket is opened.
    fn look_at_sockets(&mut self, links: &[LinkId]) {
        if links.is_empty() {
            return;
        }
        self.scanner.list_sockets(self.proc);
        for link in links {
            if let Some(socket) = self.scanner.sockets.get(&link.inode()) {
                let seen = self.pipes.entry(*link).or_default();
                seen.fills.push(FillSample {
                    at: Instant::now(),
                    bytes: socket.unread,
                    share: None,
                });
            }
        }
    }

    /// What was seen of a pipe. Its fill is the mean of the latest looks.
    pub(crate) fn pipe(&self, id: LinkId, path: Option<String>, latest: usize) -> ObservedLink {
        let unseen = PipeSamples::default();
        let seen = self.pipes.get(&id).unwrap_or(&unseen);
        let shares = seen.fills.iter().rev().take(latest);
        let shares = shares.filter_map(|look| look.share);
        let shares: Vec<f64> = shares.collect();
        ObservedLink {
            id,
            path,
            capacity: seen.capacity,
            fill: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            unread: seen.fills.last().map(|look| look.bytes),
            fill_change: FillChange::new(&seen.fills, latest),
            bytes_per_s: None,
            owner: seen.owner,
            is_held: seen.held.is_some(),
            held_by: seen.held_by,
        }
    }
}
