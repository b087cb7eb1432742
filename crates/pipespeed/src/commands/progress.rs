//! Progress on a terminal, drawn only between trials, so that it can't disturb
//! them.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipespeed_base::failure::say;
use pipespeed_base::standard::has_escapes;
use pipespeed_measure::rounds::Observer;

/// Progress display, with a function that saves the record after each round.
pub(super) struct Progress<S> {
    bar: ProgressBar,
    quiet: bool,
    /// Cases with long trials, and the seconds of one trial.
    long: BTreeMap<String, f64>,
    save: S,
}

impl<R, S: FnMut(&R)> Observer<R> for Progress<S> {
    fn before_trial(&mut self, case: &str, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(match self.long.get(case) {
            Some(seconds) => format!("{case}, about {seconds:.0} s"),
            None => case.to_owned(),
        });
        self.bar.tick();
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

impl<S> Progress<S> {
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
        Progress {
            bar,
            quiet,
            long: BTreeMap::new(),
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

    /// Sets the expected duration in seconds of long trials, by case. Each is
    /// announced before it begins.
    pub(super) fn announce_long(&mut self, long: BTreeMap<String, f64>) {
        self.long = long;
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
