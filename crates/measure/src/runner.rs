//! Who runs a trial: the real thing, or a fake one for tests.

use rustix::time::{ClockId, clock_gettime};

use crate::case::{Case, Durations};
use crate::channel::Granted;
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

/// A runner that can be told how long the parts of the trials to come last.
pub trait Timed: Runner {
    /// From now on they last so long.
    fn set_durations(&mut self, durations: Durations);

    /// The time by the clock that its trials go by, in seconds since some
    /// moment or other: CLOCK_MONOTONIC where trials are real.
    fn now_s(&self) -> f64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    }
}

/// What one trial gave.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What took effect at the writer.
    pub setup: Setup,
    /// What the channel got.
    pub granted: Granted,
    /// What the writer measured.
    pub writer: Option<Outcome>,
    /// What the reader measured.
    pub reader: Option<Outcome>,
    /// What else went on meanwhile.
    pub noise: NoiseDelta,
}
