//! What is saved of checks, and what they amount to.

use serde::Serialize;

use super::{Check, Group, Outcome, Verdict};
use crate::machine::Machine;

/// The version of the record's shape; see [`crate::results::SCHEMA_VERSION`].
const SCHEMA_VERSION: u32 = 1;

/// A check with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// The statement.
    pub statement: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Where the statement is made.
    pub reference: &'static str,
    /// How long it took.
    pub seconds: f64,
}

impl Checked {
    /// What came of this check in so many seconds.
    pub fn new(check: &Check, outcome: Outcome, seconds: f64) -> Self {
        Checked {
            name: check.name,
            group: check.group,
            statement: check.statement,
            outcome,
            reference: check.reference,
            seconds,
        }
    }
}

/// How many came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Checks in all.
    pub checks: usize,
    /// It is so.
    pub pass: usize,
    /// It is not, though it must be.
    pub fail: usize,
    /// Systems differ.
    pub seen: usize,
    /// The system does not let us.
    pub refused: usize,
    /// Could not be found out.
    pub error: usize,
}

impl Summary {
    /// Counts.
    pub fn of(checked: &[Checked]) -> Self {
        let count = |wanted: Verdict| {
            let verdicts = checked.iter().map(|checked| checked.outcome.verdict);
            verdicts.filter(|verdict| *verdict == wanted).count()
        };
        Summary {
            checks: checked.len(),
            pass: count(Verdict::Pass),
            fail: count(Verdict::Fail),
            seen: count(Verdict::Seen),
            refused: count(Verdict::Refused),
            error: count(Verdict::Error),
        }
    }

    /// How many came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Pass => self.pass,
            Verdict::Fail => self.fail,
            Verdict::Seen => self.seen,
            Verdict::Refused => self.refused,
            Verdict::Error => self.error,
        }
    }
}

/// A run of checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Of this record's shape.
    pub schema_version: u32,
    /// The program's own version.
    pub pipespeed_version: &'static str,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took.
    pub seconds: f64,
    /// What it was made on.
    pub machine: Machine,
    /// How many came to what.
    pub summary: Summary,
    /// The checks, by group.
    pub checks: Vec<Checked>,
}

impl Record {
    /// The record of these.
    pub fn new(checks: Vec<Checked>, machine: Machine, started_at: String, seconds: f64) -> Self {
        Record {
            schema_version: SCHEMA_VERSION,
            pipespeed_version: env!("CARGO_PKG_VERSION"),
            started_at,
            seconds,
            machine,
            summary: Summary::of(&checks),
            checks,
        }
    }

    /// What to say on standard error where the command fails, in a line; `None`
    /// where it does not: all that must be so is so, and was found out.
    pub fn failure(&self) -> Option<String> {
        let names = |verdict| {
            let those = self.checks.iter();
            let those = those.filter(|checked| checked.outcome.verdict == verdict);
            those.map(|checked| checked.name).collect::<Vec<_>>()
        };
        let parts: Vec<String> = [
            (Verdict::Fail, "not as every pipe must be"),
            (Verdict::Error, "could not be found out"),
        ]
        .into_iter()
        .map(|(verdict, what)| (names(verdict), what))
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, what)| format!("{what}: {}", names.join(", ")))
        .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
