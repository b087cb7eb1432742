//! The record of a search for the fastest sizes: what was tried, how it was
//! thinned out, what was found, and what a fresh measurement says of it.

use serde::{Deserialize, Serialize};

use super::{Flag, Ratio};

/// A search over sizes of buffer and pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// How it goes about, in words; nothing else decides.
    pub rule: String,
    /// The seed of the order of its trials.
    pub seed: u64,
    /// The time it may take, in seconds; the measurement after it is extra.
    pub budget_s: f64,
    /// The time it took.
    pub took_s: f64,
    /// Whether it had less time than it needs: pairs of sizes dropped out since
    /// their turn did not come, or fewer stayed after a stage than its rule has.
    #[serde(default)]
    pub short_of_time: bool,
    /// The sizes of buffers that were tried, ascending.
    pub buffers: Vec<usize>,
    /// The sizes of pipes that were tried or refused, ascending.
    pub pipes: Vec<usize>,
    /// Its stages, in their order.
    pub stages: Vec<Stage>,
    /// A search of its own each.
    pub panels: Vec<PanelResult>,
    /// The best for each kind of reader.
    pub best: Vec<Best>,
}

/// A stage: all that are left run so many trials, and the better half of each
/// panel stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The number, from 0.
    pub number: usize,
    /// Pairs of sizes that took part, in all panels.
    pub cells: usize,
    /// Trials of each.
    pub trials_each: usize,
    /// The least duration of a trial's warm-up, in seconds.
    pub warm_up_s: f64,
    /// The least duration of a trial's timed part, in seconds.
    pub timed_s: f64,
    /// What the whole stage took, in seconds.
    pub took_s: f64,
}

/// One technique, way of waiting and placement: all sizes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelResult {
    /// The name, unique in the run.
    pub name: String,
    /// How the writer hands data to the pipe.
    pub writer: String,
    /// How the reader takes it.
    pub reader: String,
    /// How the ends wait for each other: `block` or `spin`.
    pub wait: String,
    /// Where the ends run: `different`, `same`, `free` or `explicit`.
    pub placement: String,
    /// The writer's processor; null where the scheduler chose.
    pub writer_cpu: Option<usize>,
    /// The reader's processor; null where the scheduler chose.
    pub reader_cpu: Option<usize>,
    /// How the two processors are related, in words.
    pub cpu_relation: String,
    /// The pages of the buffers: `base` or `huge`.
    pub pages: String,
    /// Why nothing of it can run here; null where it can.
    pub refused: Option<String>,
    /// The sizes published for this technique.
    pub published: Sizes,
    /// The case that has them, among those measured afresh.
    pub published_case: String,
    /// The sizes found best; null where the search did not come to its end.
    pub winner: Option<Sizes>,
    /// The case that has them, among those measured afresh.
    pub winner_case: Option<String>,
    /// The command line that does it.
    pub command: Option<String>,
    /// Every pair of sizes.
    pub cells: Vec<CellResult>,
}

/// A size of the buffer and one of the pipe, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Of each buffer: what one call is asked to move.
    pub buffer_bytes: usize,
    /// Of the pipe.
    pub pipe_bytes: usize,
}

/// One pair of sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Which.
    pub sizes: Sizes,
    /// Why it could not be run here; null where it could.
    pub refused: Option<String>,
    /// Its trials, in their order.
    pub trials: Vec<SearchTrial>,
    /// The median of all its trials, in GiB/s; null without any.
    pub median: Option<f64>,
    /// In how many stages it had a trial, or was to have one when the search was
    /// interrupted or the trial was refused or failed.
    pub stages: usize,
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// The stage, from 0.
    pub stage: usize,
    /// The position within the stage, from 0.
    pub position: usize,
    /// Bytes moved in the timed part.
    pub bytes: u64,
    /// Duration of the timed part, by CLOCK_MONOTONIC in the reader.
    pub seconds: f64,
    /// The rate.
    pub gib_per_s: f64,
    /// What may have disturbed it. It counts all the same.
    pub flags: Vec<Flag>,
}

/// The best for a kind of reader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// What the reader does: `read` or `splice`.
    pub reader: String,
    /// How the ends wait for each other: `block` or `spin`.
    pub wait: String,
    /// The panel it is from: that with the highest median in the search.
    pub panel: String,
    /// Its case, among those measured afresh.
    pub case: String,
    /// How it compares with published configurations, in rounds that the search
    /// has not seen.
    pub against: Vec<Against>,
}

/// A comparison with a published configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Its case.
    pub case: String,
    /// The best one's rate over its; null before there are rounds.
    pub ratio: Option<Ratio>,
}
