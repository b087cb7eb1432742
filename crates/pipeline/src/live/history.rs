//! What a process did in each of the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::sample::Shares;
use crate::sample::slice::Slice;
use crate::wait::Outside;

/// Time between two moments.
pub const TICK: Duration = Duration::from_secs(1);
/// Slices are kept for this time: of a second each, longer ones where moments are expensive.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// The last moment may come soon after the one before it: what is shown as the last second is of
/// at least this time.
const MIN_SECOND: Duration = TICK.checked_div(2).unwrap();
/// A process with fewer samples has just started, and is not shown yet.
const MIN_SAMPLES: u32 = 5;

/// What a process did during some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageWindow {
    /// The number of samples.
    pub samples: u32,
    /// How often it was in which state.
    pub shares: Shares,
    /// What it waited for outside of pipes, most of the time.
    pub waits_for: Option<Outside>,
    /// Processor time as a share of one processor.
    pub processor: f64,
    /// Bytes that it read itself per second, by any call that the kernel counts; `None` if not
    /// known.
    pub read_per_s: Option<f64>,
    /// Bytes written per second.
    pub written_per_s: Option<f64>,
}

impl Slice {
    pub(super) fn window(&self) -> StageWindow {
        let seconds = self.counted.as_secs_f64();
        let is_counted = seconds > 0.0;
        let io_seconds = self.io_counted.as_secs_f64();
        let io = self.io.filter(|_| !self.counts.splices && io_seconds > 0.0);
        let outside = self.counts.outside.iter();
        StageWindow {
            samples: self.counts.samples,
            shares: self.divide().shares(&self.counts),
            waits_for: outside.max_by_key(|(_, count)| **count).map(|most| *most.0),
            processor: if is_counted {
                self.ran.as_secs_f64() / seconds
            } else {
                0.0
            },
            read_per_s: io.map(|io| io.read_bytes as f64 / io_seconds),
            written_per_s: io.map(|io| io.written_bytes as f64 / io_seconds),
        }
    }
}

/// A process over the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    slices: VecDeque<Slice>,
    /// Their sum.
    pub(super) minute: Slice,
    /// How long the process has not run.
    pub(super) still: Duration,
    pub(super) ended: Option<Instant>,
}

impl History {
    pub(super) fn push(&mut self, slice: Slice) {
        self.note_still(&slice);
        self.slices.push_front(slice);
        let mut kept = Duration::ZERO;
        self.slices.retain(|slice| {
            let is_kept = kept < MINUTE;
            kept += slice.counted;
            is_kept
        });
        self.minute = self.last(MINUTE);
    }

    /// Notes how long it has stood still after a slice. Its children work for it.
    pub(super) fn note_still(&mut self, slice: &Slice) {
        self.still = if slice.has_run() || slice.children.has_run() {
            Duration::ZERO
        } else {
            self.still + slice.counted
        };
    }

    /// The sum of the last slices that are at least of this time.
    pub(super) fn last(&self, time: Duration) -> Slice {
        let mut sum = Slice::default();
        for slice in &self.slices {
            if sum.counted >= time {
                break;
            }
            sum.add(slice);
        }
        sum
    }

    /// The last second.
    pub(super) fn second(&self) -> Slice {
        self.last(MIN_SECOND)
    }

    /// Whether it was there for long enough to be shown.
    pub(super) fn is_settled(&self) -> bool {
        self.minute.counts.samples >= MIN_SAMPLES
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::proc::Io;
    use crate::sample::children::ChildTally;
    use crate::sample::counts::StateCounts;

    /// A second of a process, in percent of its samples.
    pub(in crate::live) fn slice(working: u32, blocked: u32, starved: u32) -> Slice {
        let outside = 100 - working - blocked - starved;
        Slice {
            counts: StateCounts {
                samples: 100,
                awake: working,
                blocked,
                starved,
                outside: [(Outside::Socket, outside)].into(),
                ..StateCounts::default()
            },
            counted: TICK,
            io_counted: TICK,
            ran: TICK.mul_f64(f64::from(working) / 100.0),
            longest_ran: TICK.mul_f64(f64::from(working) / 100.0),
            io: Some(Io {
                written_bytes: 1000,
                ..Io::default()
            }),
            ..Slice::default()
        }
    }

    pub(in crate::live) fn history(slices: impl IntoIterator<Item = Slice>) -> History {
        let mut history = History::default();
        for slice in slices {
            history.push(slice);
        }
        history
    }

    #[test]
    fn the_last_second_and_the_last_minute_are_counted_apart() {
        let many = (0..70).map(|at| {
            if at < 20 {
                slice(0, 0, 100)
            } else {
                slice(100, 0, 0)
            }
        });
        let history = history(many.chain([slice(0, 100, 0)]));
        let (second, minute) = (history.second().window(), history.last(MINUTE).window());
        assert_eq!((second.shares.blocked, second.processor), (1.0, 0.0));
        assert_eq!((minute.samples, minute.written_per_s), (6000, Some(1000.0)));
        let shares = minute.shares;
        let found = [shares.runs, shares.blocked, shares.starved, shares.queued];
        let seconds = found.map(|share| (share * 60.0 * 1e6).round() / 1e6);
        assert_eq!(seconds, [50.0, 1.0, 9.0, 0.0]);
    }

    #[test]
    fn bytes_are_unknown_if_the_stage_splices_or_hides_them() {
        let mut splices = slice(50, 50, 0);
        splices.counts.splices = true;
        let hidden = Slice {
            io: None,
            ..slice(50, 50, 0)
        };
        for unknown in [splices, hidden] {
            assert_eq!(history([unknown]).second().window().written_per_s, None);
        }
        assert_eq!(Slice::default().window().written_per_s, None);
    }

    #[test]
    fn bytes_per_second_are_those_of_the_time_in_which_they_were_counted() {
        let unknown = Slice {
            io: None,
            io_counted: Duration::ZERO,
            ..slice(50, 50, 0)
        };
        let minute = history([slice(50, 50, 0), unknown]).minute.window();
        assert_eq!(minute.written_per_s, Some(1000.0));
    }

    #[test]
    fn a_minute_is_one_however_long_the_time_between_moments() {
        let long = || Slice {
            counted: 10 * TICK,
            ..slice(50, 50, 0)
        };
        let history = history((0..20).map(|_| long()));
        assert_eq!(history.minute.counted, MINUTE);
        assert_eq!(history.last(5 * TICK).counted, 10 * TICK);
    }

    #[test]
    fn moment_soon_after_another_is_no_second_of_its_own() {
        let short = Slice {
            counted: TICK / 50,
            io: None,
            ..slice(100, 0, 0)
        };
        let second = history([slice(0, 0, 100), slice(0, 100, 0), short]).second();
        assert_eq!(
            (second.counts.samples, second.counted),
            (200, TICK + TICK / 50)
        );
        assert_eq!(second.counts.starved, 0);
    }

    #[test]
    fn a_process_is_still_since_it_ran_last() {
        let mut history = history([slice(1, 99, 0), slice(0, 100, 0), slice(0, 100, 0)]);
        assert_eq!(history.still, 2 * TICK);
        history.push(slice(1, 99, 0));
        assert_eq!(history.still, Duration::ZERO);
        // A shell sleeps while its child works.
        let mut waits = slice(0, 0, 0);
        waits.children = ChildTally::default().slice(TICK);
        history.push(waits);
        assert_eq!(history.still, Duration::ZERO);
    }
}
