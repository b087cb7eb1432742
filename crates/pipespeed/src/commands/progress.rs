//! Progress, shown only between trials, so that it can't disturb them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipespeed_base::failure::say;
use pipespeed_base::standard::has_escapes;
use pipespeed_base::text::significant;
use pipespeed_measure::rounds::RunObserver;

/// Interval of lines where no bar can be drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress display, with a function that saves the record after each round.
pub(super) struct ProgressDisplay<S> {
    bar: ProgressBar,
    quiet: bool,
    /// Cases with long trials, and the seconds of one trial.
    pub(super) long: BTreeMap<String, f64>,
    /// When the trials began and the last line was printed, if lines take the place of the bar.
    lines: Option<(Instant, Instant)>,
    save: S,
}

impl<R, S: FnMut(&R)> RunObserver<R> for ProgressDisplay<S> {
    fn before_trial(&mut self, case: &str, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(match self.long.get(case) {
            Some(seconds) => format!("{case}, about {seconds:.0} s"),
            None => case.to_owned(),
        });
        self.bar.tick();
        self.print_line(done, all);
    }

    /// Prints a failure, even if progress is not shown.
    fn trial_failed(&mut self, failure: &str) {
        let line = format!("pipespeed: {failure}; the run continues with the other trials");
        self.bar.suspend(|| say(&line));
    }

    fn after_round(&mut self, record: &R) {
        (self.save)(record);
    }
}

impl<S> ProgressDisplay<S> {
    /// Starts in the pilot. `save` is called with the record after each round.
    pub(super) fn new(quiet: bool, save: S) -> Self {
        let target = if quiet || !has_escapes() {
            ProgressDrawTarget::hidden()
        } else {
            // indicatif hides it if standard error is not a terminal.
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("  pilot: {msg}"));
        ProgressDisplay {
            bar,
            quiet,
            long: BTreeMap::new(),
            lines: None,
            save,
        }
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| say(line));
        }
    }

    /// Shows the purpose of the trials while their number is unknown.
    pub(super) fn set_purpose(&self, what: &str) {
        self.bar.set_style(style(&format!("  {what}: {{msg}}")));
    }

    /// Shows the number of trials.
    pub(super) fn start(&self) {
        self.bar.reset();
        self.bar
            .set_style(style("  {bar:32} {pos}/{len} trials  {eta:>4} left  {msg}"));
    }

    /// If no bar can be drawn: prints how long `count` more runs take that each last as long as
    /// the first, and from now on a line every 10 s.
    pub(super) fn start_lines(&mut self, first: Duration, count: u32) {
        if self.bar.is_hidden() && !self.quiet {
            say(&format!(
                "pipespeed: the first run took {} s: about {} for the other {count}",
                significant(first.as_secs_f64()),
                duration(first * count)
            ));
            self.lines = Some((Instant::now(), Instant::now()));
        }
    }

    fn print_line(&mut self, done: usize, all: usize) {
        let Some((began, said)) = &mut self.lines else {
            return;
        };
        if done == 0 {
            *began = Instant::now();
        } else if said.elapsed() >= LINE_INTERVAL {
            let left = began.elapsed().mul_f64((all - done) as f64 / done as f64);
            say(&format!(
                "pipespeed: {done} of {all} runs, about {} left",
                duration(left)
            ));
            *said = Instant::now();
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds @ ..=90.0 => format!("{} s", seconds.ceil()),
        seconds => format!("{} minutes", (seconds / 60.0).ceil()),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
