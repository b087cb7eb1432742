//! [`Auto`]: finds the fastest way to send a stream, on the stream itself.
//!
//! A pure state machine over bytes sent and time, so that it can be tested
//! without a pipe. It compares the wall time per byte of the whole program,
//! between the same points of its loop: the page faults of [`Way::Fresh`] occur
//! where the program produces its data, and timing only the writer's calls would
//! miss them.
//!
//! ```text
//! watch the incumbent, window by window: at least 8 MiB and 8 ms each, and 16 MiB
//! unless that takes longer than 20 ms
//! at 32 MiB, and then at twice the offset of the last trial, try a challenger:
//!     incumbent, challenger, challenger, incumbent: two pairs of windows
//!     dropped    if the first pair is below 0.8, or two are not above 1.05
//!     adopted    if both of the challenger's windows are 1.5 times as fast as the
//!                incumbent's, or three of at most four pairs are above 1.05
//! (1.0 in place of 1.05 for what takes less processor time: CowChecked, and Fresh,
//! compared with copying below 1 GiB/s)
//! ```

use std::time::Duration;

/// Shortest window that is timed, in bytes.
const MIN_WINDOW: u64 = 8 << 20;
/// And in time: another process's time slice of 3 or 4 ms must not look like a
/// different rate.
const MIN_WINDOW_TIME: Duration = Duration::from_millis(8);
/// [`Way::CowChecked`] checks once a region, which a window should contain unless it
/// takes this long: a check, which costs about as much as zeroing two huge pages, is then
/// a small part of it.
const LONG_WINDOW_TIME: Duration = Duration::from_millis(20);
/// Length of a window, in capacities of the pipe.
const WINDOW_CAPACITIES: u64 = 8;
/// Part of the stream after a change that is not timed, in capacities: the pipe
/// still holds bytes of the way before.
const SETTLING_CAPACITIES: u64 = 2;
/// Distance from the start of a search to its first trial, in bytes. Later trials follow
/// at twice the distance of the one before. After a disturbed trial, the distance to the
/// next one: it doubles with each disturbed trial in a row.
const FIRST_DISTANCE: u64 = 32 << 20;
/// Below this rate, in bytes per second, how bytes are sent hardly matters: a wake-up of
/// the reader for each 8 KiB takes a few percent of the time.
const MIN_RATE: f64 = (50 << 20) as f64;
/// Below this rate, in bytes per second, [`Way::CopyLong`] is tried: the pipe is
/// likely to be empty, and each write wakes the reader.
const MAX_LONG_RATE: f64 = (1 << 30) as f64;
/// Apart from the first trial of each way, challengers cost at most this share of the time,
/// compared with the incumbent's rate. A share of the bytes would not do: 1 % of them cost
/// 3 % of the time at a quarter of the rate.
const MAX_LOST: f64 = 0.01;
/// The first trial of a way, which is repeated if something disturbed it, may begin while
/// challengers cost at most this share of the time, or this time.
const MAX_FIRST: f64 = 0.1;
const MAX_FIRST_TIME: Duration = Duration::from_millis(150);

/// Ratios of challenger to incumbent.
const DROPPED_BELOW: f64 = 0.8;
const ADOPTED_EARLY: f64 = 1.5;
const ADOPTED: f64 = 1.05;
/// The same for a way that takes less processor time than the incumbent: any gain will do.
const CHEAPER_ADOPTED: f64 = 1.0;
/// Pairs above that which decide a trial, and how many others there may be: an
/// interruption in one window should not decide.
const MIN_HIGH_PAIRS: usize = 3;
const MAX_LOW_PAIRS: usize = 1;

/// A change of the incumbent's own rate by this factor starts the search anew. Within
/// a trial, it means that something else happened, such as a pause of the program.
const CHANGED_RATE: f64 = 2.0;
/// Number of windows over which the incumbent's rate is averaged for that.
const RECENT_WINDOWS: usize = 4;
/// Number of the incumbent's windows before a trial.
const MIN_WINDOWS: usize = 2;

/// The report keeps this many of the latest trials.
const MAX_TRIALS: usize = 16;

/// Ways to send among which [`Method::Auto`](crate::method::Method::Auto) chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// write(2), in pieces of one or two pages ([`Method::copy`](crate::Method::copy)).
    Copy,
    /// write(2), in pieces of 64 KiB: fewer wake-ups of a reader that waits for a slow
    /// program.
    CopyLong,
    /// [`Method::Fresh`](crate::method::Method::Fresh).
    Fresh,
    /// [`Method::CowChecked`](crate::method::Method::CowChecked).
    CowChecked,
}

impl Way {
    fn is_copy(self) -> bool {
        matches!(self, Way::Copy | Way::CopyLong)
    }

    /// The ratio above which this way replaces an incumbent that sends at this rate, in bytes
    /// per second.
    fn adopted_above(self, incumbent: Way, rate: f64) -> f64 {
        match self {
            // Into sha256sum it takes 8 % less processor time than write(2).
            Way::CowChecked => CHEAPER_ADOPTED,
            // At 500 MiB/s into wc it takes 8 % less than write(2), into cat 20 %: there each
            // write wakes the reader.
            Way::Fresh if incumbent.is_copy() && rate < MAX_LONG_RATE => CHEAPER_ADOPTED,
            Way::Copy | Way::CopyLong | Way::Fresh => ADOPTED,
        }
    }
}

/// A comparison of two ways on the stream itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    /// Stream offset at which it ended, in bytes.
    pub(super) ended_at: u64,
    /// Way in use until then.
    pub(super) incumbent: Way,
    /// Way compared with it.
    pub(super) challenger: Way,
    /// Mean rate of the incumbent's windows, in bytes per second.
    pub(super) incumbent_rate: f64,
    /// Mean rate of the challenger's windows, in bytes per second.
    pub(super) challenger_rate: f64,
    /// What came of it.
    pub(super) outcome: TrialOutcome,
}

impl Trial {
    /// Mean rate of `way` in this trial, in bytes per second.
    fn rate_of(&self, way: Way) -> Option<f64> {
        match way {
            _ if way == self.challenger => Some(self.challenger_rate),
            _ if way == self.incumbent => Some(self.incumbent_rate),
            _ => None,
        }
    }
}

/// The result of a [`Trial`](super::finish::Trial).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrialOutcome {
    /// The challenger replaced the incumbent.
    Adopted,
    /// The incumbent stayed.
    Dropped,
    /// The incumbent stayed: windows of the same way differed too much to tell. The
    /// challenger is tried again.
    Disturbed,
}

/// One timed part of the stream.
#[derive(Debug, Clone, Copy)]
struct Window {
    bytes: u64,
    seconds: f64,
}

impl Window {
    fn rate(self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}

#[derive(Debug)]
enum Phase {
    Watching,
    Trying {
        challenger: Way,
        /// The windows so far, in [the order](sends_challenger) of a trial.
        windows: Vec<Window>,
    },
    /// There are no more trials.
    Stopped,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Auto {
    /// Available ways, in the order in which they are tried.
    ways: Vec<Way>,
    incumbent: Way,
    /// Whether the incumbent was adopted although it was hardly faster.
    has_small_gain: bool,
    phase: Phase,
    window: u64,
    settling: u64,
    /// Bytes that `CowChecked` sends from new pages before it can reuse any.
    cow_checked_region: u64,
    /// Offset and time at which the current window began; `None` while settling.
    window_start: Option<(u64, Duration)>,
    /// Offset from which [`advance`](Self::advance) is due.
    due: u64,
    next_trial: u64,
    /// Offset at which the search started.
    search_start: u64,
    /// Ways that have been compared with another since then, as challenger or incumbent.
    tried: Vec<Way>,
    /// Offset and time at which the challenger in use began to send, and the incumbent's rate.
    challenger_start: Option<(u64, Duration, f64)>,
    /// Time that challengers took longer than the incumbent would have.
    lost: Duration,
    /// The incumbent's rate in the latest trial.
    rate_at_trial: Option<f64>,
    recent: Vec<Window>,
    trials: Vec<Trial>,
}

impl Auto {
    /// Starts at offset `sent` of the stream with [`Way::Copy`], which must be one
    /// of the `ways`.
    pub(super) fn new(ways: Vec<Way>, capacity: u64, cow_checked_region: u64, sent: u64) -> Self {
        debug_assert!(ways.contains(&Way::Copy));
        let settling = SETTLING_CAPACITIES * capacity;
        Auto {
            ways,
            incumbent: Way::Copy,
            has_small_gain: false,
            phase: Phase::Watching,
            window: MIN_WINDOW.max(WINDOW_CAPACITIES * capacity),
            settling,
            cow_checked_region,
            window_start: None,
            due: sent + settling,
            next_trial: FIRST_DISTANCE,
            search_start: 0,
            tried: Vec::new(),
            challenger_start: None,
            lost: Duration::ZERO,
            rate_at_trial: None,
            recent: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// Offset of the stream from which [`advance`](Self::advance) is due.
    pub(super) fn due(&self) -> u64 {
        match self.phase {
            Phase::Stopped => u64::MAX,
            Phase::Watching | Phase::Trying { .. } => self.due,
        }
    }

    /// The way in use.
    pub(super) fn way(&self) -> Way {
        match &self.phase {
            Phase::Trying {
                challenger,
                windows,
            } if sends_challenger(windows.len()) => *challenger,
            _ => self.incumbent,
        }
    }

    /// The latest trials.
    pub(super) fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Median rate of the latest windows of the incumbent, in bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self.recent.iter().map(|window| window.rate()).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    /// Tells that `sent` bytes of the stream have been given to the kernel at the
    /// time `now`. Returns the way to use from here.
    pub(super) fn advance(&mut self, sent: u64, now: Duration) -> Way {
        let before = self.way();
        if let Some((from, started)) = self.window_start {
            let (bytes, time) = (sent - from, now.saturating_sub(started));
            let missing = self.missing_bytes(bytes, time);
            if missing > 0 {
                self.due = sent + missing;
                return before;
            }
            let window = Window {
                bytes,
                seconds: time.as_secs_f64(),
            };
            match &mut self.phase {
                Phase::Watching => self.watch(sent, now, window),
                Phase::Trying { windows, .. } => {
                    windows.push(window);
                    self.judge(sent);
                }
                Phase::Stopped => {}
            }
        }
        if self.way() == before {
            if before == self.incumbent {
                // Perhaps adopted just now.
                self.end_challenge(sent, now);
            }
            self.window_start = Some((sent, now));
            self.due = sent + self.window;
        } else {
            self.settle(sent, now);
        }
        self.way()
    }

    /// Number of bytes that a window of `bytes` and `time` should be longer.
    fn missing_bytes(&self, bytes: u64, time: Duration) -> u64 {
        if time < MIN_WINDOW_TIME {
            let missing = (MIN_WINDOW_TIME - time).as_secs_f64();
            let expected = missing * bytes as f64 / time.as_secs_f64().max(1e-6);
            (expected as u64).clamp(1, bytes)
        } else if time < LONG_WINDOW_TIME && self.ways.contains(&Way::CowChecked) {
            self.cow_checked_region.saturating_sub(bytes).min(bytes)
        } else {
            0
        }
    }

    /// Ends the current window untimed: something else was sent in between.
    pub(super) fn interrupt(&mut self, sent: u64) {
        self.window_start = None;
        self.due = sent + self.settling_of(self.way());
    }

    /// Removes `way`, which turned out not to be available.
    pub(super) fn remove(&mut self, way: Way, sent: u64, now: Duration) {
        self.ways.retain(|other| *other != way);
        if self.incumbent == way {
            self.copy_and_start_anew(sent);
        }
        self.abandon_trial();
        self.settle(sent, now);
    }

    /// Goes back to copying, and puts the next trial off: there was no huge page for the
    /// way in use.
    pub(super) fn postpone(&mut self, sent: u64, now: Duration) {
        if !self.incumbent.is_copy() {
            self.copy_and_start_anew(sent);
        }
        self.abandon_trial();
        self.rate_at_trial = None;
        self.next_trial = self.doubled(sent);
        self.settle(sent, now);
    }

    /// Ends all trials: pages can't be handed over.
    pub(super) fn stop(&mut self) {
        if !self.incumbent.is_copy() {
            self.incumbent = Way::Copy;
        }
        self.phase = Phase::Stopped;
    }

    /// Copies in place of an incumbent that can't be used any more.
    fn copy_and_start_anew(&mut self, sent: u64) {
        self.incumbent = Way::Copy;
        self.has_small_gain = false;
        self.start_anew(sent);
    }

    /// Ends the trial under way, if there is one, without a result.
    fn abandon_trial(&mut self) {
        self.phase = Phase::Watching;
        self.recent.clear();
    }

    /// Counts the time that a challenger cost, if one was in use.
    fn end_challenge(&mut self, sent: u64, now: Duration) {
        if let Some((from, started, incumbent_rate)) = self.challenger_start.take() {
            let bytes = (sent - from) as f64;
            // A program may pause for hours.
            let longest = Duration::from_secs_f64(bytes / MIN_RATE);
            let time = now.saturating_sub(started).min(longest);
            self.lost += time.saturating_sub(Duration::from_secs_f64(bytes / incumbent_rate));
        }
    }

    fn settle(&mut self, sent: u64, now: Duration) {
        self.end_challenge(sent, now);
        if self.way() != self.incumbent {
            let incumbent_rate = self.rate().unwrap_or(f64::INFINITY);
            self.challenger_start = Some((sent, now, incumbent_rate));
        }
        self.window_start = None;
        self.due = sent + self.settling_of(self.way());
    }

    fn settling_of(&self, way: Way) -> u64 {
        match way {
            Way::Copy | Way::CopyLong | Way::Fresh => self.settling,
            Way::CowChecked => self.settling + self.cow_checked_region,
        }
    }

    /// Length of a window of this way, in bytes, if it takes long enough.
    fn window_of(&self, way: Way) -> u64 {
        match way {
            Way::Copy | Way::CopyLong | Way::Fresh => self.window,
            Way::CowChecked => self.window.max(self.cow_checked_region),
        }
    }

    fn watch(&mut self, sent: u64, now: Duration, window: Window) {
        if self.recent.len() == RECENT_WINDOWS {
            self.recent.remove(0);
        }
        self.recent.push(window);
        if self.recent.len() == RECENT_WINDOWS
            && let (Some(rate), Some(before)) = (self.rate(), self.rate_at_trial)
            && !(1.0 / CHANGED_RATE..CHANGED_RATE).contains(&(rate / before))
        {
            self.start_anew(sent);
        }
        let is_known = self.recent.len() >= MIN_WINDOWS;
        if !is_known || sent < self.next_trial || window.rate() < MIN_RATE {
            return;
        }
        if let Some(challenger) = self.next_challenger(now, window.rate()) {
            self.tried.push(challenger);
            self.phase = Phase::Trying {
                challenger,
                windows: Vec::new(),
            };
        }
    }

    fn start_anew(&mut self, sent: u64) {
        self.tried.clear();
        self.rate_at_trial = None;
        self.search_start = sent;
        self.next_trial = sent;
    }

    /// Offset of the stream that is twice as far from the search's start as `at`.
    fn doubled(&self, at: u64) -> u64 {
        at + (at - self.search_start).max(FIRST_DISTANCE)
    }

    /// The way that was tried least, of those whose trial would not cost too much time.
    /// `rate` is the incumbent's.
    fn next_challenger(&self, now: Duration, rate: f64) -> Option<Way> {
        let is_affordable = |way: &Way| {
            let trials = self.trials.iter().rev();
            let mut decided = trials.filter(|trial| trial.outcome != TrialOutcome::Disturbed);
            let Some(rate_before) = decided.find_map(|trial| trial.rate_of(*way)) else {
                let limit = now.mul_f64(MAX_FIRST).max(MAX_FIRST_TIME);
                return self.lost <= limit;
            };
            // The first pair drops a way that is as slow as it was.
            let windows = if rate_before < DROPPED_BELOW * rate {
                1
            } else {
                2
            };
            let bytes = self.settling_of(*way) + windows * self.window_of(*way);
            let expected_s = bytes as f64 * (1.0 / rate_before - 1.0 / rate).max(0.0);
            self.lost.as_secs_f64() + expected_s <= MAX_LOST * now.as_secs_f64()
        };
        let times_tried = |way: &Way| self.tried.iter().filter(|tried| *tried == way).count();
        let challengers = self.ways.iter();
        let challengers = challengers.filter(|way| self.may_challenge(**way, rate));
        let challengers = challengers.filter(|way| is_affordable(way));
        challengers.min_by_key(|way| times_tried(way)).copied()
    }

    /// Whether `way` may turn out to be faster than the incumbent, which sends at `rate`.
    fn may_challenge(&self, way: Way, rate: f64) -> bool {
        match way {
            _ if way == self.incumbent => false,
            Way::Copy | Way::CowChecked => true,
            Way::CopyLong => {
                (self.incumbent == Way::Copy || self.has_small_gain) && rate < MAX_LONG_RATE
            }
            // CowChecked replaces the pages that are still in use, Fresh replaces all.
            Way::Fresh => self.incumbent != Way::CowChecked || self.has_small_gain,
        }
    }

    /// Ends the trial if its windows so far decide it.
    fn judge(&mut self, sent: u64) {
        let Phase::Trying {
            challenger,
            windows,
        } = &self.phase
        else {
            return;
        };
        let ratios: Vec<f64> = windows
            .chunks_exact(2)
            .enumerate()
            .map(|(pair, windows)| {
                let ratio = windows[1].rate() / windows[0].rate();
                if sends_challenger(2 * pair) {
                    1.0 / ratio
                } else {
                    ratio
                }
            })
            .collect();
        let of = |challengers: bool| {
            let theirs = windows.iter().enumerate();
            let theirs = theirs.filter(move |(at, _)| sends_challenger(*at) == challengers);
            theirs.map(|(_, window)| *window)
        };
        let rates = |challengers: bool| of(challengers).map(Window::rate);
        let slowest = rates(true).fold(f64::INFINITY, f64::min);
        let is_far_above = slowest > ADOPTED_EARLY * rates(false).fold(0.0, f64::max);
        let incumbent_rate = mean(of(false)).unwrap_or(0.0);
        let adopted_above = challenger.adopted_above(self.incumbent, incumbent_rate);
        let low_pairs = ratios.iter().filter(|ratio| **ratio <= adopted_above);
        let low_pairs = low_pairs.count();
        let outcome = match ratios.len() {
            // However much its own windows differ.
            2 if is_far_above => TrialOutcome::Adopted,
            _ if is_disturbed(of(false)) || is_disturbed(of(true)) => TrialOutcome::Disturbed,
            1 if ratios[0] < DROPPED_BELOW => TrialOutcome::Dropped,
            _ if low_pairs > MAX_LOW_PAIRS => TrialOutcome::Dropped,
            pairs if pairs - low_pairs >= MIN_HIGH_PAIRS => TrialOutcome::Adopted,
            _ => return,
        };
        // A pause in each of the incumbent's windows must not decide either. If the windows
        // before the trial were faster, the stream itself has changed, and only another trial
        // can tell.
        let best_rate = |windows: &mut dyn Iterator<Item = Window>| {
            windows.map(Window::rate).fold(0.0, f64::max)
        };
        let incumbents = best_rate(&mut of(false).chain(self.recent.iter().copied()));
        let is_best = best_rate(&mut of(true)) > adopted_above * incumbents;
        let outcome = match outcome {
            TrialOutcome::Adopted if !is_best => TrialOutcome::Disturbed,
            outcome => outcome,
        };
        let trial = Trial {
            ended_at: sent,
            incumbent: self.incumbent,
            challenger: *challenger,
            incumbent_rate,
            challenger_rate: mean(of(true)).unwrap_or(0.0),
            outcome,
        };
        self.conclude(trial);
    }

    fn conclude(&mut self, trial: Trial) {
        self.phase = Phase::Watching;
        // Latest trials that were disturbed, in a row.
        let before = self.trials.iter().rev();
        let disturbed = before
            .take_while(|trial| trial.outcome == TrialOutcome::Disturbed)
            .count();
        match trial.outcome {
            TrialOutcome::Adopted => {
                self.tried.push(self.incumbent);
                self.incumbent = trial.challenger;
                self.has_small_gain = trial.challenger_rate <= ADOPTED * trial.incumbent_rate;
                self.rate_at_trial = Some(trial.challenger_rate);
                self.recent.clear();
            }
            TrialOutcome::Dropped => {
                self.rate_at_trial = Some(trial.incumbent_rate);
            }
            TrialOutcome::Disturbed => {
                // It is still this way's turn, once more, compared with windows from here on.
                if disturbed == 0 {
                    self.tried.pop();
                }
                self.recent.clear();
            }
        }
        let doubled = self.doubled(trial.ended_at);
        self.next_trial = match trial.outcome {
            TrialOutcome::Disturbed => doubled.min(trial.ended_at + (FIRST_DISTANCE << disturbed)),
            TrialOutcome::Adopted | TrialOutcome::Dropped => doubled,
        };
        if self.trials.len() == MAX_TRIALS {
            self.trials.remove(0);
        }
        self.trials.push(trial);
    }
}

/// Whether window number `at` of a trial is the challenger's: incumbent,
/// challenger, challenger, incumbent, and so on.
fn sends_challenger(at: usize) -> bool {
    matches!(at % 4, 1 | 2)
}

/// Whether the rates of windows of the same way differ more than noise explains.
fn is_disturbed(windows: impl Iterator<Item = Window> + Clone) -> bool {
    let rates = windows.map(Window::rate);
    let slowest = rates.clone().fold(f64::INFINITY, f64::min);
    rates.fold(0.0, f64::max) > CHANGED_RATE * slowest
}

fn mean(windows: impl Iterator<Item = Window> + Clone) -> Option<f64> {
    let bytes: u64 = windows.clone().map(|window| window.bytes).sum();
    let seconds: f64 = windows.map(|window| window.seconds).sum();
    (seconds > 0.0).then(|| bytes as f64 / seconds)
}

#[cfg(test)]
mod tests;
