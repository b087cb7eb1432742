//! What is kept of a profile: enough for every table, picture and file.

use serde::{Deserialize, Serialize};

use super::account::Usage;
use super::groups::Group;
use crate::case::Case;

/// The version of this record's layout.
pub const SCHEMA_VERSION: u32 = 1;

/// A profile of one case or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The layout's version.
    pub schema_version: u32,
    /// The program's.
    pub pipespeed_version: String,
    /// What samples were taken by: `cycles` or `cpu-clock`.
    pub event: String,
    /// Samples a second of running time that were asked for.
    pub frequency: u64,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Where the ends ran, in words.
    pub placement: String,
    /// What colours the figures, a sentence each.
    pub notes: Vec<String>,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseProfile>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseProfile {
    /// Its name.
    pub name: String,
    /// One line on what it does.
    pub description: String,
    /// What it is compared with, and by what factor they differ.
    pub compared_with: Option<(String, String)>,
    /// Why it was not profiled.
    pub refused: Option<String>,
    /// Sampled trials.
    pub trials: usize,
    /// The median rate while sampled, in GiB/s.
    pub gib_per_s: f64,
    /// The median rate of as many trials in between, without sampling, in
    /// GiB/s.
    pub gib_per_s_unsampled: f64,
    /// What disturbed the trials that were not sampled, a sentence each.
    pub disturbances: Vec<String>,
    /// The writer's, then the reader's.
    pub ends: Vec<EndProfile>,
}

/// One end of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndProfile {
    /// `writer` or `reader`.
    pub role: String,
    /// What it used in the trials that were not sampled.
    pub usage: Usage,
    /// What it used in those that were.
    pub usage_sampled: Usage,
    /// Samples within the timed parts.
    pub samples: u64,
    /// Samples that found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Wall time for 4 KiB without sampling, in nanoseconds, by costs; they add
    /// up to it.
    pub costs: Vec<Cost>,
    /// The functions that make up "other kernel", the biggest first.
    pub others: Vec<Function>,
    /// Call chains.
    pub stacks: Vec<Stack>,
}

/// What a cost takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Which.
    pub group: Group,
    /// Nanoseconds for 4 KiB.
    pub ns_per_page: f64,
    /// Share of the end's wall time.
    pub share: f64,
}

/// A function and its share of an end's samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Share of the weight of the end's samples.
    pub share: f64,
}

/// A call chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Function names, the outermost first.
    pub frames: Vec<String>,
    /// Where it was counted.
    pub group: Group,
    /// The weight of its samples.
    pub weight: u64,
}

impl CaseProfile {
    /// A case that this machine does not allow.
    pub fn refused(case: &Case, reason: String) -> Self {
        CaseProfile {
            name: case.name.clone(),
            description: case.description.clone(),
            compared_with: case.compared_with.clone(),
            refused: Some(reason),
            trials: 0,
            gib_per_s: 0.0,
            gib_per_s_unsampled: 0.0,
            disturbances: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl EndProfile {
    /// What a group takes, in nanoseconds for 4 KiB.
    pub fn ns_per_page(&self, group: Group) -> f64 {
        let cost = self.costs.iter().find(|cost| cost.group == group);
        cost.map_or(0.0, |cost| cost.ns_per_page)
    }

    /// A group's share of the wall time.
    pub fn share(&self, group: Group) -> f64 {
        let cost = self.costs.iter().find(|cost| cost.group == group);
        cost.map_or(0.0, |cost| cost.share)
    }

    /// What all costs together take, in nanoseconds for 4 KiB.
    pub fn sum_ns_per_page(&self) -> f64 {
        self.costs.iter().map(|cost| cost.ns_per_page).sum()
    }

    /// The weight of all samples.
    pub fn weight(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.weight).sum()
    }

    /// The share of the running time that nothing is known of.
    pub fn other_share_of_samples(&self) -> f64 {
        let others = self.stacks.iter().filter(|s| s.group == Group::Other);
        let others: u64 = others.map(|stack| stack.weight).sum();
        others as f64 / self.weight().max(1) as f64
    }
}
