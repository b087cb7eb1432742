//! Samples, counted by call chains, and what an end's record makes of them.

use std::collections::{BTreeMap, HashMap};

use super::account::{Usage, split};
use super::groups::{Group, Table};
use super::perf::{Sample, Take};
use super::record::{Cost, EndProfile, Function, Stack};
use super::symbols::Symbols;

/// The name of the one frame of a sample in a process's own code.
pub const USER_CODE: &str = "user code";
/// The name of a function that has none.
const NAMELESS: &str = "[unknown]";

/// Functions of "other" that are listed.
const OTHERS: usize = 8;

/// Samples counted by their call chains, the innermost function first.
#[derive(Debug, Clone)]
pub struct Chains<F> {
    /// The weights.
    pub weights: HashMap<Vec<F>, u64>,
    /// How many samples that are.
    pub samples: u64,
    /// How many found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
}

impl<F> Default for Chains<F> {
    fn default() -> Self {
        Chains {
            weights: HashMap::new(),
            samples: 0,
            lost: 0,
            throttled: 0,
        }
    }
}

impl Take for Chains<u64> {
    fn sample(&mut self, sample: Sample) {
        self.samples += 1;
        *self.weights.entry(sample.kernel).or_default() += sample.weight;
    }

    fn lost(&mut self, count: u64) {
        self.lost += count;
    }

    fn throttled(&mut self) {
        self.throttled += 1;
    }
}

impl Chains<u64> {
    /// With functions for addresses.
    pub fn named(self, symbols: &Symbols) -> Chains<String> {
        let mut weights: HashMap<Vec<String>, u64> = HashMap::new();
        for (chain, weight) in self.weights {
            *weights.entry(named(&chain, symbols)).or_default() += weight;
        }
        Chains {
            weights,
            samples: self.samples,
            lost: self.lost,
            throttled: self.throttled,
        }
    }
}

/// An end's record from what it used, unsampled and sampled, and its samples.
pub fn end_profile(
    role: &str,
    usage: Usage,
    usage_sampled: Usage,
    chains: Chains<String>,
    table: &Table,
) -> EndProfile {
    let mut weights: BTreeMap<Group, u64> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let mut stacks: Vec<Stack> = Vec::new();
    for (chain, weight) in chains.weights {
        let names: Vec<&str> = chain.iter().map(String::as_str).collect();
        let (group, function) = table.attribute(&names);
        *weights.entry(group).or_default() += weight;
        if group == Group::Other {
            *others.entry(function.to_owned()).or_default() += weight;
        }
        let frames = if chain.is_empty() {
            vec![USER_CODE.to_owned()]
        } else {
            chain.into_iter().rev().collect()
        };
        stacks.push(Stack {
            frames,
            group,
            weight,
        });
    }
    // A hash table's order is nobody's.
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    let all = weights.values().sum::<u64>().max(1) as f64;
    let mut others: Vec<Function> = others
        .into_iter()
        .map(|(name, weight)| Function {
            name,
            share: weight as f64 / all,
        })
        .collect();
    others.sort_by(|a, b| b.share.total_cmp(&a.share));
    others.truncate(OTHERS);
    let costs = split(&usage, &weights)
        .into_iter()
        .map(|(group, seconds)| Cost {
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
        lost: chains.lost,
        throttled: chains.throttled,
        costs,
        others,
        stacks,
    }
}

/// The functions of a call chain of addresses, the innermost first. All but
/// that one are where a call returns to, which may lie behind the calling
/// function's end if the call never does.
fn named(chain: &[u64], symbols: &Symbols) -> Vec<String> {
    let name = |(at, address): (usize, &u64)| {
        let address = address.saturating_sub(u64::from(at > 0));
        symbols.name(address).unwrap_or(NAMELESS).to_owned()
    };
    chain.iter().enumerate().map(name).collect()
}
