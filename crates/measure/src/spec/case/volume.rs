//! Cases whose trials end after a volume rather than a time.

use std::time::Duration;

use super::Case;
use crate::spec::Durations;

const MIB: f64 = 1024.0 * 1024.0;

/// A trial of a volume below this rate, in bytes per second, counts as hung.
const MIN_RATE: f64 = 32.0 * MIB;
/// One pass of computing over the data below this rate, in bytes per second, counts
/// as hung.
const MIN_COMPUTING: f64 = 256.0 * MIB;
/// A trial that takes this many times the expected duration counts as hung.
const LATE: f64 = 10.0;

/// The pilot moves at most this much of a volume, in bytes.
const PILOT_BYTES: u64 = 256 << 20;

/// The number of bytes that the pilot moves of a volume.
pub fn pilot_bytes(volume: u64) -> u64 {
    volume.min(PILOT_BYTES)
}

impl Case {
    /// Ends the timed part after a volume instead of a time.
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

    /// The time after which a trial counts as hung.
    pub fn longest(&self, durations: Durations) -> Duration {
        let timed_s = match (self.volume_bytes, self.expected_s) {
            (Some(_), Some(seconds)) => LATE * seconds,
            (Some(bytes), None) => {
                let computing = f64::from(self.work) / MIN_COMPUTING;
                bytes as f64 * (1.0 / MIN_RATE + computing)
            }
            (None, _) => durations.timed_s,
        };
        Duration::from_secs_f64(durations.warm_up_s + timed_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Durations = Durations {
        warm_up_s: 0.0,
        timed_s: 0.0,
    };

    #[test]
    fn a_trial_of_a_volume_may_take_what_its_computing_takes() {
        let seconds = |case: &Case| case.longest(NONE).as_secs_f64();
        let plain = Case::new("x", 65_536, 65_536).of_volume(1 << 30);
        assert!((seconds(&plain) - 32.0).abs() < 1e-9);
        let mut computing = plain.clone();
        computing.work = 1000;
        // 1000 passes at 0.25 GiB/s.
        assert!((seconds(&computing) - 4032.0).abs() < 1e-9);
    }

    #[test]
    fn an_expected_duration_sets_the_limit() {
        let mut case = Case::new("x", 65_536, 65_536).of_volume(1 << 30);
        case.expected_s = Some(130.0);
        assert_eq!(case.longest(NONE), Duration::from_secs(1300));
    }
}
