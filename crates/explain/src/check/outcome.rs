//! The outcome of a check, and the record of a run of checks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use super::{Check, CheckGroup};
use pipespeed_base::text::without_error_numbers;
use pipespeed_base::{Named, named};
use pipespeed_host::refusals::Refusal;
use pipespeed_measure::record::RecordHeader;

named! {
    /// Whether a statement holds here. Verdicts that fail the command are in capitals.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CheckVerdict {
        /// It holds.
        Pass = "pass",
        /// It does not hold, though it must for every pipe: the command fails.
        Fail = "FAIL",
        /// Systems differ, and this is the value here.
        Seen = "seen",
        /// The system does not allow it, or does not allow the test.
        Refused = "refused",
        /// The check could not be completed: the command fails.
        Error = "ERROR",
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Whether the statement holds.
    pub verdict: CheckVerdict,
    /// The value seen: `65536 bytes`.
    pub seen: String,
    /// A consequence, or how to allow what is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl CheckResult {
    /// The statement holds.
    pub fn pass(seen: impl Into<String>) -> Self {
        CheckResult::new(CheckVerdict::Pass, seen)
    }

    /// The statement, which must hold for every pipe, holds or does not.
    pub fn pass_if(holds: bool, seen: impl Into<String>) -> Self {
        CheckResult::new(
            if holds {
                CheckVerdict::Pass
            } else {
                CheckVerdict::Fail
            },
            seen,
        )
    }

    /// The statement must hold for every pipe, and does not.
    pub fn fail(seen: impl Into<String>) -> Self {
        CheckResult::new(CheckVerdict::Fail, seen)
    }

    /// The value on this system.
    pub fn seen(seen: impl Into<String>) -> Self {
        CheckResult::new(CheckVerdict::Seen, seen)
    }

    /// The system refuses, for this reason.
    pub fn refused(reason: impl Into<String>) -> Self {
        CheckResult::new(CheckVerdict::Refused, reason)
    }

    /// The check failed with this error.
    pub fn error(error: impl Into<String>) -> Self {
        CheckResult::new(CheckVerdict::Error, error)
    }

    fn new(verdict: CheckVerdict, seen: impl Into<String>) -> Self {
        CheckResult {
            verdict,
            seen: without_error_numbers(&seen.into()),
            note: None,
        }
    }

    /// Adds a note.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

impl From<Refusal> for CheckResult {
    fn from(refusal: Refusal) -> Self {
        let (call, errno) = (&refusal.call, refusal.errno_name());
        let cause = &refusal.cause;
        CheckResult::refused(format!("{call} is refused ({errno}): {cause}"))
            .with_note(refusal.remedy)
    }
}

/// A check with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The check's name.
    pub name: Cow<'static, str>,
    /// Its subject.
    pub group: CheckGroup,
    /// The statement.
    pub statement: Cow<'static, str>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: CheckResult,
    /// The source of the statement.
    pub reference: Cow<'static, str>,
    /// The time it took.
    pub seconds: f64,
}

impl Checked {
    /// A check with its outcome and the seconds it took.
    pub fn new(check: &Check, outcome: CheckResult, seconds: f64) -> Self {
        Checked {
            name: check.name.into(),
            group: check.group,
            statement: check.statement.into(),
            outcome,
            reference: check.reference.into(),
            seconds,
        }
    }
}

/// The number of checks by verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// All checks.
    pub checks: usize,
    #[serde(flatten)]
    by_verdict: BTreeMap<CheckVerdict, usize>,
}

impl VerdictCounts {
    fn new(checked: &[Checked]) -> Self {
        let count = |verdict| (verdict, with(checked, verdict).count());
        VerdictCounts {
            checks: checked.len(),
            by_verdict: CheckVerdict::values().map(count).collect(),
        }
    }

    /// The number of checks with this verdict.
    pub fn count(&self, verdict: CheckVerdict) -> usize {
        self.by_verdict.get(&verdict).copied().unwrap_or(0)
    }
}

fn with(checked: &[Checked], verdict: CheckVerdict) -> impl Iterator<Item = &Checked> {
    let checked = checked.iter();
    checked.filter(move |checked| checked.outcome.verdict == verdict)
}

/// A run of checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// Its duration.
    pub seconds: f64,
    /// The number of checks by verdict.
    pub summary: VerdictCounts,
    /// The checks, by group.
    pub checks: Vec<Checked>,
}

impl CheckRecord {
    /// The record of these checks.
    pub fn new(header: RecordHeader, checks: Vec<Checked>, seconds: f64) -> Self {
        CheckRecord {
            header,
            seconds,
            summary: VerdictCounts::new(&checks),
            checks,
        }
    }

    /// The message for standard error if the command fails; `None` if it does
    /// not.
    pub fn failure(&self) -> Option<String> {
        let mut parts = Vec::new();
        let failed = with(&self.checks, CheckVerdict::Fail)
            .map(|checked| &*checked.name)
            .join(", ");
        if !failed.is_empty() {
            parts.push(format!("failed: {failed}"));
        }
        // Checks with the same cause are named together.
        let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
        for checked in with(&self.checks, CheckVerdict::Error) {
            let cause = &*checked.outcome.seen;
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, names)) => names.push(&checked.name),
                None => causes.push((cause, vec![&*checked.name])),
            }
        }
        if !causes.is_empty() {
            let mut causes = causes
                .iter()
                .map(|(cause, names)| format!("{} ({cause})", first_few(names)));
            parts.push(format!("not checked: {}", causes.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The first few names; the table has all of them.
fn first_few(names: &[&str]) -> String {
    const MAX_NAMED: usize = 6;
    match names.get(..MAX_NAMED) {
        Some(first) if names.len() > MAX_NAMED => {
            format!("{} and {} more", first.join(", "), names.len() - MAX_NAMED)
        }
        _ => names.join(", "),
    }
}
