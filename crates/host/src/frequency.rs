//! Clock rate and idling of the chosen processors.

use serde::{Deserialize, Serialize};

use super::root::Root;
use super::topology::CPUS;

/// Clock rates and idling (Documentation/admin-guide/pm/cpufreq.rst and
/// cpuidle.rst).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frequency {
    /// The cpufreq driver; null if there is none, as in most guests.
    pub driver: Option<String>,
    /// The distinct governors of the chosen processors.
    pub governors: Vec<String>,
    /// Their distinct values of `energy_performance_preference`, by which the
    /// processor itself weighs speed against power.
    pub preferences: Vec<String>,
    /// The lowest rate the governor may set for any of them, in kHz.
    pub lowest_khz: Option<u64>,
    /// The highest rate the governor may set for any of them, in kHz.
    pub highest_khz: Option<u64>,
    /// Whether rates above the nominal one are allowed (turbo, boost).
    pub boost: Option<bool>,
    /// The driver of the idle states.
    pub idle_driver: Option<String>,
    /// The governor that chooses idle states, which determine the time to wake.
    pub idle_governor: Option<String>,
    /// How long an idle processor of a guest polls for work before it halts, in
    /// nanoseconds. Only the host can end a halt
    /// (Documentation/virt/guest-halt-polling.rst).
    pub halt_poll_ns: Option<u64>,
}

impl Frequency {
    /// Reads the settings of these processors.
    pub(super) fn read(root: &Root, cpus: &[usize]) -> Frequency {
        let each = |name: &str| {
            let mut values: Vec<String> = cpus
                .iter()
                .filter_map(|cpu| root.text(format!("{CPUS}/cpu{cpu}/cpufreq/{name}")))
                .collect();
            values.sort();
            values.dedup();
            values
        };
        let rates = |name: &str| {
            each(name)
                .into_iter()
                .filter_map(|rate| rate.parse::<u64>().ok())
        };
        let idle = |name: &str| root.text(format!("{CPUS}/cpuidle/{name}"));
        Frequency {
            driver: each("scaling_driver").into_iter().next(),
            governors: each("scaling_governor"),
            preferences: each("energy_performance_preference"),
            lowest_khz: rates("scaling_min_freq").min(),
            highest_khz: rates("scaling_max_freq").max(),
            boost: boost(root),
            idle_driver: idle("current_driver"),
            // Older kernels have only the second name by default.
            idle_governor: idle("current_governor").or_else(|| idle("current_governor_ro")),
            halt_poll_ns: root.number("sys/module/haltpoll/parameters/guest_halt_poll_ns"),
        }
    }
}

/// Whether boost is on. Intel's driver has the inverse switch
/// (Documentation/admin-guide/pm/intel_pstate.rst).
fn boost(root: &Root) -> Option<bool> {
    let off = root.number::<u8>(format!("{CPUS}/intel_pstate/no_turbo"));
    let on = || root.number::<u8>(format!("{CPUS}/cpufreq/boost"));
    off.map(|off| off == 0).or_else(|| on().map(|on| on != 0))
}
