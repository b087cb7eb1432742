//! Warnings about a measurement.

use serde::{Deserialize, Serialize};

/// A possible disturbance or limitation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Its kind.
    pub kind: WarningKind,
    /// The case it concerns; null for the whole run.
    pub case: Option<String>,
    /// One sentence with the figures.
    pub message: String,
}

/// The kinds of [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The hypervisor gave our processors to other guests.
    Steal,
    /// Our processes were runnable but had to wait for a processor.
    RunDelay,
    /// The control group's quota stopped our processes.
    Throttled,
    /// Other processes kept the machine busy.
    OtherLoad,
    /// The rate changed during trials.
    Drift,
    /// The samples fall into two groups.
    TwoModes,
    /// The frequency governor may change the clock rate.
    Governor,
    /// Reading the clock takes a system call.
    ClockSource,
    /// In a virtual machine, waking a sleeping peer is expensive.
    Guest,
    /// The processors could not be chosen as requested.
    Placement,
    /// Pressure-stall accounting makes every sleep more expensive.
    PressureStall,
    /// A quick run is less precise than a full one.
    Quick,
    /// Leaving out flagged trials changes the median.
    Flagged,
    /// The actual configuration differs from the requested one.
    Configuration,
    /// Some trials failed.
    Failed,
}
