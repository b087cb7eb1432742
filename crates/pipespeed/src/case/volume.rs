//! Cases whose trials end after a volume rather than a time.

use std::time::Duration;

use super::{Case, Durations};

/// A trial of a volume that is slower than so many bytes a second hangs.
const LEAST_RATE: f64 = 32.0 * 1024.0 * 1024.0;

/// As much of a volume shows how fast it goes.
const PILOT_BYTES: u64 = 256 << 20;

/// What the pilot moves of a volume.
pub fn pilot_bytes(volume: u64) -> u64 {
    volume.min(PILOT_BYTES)
}

impl Case {
    /// The timed part ends after so many bytes.
    pub fn of_volume(mut self, bytes: u64) -> Self {
        self.volume_bytes = Some(bytes);
        self
    }

    /// The case as the pilot runs it: of a large volume only a part.
    pub fn for_pilot(&self) -> Self {
        let mut case = self.clone();
        case.volume_bytes = self.volume_bytes.map(pilot_bytes);
        case
    }

    /// How long both parts of a trial may take.
    pub fn longest(&self, durations: Durations) -> Duration {
        let timed_s = match self.volume_bytes {
            Some(bytes) => bytes as f64 / LEAST_RATE,
            None => durations.timed_s,
        };
        Duration::from_secs_f64(durations.warm_up_s + timed_s)
    }
}
