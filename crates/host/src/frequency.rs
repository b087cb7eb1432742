//! Clock rate and idling of the chosen processors, and the clock source.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::root::{CPUS, Root};

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
        let file = |cpu: &usize, name: &str| format!("{CPUS}/cpu{cpu}/cpufreq/{name}");
        let each = |name: &str| {
            let values = cpus.iter().filter_map(|cpu| root.text(file(cpu, name)));
            let distinct: BTreeSet<String> = values.collect();
            Vec::from_iter(distinct)
        };
        let rates = |name| {
            cpus.iter()
                .filter_map(move |cpu| root.number(file(cpu, name)))
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

/// The directory of the clock sources
/// (kernel/time/clocksource.c; chosen at boot by `clocksource=`,
/// Documentation/admin-guide/kernel-parameters.txt).
pub(super) const CLOCK_SOURCES: &str = "sys/devices/system/clocksource/clocksource0";

/// The kernel's clock source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSource {
    /// The source in use.
    pub source: Option<String>,
    /// All selectable sources.
    pub available: Vec<String>,
}

impl ClockSource {
    pub(super) fn read(root: &Root) -> ClockSource {
        ClockSource {
            source: root.text(format!("{CLOCK_SOURCES}/current_clocksource")),
            available: root.words(format!("{CLOCK_SOURCES}/available_clocksource")),
        }
    }

    /// Whether clock_gettime(2) reads this source in the vDSO, without a system
    /// call: such sources have a `vdso_clock_mode` (arch/x86/kernel/tsc.c,
    /// arch/x86/kernel/kvmclock.c, drivers/clocksource/hyperv_timer.c,
    /// drivers/clocksource/arm_arch_timer.c). `None` if the source is unknown.
    pub(super) fn is_in_vdso(&self) -> Option<bool> {
        const MAPPED: [&str; 4] = [
            "tsc",
            "kvm-clock",
            "hyperv_clocksource_tsc_page",
            "arch_sys_counter",
        ];
        Some(MAPPED.contains(&self.source.as_deref()?))
    }
}
