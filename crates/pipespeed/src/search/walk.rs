//! Walking through a search: trials in random order, stage by stage.

use std::time::Instant;

use super::grid::Panel;
use super::halving;
use super::judge;
use crate::case::Durations;
use crate::measure::{Observer, Stopped, sample_of};
use crate::results::{CellResult, Run, Search, SearchTrial, Sizes, Stage};
use crate::runner::{Timed, TrialError};
use crate::stats::Rng;

/// What a trial takes besides its parts, unless the pilot shows otherwise: two
/// processes are started and reaped.
pub const TRIAL_OVERHEAD_S: f64 = 0.02;

/// So many failed trials are enough of them: then it is no cell's fault.
const MOST_FAILURES: usize = 3;

/// Runs the search that `run` describes, whose panels these are, and notes in
/// it what comes of it.
///
/// # Errors
/// When a signal comes, trials keep failing, or the record can't be saved. What
/// was found until then stands in the record.
pub fn walk(
    runner: &mut impl Timed,
    panels: &[Panel],
    run: &mut Run,
    observer: &mut impl Observer,
) -> Result<(), Stopped> {
    let seed = run.search.as_ref().map_or(0, |search| search.seed);
    let mut walk = Walk {
        runner,
        panels,
        run,
        observer,
        rng: Rng::new(seed),
        started: Instant::now(),
        failures: 0,
        done: 0,
        all: 0,
    };
    let outcome = walk.stages();
    let took_s = walk.started.elapsed().as_secs_f64();
    let search = walk.search();
    search.took_s = took_s;
    judge::settle(search);
    outcome?;
    judge::choose(search, panels);
    Ok(())
}

struct Walk<'a, R, O> {
    runner: &'a mut R,
    panels: &'a [Panel],
    run: &'a mut Run,
    observer: &'a mut O,
    rng: Rng,
    started: Instant,
    failures: usize,
    /// Trials so far, and in all.
    done: usize,
    all: usize,
}

impl<R: Timed, O: Observer> Walk<'_, R, O> {
    fn search(&mut self) -> &mut Search {
        self.run.search.get_or_insert_default()
    }

    fn cell(&mut self, panel: usize, cell: usize) -> &mut CellResult {
        &mut self.search().panels[panel].cells[cell]
    }

    fn stages(&mut self) -> Result<(), Stopped> {
        let mut overhead_s = self.pilot()?;
        let runnable = |cell: &CellResult| cell.refused.is_none();
        let panels = self.search().panels.iter();
        let mut left: Vec<Vec<usize>> = panels
            .map(|panel| {
                let cells = 0..panel.cells.len();
                cells.filter(|at| runnable(&panel.cells[*at])).collect()
            })
            .collect();
        let most = left.iter().map(Vec::len).max().unwrap_or(0);
        let stages = halving::stages(most).len();
        let to_come = |left: &[Vec<usize>], stage, times| -> usize {
            let each = left.iter().map(Vec::len);
            each.map(|cells| halving::trials_from(stage, stages, cells, times))
                .sum()
        };
        let times = halving::times(self.left_s(), to_come(&left, 0, 1), overhead_s);
        for number in 0..stages {
            let trials = to_come(&left, number, times);
            self.all = self.done + trials;
            let durations = halving::durations(self.left_s(), trials, overhead_s);
            let each = halving::trials_each(number, times);
            let (trials, took_s) = self.stage(number, &left, each, durations)?;
            if trials > 0 {
                let parts = durations.timed_s + durations.warm_up_s;
                overhead_s = (took_s / trials as f64 - parts).max(0.0);
            }
            if number + 1 == stages {
                break;
            }
            let halved: Vec<Vec<usize>> = left
                .iter()
                .map(|left| left[..halving::kept(left.len(), 1.0)].to_vec())
                .collect();
            let needed_s = halving::least_s(to_come(&halved, number + 1, times), overhead_s);
            let share = self.left_s() / needed_s;
            for (panel, left) in left.iter_mut().enumerate() {
                left.retain(|cell| runnable(self.cell(panel, *cell)));
                let rates: Vec<f64> = left
                    .iter()
                    .map(|cell| self.cell(panel, *cell).median.unwrap_or(0.0))
                    .collect();
                let best = halving::best(&rates, halving::kept(left.len(), share));
                *left = best.into_iter().map(|at| left[at]).collect();
            }
        }
        Ok(())
    }

    /// The time that is left of the search's, in seconds; below 0 where it has
    /// taken longer.
    fn left_s(&mut self) -> f64 {
        let started = self.started;
        self.search().budget_s - started.elapsed().as_secs_f64()
    }

    /// Runs the published sizes of each panel once, which warms the machine up
    /// and shows what starting a trial takes. What is measured is not kept.
    fn pilot(&mut self) -> Result<f64, Stopped> {
        let durations = halving::durations(0.0, 1, 0.0);
        let parts = durations.timed_s + durations.warm_up_s;
        self.runner.set_durations(durations);
        let mut overheads = Vec::new();
        for panel in self.panels.iter().filter(|panel| panel.refused.is_none()) {
            let name = panel.published_name();
            self.observer.before_trial(&name, 0, 0);
            let case = panel.case(&name, panel.technique.published());
            let begun = Instant::now();
            match self.runner.run(&case) {
                Ok(_) => overheads.push(begun.elapsed().as_secs_f64() - parts),
                Err(TrialError::Interrupted(signal)) => return Err(Stopped::Signal(signal)),
                // The search itself will show whether it is so for all sizes.
                Err(TrialError::Refused(_) | TrialError::Failed(_)) => {}
            }
        }
        let mean = overheads.iter().sum::<f64>() / overheads.len() as f64;
        Ok(match overheads.is_empty() {
            true => TRIAL_OVERHEAD_S,
            false => mean.max(0.0),
        })
    }

    /// One stage: how many trials there were, and the seconds they took.
    fn stage(
        &mut self,
        number: usize,
        left: &[Vec<usize>],
        each: usize,
        durations: Durations,
    ) -> Result<(usize, f64), Stopped> {
        let begun = Instant::now();
        self.runner.set_durations(durations);
        let mut members: Vec<(usize, usize)> = left
            .iter()
            .enumerate()
            .flat_map(|(panel, cells)| cells.iter().map(move |cell| (panel, *cell)))
            .collect();
        self.search().stages.push(Stage {
            number,
            cells: members.len(),
            trials_each: each,
            warm_up_s: durations.warm_up_s,
            timed_s: durations.timed_s,
            took_s: 0.0,
        });
        for (panel, cell) in &members {
            self.cell(*panel, *cell).stages = number + 1;
        }
        let mut position = 0;
        for _ in 0..each {
            self.rng.shuffle(&mut members);
            for (panel, cell) in &members {
                if self.cell(*panel, *cell).refused.is_none() {
                    self.trial((number, position), *panel, *cell)?;
                    position += 1;
                }
                self.done += 1;
            }
            judge::settle(self.search());
            self.observer
                .after_round(self.run)
                .map_err(Stopped::Error)?;
        }
        let took_s = begun.elapsed().as_secs_f64();
        if let Some(stage) = self.search().stages.last_mut() {
            stage.took_s = took_s;
        }
        Ok((position, took_s))
    }

    fn trial(
        &mut self,
        (stage, position): (usize, usize),
        panel: usize,
        cell: usize,
    ) -> Result<(), Stopped> {
        let sizes: Sizes = self.cell(panel, cell).sizes;
        let of = &self.panels[panel];
        let name = of.winner_name(sizes);
        self.observer.before_trial(&name, self.done, self.all);
        match self.runner.run(&of.case(&name, sizes)) {
            Ok(trial) => {
                let own_processors = of.cpus.is_some_and(|(writer, reader)| writer != reader);
                if let Some(sample) = sample_of(&trial, stage, position, own_processors) {
                    self.cell(panel, cell).trials.push(SearchTrial {
                        stage,
                        position,
                        bytes: sample.bytes,
                        seconds: sample.seconds,
                        gib_per_s: sample.gib_per_s,
                        flags: sample.flags,
                    });
                }
            }
            Err(TrialError::Interrupted(signal)) => return Err(Stopped::Signal(signal)),
            Err(TrialError::Refused(reason)) => self.cell(panel, cell).refused = Some(reason),
            Err(TrialError::Failed(error)) => {
                self.failures += 1;
                let reason = format!("failed: {error:#}");
                let error = error.context(format!("case {name}, stage {stage} of the search"));
                if self.failures >= MOST_FAILURES {
                    return Err(Stopped::Error(error.context("trials keep failing")));
                }
                self.observer.trial_failed(&error);
                self.cell(panel, cell).refused = Some(reason);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
