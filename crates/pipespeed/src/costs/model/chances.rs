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

/// What takes the processor from an end now and then, as it was seen. It comes
/// in clusters, and the clock's tick comes regularly, so it is played as it came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interruptions {
    /// Each round was watched for so many nanoseconds.
    pub watched_ns: f64,
    /// What was seen in each, in the order in which it came.
    pub rounds: Vec<Vec<Interruption>>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interruption {
    /// When it came, in nanoseconds after the end of the one before, or after
    /// the begin of the round.
    pub after_ns: f64,
    /// How long it took.
    pub ns: f64,
    /// Whether another process had its turn. In an interrupt, and while a host
    /// has the processor, the process stays on it.
    pub is_turn: bool,
}

/// What comes over an end: rounds that were seen, in random order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Coming {
    /// Which round it is.
    round: usize,
    /// When that began.
    begun_ns: f64,
    /// Which of its interruptions comes next.
    next: usize,
    /// When it comes.
    pub(super) at_ns: f64,
}

impl Interruptions {
    /// Some round, from that time on.
    pub(super) fn from(&self, now_ns: f64, chance: &mut Rng) -> Coming {
        let mut coming = Coming {
            begun_ns: now_ns,
            at_ns: f64::INFINITY,
            ..Coming::default()
        };
        if self.rounds.iter().any(|round| !round.is_empty()) {
            self.begin(&mut coming, chance);
        }
        coming
    }

    /// The one that comes, after which the one behind it comes.
    pub(super) fn take(&self, coming: &mut Coming, chance: &mut Rng) -> Interruption {
        let round = &self.rounds[coming.round];
        let taken = round[coming.next];
        coming.next += 1;
        match round.get(coming.next) {
            Some(next) => coming.at_ns += taken.ns + next.after_ns,
            None => {
                // The last one may go on after the round is over.
                let over = coming.at_ns + taken.ns;
                coming.begun_ns = (coming.begun_ns + self.watched_ns).max(over);
                self.begin(coming, chance);
            }
        }
        taken
    }

    /// Goes on with a round in which something comes; there is one.
    fn begin(&self, coming: &mut Coming, chance: &mut Rng) {
        loop {
            coming.round = chance.below(self.rounds.len());
            coming.next = 0;
            if let Some(first) = self.rounds[coming.round].first() {
                coming.at_ns = coming.begun_ns + first.after_ns;
                return;
            }
            coming.begun_ns += self.watched_ns;
        }
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
