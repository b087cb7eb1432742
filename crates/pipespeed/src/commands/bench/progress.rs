//! Progress on a terminal, drawn between trials only: while a trial runs
//! nothing of ours does.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipespeed_base::failure::say;

pub(super) struct Progress {
    bar: ProgressBar,
    quiet: bool,
    /// Cases of which a trial takes long, with its seconds.
    long: BTreeMap<String, f64>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            // Hidden by itself where standard error is no terminal.
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("  pilot: {msg}"));
        Progress {
            bar,
            quiet,
            long: BTreeMap::new(),
        }
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

    /// Trials of these take so many seconds, in which nothing moves.
    pub(super) fn expect(&mut self, long: BTreeMap<String, f64>) {
        self.long = long;
    }

    pub(super) fn before_trial(&self, case: &str, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(match self.long.get(case) {
            Some(seconds) => format!("{case}, about {seconds:.0} s"),
            None => case.to_owned(),
        });
        self.bar.tick();
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
