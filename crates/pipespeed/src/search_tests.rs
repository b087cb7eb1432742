use std::collections::BTreeMap;

use super::*;
use crate::channel::Granted;
use crate::endpoint::control::{Outcome, Setup};
use crate::machine::noise::NoiseDelta;
use crate::report::sample::ladder;
use crate::results::{DataUse, EndCounters, GIB, Verdict};
use crate::runner::{Runner, Trial};
use crate::suite::sizes::with_one_processor;
use crate::suite::{Overrides, Suite};

/// A runner with invented rates and a clock of its own.
#[derive(Debug)]
pub(crate) struct Fake {
    /// The names of the cases of the trials so far.
    pub log: Vec<String>,
    /// The number of the trial that is interrupted by a signal.
    pub signal_at: Option<usize>,
    /// A pipe size that is refused when it is tried.
    pub refused_pipe: Option<usize>,
    /// The time of a trial besides its parts.
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
pub(crate) fn rate(case: &Case) -> f64 {
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let (pipe, buffer) = (mib(case.pipe_bytes.unwrap()), mib(case.buffer_bytes()));
    let (waits, steepness) = if case.spins() { (1.6, 0.1) } else { (1.0, 0.5) };
    let technique = if case.data == DataUse::Discard {
        40.0
    } else {
        10.0
    };
    let fit = (buffer / pipe).min(pipe / buffer).powf(0.2);
    technique * waits * pipe.powf(steepness) * fit
}

impl Runner for Fake {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        let number = self.log.len();
        self.log.push(case.name.clone());
        self.now_s += self.overhead_s + self.durations.sum_s();
        if self.signal_at == Some(number) {
            return Err(TrialError::Interrupted(2));
        }
        if self.refused_pipe.is_some() && self.refused_pipe == case.pipe_bytes {
            return Err(TrialError::Refused("too large, invented".to_owned()));
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
            zerocopy: None,
            window_ns: (0, (seconds * 1e9) as u64),
        };
        Ok(Trial {
            setup: Setup::default(),
            granted: Granted {
                pipe_bytes: case.pipe_bytes,
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

struct Nobody;

impl Observer for Nobody {
    fn before_trial(&mut self, _: &str, _: usize, _: usize) {}

    fn after_round(&mut self, _: &Run) -> anyhow::Result<()> {
        Ok(())
    }
}

/// All cases on two processors and on one; pipes above 1 MiB are refused.
pub(crate) fn plan(time_s: f64) -> SearchPlan {
    let cases = Suite::Sizes.cases(&Overrides::default());
    SearchPlan {
        cases: with_one_processor(cases, 0),
        grid: Grid::new(4096, None, None, |bytes| {
            (bytes > 1 << 20).then(|| "above the limit, invented".to_owned())
        }),
        cpus: Some((0, 1)),
        time_s,
        rounds: None,
        durations: Durations {
            warm_up_s: 0.015,
            timed_s: 0.1,
        },
    }
}

/// A search and the rounds after it, and their time in seconds.
pub(crate) fn whole_run(empty: Run, plan: &SearchPlan, mut runner: Fake) -> (Run, f64) {
    let mut run = Run {
        suite: "sizes".to_owned(),
        cases: Vec::new(),
        null_control: None,
        ..empty
    };
    run.settings.rounds_done = 0;
    let searched = search(plan, &mut runner, &mut run, &mut Nobody);
    let (cases, stopped) = match searched {
        Ok(cases) => (cases, None),
        Err(stopped) => (plan.cases.clone(), Some(stopped)),
    };
    let control = cases.first().map(|case| case.name.clone());
    let refused = BTreeMap::new();
    let mut measurement = Measurement::new(runner, cases, control.as_deref(), run, &refused);
    let stopped = match stopped {
        None => confirm(plan, &mut measurement, &mut Nobody, |_, _, _| {}).err(),
        stopped => stopped,
    };
    let now_s = measurement.runner_mut().now_s;
    (measurement.finish(stopped.as_ref()), now_s)
}

fn run_of(time_s: f64, runner: Fake) -> Run {
    whole_run(ladder(), &plan(time_s), runner).0
}

fn searched(run: &Run) -> &Search {
    run.search.as_ref().unwrap()
}

fn cells(run: &Run) -> impl Iterator<Item = &CellResult> {
    searched(run).panels.iter().flat_map(|panel| &panel.cells)
}

#[test]
fn a_run_keeps_its_time_however_slow_trials_are() {
    for time_s in [30.0, 115.0] {
        for overhead_s in [0.0, 0.005, 0.02, 0.1, 0.5, 2.0, 5.0] {
            let runner = Fake {
                overhead_s,
                ..Fake::default()
            };
            let (run, took_s) = whole_run(ladder(), &plan(time_s), runner);
            let said = format!("{overhead_s} s a trial: {took_s} of {time_s} s");
            assert!(took_s <= time_s, "{said}");
            if let Some(reason) = &run.interrupted {
                assert!(reason.contains("trials take too long"), "{reason}");
            }
            let confirmed = run.settings.rounds_done > 0;
            let skipped = |it: &Warning| it.message.contains("no time was left");
            let explained = run.warnings.iter().any(skipped) || run.interrupted.is_some();
            assert_ne!(confirmed, explained, "{said}");
            assert!(confirmed || overhead_s >= 0.5, "{said}");
        }
    }
}

#[test]
fn the_grid_has_a_trial_of_every_pair_and_the_best_have_more() {
    let run = run_of(60.0, Fake::default());
    for panel in &searched(&run).panels {
        for cell in &panel.cells {
            assert_eq!(cell.grid.is_empty(), cell.refused.is_some(), "{cell:?}");
        }
        let finalists = panel.cells.iter().filter(|cell| !cell.finals.is_empty());
        assert_eq!(finalists.count(), FINALISTS);
    }
}

#[test]
fn the_best_has_the_highest_median_of_the_second_stage() {
    let plan = plan(60.0);
    let mut search = plan.empty_search();
    let cells = &mut search.panels[0].cells;
    cells[0].grid = vec![9.0];
    for (cell, finals) in [(1, [1.0, 2.0, 9.0]), (2, [3.0, 4.0, 5.0]), (3, [0.0; 3])] {
        (cells[cell].grid, cells[cell].finals) = (vec![7.0], finals.to_vec());
    }
    cells.iter_mut().for_each(CellResult::summarise);
    let sizes = cells[2].sizes;
    choose(&mut search, &plan);
    let best = search.panels[0].best.as_ref().unwrap();
    assert_eq!(best.sizes, sizes);
    assert!(best.command.as_ref().unwrap().starts_with("taskset -c 0 "));
    assert!(search.panels[1].best.is_none());
}

#[test]
fn the_fastest_sizes_are_found_and_confirmed() {
    let run = run_of(60.0, Fake::default());
    for (panel, case) in searched(&run).panels.iter().zip(plan(60.0).cases) {
        let of = |sizes| rate(&with_sizes(&case, sizes));
        let allowed = panel.cells.iter().filter(|cell| cell.refused.is_none());
        let highest = allowed.map(|cell| of(cell.sizes)).fold(0.0, f64::max);
        let best = panel.best.as_ref().unwrap();
        assert!(of(best.sizes) > 0.98 * highest, "{}", panel.case);
        let measured = run.cases.iter().find(|it| it.name == best.case).unwrap();
        assert_eq!(measured.compared_with.as_ref(), Some(&panel.case));
        assert_eq!(measured.ratio.unwrap().verdict, Verdict::Faster);
    }
}

#[test]
fn published_sizes_that_win_are_measured_once() {
    let grid = Grid::new(4096, Some(256 << 10), Some(128 << 10), |_| None);
    let plan = SearchPlan { grid, ..plan(60.0) };
    let (run, _) = whole_run(ladder(), &plan, Fake::default());
    let named = |name| run.cases.iter().filter(move |case| case.name == name);
    assert_eq!(named("busy_loop_huge").count(), 1);
    assert_eq!(named("busy_loop_huge").next().unwrap().compared_with, None);
}

#[test]
fn refused_pairs_are_recorded_and_the_others_go_on() {
    let runner = Fake {
        refused_pipe: Some(1 << 20),
        ..Fake::default()
    };
    let run = run_of(60.0, runner);
    for cell in cells(&run) {
        let large = cell.sizes.pipe_bytes >= 1 << 20;
        assert_eq!(
            (cell.refused.is_some(), cell.median.is_none()),
            (large, large)
        );
    }
    let best = searched(&run)
        .panels
        .iter()
        .filter_map(|it| it.best.as_ref());
    assert!(best.clone().all(|best| best.sizes.pipe_bytes < 1 << 20));
    assert_eq!(best.count(), 9);
}

#[test]
fn the_order_is_random_and_follows_from_the_seed() {
    let order = || {
        let (mut runner, mut run) = (Fake::default(), ladder());
        search(&plan(60.0), &mut runner, &mut run, &mut Nobody).unwrap();
        runner.log
    };
    let log = order();
    assert_eq!(log, order());
    let first = &log[..100];
    let of_one_case = first
        .iter()
        .filter(|name| name.starts_with("write_read_spin"));
    assert!((1..50).contains(&of_one_case.count()), "{first:?}");
}

#[test]
fn an_interrupted_search_keeps_its_trials_and_chooses_nothing() {
    let runner = Fake {
        signal_at: Some(200),
        ..Fake::default()
    };
    let run = run_of(60.0, runner);
    assert_eq!(run.interrupted.as_deref(), Some("SIGINT"));
    assert_eq!(searched(&run).trials(), 200);
    assert!(searched(&run).panels.iter().all(|it| it.best.is_none()));
}
