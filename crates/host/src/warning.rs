//! Warnings about a measurement.

use std::fmt;

use pipespeed_base::text::without_error_numbers;
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

impl Warning {
    /// A warning about all that was measured.
    pub fn new(kind: WarningKind, message: impl Into<String>) -> Self {
        Warning {
            kind,
            case: None,
            message: without_error_numbers(&message.into()),
        }
    }

    /// A warning about one case.
    pub fn for_case(kind: WarningKind, case: &str, message: impl Into<String>) -> Self {
        Warning {
            case: Some(case.to_owned()),
            ..Warning::new(kind, message)
        }
    }
}

/// The message, after the case's name unless it contains that.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.case {
            Some(case) if !self.message.contains(case.as_str()) => {
                write!(f, "{case}: {}", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

/// The kinds of [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The hypervisor withheld our processors.
    Steal,
    /// Our processes were runnable but had to wait for a processor.
    RunDelay,
    /// The control group's quota stopped our processes.
    Throttled,
    /// The control group has a quota that may stop our processes.
    Quota,
    /// Other processes kept the machine busy.
    OtherLoad,
    /// Others used the processors before the first trial.
    Busy,
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
    /// The host takes back free memory, so that its next use is slow.
    FreePageReporting,
    /// A quick run is less precise than a full one.
    Quick,
    /// Fewer rounds than planned, or too few for verdicts on all comparisons.
    FewRounds,
    /// Leaving out flagged trials changes the median.
    Flagged,
    /// The actual configuration differs from the requested one.
    Configuration,
    /// Some trials failed.
    Failed,
    /// Mitigations make system calls and switches slower.
    Mitigations,
    /// A seccomp filter looks at every system call.
    SeccompFilter,
    /// What the samples of a profile cost, or do not show.
    Sampling,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningScope {
    /// Something disturbed the run, so that another run may differ.
    Disturbance,
    /// Another property of this run.
    Run,
    /// A permanent property of the machine, the same for all of its runs; its name.
    Machine(&'static str),
}

impl WarningKind {
    /// What warnings of this kind are about.
    pub fn scope(self) -> WarningScope {
        match self {
            Self::Steal
            | Self::RunDelay
            | Self::Throttled
            | Self::OtherLoad
            | Self::Drift
            | Self::Flagged => WarningScope::Disturbance,
            // What was busy before may have ended.
            Self::Busy
            | Self::TwoModes
            | Self::Placement
            | Self::Quick
            | Self::FewRounds
            | Self::Configuration
            | Self::Failed
            | Self::Sampling => WarningScope::Run,
            Self::Governor => WarningScope::Machine("frequency governor"),
            Self::ClockSource => WarningScope::Machine("slow clock source"),
            Self::Guest => WarningScope::Machine("virtual machine"),
            Self::PressureStall => WarningScope::Machine("pressure-stall accounting"),
            Self::FreePageReporting => WarningScope::Machine("free page reporting"),
            Self::Quota => WarningScope::Machine("CPU quota"),
            Self::Mitigations => WarningScope::Machine("mitigations"),
            Self::SeccompFilter => WarningScope::Machine("seccomp filter"),
        }
    }

    /// Whether something disturbed the run, so that another run may differ.
    pub fn is_disturbance(self) -> bool {
        self.scope() == WarningScope::Disturbance
    }
}

/// The warnings on what disturbed a run.
pub fn disturbances(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    warnings
        .iter()
        .filter(|warning| warning.kind.is_disturbance())
}

/// The warnings on what disturbed a run, or was about to before its first trial. A load seen
/// then is left out if it was measured during the trials, too.
pub fn disturbances_and_load(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let is_measured = warnings
        .iter()
        .any(|warning| matches!(warning.kind, WarningKind::OtherLoad | WarningKind::Steal));
    warnings.iter().filter(move |warning| {
        warning.kind.is_disturbance() || (warning.kind == WarningKind::Busy && !is_measured)
    })
}
