//! The interface for running trials: in real processes, or by a fake in tests.

use crate::case::{Case, Durations};
use crate::channel::Granted;
use crate::endpoint::counters::monotonic_ns;
use crate::endpoint::outcome::{Outcome, Setup};
pub use crate::session::TrialError;
use pipespeed_host::noise::NoiseDelta;

/// Runs trials.
pub trait Runner {
    /// Runs one trial of the case.
    ///
    /// # Errors
    /// [`TrialError`].
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError>;
}

/// A runner whose trial durations can be set.
pub trait Timed: Runner {
    /// Sets the durations of later trials.
    fn set_durations(&mut self, durations: Durations);

    /// The time in seconds since an arbitrary start: CLOCK_MONOTONIC, or the simulated
    /// clock of a fake.
    fn now_s(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }
}

/// The result of one trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The writer's actual setup.
    pub setup: Setup,
    /// The channel's actual sizes and settings.
    pub granted: Granted,
    /// What the writer measured.
    pub writer: Option<Outcome>,
    /// What the reader measured.
    pub reader: Option<Outcome>,
    /// Disturbances during the trial.
    pub noise: NoiseDelta,
}
