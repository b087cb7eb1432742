//! What comes by chance: wake-ups and interruptions, as they were seen.

use crate::stats::Rng;

/// Wake-ups on another processor, as they were spread.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeUps {
    /// How long the other end had slept, in nanoseconds.
    pub slept_ns: f64,
    /// Until it runs, and until the caller goes on.
    pub ns: Vec<(f64, f64)>,
}

/// What takes the processor from an end now and then.
#[derive(Debug, Clone, PartialEq)]
pub struct Interruptions {
    /// From one to the next on the average, in nanoseconds.
    pub every_ns: f64,
    /// How long those take in which the process stays on its processor:
    /// interrupts, and a host's doings.
    pub lengths_ns: Vec<f64>,
    /// How long those take in which another process has it.
    pub turns_ns: Vec<f64>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) ns: f64,
    /// Whether another process had its turn.
    pub(super) is_turn: bool,
}

impl Interruptions {
    /// One of those that were seen.
    pub(super) fn any(&self, chance: &mut Rng) -> Taken {
        let (interrupts, turns) = (self.lengths_ns.len(), self.turns_ns.len());
        let at = chance.below(interrupts + turns);
        let seen = self.lengths_ns.get(at);
        Taken {
            ns: *seen
                .or(self.turns_ns.get(at.saturating_sub(interrupts)))
                .unwrap_or(&0.0),
            is_turn: seen.is_none(),
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.lengths_ns.is_empty() && self.turns_ns.is_empty()
    }
}

/// The wake-ups after sleeps no longer than that, or after the shortest.
pub(super) fn after(wake_ups: &[WakeUps], slept_ns: f64) -> Option<&WakeUps> {
    let longer = wake_ups.partition_point(|known| known.slept_ns <= slept_ns);
    wake_ups.get(longer.saturating_sub(1))
}

/// One of those that were seen; none lasts no time.
pub(super) fn any<T: Copy + Default>(seen: &[T], chance: &mut Rng) -> T {
    seen.get(chance.below(seen.len()))
        .copied()
        .unwrap_or_default()
}
