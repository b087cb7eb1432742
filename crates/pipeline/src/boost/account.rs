//! What was done to the pipes of a pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::find::{Process, ProcessId};
use crate::proc::PipeId;
use crate::raise::{Exemption, MAX_RAISED, Treatment};

/// What a pipe is called, in this run and in others of the same pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeName {
    /// Name of the process that wrote most.
    pub writer: String,
    /// Name of the reader; of several, the one seen reading.
    pub reader: String,
    /// Its number among the pipes between processes of these names, from 0, in the order in
    /// which their readers were started.
    pub number: usize,
}

impl fmt::Display for PipeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.writer, self.reader)?;
        match self.number {
            0 => Ok(()),
            number => write!(f, " ({})", number + 1),
        }
    }
}

/// Pipes between programs of the same names that were treated alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreatedPipe {
    /// Name of the process that wrote most.
    pub writer: String,
    /// Name of the reader; of several, the one seen reading.
    pub reader: String,
    /// What was done to them.
    #[serde(flatten)]
    pub treatment: Treatment,
    /// How many there were.
    pub count: u64,
    /// The numbers of the first [`MAX_RAISED`] of them, as in [`PipeName`].
    pub numbers: Vec<usize>,
}

impl TreatedPipe {
    /// Whether they were raised.
    pub fn is_raised(&self) -> bool {
        self.treatment.is_raised()
    }

    /// The names of the first of them.
    pub fn names(&self) -> impl Iterator<Item = PipeName> {
        self.numbers.iter().map(|number| PipeName {
            writer: self.writer.clone(),
            reader: self.reader.clone(),
            number: *number,
        })
    }
}

/// What was done to the pipes of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The pipes raised, or left as they are.
    pub pipes: Vec<TreatedPipe>,
    /// Processor time that this took, in seconds.
    pub cpu_s: f64,
    /// How long the pipeline was attended to, in seconds.
    pub seconds: f64,
    /// Number of scans of the descriptors.
    pub scans: u64,
}

impl Account {
    /// Whether one of [`Subject::except`](super::Subject::except) was left as it is.
    pub fn has_excluded(&self) -> bool {
        let excluded = Treatment::Left(Exemption::Excluded);
        self.pipes.iter().any(|it| it.treatment == excluded)
    }

    /// Number of pipes raised.
    pub fn count_raised(&self) -> u64 {
        let raised = self.pipes.iter().filter(|it| it.is_raised());
        raised.map(|it| it.count).sum()
    }
}

/// A process at an end of a pipe, with its last name.
#[derive(Debug, Clone, Default)]
pub(super) struct Party {
    id: Option<ProcessId>,
    name: String,
}

impl Party {
    pub(super) fn of(process: Option<&Process>) -> Self {
        Party {
            id: process.map(|it| it.id),
            name: process.map(|it| it.name.clone()).unwrap_or_default(),
        }
    }
}

/// A pipe that exists.
#[derive(Debug)]
struct Known {
    /// Start and process id of the first reader that was seen: the order of the pipes.
    order: (u64, i32),
    /// The one that wrote most, at the last scan before the pipe was settled.
    writer: Party,
    reader: Party,
    /// Why it is not settled, as of the last scan.
    waits: Option<Exemption>,
    /// What was decided.
    settled: Option<Settled>,
}

#[derive(Debug)]
struct Settled {
    treatment: Treatment,
    /// As in [`PipeName`].
    number: usize,
}

/// The pipes that were seen, and what was decided about them.
#[derive(Debug, Default)]
pub(super) struct Register {
    /// The pipes that still exist.
    known: BTreeMap<PipeId, Known>,
    /// About pipes that no longer exist.
    account: Account,
}

impl Register {
    /// Adds a pipe unless it is known.
    pub(super) fn add(&mut self, pipe: PipeId, reader: ProcessId) {
        self.known.entry(pipe).or_insert_with(|| Known {
            order: (reader.start, reader.pid),
            writer: Party::default(),
            reader: Party::default(),
            waits: None,
            settled: None,
        });
    }

    /// Updates the names of processes, which exec changes, and forgets pipes that are gone.
    pub(super) fn update(&mut self, processes: &BTreeMap<i32, Process>) {
        let ends = processes.values().flat_map(|process| &process.ends);
        let held: BTreeSet<PipeId> = ends.map(|end| end.pipe).collect();
        let known = std::mem::take(&mut self.known).into_iter();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            known.partition(|(pipe, _)| held.contains(pipe));
        self.known = kept;
        self.close(gone);
        for known in self.known.values_mut() {
            for party in [&mut known.writer, &mut known.reader] {
                let now = party.id.and_then(|id| processes.get(&id.pid));
                if let Some(now) = now.filter(|now| Some(now.id) == party.id) {
                    party.name.clone_from(&now.name);
                }
            }
        }
    }

    /// Sets the processes after which a pipe that is not yet settled is named.
    pub(super) fn set_parties(&mut self, pipe: PipeId, writer: Party, reader: Party) {
        if let Some(known) = self.known.get_mut(&pipe) {
            known.writer = writer;
            known.reader = reader;
        }
    }

    /// The name of a known pipe.
    pub(super) fn name(&self, pipe: PipeId) -> PipeName {
        fn names(known: &Known) -> (&String, &String) {
            (&known.writer.name, &known.reader.name)
        }
        let own = &self.known[&pipe];
        let (writer, reader) = names(own);
        let gone = self.account.pipes.iter();
        let gone = gone.filter(|it| (&it.writer, &it.reader) == (writer, reader));
        let gone: u64 = gone.map(|it| it.count).sum();
        let before = self.known.values();
        let before = before.filter(|it| it.order < own.order && names(it) == names(own));
        PipeName {
            number: gone as usize + before.count(),
            writer: writer.clone(),
            reader: reader.clone(),
        }
    }

    /// Notes what was done to a known pipe.
    pub(super) fn settle(&mut self, pipe: PipeId, treatment: Treatment) {
        let number = self.name(pipe).number;
        if let Some(known) = self.known.get_mut(&pipe) {
            known.settled = Some(Settled { treatment, number });
        }
    }

    /// Notes why a known pipe is not settled yet.
    pub(super) fn wait(&mut self, pipe: PipeId, reason: Exemption) {
        if let Some(known) = self.known.get_mut(&pipe) {
            known.waits = Some(reason);
        }
    }

    /// Whether a pipe is not settled for this reason.
    pub(super) fn waits_for(&self, reason: Exemption) -> bool {
        let mut waiting = self.known.values().filter(|it| it.settled.is_none());
        waiting.any(|it| it.waits == Some(reason))
    }

    /// Settles the pipes that still wait: they are left as they are.
    pub(super) fn give_up(&mut self) {
        let waiting = self.known.iter().filter(|(_, it)| it.settled.is_none());
        let waiting = waiting.filter_map(|(pipe, it)| Some((*pipe, it.waits?)));
        for (pipe, reason) in waiting.collect::<Vec<_>>() {
            self.settle(pipe, Treatment::Left(reason));
        }
    }

    /// Whether it was decided what is done to a pipe.
    pub(super) fn is_settled(&self, pipe: PipeId) -> bool {
        let known = self.known.get(&pipe);
        known.is_some_and(|known| known.settled.is_some())
    }

    /// Number of raised pipes that still exist.
    pub(super) fn count_raised(&self) -> usize {
        let settled = self.known.values().filter_map(|it| it.settled.as_ref());
        settled.filter(|it| it.treatment.is_raised()).count()
    }

    /// The account of all pipes, which are forgotten.
    pub(super) fn take_account(&mut self) -> Account {
        let existing = std::mem::take(&mut self.known);
        self.close(existing);
        std::mem::take(&mut self.account)
    }

    /// Adds pipes to the account in the order in which their readers were started.
    fn close(&mut self, pipes: BTreeMap<PipeId, Known>) {
        let mut all: Vec<Known> = pipes.into_values().collect();
        all.sort_by_key(|known| known.order);
        for known in all {
            let Some(Settled { treatment, number }) = known.settled else {
                continue;
            };
            let (writer, reader) = (known.writer.name, known.reader.name);
            let mut alike = self.account.pipes.iter_mut();
            let alike = alike
                .find(|it| (&it.writer, &it.reader, it.treatment) == (&writer, &reader, treatment));
            if let Some(alike) = alike {
                alike.count += 1;
                if alike.numbers.len() < MAX_RAISED {
                    alike.numbers.push(number);
                }
            } else {
                self.account.pipes.push(TreatedPipe {
                    writer,
                    reader,
                    treatment,
                    count: 1,
                    numbers: vec![number],
                });
            }
        }
    }
}
