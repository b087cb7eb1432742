//! What was done to the pipes of a pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::graph::Process;
use crate::proc::LinkId;
use crate::proc::ProcessId;
use crate::raise::{Exemption, Treatment};

/// The programs at the ends of a pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeName {
    /// Name of the process that wrote most.
    pub writer: String,
    /// Name of the reader; of several, the one seen reading.
    pub reader: String,
}

impl fmt::Display for PipeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.writer, self.reader)
    }
}

/// Pipes between programs of the same names that were treated alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreatedPipe {
    /// The programs.
    #[serde(flatten)]
    pub name: PipeName,
    /// What was done to them.
    #[serde(flatten)]
    pub treatment: Treatment,
    /// How many there were.
    pub count: u64,
}

impl TreatedPipe {
    /// Whether they were raised.
    pub fn is_raised(&self) -> bool {
        self.treatment.is_raised()
    }
}

/// What was done to the pipes of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The pipes raised, or left as they are.
    pub pipes: Vec<TreatedPipe>,
    /// Programs connected by a socket, which is left as it is.
    pub connected: Vec<[String; 2]>,
    /// Processor time that this took, in seconds.
    pub cpu_s: f64,
    /// How long the pipeline was attended to, in seconds.
    pub seconds: f64,
    /// Number of scans of the descriptors.
    pub scans: u64,
}

impl Account {
    /// Whether a pipe named [`RaiseScope::except`](super::RaiseScope::except) was left as it is.
    pub fn has_excluded(&self) -> bool {
        let excluded = Treatment::Left(Exemption::Excluded);
        self.pipes
            .iter()
            .any(|treated| treated.treatment == excluded)
    }

    /// Number of pipes raised.
    pub fn count_raised(&self) -> u64 {
        let raised = self.pipes.iter().filter(|treated| treated.is_raised());
        raised.map(|treated| treated.count).sum()
    }
}

/// A process at an end of a pipe or socket, with its last name.
#[derive(Debug, Default)]
pub(super) struct Party {
    id: Option<ProcessId>,
    pub(super) name: String,
}

impl Party {
    pub(super) fn new(process: Option<&Process>) -> Self {
        Party {
            id: process.map(|process| process.id),
            name: process
                .map(|process| process.name.clone())
                .unwrap_or_default(),
        }
    }

    /// Updates the name, which exec changes.
    pub(super) fn update(&mut self, processes: &BTreeMap<i32, Process>) {
        let now = self.id.and_then(|id| processes.get(&id.pid));
        if let Some(now) = now.filter(|now| Some(now.id) == self.id) {
            self.name.clone_from(&now.name);
        }
    }
}

/// A pipe that exists.
#[derive(Debug, Default)]
struct Known {
    /// The one that wrote most, at the last scan before the pipe was settled.
    writer: Party,
    reader: Party,
    /// What was done; before it is settled, why nothing was done in the last scan.
    treatment: Option<Treatment>,
    is_settled: bool,
}

impl Known {
    fn name(&self) -> PipeName {
        PipeName {
            writer: self.writer.name.clone(),
            reader: self.reader.name.clone(),
        }
    }
}

/// The pipes that were seen, and what was decided about them.
#[derive(Debug, Default)]
pub(super) struct Register {
    /// The pipes that still exist.
    known: BTreeMap<LinkId, Known>,
    /// About pipes that no longer exist.
    account: Account,
}

impl Register {
    /// Begins a scan: updates the names of processes, and forgets pipes that are gone and the
    /// reasons of the scan before.
    pub(super) fn update(&mut self, processes: &BTreeMap<i32, Process>) {
        let ends = processes.values().flat_map(|process| &process.ends);
        let held: BTreeSet<LinkId> = ends.map(|end| end.pipe).collect();
        let known = std::mem::take(&mut self.known).into_iter();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            known.partition(|(pipe, _)| held.contains(pipe));
        self.known = kept;
        self.close(gone);
        for known in self.known.values_mut() {
            known.writer.update(processes);
            known.reader.update(processes);
            if !known.is_settled {
                known.treatment = None;
            }
        }
    }

    /// Sets the processes after which a pipe is named. Returns the name.
    pub(super) fn set_parties(
        &mut self,
        pipe: LinkId,
        writer: Option<&Process>,
        reader: Option<&Process>,
    ) -> PipeName {
        let known = self.known.entry(pipe).or_default();
        known.writer = Party::new(writer);
        known.reader = Party::new(reader);
        known.name()
    }

    /// Sets the reader after which a pipe is named.
    pub(super) fn set_reader(&mut self, pipe: LinkId, reader: &Process) {
        self.known.entry(pipe).or_default().reader = Party::new(Some(reader));
    }

    /// Notes what was done to a pipe.
    pub(super) fn settle(&mut self, pipe: LinkId, treatment: Treatment) {
        let known = self.known.entry(pipe).or_default();
        known.treatment = Some(treatment);
        known.is_settled = true;
    }

    /// Notes why a pipe is not settled yet.
    pub(super) fn wait(&mut self, pipe: LinkId, reason: Exemption) {
        let known = self.known.entry(pipe).or_default();
        known.treatment = Some(Treatment::Left(reason));
    }

    /// Whether a pipe was not settled in the last scan.
    pub(super) fn is_undecided(&self) -> bool {
        let mut known = self.known.values();
        known.any(|known| known.treatment.is_some() && !known.is_settled)
    }

    /// Whether a pipe was not settled in the last scan since it could not be opened.
    pub(super) fn waits_for_opening(&self) -> bool {
        let reason = Some(Treatment::Left(Exemption::NotOpened));
        let mut known = self.known.values();
        known.any(|known| known.treatment == reason && !known.is_settled)
    }

    /// Settles the pipes that still wait: they are left as they are.
    pub(super) fn give_up(&mut self) {
        for known in self.known.values_mut() {
            known.is_settled = true;
        }
    }

    /// Whether it was decided what is done to a pipe.
    pub(super) fn is_settled(&self, pipe: LinkId) -> bool {
        self.known.get(&pipe).is_some_and(|known| known.is_settled)
    }

    /// Number of raised pipes that still exist.
    pub(super) fn count_raised(&self) -> usize {
        let treatments = self.known.values().filter_map(|known| known.treatment);
        treatments.filter(|treatment| treatment.is_raised()).count()
    }

    /// The account of all pipes, which are forgotten.
    pub(super) fn take_account(&mut self) -> Account {
        let existing = std::mem::take(&mut self.known);
        self.close(existing);
        std::mem::take(&mut self.account)
    }

    /// Adds pipes to the account in the order in which their readers were started.
    fn close(&mut self, pipes: BTreeMap<LinkId, Known>) {
        let mut all: Vec<Known> = pipes
            .into_values()
            .filter(|known| known.is_settled)
            .collect();
        all.sort_by_key(|known| known.reader.id.map(|id| (id.start, id.pid)));
        for known in all {
            let (name, Some(treatment)) = (known.name(), known.treatment) else {
                continue;
            };
            let mut alike = self.account.pipes.iter_mut();
            let alike =
                alike.find(|treated| (&treated.name, treated.treatment) == (&name, treatment));
            if let Some(alike) = alike {
                alike.count += 1;
            } else {
                self.account.pipes.push(TreatedPipe {
                    name,
                    treatment,
                    count: 1,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads};

    #[test]
    fn a_reason_of_an_earlier_scan_counts_no_longer() {
        let mut register = Register::default();
        let wc = process(1, "wc", vec![reads(0, 7)]);
        let pipe = wc.ends[0].pipe;
        let processes = BTreeMap::from([(1, wc)]);
        register.wait(pipe, Exemption::NotOpened);
        assert!(register.waits_for_opening() && register.is_undecided());
        register.update(&processes);
        assert!(!register.waits_for_opening() && !register.is_undecided());
    }
}
