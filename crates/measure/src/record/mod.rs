//! The versioned record of a run. All reports are made from it, and it is saved
//! as JSON and CSV.
//!
//! Rates are in GiB/s and sizes in bytes, both by powers of 1024; times are in
//! seconds. A field that was not measured is `null`, never 0.

pub mod comparisons;
mod configuration;
mod csv;
mod deadlock;
mod header;
mod json;
mod not_run;
mod search;
mod setup;

pub use self::configuration::{Configuration, Ends};
pub use self::csv::to_csv;
pub use self::deadlock::{ProcessState, ReadSleep, Sleep, TrialDeadlock};
pub use self::header::{Kind, Record, RecordHeader, SCHEMA_VERSION};
pub use self::json::{LoadError, SavedFile, load, to_json};
pub use self::not_run::{NotRun, NotRunKind};
pub use self::search::{BestSizes, CellResult, PanelResult, Search, Sizes};
pub use self::setup::{Granted, Setup};

pub use pipespeed_host::{Warning, WarningKind};
pub use pipespeed_stats::{Doubt, Estimate, Interval, Ratio, Verdict};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::spec::{DataUse, Suite};

/// Bytes in a GiB.
pub const GIB: f64 = (1u64 << 30) as f64;

/// One run of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The header of all records.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// The suite.
    pub suite: Suite,
    /// Why the run ended before its last round; null when it was completed.
    pub interrupted: Option<String>,
    /// How it was measured.
    pub settings: Settings,
    /// Possible disturbances and limitations.
    pub warnings: Vec<Warning>,
    /// One case measured twice under two names.
    pub null_control: Option<NullControl>,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseResult>,
    /// The most important results, as sentences derived from this run's numbers.
    pub findings: Vec<String>,
    /// The search that found the sizes of cases; null without a search.
    pub search: Option<Search>,
}

/// How a run was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The seed of the order of the trials.
    pub seed: u64,
    /// The number of rounds planned before the run began.
    pub rounds_planned: usize,
    /// The number of rounds completed.
    pub rounds_done: usize,
    /// The design of the order of the cases within a round.
    pub order: String,
    /// The minimum duration of a trial's timed part, in seconds; 0 if a volume ends it.
    pub timed_s: f64,
    /// The minimum duration of a trial's warm-up, in seconds.
    pub warm_up_s: f64,
    /// The placement asked for: `different`, `same` or `free`.
    pub placement: String,
    /// The processor of the writer; null where the scheduler chose.
    pub writer_cpu: Option<usize>,
    /// The processor of the reader; null where the scheduler chose.
    pub reader_cpu: Option<usize>,
    /// How the two processors are related, in words.
    pub cpu_relation: String,
    /// The pipe size that replaces the suite's own, in bytes, as rounded by the kernel.
    pub pipe_size: Option<usize>,
    /// The buffer size that replaces the suite's own, in bytes.
    pub buffer_size: Option<usize>,
    /// The use of the data that replaces the suite's own.
    pub data: Option<String>,
    /// Passes of computing over the data at each end.
    pub work: u32,
    /// Whether the run was a quick one.
    pub quick: bool,
    /// The confidence level aimed at by the intervals.
    #[serde(deserialize_with = "confidence_level")]
    pub confidence: f64,
}

/// Reads a confidence level. With 1 or more, no number of rounds would suffice for a verdict.
fn confidence_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let level = f64::deserialize(deserializer)?;
    if (0.5..1.0).contains(&level) {
        Ok(level)
    } else {
        Err(D::Error::custom("a confidence level is from 0.5 to 1"))
    }
}

/// One case measured twice a round under two names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NullControl {
    /// The case.
    pub case: String,
    /// Its other name.
    pub twin: String,
    /// The ratio of the twin to the case: 1 within its interval, if the method
    /// is sound and the machine was quiet.
    pub ratio: Option<Ratio>,
}

impl NullControl {
    /// The largest difference of a case from itself that the control does not exclude.
    pub fn tolerance(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| ratio.tolerance())
    }

    /// The ratio, if it shows a difference of a case from itself.
    pub fn failed(&self) -> Option<Ratio> {
        self.ratio
            .filter(|ratio| matches!(ratio.verdict, Verdict::Faster | Verdict::Slower))
    }
}

impl Run {
    /// The case of this name.
    pub fn case(&self, name: &str) -> Option<&CaseResult> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Whether anything was measured.
    pub fn has_results(&self) -> bool {
        self.search.as_ref().is_some_and(|found| found.trials() > 0)
            || self.cases.iter().any(|case| !case.samples.is_empty())
    }

    /// The tolerance of the null control, 0 without one. No difference up to this size has a
    /// verdict.
    pub fn null_tolerance(&self) -> f64 {
        self.null_control
            .as_ref()
            .map_or(0.0, NullControl::tolerance)
    }

    /// The failed null control, with the ratio of a case to itself.
    pub fn failed_control(&self) -> Option<(&NullControl, Ratio)> {
        let control = self.null_control.as_ref()?;
        Some((control, control.failed()?))
    }
}

/// The results of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The name, as in tables and records.
    pub name: String,
    /// One line on what the case does.
    pub description: String,
    /// The use of the data.
    pub data: DataUse,
    /// The configuration that took effect.
    pub configuration: Configuration,
    /// Why the case was not run; null when it was.
    pub not_run: Option<NotRun>,
    /// The number of bytes verified in a trial before the first round; null without
    /// such a trial.
    pub verified_bytes: Option<u64>,
    /// The trials, in the order of their rounds.
    pub samples: Vec<Sample>,
    /// The summary of the samples; null without any.
    pub summary: Option<Summary>,
    /// The case that this one is compared with.
    pub compared_with: Option<String>,
    /// The factor in which they differ, in a few words.
    pub factor: Option<String>,
    /// This case's rate over the other's, with the verdict after allowing for the null
    /// control; null without one.
    pub ratio: Option<Ratio>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The round, from 0.
    pub round: usize,
    /// The position within the round, from 0.
    pub position: usize,
    /// Bytes moved in the timed part.
    pub bytes: u64,
    /// Duration of the timed part, by CLOCK_MONOTONIC in the reader.
    pub seconds: f64,
    /// The rate.
    pub gib_per_s: f64,
    /// Possible disturbances of this trial, which is kept anyway.
    pub flags: Vec<Flag>,
    /// Rate of each successive part of the timed part, to show a drift.
    pub parts_gib_per_s: Vec<f64>,
    /// The writer's resource usage for the same bytes; null without a writer.
    pub writer: Option<EndCounters>,
    /// The reader's resource usage for the same bytes; null without a reader.
    pub reader: Option<EndCounters>,
}

/// A possible disturbance of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Steal time above 1 % of the trial.
    Steal,
    /// A runnable end waited for a processor for over 2 % of the trial.
    RunDelay,
    /// The control group's quota stopped the trial.
    Throttled,
    /// The timed part took over twice the planned time: the trial was suspended, or is
    /// too slow.
    Overlong,
    /// The rates of the halves differ by over 20 %, and all parts of one half are
    /// faster than all of the other.
    Drift,
}

impl Flag {
    /// The name in records.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{self:?}").to_lowercase(),
        }
    }
}

/// The resource usage of one end between two byte offsets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndCounters {
    /// Bytes that passed this end between its two readings.
    pub bytes: u64,
    /// Duration between the two readings at this end.
    pub seconds: f64,
    /// Processor time, user and system together.
    pub cpu_s: f64,
    /// Times it slept.
    pub voluntary_switches: u64,
    /// Times it was preempted.
    pub involuntary_switches: u64,
    /// System calls made to move data or to wait.
    pub syscalls: u64,
    /// System calls that moved at least a byte; for a ring in shared memory, calls of
    /// the library.
    pub moving_calls: u64,
    /// Calls that found the pipe full or empty.
    pub would_blocks: u64,
    /// Page faults, minor and major.
    pub page_faults: u64,
    /// Time spent runnable but waiting for a processor; null where the kernel
    /// keeps no account.
    pub run_delay_s: Option<f64>,
}

/// What the samples of a case say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median rate.
    pub gib_per_s: Estimate,
    /// How many samples are flagged.
    pub flagged: usize,
    /// The median of the samples without a flag; null where none is left.
    pub median_unflagged: Option<f64>,
    /// Processor time of both ends per GiB, in seconds.
    pub cpu_s_per_gib: Option<f64>,
    /// Processor time of both ends per message, in microseconds; null where a
    /// case is not about messages.
    pub cpu_us_per_message: Option<f64>,
    /// Context switches of both ends per GiB.
    pub switches_per_gib: Option<f64>,
    /// System calls of both ends per GiB.
    pub syscalls_per_gib: Option<f64>,
    /// Would-blocks of both ends per GiB.
    pub would_blocks_per_gib: Option<f64>,
    /// Mean KiB per moving call, of the end with the smaller calls.
    pub kib_per_call: Option<f64>,
}
