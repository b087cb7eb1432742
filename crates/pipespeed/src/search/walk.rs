//! Walking through a search: trials in random order, stage by stage.

use super::budget::Budget;
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

/// The share of the search's time that its pilot may take.
const PILOT: f64 = 0.1;

/// A stage may take so many times the time meant for it. What it takes more,
/// the later ones have less.
const STAGE: f64 = 1.25;

/// And the last one so much of the whole search's time: no trials are lost to
/// a machine that was hardly slower than expected.
const LAST: f64 = 0.05;

/// So many failed trials are enough of them: then it is no cell's fault.
const MOST_FAILURES: usize = 3;

/// Runs the search that `run` describes, whose panels these are, and notes in
/// it what comes of it. Returns what a trial takes besides its parts, in
/// seconds.
///
/// # Errors
/// When a signal comes, trials keep failing, or the record can't be saved. What
/// was found until then stands in the record.
pub fn walk(
    runner: &mut impl Timed,
    panels: &[Panel],
    run: &mut Run,
    budget: &Budget,
    observer: &mut impl Observer,
) -> Result<f64, Stopped> {
    let seed = run.search.as_ref().map_or(0, |search| search.seed);
    let started_s = runner.now_s();
    let mut walk = Walk {
        runner,
        panels,
        budget,
        run,
        observer,
        rng: Rng::new(seed),
        started_s,
        overhead_s: TRIAL_OVERHEAD_S,
        failures: 0,
        done: 0,
        all: 0,
    };
    let outcome = walk.stages();
    let (took_s, overhead_s) = (walk.elapsed_s(), walk.overhead_s);
    let search = walk.search();
    search.took_s = took_s;
    judge::settle(search);
    outcome?;
    judge::choose(search, panels);
    Ok(overhead_s)
}

struct Walk<'a, R, O> {
    runner: &'a mut R,
    panels: &'a [Panel],
    run: &'a mut Run,
    observer: &'a mut O,
    budget: &'a Budget,
    rng: Rng,
    started_s: f64,
    /// What a trial takes besides its parts, as seen.
    overhead_s: f64,
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
        self.pilot()?;
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
        let times = halving::times(self.left_s(), to_come(&left, 0, 1), self.overhead_s);
        for number in 0..stages {
            let trials = to_come(&left, number, times);
            self.all = self.done + trials;
            let durations = halving::durations(self.left_s(), trials, self.overhead_s);
            let each = halving::trials_each(number, times);
            let own = each * left.iter().map(Vec::len).sum::<usize>();
            let share = own as f64 / trials.max(1) as f64;
            self.stage(number, &left, each, durations, share)?;
            if number + 1 == stages {
                break;
            }
            for (panel, left) in left.iter_mut().enumerate() {
                left.retain(|cell| {
                    let cell = self.cell(panel, *cell);
                    runnable(cell) && cell.median.is_some()
                });
                let took_part = |cell: &CellResult| {
                    let last = cell.trials.last();
                    last.is_some_and(|trial| trial.stage == number)
                };
                let mut turned = left.clone();
                turned.retain(|cell| took_part(self.cell(panel, *cell)));
                // Of so few it would be chance who stays.
                if turned.len() >= halving::kept(left.len(), 0.0) {
                    *left = turned;
                }
            }
            let halved: Vec<Vec<usize>> = left
                .iter()
                .map(|left| left[..halving::kept(left.len(), 1.0)].to_vec())
                .collect();
            let trials = to_come(&halved, number + 1, times);
            let needed_s = halving::least_s(trials, self.overhead_s);
            let share = self.left_s() / needed_s;
            for (panel, left) in left.iter_mut().enumerate() {
                let kept = halving::kept(left.len(), share);
                self.search().short_of_time |= kept < halving::kept(left.len(), 1.0);
                let rates: Vec<f64> = left
                    .iter()
                    .map(|cell| self.cell(panel, *cell).median.unwrap_or(0.0))
                    .collect();
                let best = halving::best(&rates, kept);
                *left = best.into_iter().map(|at| left[at]).collect();
            }
        }
        Ok(())
    }

    /// The time that is left of the search's, in seconds; below 0 where it has
    /// taken longer.
    fn left_s(&mut self) -> f64 {
        self.search().budget_s - self.elapsed_s()
    }

    fn elapsed_s(&self) -> f64 {
        self.runner.now_s() - self.started_s
    }

    /// Runs the published sizes of each panel once, which warms the machine up
    /// and shows what starting a trial takes, and so how much time there is for
    /// the search. What is measured is not kept.
    fn pilot(&mut self) -> Result<(), Stopped> {
        let durations = halving::durations(0.0, 1, 0.0);
        let parts = durations.timed_s + durations.warm_up_s;
        self.runner.set_durations(durations);
        let mut overheads = Vec::new();
        let panels = self.panels.iter().filter(|panel| panel.refused.is_none());
        let cases = 2 * panels.clone().count() + 1;
        for panel in panels {
            if self.elapsed_s() > PILOT * self.search().budget_s && !overheads.is_empty() {
                break;
            }
            let name = panel.published_name();
            self.observer.before_trial(&name, 0, 0);
            let case = panel.case(&name, panel.technique.published());
            let begun_s = self.runner.now_s();
            match self.runner.run(&case) {
                Ok(_) => overheads.push(self.runner.now_s() - begun_s - parts),
                Err(TrialError::Interrupted(signal)) => return Err(Stopped::Signal(signal)),
                // The search itself will show whether it is so for all sizes.
                Err(TrialError::Refused(_) | TrialError::Failed(_)) => {}
            }
        }
        if !overheads.is_empty() {
            let mean = overheads.iter().sum::<f64>() / overheads.len() as f64;
            self.overhead_s = mean.max(0.0);
        }
        self.search().budget_s = self.budget.search_s(cases, self.overhead_s);
        Ok(())
    }

    /// One stage, which is to take a share of the time that is left.
    fn stage(
        &mut self,
        number: usize,
        left: &[Vec<usize>],
        each: usize,
        durations: Durations,
        share: f64,
    ) -> Result<(), Stopped> {
        let begun_s = self.elapsed_s();
        let (left_s, most_s) = (self.left_s(), self.search().budget_s);
        let end_s = (begun_s + STAGE * share * left_s).min((1.0 + LAST) * most_s);
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
            self.cell(*panel, *cell).stages += 1;
        }
        let mut position = 0;
        'passes: for _ in 0..each {
            self.draw(&mut members);
            for (panel, cell) in &members {
                if self.elapsed_s() >= end_s {
                    self.cut_short(number, &members)?;
                    break 'passes;
                }
                if self.cell(*panel, *cell).refused.is_none() {
                    self.trial((number, position), *panel, *cell)?;
                    position += 1;
                }
                self.done += 1;
            }
            self.pass_over()?;
        }
        let took_s = self.elapsed_s() - begun_s;
        if position > 0 {
            let parts = durations.timed_s + durations.warm_up_s;
            self.overhead_s = (took_s / position as f64 - parts).max(0.0);
        }
        if let Some(stage) = self.search().stages.last_mut() {
            stage.took_s = took_s;
        }
        Ok(())
    }

    /// An order for a pass: a pair of sizes of each panel, then another, all at
    /// random. So each panel has its share also of a pass that is cut short.
    fn draw(&mut self, members: &mut Vec<(usize, usize)>) {
        self.rng.shuffle(members);
        let mut turns = vec![0; self.panels.len()];
        let mut drawn: Vec<(usize, (usize, usize))> = Vec::with_capacity(members.len());
        for member in members.drain(..) {
            turns[member.0] += 1;
            drawn.push((turns[member.0], member));
        }
        // Stable: within a turn the order stays a random one.
        drawn.sort_by_key(|(turn, _)| *turn);
        members.extend(drawn.into_iter().map(|(_, member)| member));
    }

    /// The time of a stage is over before its trials are: whose turn has not come
    /// had no part in it.
    fn cut_short(&mut self, number: usize, members: &[(usize, usize)]) -> Result<(), Stopped> {
        self.search().short_of_time = true;
        for (panel, cell) in members {
            let cell = self.cell(*panel, *cell);
            if cell.trials.last().is_none_or(|trial| trial.stage != number) {
                cell.stages -= 1;
            }
        }
        self.pass_over()
    }

    fn pass_over(&mut self) -> Result<(), Stopped> {
        judge::settle(self.search());
        let saved = self.observer.after_round(self.run);
        saved.map_err(Stopped::Error)
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
