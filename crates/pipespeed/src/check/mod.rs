//! What pipes are like here: each statement about them tried out, and what was
//! seen.
//!
//! To add a check: a function and a row of `CHECKS` in its group's file; it is
//! then run, listed, explained, reported and saved.

mod guard;
mod limits;
mod outcome;
mod permissions;
mod pipes;
mod record;
mod refusal;
mod semantics;
mod zero_copy;

#[cfg(test)]
mod tests;

pub use self::limits::SOFT_LIMIT;
pub use self::outcome::{Outcome, Verdict};
pub use self::record::{Checked, KIND, Record, Summary};

use std::time::{Duration, Instant};

/// No check takes a tenth of that. One that does, hangs.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// How much fits, and what may be set.
    Limits,
    /// What reading, writing and closing do.
    Semantics,
    /// What becomes of pages that are moved rather than copied.
    ZeroCopy,
    /// What this process may do.
    Permissions,
}

impl Group {
    /// All, in the order of reports.
    pub const ALL: [Group; 4] = [
        Group::Limits,
        Group::Semantics,
        Group::ZeroCopy,
        Group::Permissions,
    ];

    /// Its name on the command line and in data.
    pub fn name(self) -> &'static str {
        match self {
            Group::Limits => "limits",
            Group::Semantics => "semantics",
            Group::ZeroCopy => "zero-copy",
            Group::Permissions => "permissions",
        }
    }
}

/// One statement about pipes, and how to find out whether it holds here.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name on the command line and in data: `default-capacity`.
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// The statement, in a few words.
    pub statement: &'static str,
    /// What it means and how it is found out, in a sentence or three.
    pub explanation: &'static str,
    /// Where it is said: a manual page, a source file of the kernel.
    pub reference: &'static str,
    /// Finds out. Leaves nothing behind: no process, file or setting.
    ///
    /// # Errors
    /// What kept it from finding out, other than a refusal, which is an
    /// [`Outcome`].
    pub run: fn() -> anyhow::Result<Outcome>,
}

/// The checks of each file, in the order of reports.
const PARTS: &[&[Check]] = &[
    limits::capacity::CHECKS,
    limits::slots::CHECKS,
    limits::resizing::CHECKS,
    limits::users::CHECKS,
    semantics::atomicity::CHECKS,
    semantics::bytes::CHECKS,
    semantics::closing::CHECKS,
    semantics::sigpipe::CHECKS,
    semantics::readiness::CHECKS,
    semantics::flags::CHECKS,
    semantics::packets::CHECKS,
    zero_copy::CHECKS,
    permissions::CHECKS,
];

/// All checks that are run unless others are asked for, in the order of
/// reports: by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    PARTS.iter().copied().flatten()
}

/// Runs checks one after another. One that fails, panics or takes longer than
/// `patience` is an [`Outcome`] like any other, and the others are run all the
/// same.
pub fn run<'a>(checks: impl IntoIterator<Item = &'a Check>, patience: Duration) -> Vec<Checked> {
    let checks = checks.into_iter();
    checks.map(|check| run_one(check, patience)).collect()
}

/// Runs one of them. When it returns, whatever the check made is gone.
pub fn run_one(check: &Check, patience: Duration) -> Checked {
    let start = Instant::now();
    let outcome = guard::run(check.run, check.group, patience);
    Checked::new(check, outcome, start.elapsed().as_secs_f64())
}
