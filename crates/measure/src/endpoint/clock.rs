//! The clock of a trial.

use std::time::{Duration, Instant};

use crate::record::GIB;
use crate::spec::EndSpec;

/// The number of parts that a timed part is divided into, to detect drift.
const PARTS: u64 = 8;
/// The minimum number of parts of a volume, and the maximum size of one in bytes.
const MIN_PARTS_OF_VOLUME: u64 = 20;
const MAX_PART_BYTES: u64 = 256 << 20;

/// Measures the time of a trial. Reads the system's clock only after every `read_every`
/// bytes, since a read takes time.
pub(super) struct TrialClock {
    pub(super) warm_up: Duration,
    pub(super) timed: Duration,
    /// The volume that ends the timed part, if time does not.
    timed_bytes: Option<u64>,
    parts: u64,
    slow_down: f64,
    read_every: u64,
    started: Instant,
    last_read: Instant,
    next_read: u64,
    elapsed: Duration,
    /// Elapsed time and bytes at the end of each part.
    progress: Vec<(Duration, u64)>,
}

impl TrialClock {
    pub(super) fn new(spec: &EndSpec) -> Self {
        let now = Instant::now();
        let parts = spec.timed_bytes.map_or(PARTS, |bytes| {
            bytes.div_ceil(MAX_PART_BYTES).max(MIN_PARTS_OF_VOLUME)
        });
        TrialClock {
            warm_up: Duration::from_secs_f64(spec.durations.warm_up_s),
            timed: Duration::from_secs_f64(spec.durations.timed_s),
            timed_bytes: spec.timed_bytes,
            parts,
            slow_down: spec.slow_down,
            read_every: spec.look_every,
            started: now,
            last_read: now,
            next_read: 0,
            elapsed: Duration::ZERO,
            progress: Vec::with_capacity(parts as usize + 1),
        }
    }

    pub(super) fn restart(&mut self, bytes: u64) {
        self.started = Instant::now();
        self.last_read = self.started;
        self.next_read = bytes + self.read_every;
        self.elapsed = Duration::ZERO;
        self.progress.clear();
        self.progress.push((Duration::ZERO, bytes));
    }

    /// Reads the system's clock if a read is due at this number of bytes. Returns the
    /// time elapsed at the last read.
    pub(super) fn update(&mut self, bytes: u64) -> Duration {
        if bytes >= self.next_read {
            self.next_read = bytes + self.read_every;
            let now = Instant::now();
            if self.slow_down > 0.0 {
                let pause = (now - self.last_read).mul_f64(self.slow_down);
                while now.elapsed() < pause {
                    std::hint::spin_loop();
                }
            }
            self.last_read = Instant::now();
            self.elapsed = self.last_read - self.started;
            if self.part_is_over(bytes) {
                self.progress.push((self.elapsed, bytes));
            }
        }
        self.elapsed
    }

    /// As [`update`](Self::update), but always reads the system's clock.
    pub(super) fn update_now(&mut self, bytes: u64) {
        self.next_read = bytes;
        self.update(bytes);
    }

    fn part_is_over(&self, bytes: u64) -> bool {
        let part = self.progress.len() as u64;
        let start = self.progress.first().map_or(0, |(_, bytes)| *bytes);
        part <= self.parts
            && match self.timed_bytes {
                Some(all) => (bytes - start) * self.parts >= all * part,
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
