//! What pipes are like here: each statement about them tried out, and what was
//! seen.

mod outcome;
mod permissions;
mod refusal;
mod zero_copy;

pub use self::outcome::{Outcome, Verdict};

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
