//! Resource usage of a process.

use std::time::Duration;

/// Resources used by a process, or by a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageUsage {
    /// Running time of all threads.
    pub ran: Duration,
    /// Time in which threads waited for a processor.
    pub delayed: Duration,
    /// Wall time.
    pub wall: Duration,
    /// The time in which all of its threads slept, estimated by looks at them; zero if it has one thread, or
    /// several processes. What `ran` and `delayed` leave is too little if threads ran at once.
    pub asleep: Duration,
    /// Bytes read from its input (0) and written to its output (1), by calls that count them.
    pub bytes: [u64; 2],
}

impl StageUsage {
    /// The usage since `earlier`.
    pub fn since(&self, earlier: &StageUsage) -> StageUsage {
        StageUsage {
            ran: self.ran.saturating_sub(earlier.ran),
            delayed: self.delayed.saturating_sub(earlier.delayed),
            wall: self.wall.saturating_sub(earlier.wall),
            asleep: self.asleep.saturating_sub(earlier.asleep),
            bytes: [0, 1].map(|side| self.bytes[side].saturating_sub(earlier.bytes[side])),
        }
    }

    /// The sum of this usage and a later one.
    pub fn and(&self, later: &StageUsage) -> StageUsage {
        StageUsage {
            wall: self.wall + later.wall,
            asleep: self.asleep + later.asleep,
            ..self.and_part(later, [true; 2])
        }
    }

    /// This usage with that of a process that ran meanwhile, and moved bytes on these sides through
    /// the same pipe.
    pub fn and_part(&self, part: &StageUsage, is_same: [bool; 2]) -> StageUsage {
        StageUsage {
            ran: self.ran + part.ran,
            delayed: self.delayed + part.delayed,
            wall: self.wall,
            // One may run while the other sleeps.
            asleep: Duration::ZERO,
            bytes: [0, 1]
                .map(|side| self.bytes[side] + part.bytes[side] * u64::from(is_same[side])),
        }
    }
}
