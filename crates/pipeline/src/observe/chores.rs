//! What an observer does less often than sampling.

use std::time::{Duration, Instant};

use super::{BUDGET, Observer};

/// Of the budget, searches and looks may take this share of one processor each.
const RARE_BUDGET: f64 = BUDGET / 4.0;
/// Time between two looks at all pipes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Time before the first search for new processes; later ones are rarer, up to
/// [`MAX_SEARCH_INTERVAL`](super::MAX_SEARCH_INTERVAL), since most start at the beginning.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_millis(25);

/// What is done less often than sampling: looks into pipes, and searches for new processes.
pub(crate) struct Chores {
    search_interval: Duration,
    max_search_interval: Duration,
    next_look: Instant,
    next_search: Instant,
}

impl Chores {
    pub(crate) fn new(now: Instant, max_search_interval: Duration) -> Self {
        Chores {
            search_interval: MIN_SEARCH_INTERVAL,
            max_search_interval,
            next_look: now + LOOK_INTERVAL,
            next_search: now + MIN_SEARCH_INTERVAL,
        }
    }

    /// Does what is due.
    pub(crate) fn run(&mut self, observer: &mut Observer<'_>) {
        if Instant::now() >= self.next_look {
            let before = observer.spent();
            observer.look();
            let least = (observer.spent() - before).div_f64(RARE_BUDGET);
            self.next_look = Instant::now() + LOOK_INTERVAL.max(least);
        }
        if Instant::now() >= self.next_search {
            let before = observer.spent();
            observer.search_new();
            let least = (observer.spent() - before).div_f64(RARE_BUDGET);
            self.search_interval = (2 * self.search_interval).min(self.max_search_interval);
            self.next_search = Instant::now() + self.search_interval.max(least);
        }
    }
}
