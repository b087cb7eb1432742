//! What all saved records have.

use std::ops::{Deref, DerefMut};

use pipespeed_host::{Machine, Warning};
use serde::{Deserialize, Serialize};

/// The version of the format of all saved records. It is incremented when a field of
/// any record changes its meaning or is removed, but not when fields are added.
pub const SCHEMA_VERSION: u32 = 3;

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

/// A saved record: what all of them have, with the settings and the results of its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record<S, R> {
    /// The header.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// Why the run ended before it was complete, most often a signal; null if it was completed.
    pub interrupted: Option<String>,
    /// How it was measured.
    pub settings: S,
    /// Possible disturbances and limitations.
    pub warnings: Vec<Warning>,
    /// The results. Their fields are saved at the level of the record's own.
    #[serde(flatten)]
    pub results: R,
}

impl<S, R> Record<S, R> {
    /// The record of a run that begins.
    pub fn new(header: RecordHeader, settings: S, results: R) -> Self {
        Record {
            header,
            interrupted: None,
            settings,
            warnings: Vec::new(),
            results,
        }
    }
}

/// The fields of the results are those of the record, as in its file.
impl<S, R> Deref for Record<S, R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.results
    }
}

impl<S, R> DerefMut for Record<S, R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.results
    }
}
