//! The conclusion in a word.

use serde::Serialize;

use super::{Certainty, Finding};

/// What is said first of an observation, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was found that holds anything up.
    NothingWrong,
    /// Data moves as fast as one stage, or what the stages share, allows.
    Slow,
    /// Something is waited for that may come.
    WaitingFor,
    /// Nobody reads what a process waits to write.
    Unread,
    /// Nothing will go on, unless somebody who can't be seen helps.
    ProbablyStuck,
    /// Nothing will go on without help.
    Stuck,
}

impl Finding {
    /// What this finding alone would say.
    pub fn verdict(&self) -> Verdict {
        match self {
            Finding::Deadlock(deadlock) if deadlock.certainty == Certainty::Likely => {
                Verdict::ProbablyStuck
            }
            Finding::Deadlock(_) | Finding::Held { is_stuck: true, .. } => Verdict::Stuck,
            Finding::Unread(_) if self.is_certainly_stuck() => Verdict::Stuck,
            Finding::Unread(_) if self.is_stuck() => Verdict::ProbablyStuck,
            Finding::Unread(unread) if !unread.may_be_read => Verdict::Unread,
            Finding::Unread(_) | Finding::MutualWait(_) | Finding::Held { .. } => {
                Verdict::WaitingFor
            }
            Finding::LeakedWriteEnd(leaked) if leaked.is_last => Verdict::WaitingFor,
            Finding::Bottleneck(bottleneck) if bottleneck.waits_outside() => Verdict::WaitingFor,
            Finding::Bottleneck(_) | Finding::PingPong { .. } | Finding::SmallCalls(_) => {
                Verdict::Slow
            }
            Finding::LeakedWriteEnd(_) | Finding::SmallPipe { .. } => Verdict::NothingWrong,
        }
    }
}

/// The worst verdict of these findings, and the first that leads to it.
pub fn verdict(findings: &[Finding]) -> (Verdict, Option<&Finding>) {
    let worst = findings.iter().map(Finding::verdict).max();
    let worst = worst.unwrap_or(Verdict::NothingWrong);
    let first = findings.iter().find(|finding| finding.verdict() == worst);
    (worst, first)
}
