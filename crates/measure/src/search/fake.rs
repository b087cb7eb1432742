//! A search with invented rates, for tests.

use std::collections::BTreeMap;

use super::*;
use crate::endpoint::outcome::Outcome;
use crate::record::{EndCounters, GIB, Granted, NotRun, Setup};
use crate::spec::{DataUse, Suite};
use crate::suite::sizes::{grid, with_one_processor};
use crate::suite::{Overrides, touched};
use crate::trial::{Runner, Trial};
use pipespeed_host::noise::NoiseDelta;
use pipespeed_stats::Rng;

/// A runner with invented rates and a clock of its own.
#[derive(Debug)]
pub struct Fake {
    /// The names of the cases of the trials so far.
    pub log: Vec<String>,
    /// The number of the trial that is interrupted by a signal.
    pub signal_at: Option<usize>,
    /// A pipe size that is refused when it is tried.
    pub refused_pipe: Option<usize>,
    /// The time of a trial outside its parts.
    pub overhead_s: f64,
    /// The sum of the time of all trials.
    pub now_s: f64,
    /// The noise.
    pub rng: Rng,
    /// The parts of the next trial.
    pub durations: Durations,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            log: Vec::new(),
            signal_at: None,
            refused_pipe: None,
            overhead_s: 0.01,
            now_s: 0.0,
            rng: Rng::new(7),
            durations: plan(60.0).durations,
        }
    }
}

/// The rate of a case without noise: the higher the larger the pipe, and the
/// nearer the buffer's size is to the pipe's.
pub fn rate(case: &Case) -> f64 {
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let (pipe, buffer) = (
        mib(case.subject.pipe_bytes().unwrap()),
        mib(case.subject.buffer_bytes()),
    );
    let (waits, steepness) = if case.spins() { (1.6, 0.1) } else { (1.0, 0.5) };
    let technique = if case.data == DataUse::Discard {
        40.0
    } else {
        10.0
    };
    let fit = (buffer / pipe).min(pipe / buffer).powf(0.2);
    technique * waits * pipe.powf(steepness) * fit
}

impl Fake {
    /// One whose trials take so much longer.
    pub fn slow(overhead_s: f64) -> Fake {
        Fake {
            overhead_s,
            ..Fake::default()
        }
    }
}

impl Runner for Fake {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        let number = self.log.len();
        self.log.push(case.name.clone());
        self.now_s += self.overhead_s + self.durations.sum_s();
        if self.signal_at == Some(number) {
            return Err(Interrupted(2).into());
        }
        if self.refused_pipe.is_some() && self.refused_pipe == case.subject.pipe_bytes() {
            return Err(NotRun::refused("too large, invented").into());
        }
        let gib_per_s = rate(case) * (0.99 + 0.02 * self.rng.share());
        let seconds = self.durations.timed_s;
        let bytes = (gib_per_s * GIB * seconds) as u64;
        let end = Outcome {
            counters: EndCounters {
                bytes,
                seconds,
                cpu_s: seconds,
                ..EndCounters::default()
            },
            parts_gib_per_s: vec![gib_per_s; 2],
            window_ns: (0, (seconds * 1e9) as u64),
        };
        Ok(Trial {
            setup: Setup::default(),
            granted: Granted {
                pipe_bytes: case.subject.pipe_bytes(),
                ..Granted::default()
            },
            writer: Some(end.clone()),
            reader: Some(end),
            noise: NoiseDelta::default(),
        })
    }
}

impl Timed for Fake {
    fn set_durations(&mut self, durations: Durations) {
        self.durations = durations;
    }

    fn now_s(&self) -> f64 {
        self.now_s
    }
}

/// All cases on two processors and on one; pipes above 1 MiB are refused.
pub fn plan(time_s: f64) -> SearchPlan {
    let overrides = Overrides::default();
    let cases = Suite::Sizes.cases(&overrides);
    SearchPlan {
        purpose: SearchPurpose::Sizes,
        cases: with_one_processor(cases, 0),
        grid: grid(4096, &overrides, |bytes| {
            (bytes > 1 << 20).then(|| "above the limit, invented".to_owned())
        }),
        cpus: Some((0, 1)),
        time_s,
        budget: None,
        rounds: None,
        min_rounds: 1,
        durations: Durations {
            warm_up_s: 0.015,
            timed_s: 0.1,
        },
    }
}

/// The search for the best write of the suite touched. Pipes of 256 KiB are refused.
pub fn baseline_plan(time_s: f64) -> SearchPlan {
    let overrides = Overrides::default();
    let mut cases = Suite::Touched.cases(&overrides);
    cases.truncate(1);
    SearchPlan {
        purpose: SearchPurpose::Baseline,
        cases,
        grid: touched::grid(4096, &overrides, |bytes| {
            (bytes == 256 << 10).then(|| "in between, invented".to_owned())
        }),
        ..plan(time_s)
    }
}

/// A search and the rounds after it, and their time in seconds.
pub fn whole_run(empty: Run, plan: &SearchPlan, mut runner: Fake) -> (Run, f64) {
    let mut run = Run {
        suite: Suite::Sizes,
        cases: Vec::new(),
        null_control: None,
        ..empty
    };
    run.settings.rounds_done = 0;
    let searched = search(plan, &mut runner, &mut run, &mut ());
    let (cases, stopped) = match searched {
        Ok(cases) => (cases, None),
        Err(stopped) => (plan.cases.clone(), Some(stopped)),
    };
    let control = cases.first().map(|case| case.name.clone());
    let refused = BTreeMap::new();
    let mut measurement = Measurement::new(runner, cases, control.as_deref(), run, &refused);
    let stopped = match stopped {
        None => {
            let confirmed = confirm(plan, &mut measurement, &mut (), |_| {});
            confirmed.err().map(anyhow::Error::from)
        }
        stopped => stopped,
    };
    let now_s = measurement.work.runner.now_s;
    (measurement.finish(stopped.as_ref()), now_s)
}
