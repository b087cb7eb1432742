//! The kernel's clock source.

use serde::{Deserialize, Serialize};

use super::root::Root;

/// The directory of the clock sources
/// (kernel/time/clocksource.c; chosen at boot by `clocksource=`,
/// Documentation/admin-guide/kernel-parameters.txt).
pub(super) const CLOCK_SOURCES: &str = "sys/devices/system/clocksource/clocksource0";

/// The kernel's clock source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// The source in use.
    pub source: Option<String>,
    /// All selectable sources.
    pub available: Vec<String>,
}

impl Clock {
    pub(super) fn read(root: &Root) -> Clock {
        Clock {
            source: root.text(format!("{CLOCK_SOURCES}/current_clocksource")),
            available: root
                .words(format!("{CLOCK_SOURCES}/available_clocksource"))
                .unwrap_or_default(),
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
        self.source
            .as_deref()
            .map(|source| MAPPED.contains(&source))
    }
}
