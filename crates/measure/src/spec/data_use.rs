//! What becomes of the data of a case.

use serde::{Deserialize, Serialize};

/// What the two ends do with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataUse {
    /// The same bytes repeatedly, spliced to /dev/null without being read.
    Discard,
    /// The same bytes repeatedly, copied into the reader's memory.
    Read,
    /// Every byte newly produced by the writer and used by the reader.
    Touch,
    /// As touch, and every byte compared with its expected value.
    Verify,
}

pipespeed_base::named!(DataUse {
    Discard = "discard": "spliced to /dev/null, never read",
    Read = "read": "copied into the reader's memory",
    Touch = "touch": "produced by the writer and used by the reader",
    Verify = "verify": "as touch, and every byte compared with its expected value",
});

impl DataUse {
    /// What was done with the data, for tables.
    pub fn outcome(self) -> &'static str {
        match self {
            DataUse::Discard => "discarded",
            DataUse::Read => "read",
            DataUse::Touch => "touched",
            DataUse::Verify => "verified",
        }
    }
}
