//! The saved record of a profile.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::account::ResourceUsage;
use super::event::{Event, EventScope, FREQUENCY, MIN_SAMPLES};
use super::groups::CostGroup;
use super::reason::SleepReason;
use pipespeed_host::Warning;
use pipespeed_measure::record::{NotRun, RecordHeader};
use pipespeed_measure::spec::Case;

/// A profile of one case or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// The signal that ended the pipeline early; null without one.
    pub interrupted: Option<String>,
    /// How it was sampled.
    pub settings: ProfileSettings,
    /// What affects the figures.
    pub warnings: Vec<Warning>,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseProfile>,
    /// The user's pipeline, if one was profiled.
    pub pipeline: Option<PipelineProfile>,
}

/// How a profile was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSettings {
    /// The event that triggered samples; null without samples.
    pub event: Option<Event>,
    /// What the event was bound to.
    pub scope: Option<EventScope>,
    /// Why there are no samples.
    pub refusal: Option<String>,
    /// Requested samples per second of running time.
    pub frequency: u64,
    /// Where the ends ran, in words.
    pub placement: String,
}

/// Processes outside of pipelines are shown if their processor time exceeds these shares of the
/// stages' and of the wall time. Shells use a little for each process that they start.
const MIN_OTHER: f64 = 0.05;

/// A pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineProfile {
    /// The command line.
    pub command: String,
    /// Its duration in seconds.
    pub wall_s: f64,
    /// Processor time of all its processes, in seconds, by getrusage(2).
    pub cpu_s: Option<f64>,
    /// Whether it was ended at the time limit (--time).
    pub out_of_time: bool,
    /// How it ended; null if it was ended.
    pub status: Option<Status>,
    /// Processes that it has left running at its end.
    pub left: usize,
    /// Samples of any stage that are missing.
    #[serde(flatten)]
    pub losses: Losses,
    /// Its stages, in the order of the flow. Without pipes it has one.
    pub stages: Vec<StageProfile>,
    /// The processes outside of pipelines, such as the shell; null if there is one stage only.
    /// Its command is their names.
    pub other: Option<StageProfile>,
}

/// One stage of a pipeline: a process, or several with the same pipes, and their descendants.
/// Equal stages that ran one after another, as in a loop, are one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageProfile {
    /// Its command line; for a shell that executed no program its name, and the names of
    /// the programs that it runs.
    pub command: String,
    /// How its first process ended; null if unknown (before Linux 6.15).
    pub status: Option<Status>,
    /// The number of the stage that writes to its input, from 1.
    pub reads_from: Option<usize>,
    /// The number of the stage that reads its output.
    pub writes_to: Option<usize>,
    /// How long it was seen, in seconds.
    pub wall_s: f64,
    /// Processor time of all its processes, in seconds.
    pub cpu_s: f64,
    /// Whether its processor time is known to a twentieth of its wall time: what a process does after the last look before
    /// its end, and what children do that end between two looks, is not seen.
    #[serde(default = "is_known")]
    pub is_timed: bool,
    /// Its usage in phases without sampling; null if they are too short, or its processes too
    /// short-lived, to compare them with the others.
    pub usage_unsampled: Option<ResourceUsage>,
    /// Bytes from the stage before; null if unknown.
    pub taken_bytes: Option<u64>,
    /// Bytes to the stage after; null if unknown.
    pub given_bytes: Option<u64>,
    /// What it waited for when it was seen asleep, as shares, the most frequent first.
    pub waits: Vec<Share<SleepReason>>,
    /// How often it was seen asleep.
    pub seen_asleep: u64,
    /// Its costs. The role is the number and the shortened command; the bytes are
    /// those taken, for the first stage those given, 0 if unknown.
    #[serde(flatten)]
    pub end: EndProfile,
}

/// Records of before don't say that a stage is not timed.
fn is_known() -> bool {
    true
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Profile {
    /// All ends with the names of their cases, and all stages with "pipeline".
    pub fn ends(&self) -> impl Iterator<Item = (&str, &EndProfile)> {
        let cases = self.cases.iter();
        let of_cases = cases.flat_map(|case| case.ends.iter().map(move |end| (&*case.name, end)));
        let pipeline = self.pipeline.iter();
        let stages = pipeline.flat_map(PipelineProfile::shown);
        of_cases.chain(stages.map(|stage| ("pipeline", &stage.end)))
    }
}

impl Status {
    pub(super) fn new(status: ExitStatus) -> Status {
        match (status.code(), status.signal()) {
            (None, Some(signal)) => Status::Signal(signal),
            (code, _) => Status::Exited(code.unwrap_or(0)),
        }
    }
}

impl PipelineProfile {
    /// The stages, and the processes outside of pipelines if they did much of the work.
    pub fn shown(&self) -> impl Iterator<Item = &StageProfile> {
        let all: f64 = self.stages.iter().map(|stage| stage.cpu_s).sum();
        let other = self.other.iter();
        let least = (MIN_OTHER * all).max(MIN_OTHER * self.wall_s);
        let other = other.filter(move |other| other.cpu_s >= least);
        self.stages.iter().chain(other)
    }
}

impl StageProfile {
    /// Average number of busy processors.
    pub fn processors(&self) -> f64 {
        self.end.usage.cpu_s / self.end.usage.wall_s
    }
}

/// One case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseProfile {
    /// Its name.
    pub name: String,
    /// One line on what it does.
    pub description: String,
    /// The case it is compared with, and the factor that differs.
    pub compared_with: Option<(String, String)>,
    /// Why it was not run.
    pub not_run: Option<NotRun>,
    /// Sampled trials.
    pub trials: usize,
    /// The rate of all trials with sampling together, in GiB/s.
    pub gib_per_s: f64,
    /// The rate of as many trials without sampling, in GiB/s.
    pub gib_per_s_unsampled: f64,
    /// Samples of either end that are missing.
    #[serde(flatten)]
    pub losses: Losses,
    /// What disturbed the trials without sampling.
    pub disturbances: Vec<Warning>,
    /// The writer's, then the reader's.
    pub ends: Vec<EndProfile>,
}

/// Missing samples. They belong to no end or stage: a processor's samples are those of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples lost for lack of memory.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
}

/// One end of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndProfile {
    /// `writer` or `reader`.
    pub role: String,
    /// Its usage in trials without sampling; of a stage, its whole usage.
    pub usage: ResourceUsage,
    /// Its usage in trials, or phases, with sampling.
    pub usage_sampled: ResourceUsage,
    /// Samples within the timed parts.
    pub samples: u64,
    /// The parts of its wall time.
    pub costs: Vec<TimePart>,
    /// The functions of "other kernel", the largest first.
    pub others: Vec<Share<String>>,
    /// Call chains.
    pub stacks: Vec<Stack>,
}

/// A part of the wall time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimePart {
    /// Its group.
    pub group: CostGroup,
    /// In seconds.
    pub seconds: f64,
    /// In nanoseconds per 4 KiB; null without bytes.
    pub ns_per_page: Option<f64>,
    /// Share of the end's wall time.
    pub share: f64,
    /// Whether the figures are exact.
    pub bound: CostBound,
}

/// What the figure of a cost is. It is distorted if events of tasks sample an end that
/// sleeps: see [`EventScope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBound {
    /// The figure itself.
    Exact,
    /// A lower bound.
    AtLeast,
    /// An upper bound: it includes switching the events.
    AtMost,
}

/// A function, or a reason of waiting, and how often it was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share<Name> {
    /// Its name.
    pub name: Name,
    /// Share of the weight of all samples.
    pub share: f64,
}

impl<Name> Share<Name> {
    /// The shares of `counts` in `total`, the largest first.
    pub(super) fn list(counts: BTreeMap<Name, u64>, total: u64) -> Vec<Self> {
        let counts = counts.into_iter().map(|(name, count)| Share {
            name,
            share: count as f64 / total.max(1) as f64,
        });
        let mut shares: Vec<Self> = counts.collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        shares
    }
}

/// A call chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Function names, the outermost first.
    pub frames: Vec<String>,
    /// The cost it belongs to.
    pub group: CostGroup,
    /// The weight of its samples.
    #[serde(deserialize_with = "weight")]
    pub weight: u64,
}

/// The weight of a call chain. A larger one, of an edited record, could overflow the sums.
fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    const MAX: u64 = 1 << 52;
    match u64::deserialize(deserializer)? {
        weight @ ..=MAX => Ok(weight),
        _ => Err(D::Error::custom("a weight that no profile has")),
    }
}

impl CaseProfile {
    /// A case that was not run.
    pub fn not_run(case: &Case, not_run: NotRun) -> Self {
        CaseProfile {
            not_run: Some(not_run),
            ..CaseProfile::empty(case)
        }
    }

    /// A case without results.
    pub(super) fn empty(case: &Case) -> Self {
        CaseProfile {
            name: case.name.clone(),
            description: case.description.clone(),
            compared_with: case.compared_with.clone(),
            ..CaseProfile::default()
        }
    }
}

impl EndProfile {
    /// Whether there are enough samples for shares of the running time.
    pub fn is_divided(&self) -> bool {
        self.samples >= MIN_SAMPLES
    }

    /// The number of samples that its running time with sampling should have, if it has less
    /// than half of them.
    pub fn missing_samples(&self) -> Option<f64> {
        let due = self.usage_sampled.cpu_s * FREQUENCY as f64;
        let is_missing = due >= MIN_SAMPLES as f64 && (self.samples as f64) < 0.5 * due;
        is_missing.then_some(due)
    }

    /// The cost of a group, if the end has it.
    pub fn cost(&self, group: CostGroup) -> Option<&TimePart> {
        self.costs.iter().find(|cost| cost.group == group)
    }

    /// The cost of a group, in nanoseconds per 4 KiB.
    pub fn ns_per_page(&self, group: CostGroup) -> f64 {
        let cost = self.cost(group);
        cost.and_then(|cost| cost.ns_per_page).unwrap_or(0.0)
    }

    /// A group's share of the wall time.
    pub fn share(&self, group: CostGroup) -> f64 {
        self.cost(group).map_or(0.0, |cost| cost.share)
    }

    /// The sum of all costs, in nanoseconds per 4 KiB.
    pub fn sum_ns_per_page(&self) -> f64 {
        let costs = self.costs.iter();
        costs.filter_map(|cost| cost.ns_per_page).sum()
    }

    /// The sum of all costs, as a share of the wall time.
    pub fn sum_of_shares(&self) -> f64 {
        self.costs.iter().map(|cost| cost.share).sum()
    }

    /// The share of samples in functions that the table of costs does not know; `None` with
    /// too few samples.
    pub fn other_share_of_samples(&self) -> Option<f64> {
        if !self.is_divided() {
            return None;
        }
        let weight = |is_counted: fn(&&Stack) -> bool| -> u64 {
            let stacks = self.stacks.iter().filter(is_counted);
            stacks.map(|stack| stack.weight).sum()
        };
        let other = weight(|stack| stack.group == CostGroup::Other);
        Some(other as f64 / weight(|_| true).max(1) as f64)
    }
}
