//! The record of a search for the fastest sizes of buffer and pipe.

use serde::{Deserialize, Serialize};

use super::{Configuration, NotRun};
use pipespeed_stats as stats;

/// A search over sizes of buffer and pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The minimum duration of a trial's warm-up, in seconds.
    pub warm_up_s: f64,
    /// The minimum duration of a trial's timed part, in seconds.
    pub timed_s: f64,
    /// The duration of the search, in seconds.
    pub took_s: f64,
    /// The number of trials that were flagged as disturbed. They are kept.
    pub flagged: usize,
    /// The buffer sizes that were tried, ascending; in the suite touched, the writer's.
    pub buffers: Vec<usize>,
    /// The pipe sizes that were tried or refused, ascending.
    pub pipes: Vec<usize>,
    /// Every case that was searched, with all sizes.
    pub panels: Vec<PanelResult>,
}

/// All sizes of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelResult {
    /// The case: in the suite sizes, with the published sizes.
    pub case: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// Every pair of sizes.
    pub cells: Vec<CellResult>,
    /// The best sizes; null if the search did not end, or had no time for them.
    pub best: Option<BestSizes>,
}

/// A size of the buffer and one of the pipe, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// The size of each buffer: the bytes that one call should move.
    pub buffer_bytes: usize,
    /// The pipe's capacity.
    pub pipe_bytes: usize,
}

/// One pair of sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The sizes.
    pub sizes: Sizes,
    /// Why the pair was not run; null when it was.
    pub not_run: Option<NotRun>,
    /// Rates of its trials in the first stage, in GiB/s.
    pub grid: Vec<f64>,
    /// Rates of its trials in the second stage, in GiB/s; only the best pairs
    /// of the first have any.
    pub finals: Vec<f64>,
    /// The median of `finals`, or of `grid` where that is empty; null without
    /// any trial.
    pub median: Option<f64>,
}

/// The best sizes of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestSizes {
    /// The sizes.
    pub sizes: Sizes,
    /// The case with these sizes, which is measured in the rounds.
    pub case: String,
    /// A command line with the same effect; null if the data is produced and used.
    pub command: Option<String>,
}

impl Search {
    /// The number of trials so far.
    pub fn trials(&self) -> usize {
        let cells = self.panels.iter().flat_map(|panel| &panel.cells);
        cells.map(|cell| cell.grid.len() + cell.finals.len()).sum()
    }
}

impl PanelResult {
    /// The sizes of the case, which are the published ones in the suite sizes.
    pub fn published(&self) -> Sizes {
        Sizes {
            buffer_bytes: self.configuration.buffer_bytes,
            pipe_bytes: self.configuration.pipe_bytes_asked.unwrap_or(0),
        }
    }

    /// The indices of the measured cells, best first: those with trials in the
    /// second stage by their median there, then the others.
    pub fn ranking(&self) -> Vec<usize> {
        let key = |at: usize| {
            let cell = &self.cells[at];
            (!cell.finals.is_empty(), cell.median.unwrap_or(0.0))
        };
        let cells = 0..self.cells.len();
        let mut ranking: Vec<usize> = cells
            .filter(|&at| self.cells[at].median.is_some())
            .collect();
        ranking.sort_by(|&a, &b| {
            let (a, b) = (key(a), key(b));
            b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        ranking
    }

    /// The cell that is best so far.
    pub fn leader(&self) -> Option<&CellResult> {
        Some(&self.cells[*self.ranking().first()?])
    }
}

impl CellResult {
    /// The median of the first stage, in which all pairs were measured under the same
    /// conditions; null without any trial.
    pub fn grid_median(&self) -> Option<f64> {
        stats::median(&self.grid)
    }

    /// Sets the median from the trials.
    pub fn summarise(&mut self) {
        let best = if self.finals.is_empty() {
            &self.grid
        } else {
            &self.finals
        };
        self.median = stats::median(best);
    }
}
