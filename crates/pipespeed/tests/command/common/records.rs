//! Records of invented runs in a directory, where `compare` and `report` are run.

use std::fs;

use pipespeed_measure::record::{Run, to_json};
use pipespeed_measure::spec::Suite;
use serde_json::Value;
use tempfile::TempDir;

use super::fake::{FakeRunner, whole_run};
use super::{Outcome, json, run_in};

/// The rounds of each run.
pub const ROUNDS: usize = 12;

/// A run in which some cases are so much faster than usual.
pub fn run(suite: Suite, factors: &[(&str, f64)]) -> Run {
    let factors = factors.iter().map(|(name, f)| ((*name).to_owned(), *f));
    let runner = FakeRunner {
        factors: factors.collect(),
        ..FakeRunner::default()
    };
    whole_run(suite, runner, ROUNDS)
}

/// A directory with records in it, where the command is run.
pub struct Records(pub TempDir);

impl Records {
    /// `old.json`, an ordinary ladder.
    pub fn new() -> Self {
        let records = Records(tempfile::tempdir().unwrap());
        records.save("old.json", &run(Suite::Ladder, &[]));
        records
    }

    pub fn save(&self, name: &str, run: &Run) {
        fs::write(self.0.path().join(name), to_json(run)).unwrap();
    }

    /// An ordinary ladder with something changed.
    pub fn changed(&self, name: &str, change: impl FnOnce(&mut Run)) {
        let mut run = run(Suite::Ladder, &[]);
        change(&mut run);
        self.save(name, &run);
    }

    /// A ladder with one case a fifth slower.
    pub fn slower(&self, name: &str) {
        self.save(name, &run(Suite::Ladder, &[("vmsplice_read", 0.8)]));
    }

    pub fn compare(&self, args: &str) -> Outcome {
        self.pipespeed(&format!("compare {args}"))
    }

    /// Runs the command in the directory.
    pub fn pipespeed(&self, args: &str) -> Outcome {
        run_in(&self.0, args)
    }

    /// The comparison of `old.json` and another as JSON.
    pub fn comparison(&self, args: &str) -> Value {
        let outcome = self.compare(&format!("old.json {args} --json -"));
        json(&outcome.succeeded().out)["comparisons"][0].clone()
    }
}
