//! The wall time of an end, split into costs that add up to it.
//!
//! A process is sampled only while it runs, and sampling slows it down. So samples only
//! show how its running time is divided. The running time itself and the time waiting for
//! a processor are the scheduler's, from trials without sampling; the rest of the
//! wall time is sleep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::groups::CostGroup;
use pipespeed_measure::record::EndCounters;

/// Times are given per this many bytes.
pub const PAGE: f64 = 4096.0;

/// With fewer bytes than this, times per page mean nothing.
pub const FEW_BYTES: u64 = 1 << 20;

/// Resources used by an end in all timed parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Bytes that passed it.
    pub bytes: u64,
    /// Wall time, in seconds.
    pub wall_s: f64,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// Time waiting for a processor, in seconds; 0 if the kernel does not count it.
    pub run_delay_s: f64,
    /// System calls that moved data or waited.
    pub syscalls: u64,
    /// Calls that found the pipe full or empty.
    pub would_blocks: u64,
}

impl ResourceUsage {
    /// Adds the usage of a trial.
    pub fn add(&mut self, counters: &EndCounters) {
        self.bytes += counters.bytes;
        self.wall_s += counters.seconds;
        self.cpu_s += counters.cpu_s;
        self.run_delay_s += counters.run_delay_s.unwrap_or(0.0);
        self.syscalls += counters.syscalls;
        self.would_blocks += counters.would_blocks;
    }

    /// Wall time per 4 KiB in nanoseconds; 0 without bytes.
    pub fn wall_ns_per_page(&self) -> f64 {
        self.ns_per_page(self.wall_s).unwrap_or(0.0)
    }

    /// A time per 4 KiB in nanoseconds; `None` without bytes.
    pub fn ns_per_page(&self, seconds: f64) -> Option<f64> {
        (self.bytes > 0).then(|| seconds * 1e9 * PAGE / self.bytes as f64)
    }

    /// Scales running time and waiting for a processor down to the wall time less `asleep_s`, which
    /// threads on several processors may exceed.
    pub fn within_wall_time(&self, asleep_s: f64) -> ResourceUsage {
        let most = (self.wall_s - asleep_s).max(0.0)
            / (self.cpu_s + self.run_delay_s).max(f64::MIN_POSITIVE);
        let factor = most.min(1.0);
        ResourceUsage {
            cpu_s: self.cpu_s * factor,
            run_delay_s: self.run_delay_s * factor,
            ..*self
        }
    }
}

/// The costs of every call, whether it moves data or not.
const COSTS_OF_EVERY_CALL: [CostGroup; 3] = [
    CostGroup::EntryExit,
    CostGroup::PipeLock,
    CostGroup::UserCode,
];

/// Splits the wall time into costs in seconds.
///
/// `weights` are those of the samples; without samples the running time stays whole. Calls that found the pipe full or empty touch
/// no page, so their cost is estimated: their share by number of the costs of every
/// call.
pub fn split(
    usage: &ResourceUsage,
    weights: &BTreeMap<CostGroup, u64>,
) -> BTreeMap<CostGroup, f64> {
    let running = usage.cpu_s;
    let sampled: u64 = weights.values().sum();
    let mut costs: BTreeMap<CostGroup, f64> = BTreeMap::new();
    if sampled == 0 {
        costs.insert(CostGroup::Running, running);
    }
    for (group, weight) in weights {
        let share = *weight as f64 / sampled.max(1) as f64;
        costs.insert(*group, running * share);
    }
    if usage.would_blocks > 0 && usage.syscalls > 0 {
        let would_block = usage.would_blocks as f64 / usage.syscalls.max(usage.would_blocks) as f64;
        let mut spinning = 0.0;
        for group in COSTS_OF_EVERY_CALL {
            if let Some(cost) = costs.get_mut(&group) {
                spinning += *cost * would_block;
                *cost *= 1.0 - would_block;
            }
        }
        costs.insert(CostGroup::Spinning, spinning);
    }
    let asleep = usage.wall_s - usage.cpu_s - usage.run_delay_s;
    costs.insert(CostGroup::Asleep, asleep.max(0.0));
    costs.insert(CostGroup::RunDelay, usage.run_delay_s);
    // Less than this is the rounding error of a sum.
    costs.retain(|_, cost| *cost > usage.wall_s * 1e-12);
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usage() -> ResourceUsage {
        ResourceUsage {
            bytes: 4096 * 1_000_000,
            wall_s: 1.0,
            cpu_s: 0.4,
            run_delay_s: 0.1,
            syscalls: 1000,
            would_blocks: 0,
        }
    }

    #[track_caller]
    fn is_near(costs: &BTreeMap<CostGroup, f64>, group: CostGroup, expected: f64) {
        assert!((costs[&group] - expected).abs() < 1e-9, "{costs:?}");
    }

    #[test]
    fn samples_divide_the_running_time_and_the_rest_is_sleep() {
        let weights = BTreeMap::from([(CostGroup::CopyToUser, 3), (CostGroup::PipeLock, 1)]);
        let costs = split(&usage(), &weights);
        is_near(&costs, CostGroup::CopyToUser, 0.3);
        is_near(&costs, CostGroup::PipeLock, 0.1);
        is_near(&costs, CostGroup::RunDelay, 0.1);
        is_near(&costs, CostGroup::Asleep, 0.5);
    }

    #[test]
    fn blocked_calls_get_their_share_of_costs_of_every_call() {
        let spun = ResourceUsage {
            would_blocks: 250,
            ..usage()
        };
        let weights = BTreeMap::from([(CostGroup::CopyToUser, 3), (CostGroup::PipeLock, 1)]);
        let costs = split(&spun, &weights);
        is_near(&costs, CostGroup::Spinning, 0.025);
        is_near(&costs, CostGroup::CopyToUser, 0.3);
    }

    #[test]
    fn running_time_without_samples_is_not_divided() {
        let costs = split(&usage(), &BTreeMap::new());
        is_near(&costs, CostGroup::Running, 0.4);
        assert_eq!(costs.get(&CostGroup::Other), None, "{costs:?}");
    }

    #[test]
    fn a_rounding_error_is_no_sleep() {
        let busy = ResourceUsage {
            wall_s: 0.8,
            cpu_s: 0.7,
            run_delay_s: 0.1,
            ..usage()
        };
        assert!(busy.wall_s - busy.cpu_s - busy.run_delay_s > 0.0);
        let costs = split(&busy, &BTreeMap::from([(CostGroup::UserCode, 1)]));
        assert_eq!(costs.get(&CostGroup::Asleep), None, "{costs:?}");
    }

    #[test]
    fn time_on_several_processors_is_scaled_to_the_wall_time() {
        let parallel = ResourceUsage {
            cpu_s: 1.5,
            run_delay_s: 0.5,
            ..usage()
        };
        let weights = BTreeMap::from([(CostGroup::UserCode, 1)]);
        let costs = split(&parallel.within_wall_time(0.0), &weights);
        is_near(&costs, CostGroup::UserCode, 0.75);
        is_near(&costs, CostGroup::RunDelay, 0.25);
        assert_eq!(costs.len(), 2, "{costs:?}");
        assert_eq!(usage().within_wall_time(0.1), usage());

        // Two threads at once, for half of the time.
        let half = ResourceUsage {
            cpu_s: 1.0,
            run_delay_s: 0.0,
            ..usage()
        };
        let costs = split(&half.within_wall_time(0.5), &weights);
        is_near(&costs, CostGroup::UserCode, 0.5);
        is_near(&costs, CostGroup::Asleep, 0.5);
    }

    proptest! {
        #[test]
        fn the_costs_add_up_to_the_wall_time(
            weights in prop::collection::vec(0..1000_u64, CostGroup::all().count()),
            cpu in 0.0..0.6_f64,
            delay in 0.0..0.4_f64,
            calls in 1..100_000_u64,
            would_block in 0.0..1.0_f64,
        ) {
            let usage = ResourceUsage {
                cpu_s: cpu,
                run_delay_s: delay,
                syscalls: calls,
                would_blocks: (calls as f64 * would_block) as u64,
                ..usage()
            };
            // Only groups that samples can have.
            let weights = CostGroup::all().skip(3).zip(weights).collect();
            let sum: f64 = split(&usage, &weights).values().sum();
            let wall = usage.wall_s;
            prop_assert!((sum / wall - 1.0).abs() < 1e-9, "{sum} {wall}");
        }
    }
}
