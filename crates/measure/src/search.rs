//! The search in front of the suite `sizes`, and the rounds that confirm it.
//!
//! Two stages of short trials: every pair of sizes of every case, then the best
//! few pairs of each case again. The first stage makes the map, the second alone
//! decides. The best of many was also lucky, so its rate is measured once more,
//! in rounds beside the published sizes.

#[cfg(any(test, feature = "sample"))]
pub mod fake;

use crate::case::{Case, Durations};
use crate::record::{
    BestSizes, CellResult, NotRun, PanelResult, Run, Search, Sizes, Warning, WarningKind,
};
use crate::rounds::{Measurement, Observer, Stopped, sample_of};
use crate::runner::{Timed, TrialError};
use crate::suite::sizes::{Grid, command_line, with_sizes};
use pipespeed_stats::Rng;
use pipespeed_stats::schedule::rounds_for_budget;

/// The shares of the time after which the stages end.
pub const GRID_END: f64 = 0.35;
/// See [`GRID_END`].
pub const SEARCH_END: f64 = 0.5;
/// A pair of sizes has at most this many trials in each stage.
const MAX_GRID_TRIALS: usize = 5;
const MAX_FINAL_TRIALS: usize = 15;
/// Pairs of sizes of each case in the second stage.
pub const FINALISTS: usize = 4;

/// What a search and the rounds after it are to do.
#[derive(Debug, Clone)]
pub struct SearchPlan {
    /// The cases with the published sizes, those that can be run.
    pub cases: Vec<Case>,
    /// The sizes to try on each.
    pub grid: Grid,
    /// The processors of cases that have none of their own.
    pub cpus: Option<(usize, usize)>,
    /// The time for the search and the rounds, in seconds.
    pub time_s: f64,
    /// The number of rounds, if it was given.
    pub rounds: Option<usize>,
    /// The parts of a trial of the rounds.
    pub durations: Durations,
}

impl SearchPlan {
    /// The parts of a trial of the search.
    pub fn search_durations(&self) -> Durations {
        Durations {
            warm_up_s: self.durations.warm_up_s / 5.0,
            timed_s: self.durations.timed_s / 5.0,
        }
    }

    /// The record before the first trial.
    pub fn empty_search(&self) -> Search {
        let cell = |sizes: Sizes| CellResult {
            sizes,
            not_run: self
                .grid
                .refused
                .get(&sizes.pipe_bytes)
                .map(NotRun::refused),
            grid: Vec::new(),
            finals: Vec::new(),
            median: None,
        };
        let panel = |case: &Case| PanelResult {
            case: case.name.clone(),
            configuration: case.clone().on(self.cpus_of(case)).configuration(),
            cells: self.grid.pairs().map(cell).collect(),
            best: None,
        };
        let durations = self.search_durations();
        Search {
            warm_up_s: durations.warm_up_s,
            timed_s: durations.timed_s,
            buffers: self.grid.buffers.clone(),
            pipes: self.grid.pipes.clone(),
            panels: self.cases.iter().map(panel).collect(),
            ..Search::default()
        }
    }

    fn cpus_of(&self, case: &Case) -> Option<(usize, usize)> {
        case.cpus.or(self.cpus)
    }
}

/// Searches, and returns the cases to measure in rounds: the published sizes
/// and, compared with them, the best. `run` gets the record of it.
///
/// # Errors
/// On a signal, a failed trial, or when the record can't be saved. `run` then
/// has what was measured until then.
pub fn search(
    plan: &SearchPlan,
    runner: &mut impl Timed,
    run: &mut Run,
    observer: &mut impl Observer,
) -> Result<Vec<Case>, Stopped> {
    runner.set_durations(plan.search_durations());
    run.search = Some(plan.empty_search());
    let mut searching = Searching {
        plan,
        started_s: runner.now_s(),
        rng: Rng::new(run.settings.seed),
        runner,
        run,
        observer,
    };
    let outcome = searching.stages();
    let took_s = searching.elapsed_s();
    let search = searching.search();
    search.took_s = took_s;
    outcome?;
    choose(search, plan);
    let cases = cases_to_confirm(search, plan);
    if cases.is_empty() {
        let cells = search.panels.iter().flat_map(|panel| &panel.cells);
        let not_run: Option<Vec<&NotRun>> = cells.map(|cell| cell.not_run.as_ref()).collect();
        // None if a pair was run.
        let reason = match not_run.as_deref() {
            Some([.., last]) => &last.reason,
            _ => "trials take too long for the time there is",
        };
        return Err(Stopped::Error(anyhow::anyhow!("no sizes found: {reason}")));
    }
    Ok(cases)
}

/// A pair of sizes of a case: the indices of its panel and its cell.
type Member = (usize, usize);

struct Searching<'a, R, O> {
    plan: &'a SearchPlan,
    runner: &'a mut R,
    run: &'a mut Run,
    observer: &'a mut O,
    rng: Rng,
    started_s: f64,
}

impl<R: Timed, O: Observer> Searching<'_, R, O> {
    fn search(&mut self) -> &mut Search {
        self.run.search.get_or_insert_default()
    }

    fn elapsed_s(&self) -> f64 {
        self.runner.now_s() - self.started_s
    }

    fn stages(&mut self) -> Result<(), Stopped> {
        let all = self.members(|panel| (0..panel.cells.len()).collect());
        self.stage(all, MAX_GRID_TRIALS, GRID_END, |cell| &mut cell.grid)?;
        let finalists = self.members(|panel| {
            let mut best = panel.ranking();
            best.truncate(FINALISTS);
            best
        });
        self.stage(finalists, MAX_FINAL_TRIALS, SEARCH_END, |cell| {
            &mut cell.finals
        })
    }

    /// The cells chosen of each panel.
    fn members(&mut self, choose: fn(&PanelResult) -> Vec<usize>) -> Vec<Member> {
        let panels = self.search().panels.iter().enumerate();
        panels
            .flat_map(|(at, panel)| choose(panel).into_iter().map(move |cell| (at, cell)))
            .collect()
    }

    /// Rounds of a trial of each member in random order, until the stage's time
    /// is over, be it within a round.
    fn stage(
        &mut self,
        mut members: Vec<Member>,
        max_trials: usize,
        end: f64,
        rates: fn(&mut CellResult) -> &mut Vec<f64>,
    ) -> Result<(), Stopped> {
        for _ in 0..max_trials {
            self.rng.shuffle(&mut members);
            for &member in &members {
                if self.elapsed_s() >= end * self.plan.time_s {
                    return self.save();
                }
                self.trial(member, rates)?;
            }
            self.save()?;
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), Stopped> {
        let saved = self.observer.after_round(self.run);
        saved.map_err(Stopped::Error)
    }

    fn trial(
        &mut self,
        (panel, cell): Member,
        rates: fn(&mut CellResult) -> &mut Vec<f64>,
    ) -> Result<(), Stopped> {
        let of = &self.search().panels[panel].cells[cell];
        if of.not_run.is_some() {
            return Ok(());
        }
        let sizes = of.sizes;
        let case = with_sizes(&self.plan.cases[panel], sizes);
        let done = self.search().trials();
        let expected = done as f64 / self.elapsed_s() * SEARCH_END * self.plan.time_s;
        let expected = (expected as usize).max(done + 1);
        self.observer.before_trial(&case.name, done, expected);
        let trial = match self.runner.run(&case) {
            Ok(trial) => trial,
            Err(TrialError::Interrupted(signal)) => return Err(Stopped::Signal(signal)),
            Err(TrialError::NotRun(not_run)) => {
                self.search().panels[panel].cells[cell].not_run = Some(not_run);
                return Ok(());
            }
            Err(error) => {
                let error = error
                    .into_failure()
                    .context(format!("case {}, in the search", case.name));
                return Err(Stopped::Error(error));
            }
        };
        let cpus = self.plan.cpus_of(&case);
        let own_processors = cpus.is_some_and(|(writer, reader)| writer != reader);
        if let Some(sample) = sample_of(&trial, 0, 0, own_processors) {
            let search = self.search();
            search.flagged += usize::from(!sample.flags.is_empty());
            let cell = &mut search.panels[panel].cells[cell];
            rates(cell).push(sample.gib_per_s);
            cell.summarise();
        }
        Ok(())
    }
}

/// Records the best sizes of each case: those with the highest median of the
/// second stage.
fn choose(search: &mut Search, plan: &SearchPlan) {
    for (panel, case) in search.panels.iter_mut().zip(&plan.cases) {
        let leader = panel.leader().filter(|cell| !cell.finals.is_empty());
        let Some(sizes) = leader.map(|cell| cell.sizes) else {
            continue;
        };
        let case = with_sizes(case, sizes);
        panel.best = Some(BestSizes {
            sizes,
            command: command_line(&case, plan.cpus_of(&case)),
            case: case.name,
        });
    }
}

fn cases_to_confirm(search: &Search, plan: &SearchPlan) -> Vec<Case> {
    let mut cases = Vec::new();
    for (panel, case) in search.panels.iter().zip(&plan.cases) {
        let Some(best) = &panel.best else { continue };
        cases.push(case.clone());
        if best.case != case.name {
            cases.push(with_sizes(case, best.sizes));
        }
    }
    cases
}

/// Measures the published and the best sizes in as many rounds as fit in the
/// time that the search left; in none if not even a pilot and a round fit.
/// `begin` is told the number of rounds and of cases.
///
/// # Errors
/// On a signal, a failed trial, or when the record can't be saved.
pub fn confirm<R: Timed, O: Observer>(
    plan: &SearchPlan,
    measurement: &mut Measurement<R>,
    observer: &mut O,
    begin: impl FnOnce(&O, usize, usize),
) -> Result<(), Stopped> {
    let search = measurement.run_mut().search.as_ref();
    let (took_s, trials) = search.map_or((0.0, 0), |it| (it.took_s, it.trials()));
    let left_s = plan.time_s - took_s;
    let longer = plan.durations.sum_s() - plan.search_durations().sum_s();
    let round_s = measurement.runnable() as f64 * (took_s / trials.max(1) as f64 + longer);
    if plan.rounds.is_none() && 2.0 * round_s > left_s {
        measurement.run_mut().warnings.push(Warning {
            kind: WarningKind::Quick,
            case: None,
            message: "no time was left to measure the best sizes beside the published ones: allow \
                      more by --time, name fewer cases by --case, or fix a size by --buffer-size \
                      or --pipe-size"
                .to_owned(),
        });
        return Ok(());
    }
    measurement.runner_mut().set_durations(plan.durations);
    let begun_s = measurement.runner_mut().now_s();
    measurement.pilot(observer)?;
    let pilot_s = measurement.runner_mut().now_s() - begun_s;
    let cases = measurement.runnable();
    let fitting = || rounds_for_budget(pilot_s, left_s - pilot_s, cases, 1);
    let rounds = plan.rounds.unwrap_or_else(fitting);
    begin(observer, rounds, cases);
    measurement.rounds(rounds, observer)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
