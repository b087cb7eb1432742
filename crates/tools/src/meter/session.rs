//! State common to all inputs of a stream: counts, clock, limits, display.

use std::time::Duration;

use fastpipe::pipe;
use fastpipe::relay::{Activity, Flow, PassedOver, Progress};

use super::clock::Clock;
use super::display::Display;
use super::limiter::{Allowance, Limiter};
use super::lines::LineCounter;
use super::options::{MeterOptions, Show};
use super::progress::{Ending, History, Snapshot, Unit};
use pipespeed_base::text::without_error_numbers;

/// Reason for the end: the reader of the output is gone.
pub const CONSUMER_GONE: &str = "consumer gone";

/// With a rate limit in lines, at most this many bytes pass at once, unless more lines
/// are allowed.
const MAX_EXPECTED_BYTES: u64 = 16 << 10;

/// A stream in progress.
#[derive(Debug)]
pub struct MeterSession<'o> {
    /// The options.
    pub options: &'o MeterOptions,
    display: Display<'o>,
    limiter: Option<Limiter>,
    lines: Option<LineCounter>,
    size: Option<u64>,
    clock: Clock,
    history: History,
    counts: MeterCounts,
    beats: u64,
    technique: Option<&'static str>,
    passed_over: Vec<String>,
    /// The exit status so far.
    status: u8,
    /// Lines that may pass before the limiter's next update.
    lines_allowed: u64,
}

/// Counts in bytes, except for `lines` and `shown`.
#[derive(Debug, Default)]
struct MeterCounts {
    /// Written to the output from earlier inputs.
    before: u64,
    /// Written to the output from this input.
    given: u64,
    /// Written to the output and not yet read there.
    unread: Option<u64>,
    /// Read from this input and charged to the limiter.
    taken: u64,
    /// Lines charged to the limiter.
    lines: u64,
    /// The highest count shown so far, in units: the count shown never decreases, even if
    /// another writer adds unread bytes to the same pipe.
    shown: u64,
    /// The same in bytes.
    shown_bytes: u64,
}

impl<'o> MeterSession<'o> {
    /// Starts the clock now, or at the first byte if the options say so.
    pub fn new(options: &'o MeterOptions, size: Option<u64>) -> Self {
        MeterSession {
            options,
            display: Display::new(options),
            limiter: options.rate_limit.map(Limiter::new),
            lines: match options.unit {
                Unit::Bytes => None,
                Unit::Lines { end } => Some(LineCounter::new(end)),
            },
            size,
            clock: Clock::new(!options.wait),
            history: History::begin(),
            counts: MeterCounts::default(),
            beats: 0,
            technique: None,
            passed_over: Vec::new(),
            status: 0,
            lines_allowed: u64::MAX,
        }
    }

    /// Prints an error, and adds its bit to the exit status.
    pub fn fail(&mut self, bit: u8, message: &str) {
        self.status |= bit;
        self.display.print_error(message);
    }

    /// Whether an input or the output has failed.
    pub fn has_failed(&self) -> bool {
        self.status != 0
    }

    /// The interval at which relay calls back.
    pub fn interval(&self) -> Duration {
        if self.display.shows {
            self.options.interval
        } else {
            Duration::MAX
        }
    }

    /// Starts the next input.
    pub fn next_input(&mut self) {
        self.counts.before += self.counts.given;
        self.counts.given = 0;
        self.counts.taken = 0;
    }

    /// Records the techniques not used, for the summary.
    pub fn set_passed_over(&mut self, techniques: &[PassedOver]) {
        let texts = techniques.iter().map(PassedOver::to_string);
        self.passed_over = texts.map(|text| without_error_numbers(&text)).collect();
    }

    /// Units that may still pass if the stream stops at the size.
    pub fn remaining(&self) -> Option<u64> {
        let size = self.size.filter(|_| self.options.stop_at_size)?;
        Some(size.saturating_sub(self.passed()))
    }

    /// Bytes that may still pass if the stream stops at a size in bytes.
    pub fn remaining_bytes(&self) -> Option<u64> {
        self.remaining().filter(|_| self.lines.is_none())
    }

    /// The number of units written to the output.
    fn passed(&self) -> u64 {
        match &self.lines {
            Some(lines) => lines.lines,
            None => self.counts.before + self.counts.given,
        }
    }

    /// Callback of relay: updates the counts, draws, and applies the limits.
    pub fn on_progress(&mut self, progress: &Progress<'_>) -> Flow {
        self.counts.given = progress.given;
        self.counts.unread = progress.unread.map(|bytes| bytes as u64);
        self.technique = Some(progress.technique.name());
        if progress.activity == Activity::Ended {
            // Relay ignores the answer. The limiter is not updated, since `taken` may have
            // decreased: bytes not written are put back.
            return Flow::Continue;
        }
        let Some(now) = self.clock.now() else {
            if self.counts.before + self.counts.given == 0 {
                // Called again at the first byte.
                return Flow::CallAfter {
                    bytes: 1,
                    within: None,
                };
            }
            self.clock.start();
            self.history = History::begin();
            return self.flow(Duration::ZERO, progress.taken);
        };
        self.draw_if_due(now);
        self.flow(now, progress.taken)
    }

    fn draw_if_due(&mut self, now: Duration) {
        if self.display.take_due(now) {
            let snapshot = self.snapshot(now, None);
            self.display.show(&snapshot);
        }
    }

    /// Draws while no relay runs. Returns the time until the next drawing, if any.
    pub fn draw_idle(&mut self) -> Option<Duration> {
        let now = self.clock.now()?;
        self.draw_if_due(now);
        let within = self.display.until_next(now);
        self.clock.expect(within);
        within
    }

    /// Charges the bytes or lines read to the limiter, and returns how many bytes may
    /// follow.
    fn flow(&mut self, now: Duration, taken: u64) -> Flow {
        let within = self.display.until_next(now);
        self.clock.expect(within);
        let units = match &self.lines {
            Some(lines) => lines.lines - self.counts.lines,
            None => taken.saturating_sub(self.counts.taken),
        };
        self.counts.taken = taken;
        self.counts.lines += units;
        let limiter = self.limiter.as_mut();
        let allowance = limiter.map(|limiter| limiter.update(now, units));
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

    /// Returns how many bytes may pass in line mode. To stop at a number of lines: as many
    /// bytes as lines remain, since they can't contain more lines. To limit the rate:
    /// the expected length of the allowed lines; a surplus is charged to the limiter later.
    fn flow_of_lines(&self, within: Option<Duration>) -> Flow {
        let until_size = self.remaining().unwrap_or(u64::MAX);
        let length = self.lines.as_ref().map_or(1, LineCounter::likely_length);
        let expected = self.lines_allowed.saturating_mul(length);
        let max_bytes = self.lines_allowed.max(MAX_EXPECTED_BYTES);
        Flow::CallAfter {
            bytes: until_size.min(expected.clamp(self.lines_allowed, max_bytes)),
            within,
        }
    }

    /// Callback of relay in line mode: counts the lines in the bytes that pass.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Flow {
        let Some(lines) = &mut self.lines else {
            return Flow::Continue;
        };
        let counted = lines.count(bytes);
        let stops = self.options.stop_at_size && self.size.is_some();
        if !stops && self.limiter.is_none() {
            return Flow::Continue;
        }
        if self.limiter.is_some() {
            self.lines_allowed = self.lines_allowed.saturating_sub(counted);
        }
        if self.remaining() == Some(0) {
            return Flow::Stop;
        }
        let used_up = self.lines_allowed == 0;
        self.flow_of_lines(used_up.then_some(Duration::ZERO))
    }

    /// Takes a snapshot. At the end, unread bytes in the output pipe count as passed
    /// unless the reader is gone.
    fn snapshot(&mut self, now: Duration, ending: Option<Ending>) -> Snapshot {
        let counts = &mut self.counts;
        let given = counts.before + counts.given;
        let delivered = ending
            .as_ref()
            .is_some_and(|last| last.end != CONSUMER_GONE);
        let unread = counts.unread.filter(|_| !delivered).unwrap_or(0);
        let done = match &self.lines {
            Some(lines) => lines.lines_before(unread),
            None => given.saturating_sub(unread),
        };
        counts.shown_bytes = counts.shown_bytes.max(given.saturating_sub(unread));
        if done > counts.shown {
            counts.shown = done;
            self.beats += 1;
        }
        if ending.is_none() {
            self.history.sample(now, counts.shown);
        }
        Snapshot {
            name: self.options.name.clone(),
            done: counts.shown,
            size: self.size,
            elapsed: now,
            rate: self.history.rate(),
            bytes: counts.shown_bytes,
            unread: counts.unread,
            fill: fill(counts.unread),
            beats: self.beats,
            technique: self.technique,
            ending,
        }
    }

    /// Shows the final state. Returns the exit status.
    pub fn finish(&mut self, end: &'static str) -> u8 {
        let now = self.clock.now();
        // No line was drawn before the first byte.
        if now.is_some() || !matches!(self.options.show, Show::Line(_)) {
            let ending = Ending {
                end,
                status: self.status,
                passed_over: std::mem::take(&mut self.passed_over),
            };
            let snapshot = self.snapshot(now.unwrap_or_default(), Some(ending));
            self.display.show(&snapshot);
        }
        self.status | self.display.status
    }
}

/// Fill of the pipe at standard output, from 0 to 1.
fn fill(unread: Option<u64>) -> Option<f64> {
    let capacity = pipe::capacity(std::io::stdout()).ok()?;
    Some((unread? as f64 / capacity as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(rate: u64) -> MeterOptions {
        MeterOptions {
            show: Show::Nothing,
            rate_limit: Some(rate),
            ..MeterOptions::default()
        }
    }

    /// The bytes that may pass, or the time to wait.
    fn answer(flow: Flow) -> Result<u64, Option<Duration>> {
        match flow {
            Flow::CallAfter { bytes, .. } => Ok(bytes),
            Flow::AtMost { bytes: 0, within } => Err(within),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_of_any_length_are_limited_to_the_rate() {
        for length in [1, 80, 200_000] {
            let options = MeterOptions {
                unit: Unit::Lines { end: b'\n' },
                ..limited(100)
            };
            let mut session = MeterSession::new(&options, None);
            let mut line = vec![b'x'; length];
            line[length - 1] = b'\n';
            let (mut now, mut at, mut lines, mut calls) = (Duration::ZERO, 0, 0, 0);
            while now < Duration::from_secs(10) {
                calls += 1;
                match answer(session.flow(now, 0)) {
                    Ok(bytes) => {
                        let stream = line.repeat((bytes as usize).div_ceil(length) + 1);
                        let piece = &stream[at..at + bytes as usize];
                        lines += piece.iter().filter(|byte| **byte == b'\n').count();
                        at = (at + bytes as usize) % length;
                        session.on_bytes(piece);
                    }
                    Err(within) => now += within.unwrap(),
                }
            }
            assert!(
                (950..1100).contains(&lines),
                "{lines} lines of {length} bytes in 10 s"
            );
            // Long lines are not passed byte by byte.
            assert!(
                calls < 100 * 1000,
                "{calls} calls for lines of {length} bytes"
            );
        }
    }
}
