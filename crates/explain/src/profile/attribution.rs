//! Attribution of samples to the processes that are profiled.
//!
//! Events of processors have a ring each and also see strangers. A process may be forked on
//! one processor and sampled on another, so the records of all rings are sorted by time
//! before any of them is applied.

use std::collections::{BTreeSet, HashMap};

use super::record::Losses;

/// A record of a ring, with its time in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedRecord {
    /// When it was written; any for records whose order does not matter.
    pub time_ns: u64,
    /// Its content.
    pub record: PerfRecord,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerfRecord {
    /// A process or, if it is its own parent, a thread was started.
    Fork {
        /// The process.
        pid: u32,
        /// Its new thread.
        tid: u32,
        /// The process that called clone(2).
        parent: u32,
    },
    /// A thread ended.
    Exit {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// A process executed a program of this name, or chose the name.
    Comm {
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A sample.
    Sample(StackSample),
    /// This many records did not fit into the ring.
    Lost(u64),
    /// The kernel stopped sampling for a while.
    Throttled,
}

/// A sampled call chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSample {
    /// The process.
    pub pid: u32,
    /// Its weight in the event's unit.
    pub weight: u64,
    /// Addresses in the kernel, the innermost first.
    pub chain: Vec<u64>,
}

impl PerfRecord {
    /// The order of records of the same time: a child is known before its first sample, and
    /// until after its last.
    fn rank(&self) -> u8 {
        match self {
            PerfRecord::Fork { .. } => 0,
            PerfRecord::Exit { .. } => 2,
            _ => 1,
        }
    }
}

/// The living processes of each owner. An owner is an end of a case, or a command, with its
/// descendants.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    processes: HashMap<u32, OwnedProcess>,
    /// The parents of all processes that were forked.
    parents: HashMap<u32, u32>,
    names: HashMap<u32, String>,
}

#[derive(Debug, Clone)]
struct OwnedProcess {
    owner: usize,
    /// It lives as long as one of these, not as long as the first.
    threads: BTreeSet<u32>,
}

impl Owners {
    /// Assigns a process and its threads to an owner.
    pub fn adopt(&mut self, owner: usize, pid: u32, threads: impl IntoIterator<Item = u32>) {
        let threads = threads.into_iter().chain([pid]).collect();
        self.processes.insert(pid, OwnedProcess { owner, threads });
    }

    /// Forgets the processes for which `is_alive` is false.
    pub fn retain(&mut self, is_alive: impl Fn(u32) -> bool) {
        self.processes.retain(|pid, _| is_alive(*pid));
    }

    /// The owner of a process, if it has one.
    pub fn owner(&self, pid: u32) -> Option<usize> {
        self.processes.get(&pid).map(|process| process.owner)
    }

    /// The process that forked this one, if that was recorded.
    pub fn parent(&self, pid: u32) -> Option<u32> {
        self.parents.get(&pid).copied()
    }

    /// The name of the program that a process executed last, if that was recorded.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    fn fork(&mut self, pid: u32, tid: u32, parent: u32) {
        if pid == parent {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads.insert(tid);
            }
        } else if let Some(owner) = self.owner(parent) {
            self.adopt(owner, pid, [tid]);
            self.parents.insert(pid, parent);
        } else {
            // A stranger that got the number of an earlier process.
            self.processes.remove(&pid);
        }
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.remove(&tid);
            if process.threads.is_empty() {
                self.processes.remove(&pid);
            }
        }
    }
}

/// Applies the records of all rings in the order of their times, and returns the samples of
/// owned processes with their times and owners. Adds what is missing to `losses`, which
/// belong to no owner: a ring may be shared by all.
pub fn attribute(
    mut records: Vec<TimedRecord>,
    owners: &mut Owners,
    losses: &mut Losses,
) -> Vec<(u64, usize, StackSample)> {
    records.sort_by_key(|timed| (timed.time_ns, timed.record.rank()));
    let mut samples = Vec::new();
    for TimedRecord { time_ns, record } in records {
        match record {
            PerfRecord::Fork { pid, tid, parent } => owners.fork(pid, tid, parent),
            PerfRecord::Exit { pid, tid } => owners.exit(pid, tid),
            PerfRecord::Comm { pid, name } => {
                owners.names.insert(pid, name);
            }
            PerfRecord::Lost(count) => losses.lost += count,
            PerfRecord::Throttled => losses.throttled += 1,
            PerfRecord::Sample(sample) => {
                let owner = owners.owner(sample.pid);
                samples.extend(owner.map(|owner| (time_ns, owner, sample)));
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(time_ns: u64, record: PerfRecord) -> TimedRecord {
        TimedRecord { time_ns, record }
    }

    fn of(pid: u32) -> PerfRecord {
        PerfRecord::Sample(StackSample {
            pid,
            weight: 1,
            chain: Vec::new(),
        })
    }

    fn fork(pid: u32, parent: u32) -> PerfRecord {
        let tid = pid;
        PerfRecord::Fork { pid, tid, parent }
    }

    fn exit(pid: u32, tid: u32) -> PerfRecord {
        PerfRecord::Exit { pid, tid }
    }

    /// Processes 10 and 20 of the owners 0 and 1.
    fn two() -> Owners {
        let mut owners = Owners::default();
        owners.adopt(0, 10, []);
        owners.adopt(1, 20, []);
        owners
    }

    /// The times of the samples and their owners.
    fn attributed(rings: &[&[TimedRecord]]) -> Vec<(u64, usize)> {
        let samples = attribute(rings.concat(), &mut two(), &mut Losses::default());
        let samples = samples.into_iter();
        samples.map(|(time, owner, _)| (time, owner)).collect()
    }

    #[test]
    fn process_of_an_owner_has_a_parent_and_a_name() {
        let name = "cat".to_owned();
        // The record of a name has no time.
        let ring = [
            at(0, PerfRecord::Comm { pid: 11, name }),
            at(1, fork(11, 10)),
        ];
        let mut owners = two();
        attribute(ring.to_vec(), &mut owners, &mut Losses::default());
        assert_eq!(
            (owners.parent(11), owners.name(11)),
            (Some(10), Some("cat"))
        );
        assert_eq!((owners.parent(10), owners.name(10)), (None, None));
    }

    #[test]
    fn losses_are_those_of_all_rings() {
        let rings = [at(0, PerfRecord::Lost(3)), at(7, PerfRecord::Throttled)];
        let more = [at(0, PerfRecord::Lost(4))];
        let mut losses = Losses::default();
        attribute([&rings[..], &more].concat(), &mut two(), &mut losses);
        assert_eq!((losses.lost, losses.throttled), (7, 1));
    }

    /// The owner of a process after the first `now` records of a history: that of its parent
    /// when it was forked, unless all of its threads have ended since.
    fn naive_owner(history: &[PerfRecord], now: usize, pid: u32) -> Option<usize> {
        let is_start = |record: &PerfRecord| matches!(record, PerfRecord::Fork { pid: child, parent, .. } if *child == pid && *parent != pid);
        let (owner, begin) = match history[..now].iter().rposition(is_start) {
            Some(at) => match history[at] {
                PerfRecord::Fork { parent, .. } => (naive_owner(history, at, parent)?, at + 1),
                _ => return None,
            },
            None => match pid {
                10 => (0, 0),
                20 => (1, 0),
                _ => return None,
            },
        };
        let mut threads = vec![pid];
        for record in &history[begin..now] {
            match *record {
                PerfRecord::Fork { pid: of, tid, .. } if of == pid => threads.push(tid),
                PerfRecord::Exit { pid: of, tid } if of == pid => {
                    threads.retain(|thread| *thread != tid)
                }
                _ => {}
            }
            if threads.is_empty() {
                return None;
            }
        }
        Some(owner)
    }

    /// Any record of a few processes, which need not make sense.
    fn any_record() -> impl Strategy<Value = PerfRecord> {
        let pid = || prop::sample::select(vec![10_u32, 11, 12, 20, 21, 99]);
        prop_oneof![
            3 => pid().prop_map(of),
            2 => (pid(), pid()).prop_filter_map("a process", |(pid, parent)| {
                (pid != parent).then(|| fork(pid, parent))
            }),
            1 => (pid(), 1..4_u32).prop_map(|(pid, thread)| PerfRecord::Fork {
                pid,
                tid: pid + 100 * thread,
                parent: pid,
            }),
            2 => (pid(), 0..4_u32).prop_map(|(pid, thread)| exit(pid, pid + 100 * thread)),
        ]
    }

    proptest! {
        #[test]
        fn rings_in_any_order_agree_with_the_naive_model(
            history in prop::collection::vec((any_record(), 0..4_usize), 0..60),
            first in 0..4_usize,
        ) {
            let (history, ring_of): (Vec<PerfRecord>, Vec<usize>) = history.into_iter().unzip();
            let mut rings = vec![Vec::new(); 4];
            for (time, record) in history.iter().enumerate() {
                rings[ring_of[time]].push(at(time as u64, record.clone()));
            }
            rings.rotate_left(first);
            let rings: Vec<&[TimedRecord]> = rings.iter().map(Vec::as_slice).collect();
            let expected: Vec<(u64, usize)> = (0..history.len())
                .filter_map(|time| match &history[time] {
                    PerfRecord::Sample(StackSample { pid, .. }) => {
                        Some((time as u64, naive_owner(&history, time, *pid)?))
                    }
                    _ => None,
                })
                .collect();
            prop_assert_eq!(attributed(&rings), expected);
        }
    }
}
