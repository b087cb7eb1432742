//! The header of all saved records.

use serde::{Deserialize, Serialize};

use pipespeed_host::Machine;

/// The version of the format of all saved records. It is incremented when a field of
/// any record changes its meaning or is removed, but not when fields are added.
pub const SCHEMA_VERSION: u32 = 2;

/// The kind of a record, mostly named after the command that saved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One run of a suite.
    Bench,
    /// Round trips.
    Latency,
    /// Saved runs side by side.
    Comparison,
    /// A sampled profile.
    Profile,
    /// The account of cases that could not be sampled.
    ProfileCounted,
    /// Elementary costs.
    Costs,
    /// What pinning a page costs.
    Pinning,
    /// Checks of this system's pipes.
    Check,
    /// What memory is made of.
    Pages,
    /// The slots of a pipe, step by step.
    PagesOfPipe,
    /// Live pipelines and what was found about them.
    Doctor,
    /// A pipeline with and without larger pipes.
    Boost,
    /// Live pipelines at one moment.
    Top,
}

/// The header of a saved record. Its fields are saved at the level of the record's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordHeader {
    /// The kind of the record.
    pub kind: Kind,
    /// [`SCHEMA_VERSION`] of the program that wrote the record.
    pub schema_version: u32,
    /// The program's own version.
    pub pipespeed_version: String,
    /// The command line, as words.
    pub command: Vec<String>,
    /// When the command began, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine that was measured or examined; for a comparison, that of the older
    /// run.
    pub machine: Machine,
}

impl RecordHeader {
    /// The header of a record that this program writes.
    pub fn new(kind: Kind, command: Vec<String>, started_at: String, machine: Machine) -> Self {
        RecordHeader {
            kind,
            schema_version: SCHEMA_VERSION,
            pipespeed_version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            started_at,
            machine,
        }
    }
}
