//! Progress on a terminal, drawn between trials only: while a trial runs
//! nothing of ours does.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(super) struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            // Hidden by itself where standard error is no terminal.
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("  pilot: {msg}"));
        Progress { bar, quiet }
    }

    /// Says a line above the bar.
    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| say(line));
        }
    }

    /// Says a line above the bar, asked for or not: something went wrong.
    pub(super) fn complain(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// What the trials are for, while their number is not known.
    pub(super) fn doing(&self, what: &str) {
        self.bar.set_style(style(&format!("  {what}: {{msg}}")));
    }

    /// The number of trials is known.
    pub(super) fn start(&self, rounds: usize, cases: usize) {
        self.bar.reset();
        self.bar.set_length((rounds * cases) as u64);
        self.bar
            .set_style(style("  {bar:32} {pos}/{len} trials  {eta:>4} left  {msg}"));
    }

    pub(super) fn before_trial(&self, case: &str, done: usize, _all: usize) {
        self.bar.set_position(done as u64);
        self.bar.set_message(case.to_owned());
        self.bar.tick();
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
