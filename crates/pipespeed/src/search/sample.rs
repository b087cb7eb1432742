//! A runner that measures nothing, and a search made with it, for tests.

use std::collections::BTreeMap;

use super::grid::{Axes, Panel};
use super::{Budget, judge, walk};
use crate::case::{Case, Durations};
use crate::channel::Granted;
use crate::endpoint::control::{Outcome, Setup};
use crate::endpoint::spec::PageKind;
use crate::machine::noise::NoiseDelta;
use crate::machine::placement::Chosen;
use crate::measure::{Measurement, Observer, Stopped};
use crate::results::{EndCounters, GIB, Run, Search};
use crate::runner::{Runner, Timed, Trial, TrialError};
use crate::stats::Rng;
use crate::suite::sizes::{Place, panels};

/// Invented rates with some noise.
#[derive(Debug)]
pub(crate) struct Fake {
    /// Each trial so far: its case and how long it was to last.
    pub log: Vec<(Case, Durations)>,
    /// At which trial (from 0, the pilot's included) a signal comes.
    pub signal_at: Option<usize>,
    /// From which trial on all of them fail.
    pub failing_from: Option<usize>,
    /// A pipe size that is refused only when it is tried.
    pub refused_pipe: Option<usize>,
    /// What a trial takes besides its parts, in seconds.
    pub overhead_s: f64,
    /// What all of them took.
    pub took_s: f64,
    /// The noise.
    pub rng: Rng,
    /// As last told.
    pub durations: Durations,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            log: Vec::new(),
            signal_at: None,
            failing_from: None,
            refused_pipe: None,
            overhead_s: 0.0,
            took_s: 0.0,
            rng: Rng::new(7),
            durations: Durations {
                warm_up_s: 0.0,
                timed_s: 0.0,
            },
        }
    }
}

/// The rate without noise: larger pipes are faster, buffers are best at the
/// pipe's size, and the other things do what they usually do.
pub(crate) fn rate(case: &Case) -> f64 {
    let configuration = case.configuration();
    let pipe = case.pipe_bytes.unwrap_or(65_536) as f64 / (1 << 20) as f64;
    let buffer = case.buffer_bytes() as f64 / (1 << 20) as f64;
    let fit = (buffer / pipe).min(pipe / buffer).powf(0.2);
    let calls = match (&configuration.writer, &configuration.reader) {
        (Some(writer), _) if writer == "write" => 4.0,
        (_, Some(reader)) if reader == "splice" => 40.0,
        _ => 11.0,
    };
    let (sleeps, one) = match (&*configuration.wait, case.cpus) {
        ("spin", _) => (pipe.powf(0.1), 1.6),
        (_, Some((writer, reader))) if writer == reader => (pipe.powf(0.3), 1.0),
        _ => (pipe.powf(0.7), 0.9),
    };
    calls * fit * sleeps * one
}

impl Runner for Fake {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        let number = self.log.len();
        self.log.push((case.clone(), self.durations));
        self.took_s += self.overhead_s + self.durations.warm_up_s + self.durations.timed_s;
        if self.signal_at == Some(number) {
            return Err(TrialError::Interrupted(2));
        }
        if self.failing_from.is_some_and(|from| number >= from) {
            return Err(TrialError::Failed(anyhow::anyhow!("invented")));
        }
        if self.refused_pipe.is_some() && self.refused_pipe == case.pipe_bytes {
            return Err(TrialError::Refused("too large, invented".to_owned()));
        }
        let rate = rate(case) * (1.0 + 0.02 * (self.rng.share() - 0.5));
        Ok(trial(case, rate, self.durations.timed_s.max(0.001)))
    }
}

impl Timed for Fake {
    fn set_durations(&mut self, durations: Durations) {
        self.durations = durations;
    }

    fn now_s(&self) -> f64 {
        self.took_s
    }
}

fn trial(case: &Case, gib_per_s: f64, seconds: f64) -> Trial {
    let bytes = (gib_per_s * GIB * seconds) as u64;
    let end = || {
        Some(Outcome {
            counters: EndCounters {
                bytes,
                seconds,
                cpu_s: seconds,
                ..EndCounters::default()
            },
            parts_gib_per_s: vec![gib_per_s; 2],
            zerocopy: None,
            window_ns: (0, (seconds * 1e9) as u64),
        })
    };
    Trial {
        setup: Setup::default(),
        granted: Granted {
            pipe_bytes: case.pipe_bytes,
            ..Granted::default()
        },
        writer: end(),
        reader: end(),
        noise: NoiseDelta::default(),
    }
}

/// Looks on and does nothing.
#[derive(Debug, Default)]
pub(crate) struct Nobody {
    pub rounds: usize,
    pub failed: usize,
}

impl Observer for Nobody {
    fn before_trial(&mut self, _: &str, _: usize, _: usize) {}

    fn after_round(&mut self, _: &Run) -> anyhow::Result<()> {
        self.rounds += 1;
        Ok(())
    }

    fn trial_failed(&mut self, _: &anyhow::Error) {
        self.failed += 1;
    }
}

/// Two processors: sleeping on both and on one, spinning on both.
pub(crate) fn usual_panels() -> Vec<Panel> {
    let place = |name: &str, reader: usize| Place {
        name: name.to_owned(),
        chosen: Chosen {
            writer: Some(0),
            reader: Some(reader),
            relation: match reader {
                0 => "the same processor".to_owned(),
                _ => "different cores sharing L3".to_owned(),
            },
            warning: None,
        },
        refused: None,
        spinning_refused: (reader == 0).then(|| "spinning needs two processors".to_owned()),
    };
    panels(&[place("different", 1), place("same", 0)], PageKind::Huge)
}

/// Pipes above 1 MiB are refused.
pub(crate) fn usual_axes(every: usize) -> Axes {
    Axes::new(every, 4096, None, None, |bytes| {
        (bytes > 1 << 20).then(|| format!("{bytes} is above the limit, invented"))
    })
}

/// The record of a search that has not begun.
pub(crate) fn planned(run: Run, panels: &[Panel], axes: &Axes) -> Run {
    Run {
        search: Some(Search {
            rule: super::halving::rule(),
            seed: 5,
            budget_s: 40.0,
            buffers: axes.buffers.clone(),
            pipes: axes.pipes.clone(),
            panels: panels.iter().map(|it| it.empty_result(axes)).collect(),
            ..Search::default()
        }),
        suite: "sizes".to_owned(),
        cases: Vec::new(),
        ..run
    }
}

/// Time enough for a search of 40 s.
pub(crate) fn budget() -> Budget {
    Budget {
        whole_s: 60.0,
        rounds: None,
        least_rounds: 10,
        durations: Durations {
            warm_up_s: 0.005,
            timed_s: 0.030,
        },
    }
}

/// A search and the rounds after it, or what there is of them.
pub(crate) fn whole_run(empty: Run, panels: &[Panel], axes: &Axes, mut runner: Fake) -> Run {
    let mut run = planned(empty, panels, axes);
    if let Err(stopped) = walk::walk(
        &mut runner,
        panels,
        &mut run,
        &budget(),
        &mut Nobody::default(),
    ) {
        run.interrupted = Some(Stopped::reason(&stopped));
        run.settings.rounds_done = 0;
        return run;
    }
    let search = run.search.as_ref().unwrap();
    let cases = judge::candidates(search, panels);
    let control = cases[0].name.clone();
    let mut measurement = Measurement::new(runner, cases, Some(&control), run, &BTreeMap::new());
    measurement.rounds(15, &mut Nobody::default()).unwrap();
    measurement.finish(None)
}
