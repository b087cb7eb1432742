//! What all inputs of a stream have in common: the counts, the clock, the limits
//! and the display.

use std::time::Duration;

use fastpipe::pipe;
use fastpipe::relay::{Activity, Flow, PassedOver, Progress};

use super::clock::Clock;
use super::display::Display;
use super::json::{Beside, Ending};
use super::limiter::{Allowance, Limiter};
use super::lines::LineCounter;
use super::options::{Options, Show};
use super::progress::{History, Snapshot};
use super::units::Unit;

/// How it ends when nobody reads the output any more.
pub const CONSUMER_GONE: &str = "consumer gone";

/// The most bytes that are passed because lines are likely to be long.
const LIKELY: u64 = 16 << 10;

/// A stream on its way.
#[derive(Debug)]
pub struct Session<'o> {
    options: &'o Options,
    display: Display<'o>,
    limiter: Option<Limiter>,
    lines: Option<LineCounter>,
    size: Option<u64>,
    clock: Clock,
    history: History,
    counts: Counts,
    beats: u64,
    technique: Option<&'static str>,
    passed_over: Vec<String>,
    /// Lines that may pass before the limiter is asked again.
    lines_allowed: u64,
}

/// What has passed. Bytes but for `shown`.
#[derive(Debug, Default)]
struct Counts {
    /// Given to the output from earlier inputs.
    before: u64,
    /// Given to the output from this input.
    given: u64,
    /// Given and unread.
    unread: Option<u64>,
    /// Taken from this input, as the limiter knows it.
    taken: u64,
    /// Lines passed, as the limiter knows it.
    lines: u64,
    /// The most, in units, that was ever shown to have left: another writer at
    /// the same pipe would make it look as if some had come back.
    shown: u64,
    /// The same in bytes.
    left: u64,
}

impl<'o> Session<'o> {
    /// Begins now, or with the first byte where that is asked.
    pub fn new(options: &'o Options, size: Option<u64>) -> Self {
        Session {
            options,
            display: Display::new(options),
            limiter: options.rate_limit.map(Limiter::new),
            lines: match options.unit {
                Unit::Bytes => None,
                Unit::Lines { end } => Some(LineCounter::new(end)),
            },
            size,
            clock: Clock::new(!options.wait),
            history: History::new(),
            counts: Counts::default(),
            beats: 0,
            technique: None,
            passed_over: Vec::new(),
            lines_allowed: u64::MAX,
        }
    }

    /// What is asked.
    pub fn options(&self) -> &'o Options {
        self.options
    }

    /// Says that something went wrong.
    pub fn complain(&mut self, message: &str) {
        self.display.complain(message);
    }

    /// How often relay is to call back by itself.
    pub fn interval(&self) -> Duration {
        if self.display.shows() {
            self.options.interval
        } else {
            Duration::MAX
        }
    }

    /// Begins with another input.
    pub fn next_input(&mut self) {
        self.counts.before += self.counts.given;
        self.counts.given = 0;
        self.counts.taken = 0;
    }

    /// Keeps the techniques that were not used, for the summary.
    pub fn pass_over(&mut self, techniques: &[PassedOver]) {
        self.passed_over = techniques.iter().map(PassedOver::to_string).collect();
    }

    /// Units that may still pass where it is to stop at the size.
    pub fn left_to_pass(&self) -> Option<u64> {
        let size = self.size.filter(|_| self.options.stop_at_size)?;
        Some(size.saturating_sub(self.passed()))
    }

    /// Units given to the output.
    fn passed(&self) -> u64 {
        match &self.lines {
            Some(lines) => lines.lines(),
            None => self.counts.before + self.counts.given,
        }
    }

    /// What relay calls.
    pub fn call(&mut self, progress: &Progress<'_>) -> Flow {
        self.counts.given = progress.given;
        self.counts.unread = progress.unread.map(|bytes| bytes as u64);
        self.technique = Some(progress.technique.name());
        if progress.activity == Activity::Ended {
            // The answer is not heeded, and what was taken may have been put
            // back.
            return Flow::Continue;
        }
        let Some(now) = self.clock.now() else {
            if self.counts.before + self.counts.given == 0 {
                // Called as soon as there is something.
                return Flow::CallAfter {
                    bytes: 1,
                    within: None,
                };
            }
            self.clock.start();
            self.history.begin(Duration::ZERO, 0);
            return self.flow(Duration::ZERO, progress.taken);
        };
        self.draw_if_due(now);
        self.flow(now, progress.taken)
    }

    fn draw_if_due(&mut self, now: Duration) {
        if self.display.is_due(now) {
            let snapshot = self.snapshot(now, false, false);
            let beside = self.beside();
            self.display.show(&snapshot, &beside);
        }
    }

    /// Draws while there is no relay under way. Returns when it wants to be
    /// called again, if ever.
    pub fn idle(&mut self) -> Option<Duration> {
        let now = self.clock.now()?;
        self.draw_if_due(now);
        let within = self.display.until_next(now);
        self.clock.expect(within);
        within
    }

    /// How relay is to go on.
    fn flow(&mut self, now: Duration, taken: u64) -> Flow {
        let within = self.display.until_next(now);
        self.clock.expect(within);
        let units = match &self.lines {
            Some(lines) => lines.lines() - self.counts.lines,
            None => taken.saturating_sub(self.counts.taken),
        };
        self.counts.taken = taken;
        self.counts.lines += units;
        let allowance = self.limiter.as_mut().map(|limiter| limiter.ask(now, units));
        let bytes = match allowance {
            Some(Allowance::Wait(time)) => {
                self.lines_allowed = 0;
                let within = Some(within.map_or(time, |within| within.min(time)));
                self.clock.expect(within);
                return Flow::AtMost { bytes: 0, within };
            }
            Some(Allowance::Pass(units)) => units,
            None => u64::MAX,
        };
        self.lines_allowed = bytes;
        if self.lines.is_some() {
            self.flow_of_lines(within)
        } else {
            Flow::CallAfter { bytes, within }
        }
    }

    /// Where it is to stop at so many lines, no more bytes than lines: they
    /// can't hold more. Where only their rate is limited, what so many lines
    /// are likely to take; a few too many are made up for.
    fn flow_of_lines(&self, within: Option<Duration>) -> Flow {
        let wanted = self.left_to_pass().unwrap_or(u64::MAX);
        let length = self.lines.as_ref().map_or(1, LineCounter::likely_length);
        let likely = self.lines_allowed.saturating_mul(length);
        let allowed = likely.clamp(self.lines_allowed, self.lines_allowed.max(LIKELY));
        Flow::CallAfter {
            bytes: wanted.min(allowed),
            within,
        }
    }

    /// Looks at the bytes that were given, in line mode.
    pub fn look(&mut self, bytes: &[u8]) -> Flow {
        let Some(lines) = &mut self.lines else {
            return Flow::Continue;
        };
        let more = lines.see(bytes);
        let stops = self.options.stop_at_size && self.size.is_some();
        if !stops && self.limiter.is_none() {
            return Flow::Continue;
        }
        if self.limiter.is_some() {
            self.lines_allowed = self.lines_allowed.saturating_sub(more);
        }
        if self.left_to_pass() == Some(0) {
            return Flow::Stop;
        }
        let ask_again = self.lines_allowed == 0;
        self.flow_of_lines(ask_again.then_some(Duration::ZERO))
    }

    /// `delivered`: what waits in the output pipe counts as well.
    fn snapshot(&mut self, now: Duration, last: bool, delivered: bool) -> Snapshot {
        let counts = &mut self.counts;
        let given = counts.before + counts.given;
        let unread = counts.unread.filter(|_| !delivered).unwrap_or(0);
        let done = match &self.lines {
            Some(lines) => lines.without(unread),
            None => given.saturating_sub(unread),
        };
        counts.left = counts.left.max(given.saturating_sub(unread));
        if done > counts.shown {
            counts.shown = done;
            self.beats += 1;
        }
        self.history.add(now, counts.shown);
        Snapshot {
            done: counts.shown,
            begun_at: 0,
            size: self.size,
            elapsed: now,
            rate: self.history.rate(),
            fill: fill(counts.unread),
            beats: self.beats,
            last,
        }
    }

    fn beside(&self) -> Beside {
        Beside {
            name: self.options.name.clone(),
            bytes: self.counts.left,
            unread: self.counts.unread,
            technique: self.technique,
        }
    }

    /// Shows how it ended.
    pub fn finish(&mut self, end: &'static str, status: u8) {
        let now = match self.clock.now() {
            Some(now) => now,
            // Where nothing came that was waited for, nothing is drawn.
            None if matches!(self.options.show, Show::Line(_)) => return,
            None => Duration::ZERO,
        };
        // What waits in the pipe is on its way, if there is anybody to read it.
        let delivered = end != CONSUMER_GONE;
        let snapshot = self.snapshot(now, true, delivered);
        let ending = Ending {
            end,
            status,
            passed_over: std::mem::take(&mut self.passed_over),
        };
        let beside = self.beside();
        self.display.show_last(&snapshot, &beside, &ending);
    }
}

/// How full the pipe at standard output is.
fn fill(unread: Option<u64>) -> Option<f64> {
    let capacity = pipe::capacity(std::io::stdout()).ok()?;
    Some((unread? as f64 / capacity as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(rate: u64) -> Options {
        Options {
            show: Show::Nothing,
            rate_limit: Some(rate),
            ..Options::default()
        }
    }

    /// What may be taken, or how long it is to wait.
    fn answer(flow: Flow) -> Result<u64, Option<Duration>> {
        match flow {
            Flow::CallAfter { bytes, .. } => Ok(bytes),
            Flow::AtMost { bytes: 0, within } => Err(within),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_has_passed_is_charged_to_the_limit() {
        let options = limited(1_000_000);
        let mut session = Session::new(&options, None);
        let (mut now, mut taken) = (Duration::ZERO, 0);
        while now < Duration::from_secs(10) {
            match answer(session.flow(now, taken)) {
                Ok(bytes) => taken += bytes,
                Err(within) => now += within.unwrap(),
            }
        }
        assert!(
            (9_900_000..10_200_000).contains(&taken),
            "{taken} bytes in 10 s"
        );
    }

    #[test]
    fn lines_are_charged_however_long_they_are() {
        for length in [1, 80, 200_000] {
            let options = Options {
                unit: Unit::Lines { end: b'\n' },
                ..limited(100)
            };
            let mut session = Session::new(&options, None);
            let mut line = vec![b'x'; length];
            line[length - 1] = b'\n';
            let (mut now, mut at, mut lines, mut calls) = (Duration::ZERO, 0, 0, 0);
            while now < Duration::from_secs(10) {
                calls += 1;
                match answer(session.flow(now, 0)) {
                    Ok(bytes) => {
                        // As a relay would pass them on.
                        let stream = line.repeat((bytes as usize).div_ceil(length) + 1);
                        let piece = &stream[at..at + bytes as usize];
                        lines += piece.iter().filter(|byte| **byte == b'\n').count();
                        at = (at + bytes as usize) % length;
                        session.look(piece);
                    }
                    Err(within) => now += within.unwrap(),
                }
            }
            assert!(
                (950..1100).contains(&lines),
                "{lines} lines of {length} bytes in 10 s"
            );
            // Long ones are not passed on byte by byte.
            assert!(
                calls < 100 * 1000,
                "{calls} calls for lines of {length} bytes"
            );
        }
    }
}
