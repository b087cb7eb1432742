//! The commands whose records a page shows.

use std::path::Path;

use pipespeed_measure::record::{Kind, LoadError, SavedFile};
use pipespeed_measure::spec::Suite;
use serde::Deserialize;

/// A command whose record a page shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedCommand {
    /// The name of its record.
    pub(super) name: &'static str,
    /// The words after `pipespeed`.
    pub(super) words: &'static str,
    /// The seconds it is expected to take.
    pub(super) seconds: u32,
    kind: Kind,
    suite: Option<Suite>,
}

/// What the record of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordState {
    /// Complete.
    Complete,
    /// Of a run that was interrupted.
    Interrupted,
    /// The record of another command.
    Foreign,
}

/// What a record says of its run.
#[derive(Deserialize)]
struct RecordedRun {
    suite: Option<Suite>,
    interrupted: Option<String>,
}

impl RecordedCommand {
    const fn new(name: &'static str, words: &'static str, seconds: u32, kind: Kind) -> Self {
        RecordedCommand {
            name,
            words,
            seconds,
            kind,
            suite: None,
        }
    }

    const fn bench(name: &'static str, words: &'static str, seconds: u32, suite: Suite) -> Self {
        let mut command = RecordedCommand::new(name, words, seconds, Kind::Bench);
        command.suite = Some(suite);
        command
    }

    /// Whether a file is its record, and is complete.
    ///
    /// # Errors
    /// It is not a record, or is damaged.
    pub(super) fn state_of(self, path: &Path) -> Result<RecordState, LoadError> {
        let file = SavedFile::read(path)?;
        let kind = file.kind()?;
        let run: RecordedRun = file.parse()?;
        let is_counted = (self.kind, kind) == (Kind::Profile, Kind::ProfileCounted);
        Ok(
            if kind != self.kind && !is_counted || run.suite != self.suite {
                RecordState::Foreign
            } else if run.interrupted.is_some() {
                RecordState::Interrupted
            } else {
                RecordState::Complete
            },
        )
    }
}

/// The commands of every report.
pub(super) const STEPS: [RecordedCommand; 7] = [
    RecordedCommand::new(CHECK, "check", 2, Kind::Check),
    RecordedCommand::new("pages", "pages --buffer 2M --huge", 1, Kind::Pages),
    RecordedCommand::bench("ladder", "bench ladder", 65, Suite::Ladder),
    RecordedCommand::bench("touched", "bench touched", 65, Suite::Touched),
    RecordedCommand::bench("sizes", "bench sizes --quick", 35, Suite::Sizes),
    RecordedCommand::bench("channels", "bench channels --quick", 35, Suite::Channels),
    RecordedCommand::bench("changes", "bench changes", 65, Suite::Changes),
];
/// Those that --full adds.
pub(super) const FURTHER: [RecordedCommand; 6] = [
    RecordedCommand::new("costs", "costs", 10, Kind::Costs),
    RecordedCommand::new(PROFILE, "profile --all", 35, Kind::Profile),
    RecordedCommand::bench("options", "bench options", 65, Suite::Options),
    RecordedCommand::bench("memory", "bench memory", 110, Suite::Memory),
    RecordedCommand::new("latency", "latency", 25, Kind::Latency),
    RecordedCommand::new("deadlock", "latency --naive", 15, Kind::Latency),
];
pub(super) const CHECK: &str = "check";
pub(super) const PROFILE: &str = "profile";
