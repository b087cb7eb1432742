//! The time of a trial, looked at now and then.

use std::time::{Duration, Instant};

use super::spec::EndSpec;
use crate::record::GIB;

/// Number of parts that a timed part is divided into, to show a drift.
const PARTS: u64 = 8;
/// Minimum number of parts of a volume, and the maximum bytes of one.
const MIN_PARTS_OF_VOLUME: u64 = 20;
const MAX_PART_BYTES: u64 = 256 << 20;

/// Keeps the time of a trial, looking at the clock now and then.
pub(super) struct Clock {
    pub(super) warm_up: Duration,
    pub(super) timed: Duration,
    /// What ends the timed part in the place of time.
    timed_bytes: Option<u64>,
    parts: u64,
    slow_down: f64,
    look_every: u64,
    started: Instant,
    looked: Instant,
    look_at: u64,
    elapsed: Duration,
    /// Elapsed time and bytes at the end of each part.
    progress: Vec<(Duration, u64)>,
}

impl Clock {
    pub(super) fn new(spec: &EndSpec) -> Self {
        let now = Instant::now();
        let parts = spec.timed_bytes.map_or(PARTS, |bytes| {
            bytes.div_ceil(MAX_PART_BYTES).max(MIN_PARTS_OF_VOLUME)
        });
        Clock {
            warm_up: Duration::from_secs_f64(spec.warm_up_s),
            timed: Duration::from_secs_f64(spec.timed_s),
            timed_bytes: spec.timed_bytes,
            parts,
            slow_down: spec.slow_down,
            look_every: spec.look_every,
            started: now,
            looked: now,
            look_at: 0,
            elapsed: Duration::ZERO,
            progress: Vec::with_capacity(parts as usize + 1),
        }
    }

    pub(super) fn restart(&mut self, bytes: u64) {
        self.started = Instant::now();
        self.looked = self.started;
        self.look_at = bytes + self.look_every;
        self.elapsed = Duration::ZERO;
        self.progress.clear();
        self.progress.push((Duration::ZERO, bytes));
    }

    /// The time elapsed at the last look, which is now if one is due.
    pub(super) fn look(&mut self, bytes: u64) -> Duration {
        if bytes >= self.look_at {
            self.look_at = bytes + self.look_every;
            let now = Instant::now();
            if self.slow_down > 0.0 {
                let pause = (now - self.looked).mul_f64(self.slow_down);
                while now.elapsed() < pause {
                    std::hint::spin_loop();
                }
            }
            self.looked = Instant::now();
            self.elapsed = self.looked - self.started;
            if self.part_is_over(bytes) {
                self.progress.push((self.elapsed, bytes));
            }
        }
        self.elapsed
    }

    /// The same, looking in any case: the volume is complete.
    pub(super) fn look_now(&mut self, bytes: u64) {
        self.look_at = bytes;
        self.look(bytes);
    }

    fn part_is_over(&self, bytes: u64) -> bool {
        let part = self.progress.len() as u64;
        let begun = self.progress.first().map_or(0, |(_, bytes)| *bytes);
        part <= self.parts
            && match self.timed_bytes {
                Some(all) => (bytes - begun) * self.parts >= all * part,
                None => self.elapsed * self.parts as u32 >= self.timed * part as u32,
            }
    }

    /// The rate of each part, in GiB/s.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.progress
            .windows(2)
            .map(|pair| {
                let (from, before) = pair[0];
                let (to, after) = pair[1];
                (after - before) as f64 / GIB / (to - from).as_secs_f64()
            })
            .collect()
    }
}
