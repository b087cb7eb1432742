//! Why a case was not run.

use pipespeed_base::text::without_error_numbers;
use serde::{Deserialize, Serialize};

/// Why a case was not run. Shown as `limit: the reason`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {reason}")]
pub struct NotRun {
    /// What kept the case from being run.
    pub kind: NotRunKind,
    /// The reason in a sentence, without the kind.
    pub reason: String,
}

pipespeed_base::named! {
    /// What kept a case from being run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NotRunKind {
        /// This machine, its settings or the options do not allow the case.
        Refused = "refused",
        /// The size is beyond what the channel takes.
        Limit = "limit",
        /// Its trials failed.
        Failed = "failed",
    }
}

impl NotRun {
    /// A case that is not allowed here.
    pub fn refused(reason: impl Into<String>) -> Self {
        NotRun::new(NotRunKind::Refused, reason.into())
    }

    /// A case whose size the channel does not take.
    pub fn limit(reason: impl Into<String>) -> Self {
        NotRun::new(NotRunKind::Limit, reason.into())
    }

    /// A case whose trials failed.
    pub fn failed(reason: impl Into<String>) -> Self {
        NotRun::new(NotRunKind::Failed, reason.into())
    }

    fn new(kind: NotRunKind, reason: String) -> Self {
        let reason = without_error_numbers(&reason);
        NotRun { kind, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_base::Named;

    #[test]
    fn a_record_has_the_word_that_reports_show() {
        for &kind in NotRunKind::VALUES {
            let not_run = NotRun::new(kind, "why".to_owned());
            let json = serde_json::to_value(&not_run).unwrap();
            assert_eq!(
                json,
                serde_json::json!({"kind": kind.name(), "reason": "why"})
            );
            assert_eq!(not_run.to_string(), format!("{}: why", kind.name()));
        }
    }
}
