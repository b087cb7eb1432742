//! The conclusion in a word.

use serde::Serialize;

use super::{Certainty, Finding};
use crate::observe::Observation;

pipespeed_base::named! {
    /// What is said first of an observation, the worst last.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// Nothing was found that holds anything up.
        NothingWrong = "nothing_wrong",
        /// A stage may hold up the others, and it does not show which.
        CantTell = "cant_tell",
        /// Data moves as fast as one stage, or what the stages share, allows.
        Slow = "slow",
        /// Something is waited for that may come.
        WaitingFor = "waiting_for",
        /// Nobody reads what a process waits to write.
        Unread = "unread",
        /// Nothing will go on, unless somebody who can't be seen helps.
        ProbablyStuck = "probably_stuck",
        /// Nothing will go on without help.
        Stuck = "stuck",
    }
}

impl Finding {
    /// What this finding alone would say.
    pub fn verdict(&self) -> Severity {
        match self {
            Finding::Deadlock(deadlock) if deadlock.certainty == Certainty::Likely => {
                Severity::ProbablyStuck
            }
            Finding::Deadlock(_) | Finding::Held { is_stuck: true, .. } => Severity::Stuck,
            Finding::Unread(_) if self.is_certainly_stuck() => Severity::Stuck,
            Finding::Unread(_) if self.is_stuck() => Severity::ProbablyStuck,
            Finding::Unread(unread) if !unread.may_be_read => Severity::Unread,
            Finding::Unread(_)
            | Finding::MutualWait(_)
            | Finding::FifoPeer { .. }
            | Finding::UnseenPeer { .. }
            | Finding::Held { .. } => Severity::WaitingFor,
            Finding::LeakedWriteEnd(leaked) if leaked.is_last => Severity::WaitingFor,
            Finding::Bottleneck(bottleneck) if bottleneck.awaited().is_some() => {
                Severity::WaitingFor
            }
            Finding::Bottleneck(_) | Finding::PingPong { .. } | Finding::SmallCalls(_) => {
                Severity::Slow
            }
            Finding::Unclear { .. } => Severity::CantTell,
            Finding::LeakedWriteEnd(_) | Finding::SmallPipe { .. } => Severity::NothingWrong,
        }
    }
}

/// The worst verdict of these findings, and the first that leads to it. Nothing found in too little time is no
/// verdict.
pub fn verdict<'a>(
    observation: &Observation,
    findings: &'a [Finding],
) -> (Severity, Option<&'a Finding>) {
    let Some(worst) = findings.iter().map(Finding::verdict).max() else {
        let nothing = if observation.too_short().is_some() {
            Severity::CantTell
        } else {
            Severity::NothingWrong
        };
        return (nothing, None);
    };
    let first = findings.iter().find(|finding| finding.verdict() == worst);
    (worst, first)
}
