//! What comes by chance: wake-ups and interruptions, as they were seen.

use std::sync::Arc;

use crate::stats::Rng;

/// One wake-up on another processor.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WakeUp {
    /// Until the sleeper runs, in nanoseconds.
    pub until_ns: f64,
    /// Until the caller goes on.
    pub call_ns: f64,
}

/// Wake-ups of one kind, as they were spread.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// What they come after: so many nanoseconds of sleep, or of work.
    pub after_ns: f64,
    /// The usual ones, each so many times.
    pub usual: Arc<[WakeUp]>,
    /// See `usual`.
    pub times: usize,
    /// The rare ones, each once.
    pub rare: Arc<[WakeUp]>,
}

/// The wake-ups of one end.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeUps {
    /// By a waker that was awake meanwhile; by the length of the sleep, the shortest
    /// first.
    pub awake: Vec<Spread>,
    /// By one that was itself woken meanwhile; by how long that has been awake
    /// since, the shortest first.
    pub in_turns: Vec<Spread>,
    /// The shortest sleep of the latter kind in nanoseconds.
    pub in_turns_least_ns: f64,
}

impl Spread {
    /// One of those that were seen; none lasts no time.
    fn any(&self, chance: &mut Rng) -> WakeUp {
        let usual = self.usual.len() * self.times;
        let at = chance.below(usual + self.rare.len());
        let seen = match at < usual {
            true => self.usual.get(at % self.usual.len()),
            false => self.rare.get(at - usual),
        };
        seen.copied().unwrap_or_default()
    }
}

impl WakeUps {
    /// One after so long a sleep, by a waker that has been awake for so long.
    pub(super) fn any(&self, slept_ns: f64, awake_ns: f64, chance: &mut Rng) -> WakeUp {
        let in_turns = awake_ns < slept_ns && slept_ns >= self.in_turns_least_ns;
        let known = match in_turns {
            true => after(&self.in_turns, awake_ns),
            false => None,
        };
        let known = known.or_else(|| after(&self.awake, slept_ns));
        known.map_or(WakeUp::default(), |known| known.any(chance))
    }
}

/// Something takes an end's processor from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interruption {
    /// When, in nanoseconds after its sample began.
    pub at_ns: f64,
    /// For how long, in nanoseconds.
    pub ns: f64,
    /// Whether another process has its turn; else the end stays on its processor,
    /// for all that others can see.
    pub is_turn: bool,
}

/// What took the ends' processors from them while both only looked at the clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interruptions {
    /// How long each sample is, in nanoseconds.
    pub sample_ns: f64,
    /// Of each sample what the writer saw, and the reader at the same time, the
    /// first one first.
    pub samples: Vec<[Vec<Interruption>; 2]>,
}

/// Samples one after the other, each drawn by chance when the first of the ends
/// gets there.
#[derive(Debug)]
pub(super) struct Course<'a> {
    of: Option<&'a Interruptions>,
    drawn: Vec<usize>,
    /// Where each end is: which of the drawn, and which of its interruptions is
    /// next.
    at: [(usize, usize); 2],
    /// Where in the first one it begins.
    begun_ns: f64,
}

impl<'a> Course<'a> {
    /// Of these, if there are any; it begins anywhere.
    pub(super) fn new(of: Option<&'a Interruptions>, chance: &mut Rng) -> Self {
        let is_any = |of: &&Interruptions| of.samples.iter().flatten().any(|seen| !seen.is_empty());
        let of = of.filter(is_any);
        Course {
            begun_ns: of.map_or(0.0, |of| of.sample_ns * chance.share()),
            of,
            drawn: Vec::new(),
            at: [(0, 0); 2],
        }
    }

    /// The next that an end sees which does not begin before that time, with its
    /// time in place of that in its sample; none where there are none.
    pub(super) fn next(&mut self, end: usize, now: f64, chance: &mut Rng) -> Option<Interruption> {
        // The other end alone may be interrupted.
        let is_any = |sample: &[Vec<Interruption>; 2]| !sample[end].is_empty();
        let of = self.of.filter(|of| of.samples.iter().any(is_any))?;
        loop {
            let (sample, at) = self.at[end];
            if sample == self.drawn.len() {
                self.drawn.push(chance.below(of.samples.len()));
            }
            let begin = sample as f64 * of.sample_ns - self.begun_ns;
            match of.samples[self.drawn[sample]][end].get(at) {
                Some(seen) => {
                    let at_ns = begin + seen.at_ns;
                    if at_ns >= now {
                        return Some(Interruption { at_ns, ..*seen });
                    }
                    self.at[end].1 += 1;
                }
                None => self.at[end] = (sample + 1, 0),
            }
        }
    }
}

/// The spread after no more than that, or after the least.
pub(super) fn after(known: &[Spread], ns: f64) -> Option<&Spread> {
    let more = known.partition_point(|known| known.after_ns <= ns);
    known.get(more.saturating_sub(1))
}

#[cfg(test)]
mod tests;
