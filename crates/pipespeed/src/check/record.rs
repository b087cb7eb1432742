//! What is saved of checks, and what they amount to.

use serde::Serialize;

use super::{Check, Group, Outcome, Verdict};
use crate::machine::Machine;

/// The version of the record's shape; see [`crate::results::SCHEMA_VERSION`].
const SCHEMA_VERSION: u32 = 1;

/// The field `kind` of such a record; a run of bench has none.
pub const KIND: &str = "check";

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
    /// What it is: [`KIND`].
    pub kind: &'static str,
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
            kind: KIND,
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
        let of = |verdict| {
            let those = self.checks.iter();
            those.filter(move |checked| checked.outcome.verdict == verdict)
        };
        let mut parts = Vec::new();
        let failed: Vec<&str> = of(Verdict::Fail).map(|checked| checked.name).collect();
        if !failed.is_empty() {
            parts.push(format!("not as every pipe must be: {}", failed.join(", ")));
        }
        // What has one cause stands together.
        let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
        for checked in of(Verdict::Error) {
            let cause = checked.outcome.cause();
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, names)) => names.push(checked.name),
                None => causes.push((cause, vec![checked.name])),
            }
        }
        let causes: Vec<String> = causes
            .iter()
            .map(|(cause, names)| format!("{} ({cause})", some(names)))
            .collect();
        if !causes.is_empty() {
            parts.push(format!("could not be found out: {}", causes.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The first few names; the table has all of them.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    match names.get(..SHOWN) {
        Some(first) if names.len() > SHOWN => {
            format!("{} and {} more", first.join(", "), names.len() - SHOWN)
        }
        _ => names.join(", "),
    }
}
