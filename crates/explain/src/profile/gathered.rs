//! Samples counted by call chains, and an end's record made from them.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::account::{ResourceUsage, split};
use super::event::{EventScope, MIN_SAMPLES};
use super::groups::{CostGroup, CostTable};
use super::record::{CostBound, EndProfile, Share, Stack, TimePart};
use super::symbols::Symbols;

/// The name of the only frame of a sample in a process's own code.
pub const USER_CODE: &str = "user code";
/// The name of an address without a symbol.
const UNKNOWN: &str = "[unknown]";

/// At most this many functions of "other kernel" are listed.
const MAX_OTHERS: usize = 8;

/// Samples by call chain, the innermost function first; a function is an address
/// or a name. A chain outside the kernel is empty.
#[derive(Debug, Clone, Default)]
pub struct Chains<F> {
    /// The weight of each chain, in the event's unit.
    pub weights: HashMap<Vec<F>, u64>,
    /// The number of samples.
    pub samples: u64,
}

impl<F: Eq + Hash> Chains<F> {
    /// Adds a sample.
    pub fn add(&mut self, chain: Vec<F>, weight: u64) {
        self.samples += 1;
        *self.weights.entry(chain).or_default() += weight;
    }

    /// Adds other samples.
    pub fn append(&mut self, more: Chains<F>) {
        self.samples += more.samples;
        for (chain, weight) in more.weights {
            *self.weights.entry(chain).or_default() += weight;
        }
    }
}

impl Chains<u64> {
    /// Names the functions.
    pub fn named(self, symbols: &Symbols) -> Chains<String> {
        let mut named = Chains {
            weights: HashMap::new(),
            samples: self.samples,
        };
        for (chain, weight) in self.weights {
            // All addresses but the innermost are return addresses. They may lie after the
            // end of the calling function if the call never returns.
            let name = |(at, address): (usize, &u64)| {
                let address = address.saturating_sub(u64::from(at > 0));
                symbols.name(address).unwrap_or(UNKNOWN).to_owned()
            };
            let chain = chain.iter().enumerate().map(name).collect();
            *named.weights.entry(chain).or_default() += weight;
        }
        named
    }
}

/// Minimum share of its wall time that an end sleeps if events of tasks distort its costs.
const MIN_ASLEEP: f64 = 0.02;

/// The record of an end, from its usage without and with sampling and its samples by
/// events of this scope. With less than [`MIN_SAMPLES`] its running time is not divided.
pub fn end_profile(
    role: &str,
    scope: EventScope,
    usage: ResourceUsage,
    usage_sampled: ResourceUsage,
    chains: Chains<String>,
) -> EndProfile {
    let mut weights: BTreeMap<CostGroup, u64> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let mut stacks: Vec<Stack> = Vec::new();
    for (chain, weight) in chains.weights {
        let names: Vec<&str> = chain.iter().map(String::as_str).collect();
        let (group, function) = CostTable::built_in().attribute(&names);
        *weights.entry(group).or_default() += weight;
        if group == CostGroup::Other {
            *others.entry(function.to_owned()).or_default() += weight;
        }
        let mut frames: Vec<String> = chain.into_iter().rev().collect();
        if frames.is_empty() {
            frames.push(USER_CODE.to_owned());
        }
        stacks.push(Stack {
            frames,
            group,
            weight,
        });
    }
    // The order of a hash table is random.
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    let mut others = Share::list(others, weights.values().sum());
    others.truncate(MAX_OTHERS);
    let is_divided = chains.samples >= MIN_SAMPLES;
    if !is_divided {
        weights.clear();
        others.clear();
    }
    let costs = split(&usage, &weights);
    let asleep = costs.get(&CostGroup::Asleep).unwrap_or(&0.0) / usage.wall_s;
    let is_distorted = is_divided && scope == EventScope::Tasks && asleep >= MIN_ASLEEP;
    let costs = costs
        .into_iter()
        .map(|(group, seconds)| TimePart {
            bound: match group {
                _ if !is_distorted => CostBound::Exact,
                CostGroup::Asleep | CostGroup::RunDelay => CostBound::Exact,
                CostGroup::Scheduling => CostBound::AtMost,
                _ => CostBound::AtLeast,
            },
            group,
            seconds,
            ns_per_page: usage.ns_per_page(seconds),
            share: seconds / usage.wall_s,
        })
        .collect();
    EndProfile {
        role: role.to_owned(),
        usage,
        usage_sampled,
        samples: chains.samples,
        costs,
        others,
        stacks,
    }
}
