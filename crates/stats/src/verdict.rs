//! What a ratio with its interval allows one to say.

use serde::{Deserialize, Serialize};

use super::median::Estimate;

/// The ratio of two rates with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median ratio; its interval is widened for the number of comparisons.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// What follows.
    pub verdict: Verdict,
}

/// What a ratio and its interval allow one to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies above 1, and not within 5 % of it.
    Faster,
    /// The whole interval lies below 1, and not within 5 % of it.
    Slower,
    /// The whole interval lies within 5 % of 1.
    Same,
    /// None of these.
    Undecided,
}

impl Verdict {
    /// The word used in data and tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        }
    }
}
