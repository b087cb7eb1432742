//! What is kept of a profile: enough for every table, picture and file.

use serde::{Deserialize, Serialize};

use super::account::Usage;
use super::groups::Group;
use super::perf::Event;
use pipespeed_host::Warning;
use pipespeed_measure::case::Case;
use pipespeed_measure::record::{Header, NotRun};

/// A profile of one case or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What every record begins with.
    #[serde(flatten)]
    pub header: Header,
    /// How it was sampled.
    pub settings: Settings,
    /// What colours the figures.
    pub warnings: Vec<Warning>,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseProfile>,
    /// Somebody's own pipeline, if that is what was profiled.
    pub pipeline: Option<PipelineProfile>,
}

/// How a profile was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The event that triggered samples.
    pub event: Event,
    /// Samples a second of running time that were asked for.
    pub frequency: u64,
    /// Where the ends ran, in words.
    pub placement: String,
}

/// A pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineProfile {
    /// As it was given.
    pub command: String,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Whether it was ended for taking longer than --time.
    pub out_of_time: bool,
    /// The signal that ended it, if one did.
    pub interrupted: Option<i32>,
    /// Processes that went on after its end and were ended.
    pub left: usize,
    /// Its stages, in order.
    pub stages: Vec<StageProfile>,
}

/// One stage of a pipeline: its process and all that those start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageProfile {
    /// What sh was given.
    pub command: String,
    /// How it ended.
    pub status: Status,
    /// Whether its command could be run at all.
    pub ran: bool,
    /// From the start to the end of its first process, in seconds.
    pub wall_s: f64,
    /// Processor time of all its processes, in seconds.
    pub cpu_s: f64,
    /// Whether its costs are those of the phases without sampling; else, where
    /// its processes come and go too quickly for that, of the whole time.
    pub by_phases: bool,
    /// Bytes from the stage before; null where nobody counted them.
    pub taken_bytes: Option<u64>,
    /// Bytes to the stage behind; null where nobody counted them.
    pub given_bytes: Option<u64>,
    /// What it waited for while it slept, by how often it was seen to, as
    /// shares; the most frequent first.
    pub waits: Vec<Function>,
    /// How often it was seen asleep.
    pub seen_asleep: u64,
    /// Where its time went. Its role is the stage's number and command in short;
    /// its bytes are those taken, for the first stage those given, 0 where they
    /// are unknown.
    #[serde(flatten)]
    pub end: EndProfile,
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
    /// All ends, each with the name of its case or pipeline.
    pub fn ends(&self) -> impl Iterator<Item = (&str, &EndProfile)> {
        let cases = self.cases.iter();
        let of_cases = cases.flat_map(|case| case.ends.iter().map(move |end| (&*case.name, end)));
        let pipeline = self.pipeline.iter();
        let stages = pipeline.flat_map(|pipeline| pipeline.stages.iter());
        of_cases.chain(stages.map(|stage| ("pipeline", &stage.end)))
    }
}

impl Status {
    /// Whether by it a shell says that there is no such command, or that it can't
    /// be run (POSIX.1-2024, Shell Command Language, 2.8.2). So do env(1),
    /// xargs(1) and others of what they were to run.
    pub fn says_not_run(self) -> bool {
        matches!(self, Status::Exited(126 | 127))
    }
}

impl StageProfile {
    /// Processors that it kept busy on average.
    pub fn processors(&self) -> f64 {
        self.end.usage.cpu_s / self.end.usage.wall_s
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseProfile {
    /// Its name.
    pub name: String,
    /// One line on what it does.
    pub description: String,
    /// What it is compared with, and by what factor they differ.
    pub compared_with: Option<(String, String)>,
    /// Why it was not profiled.
    pub not_run: Option<NotRun>,
    /// Sampled trials.
    pub trials: usize,
    /// The median rate while sampled, in GiB/s.
    pub gib_per_s: f64,
    /// The median rate of as many trials in between, without sampling, in
    /// GiB/s.
    pub gib_per_s_unsampled: f64,
    /// What disturbed the trials that were not sampled.
    pub disturbances: Vec<Warning>,
    /// The writer's, then the reader's.
    pub ends: Vec<EndProfile>,
}

/// One end of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndProfile {
    /// `writer` or `reader`.
    pub role: String,
    /// What it used in the trials that were not sampled.
    pub usage: Usage,
    /// What it used in those that were.
    pub usage_sampled: Usage,
    /// Samples within the timed parts.
    pub samples: u64,
    /// Samples that found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// The wall time without sampling, by costs; they add up to it.
    pub costs: Vec<Cost>,
    /// The functions that make up "other kernel", the biggest first.
    pub others: Vec<Function>,
    /// Call chains.
    pub stacks: Vec<Stack>,
}

/// What a cost takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Which.
    pub group: Group,
    /// In seconds.
    pub seconds: f64,
    /// In nanoseconds for 4 KiB; null where no bytes are known.
    pub ns_per_page: Option<f64>,
    /// Share of the end's wall time.
    pub share: f64,
}

/// A function and its share of an end's samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Share of the weight of the end's samples.
    pub share: f64,
}

/// A call chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Function names, the outermost first.
    pub frames: Vec<String>,
    /// Where it was counted.
    pub group: Group,
    /// The weight of its samples.
    pub weight: u64,
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
            not_run: None,
            trials: 0,
            gib_per_s: 0.0,
            gib_per_s_unsampled: 0.0,
            disturbances: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl EndProfile {
    fn cost(&self, group: Group) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.group == group)
    }

    /// The cost of a group, in nanoseconds per 4 KiB.
    pub fn ns_per_page(&self, group: Group) -> f64 {
        let cost = self.cost(group);
        cost.and_then(|cost| cost.ns_per_page).unwrap_or(0.0)
    }

    /// A group's share of the wall time.
    pub fn share(&self, group: Group) -> f64 {
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

    /// The share of samples in functions that the table of costs does not know.
    pub fn other_share_of_samples(&self) -> f64 {
        let weight = |is_counted: fn(&&Stack) -> bool| -> u64 {
            let stacks = self.stacks.iter().filter(is_counted);
            stacks.map(|stack| stack.weight).sum()
        };
        let other = weight(|stack| stack.group == Group::Other);
        other as f64 / weight(|_| true).max(1) as f64
    }
}
