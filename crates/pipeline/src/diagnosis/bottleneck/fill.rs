//! How full the pipes were.

use std::collections::BTreeMap;

use super::MIN_TURNS;
use crate::graph::LinkSide;
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::Observed;

/// How full and how empty a pipe was, as shares of the time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FillLevel {
    pub(super) full: f64,
    pub(super) empty: f64,
}

impl FillLevel {
    /// What waiting proves of each pipe: it is full while a writer waits for room, and empty
    /// while a reader waits for input.
    pub(super) fn by_waits(stages: &[&Observed]) -> BTreeMap<LinkId, FillLevel> {
        let mut levels: BTreeMap<LinkId, FillLevel> = BTreeMap::new();
        let own = stages.iter().flat_map(|stage| &stage.on);
        let theirs = stages.iter().flat_map(|stage| stage.children_on());
        for on in own.chain(theirs) {
            let level = levels.entry(on.pipe).or_default();
            match on.side {
                LinkSide::Room => level.full = level.full.max(on.share.min(1.0 - level.empty)),
                LinkSide::Input => level.empty = level.empty.max(on.share.min(1.0 - level.full)),
            }
        }
        levels
    }

    /// Adds to these how full each pipe was when it was looked at.
    pub(super) fn with_fills(
        mut levels: BTreeMap<LinkId, FillLevel>,
        observation: &Observation,
    ) -> BTreeMap<LinkId, FillLevel> {
        for pipe in &observation.pipes {
            if let Some(fill) = pipe.pressure() {
                let level = levels.entry(pipe.id).or_default();
                *level = level.with_fill(fill);
            }
        }
        levels
    }

    /// Adds the mean fill, for the rest of the time. It is known from few looks, so that it
    /// does not overrule the waiting, least of all where both sides wait by turns.
    fn with_fill(self, fill: f64) -> FillLevel {
        if self.full.min(self.empty) >= MIN_TURNS {
            return self;
        }
        let full = fill.max(self.full).min(1.0 - self.empty);
        FillLevel {
            full,
            empty: 1.0 - full,
        }
    }
}
