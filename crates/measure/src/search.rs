//! The search for the best sizes in the suites `sizes` and `touched`, and the rounds
//! that confirm the result in `sizes`.
//!
//! The search has two stages of short trials: every pair of sizes of every case, then
//! the best few pairs of each case again. The first stage makes the map; only the
//! second decides. Since the best of many pairs was also lucky, its rate is measured
//! once more, in rounds together with the published sizes.

#[cfg(any(test, feature = "fixtures"))]
pub mod fake;

use crate::failure::TrialError;
use crate::record::{
    BestSizes, CellResult, NotRun, PanelResult, Run, Search, Sizes, Warning, WarningKind,
};
use crate::rounds::{Measurement, Rounds, RunObserver, TimeBudget, TrialPlace, Work, sample_of};
use crate::spec::{Case, Durations};
use crate::suite::sizes::{Grid, command_line};
use crate::suite::{sizes, touched};
use crate::trial::Timed;
use pipespeed_base::failure::Interrupted;
use pipespeed_stats::schedule::rounds_for_budget;

/// Pairs of sizes of each case in the second stage.
pub const FINALISTS: usize = 4;

/// What the best sizes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPurpose {
    /// They are measured beside the published ones: suite `sizes`.
    Sizes,
    /// They are those of the case that the others are compared with: suite `touched`.
    Baseline,
}

/// Limits of a search.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// The end of the first stage, as a share of the time.
    pub grid_end: f64,
    /// The end of the search, as a share of the time.
    pub search_end: f64,
    /// A pair of sizes has at most this many trials in the first stage.
    pub max_grid_trials: usize,
    /// The same of the second stage.
    pub max_final_trials: usize,
}

impl SearchPurpose {
    /// The limits of the search.
    pub fn effort(self) -> Effort {
        match self {
            SearchPurpose::Sizes => Effort {
                grid_end: 0.35,
                search_end: 0.5,
                max_grid_trials: 5,
                max_final_trials: 15,
            },
            SearchPurpose::Baseline => Effort {
                grid_end: 0.1,
                search_end: 0.15,
                max_grid_trials: 3,
                max_final_trials: 7,
            },
        }
    }

    /// A case with the sizes to try.
    fn with_sizes(self, case: &Case, sizes: Sizes) -> Case {
        match self {
            SearchPurpose::Sizes => sizes::with_sizes(case, sizes),
            SearchPurpose::Baseline => touched::with_sizes(case, sizes),
        }
    }
}

/// The plan of a search and of the rounds after it.
#[derive(Debug, Clone)]
pub struct SearchPlan {
    /// What the best sizes are for.
    pub purpose: SearchPurpose,
    /// The cases to try sizes on, those that can be run.
    pub cases: Vec<Case>,
    /// The sizes to try on each.
    pub grid: Grid,
    /// The processors of cases that have none of their own.
    pub cpus: Option<(usize, usize)>,
    /// The time for the search and the rounds, in seconds.
    pub time_s: f64,
    /// The time for the whole run; `None` if the number of rounds is given.
    pub budget: Option<TimeBudget>,
    /// The number of rounds, if it is given.
    pub rounds: Option<usize>,
    /// The minimum number of rounds otherwise, even if they take longer than the time.
    pub min_rounds: usize,
    /// The durations of a trial in the rounds.
    pub durations: Durations,
}

impl SearchPlan {
    /// The durations of a trial in the search.
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
            ..CellResult::default()
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

    /// The maximum number of trials.
    pub fn max_trials(&self) -> usize {
        let (pairs, effort) = (self.grid.runnable(), self.purpose.effort());
        let of_case =
            pairs * effort.max_grid_trials + pairs.min(FINALISTS) * effort.max_final_trials;
        self.cases.len() * of_case
    }

    /// Returns the cases of a run in which the cases found take the place of those that
    /// were searched.
    pub fn with_found(&self, mut cases: Vec<Case>, found: Vec<Case>) -> Vec<Case> {
        let is_searched =
            |case: &Case| self.cases.iter().any(|searched| searched.name == case.name);
        cases.retain(|case| !is_searched(case));
        cases.splice(0..0, found);
        cases
    }
}

/// Runs the search and records it in `run`. Returns the cases to measure in rounds:
/// those with the best sizes and, in the suite `sizes`, the published ones that they are
/// compared with. A baseline without any trial is returned as it is: the pilot shows why
/// it can't be run.
///
/// # Errors
/// On a signal, or if the suite `sizes` could not measure any pair. `run` then has what
/// was measured so far.
pub fn search(
    plan: &SearchPlan,
    runner: &mut impl Timed,
    run: &mut Run,
    observer: &mut impl RunObserver<Run>,
) -> anyhow::Result<Vec<Case>> {
    runner.set_durations(plan.search_durations());
    run.search = Some(plan.empty_search());
    let effort = plan.purpose.effort();
    let seed = run.settings.seed;
    let work = Searching {
        plan,
        started_s: runner.now_s(),
        stage: SearchStage::Grid,
        runner,
        run,
    };
    let mut searching = Rounds::begin(work, seed);
    let mut outcome = searching.rounds(effort.max_grid_trials, None, observer);
    if outcome.is_ok() {
        let work = &mut searching.work;
        let finalists = |panel: &PanelResult| panel.ranking().into_iter().take(FINALISTS).collect();
        work.stage = SearchStage::Finals(work.search().panels.iter().map(finalists).collect());
        outcome = searching.rounds(effort.max_final_trials, None, observer);
    }
    let missing = searching.missing();
    let work = &mut searching.work;
    let took_s = work.elapsed_s();
    work.run.warnings.extend(missing);
    work.search_mut().took_s = took_s;
    work.runner.set_durations(plan.durations);
    outcome?;
    let search = work.search_mut();
    choose(search, plan);
    let cases = cases_to_measure(search, plan);
    if cases.is_empty() && plan.purpose == SearchPurpose::Baseline {
        return Ok(plan.cases.clone());
    }
    if cases.is_empty() {
        let cells = search.panels.iter().flat_map(|panel| &panel.cells);
        let not_run: Option<Vec<&NotRun>> = cells.map(|cell| cell.not_run.as_ref()).collect();
        // None if a pair was run.
        let reason = match not_run.as_deref() {
            Some([.., last]) => &last.reason,
            _ => "trials take too long for the available time",
        };
        anyhow::bail!("no sizes found: {reason}");
    }
    Ok(cases)
}

/// The stages of a search.
enum SearchStage {
    /// Every pair of sizes.
    Grid,
    /// The best pairs of each case, by index.
    Finals(Vec<Vec<usize>>),
}

/// A search in progress. Its cases are the cells of all panels.
struct Searching<'a, R> {
    plan: &'a SearchPlan,
    runner: &'a mut R,
    run: &'a mut Run,
    stage: SearchStage,
    started_s: f64,
}

impl<R: Timed> Searching<'_, R> {
    fn search(&self) -> &Search {
        self.run.search.as_ref().expect("set by search()")
    }

    fn search_mut(&mut self) -> &mut Search {
        self.run.search.get_or_insert_default()
    }

    fn elapsed_s(&self) -> f64 {
        self.runner.now_s() - self.started_s
    }

    /// The indices of a case's panel and cell.
    fn indices(&self, case: usize) -> (usize, usize) {
        let cells = self.plan.grid.pairs().count();
        (case / cells, case % cells)
    }

    fn cell(&self, case: usize) -> &CellResult {
        let (panel, cell) = self.indices(case);
        &self.search().panels[panel].cells[cell]
    }

    fn cell_mut(&mut self, case: usize) -> &mut CellResult {
        let (panel, cell) = self.indices(case);
        &mut self.search_mut().panels[panel].cells[cell]
    }

    fn case(&self, case: usize) -> Case {
        let searched = &self.plan.cases[self.indices(case).0];
        let purpose = self.plan.purpose;
        purpose.with_sizes(searched, self.cell(case).sizes)
    }
}

impl<R: Timed> Work for Searching<'_, R> {
    type Record = Run;

    fn record(&self) -> Option<&Run> {
        self.run.has_results().then_some(&*self.run)
    }

    fn names(&self) -> Vec<String> {
        let cases = 0..self.plan.cases.len() * self.plan.grid.pairs().count();
        cases.map(|case| self.case(case).name).collect()
    }

    fn is_open(&self, case: usize) -> bool {
        let (panel, cell) = self.indices(case);
        let is_member = match &self.stage {
            SearchStage::Grid => true,
            SearchStage::Finals(finalists) => finalists[panel].contains(&cell),
        };
        is_member && self.cell(case).not_run.is_none()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.cell_mut(case).not_run = Some(why);
    }

    fn is_over(&self) -> bool {
        let effort = self.plan.purpose.effort();
        let end = match self.stage {
            SearchStage::Grid => effort.grid_end,
            SearchStage::Finals(_) => effort.search_end,
        };
        self.elapsed_s() >= end * self.plan.time_s
    }

    fn trial(&mut self, at: usize, place: TrialPlace) -> Result<(), TrialError> {
        let case = self.case(at);
        let trial = self.runner.run(&case)?;
        let cpus = self.plan.cpus_of(&case);
        let own_processors = cpus.is_some_and(|(writer, reader)| writer != reader);
        if let Some(sample) = sample_of(&trial, place, own_processors) {
            self.search_mut().flagged += usize::from(!sample.flags.is_empty());
            let is_grid = matches!(self.stage, SearchStage::Grid);
            let cell = self.cell_mut(at);
            let rates = if is_grid {
                &mut cell.grid
            } else {
                &mut cell.finals
            };
            rates.push(sample.gib_per_s);
            cell.summarise();
        }
        Ok(())
    }

    fn summarise(&mut self, _: usize) {}
}

/// Records the best sizes of each case: those with the highest median of the second
/// stage. A baseline is needed even if there was no time for that stage.
fn choose(search: &mut Search, plan: &SearchPlan) {
    for (panel, case) in search.panels.iter_mut().zip(&plan.cases) {
        let is_enough =
            |cell: &&CellResult| plan.purpose == SearchPurpose::Baseline || !cell.finals.is_empty();
        let leader = panel.leader().filter(is_enough);
        let Some(sizes) = leader.map(|cell| cell.sizes) else {
            continue;
        };
        let case = plan.purpose.with_sizes(case, sizes);
        panel.best = Some(BestSizes {
            sizes,
            command: command_line(&case, plan.cpus_of(&case)),
            case: case.name,
        });
    }
}

fn cases_to_measure(search: &Search, plan: &SearchPlan) -> Vec<Case> {
    let mut cases = Vec::new();
    for (panel, case) in search.panels.iter().zip(&plan.cases) {
        let Some(best) = &panel.best else { continue };
        if best.case != case.name {
            cases.push(case.clone());
        }
        cases.push(plan.purpose.with_sizes(case, best.sizes));
    }
    cases
}

/// Measures the published and the best sizes in as many rounds as fit into the time
/// left by the search. If not even a pilot and one round fit, it measures nothing.
/// `begin` is called before the first round.
///
/// # Errors
/// On a signal.
pub fn confirm<R: Timed, O: RunObserver<Run>>(
    plan: &SearchPlan,
    measurement: &mut Measurement<R>,
    observer: &mut O,
    begin: impl FnOnce(&O),
) -> Result<(), Interrupted> {
    let search = measurement.work.run.search.as_ref();
    let (took_s, trials) = search.map_or((0.0, 0), |search| (search.took_s, search.trials()));
    let remaining_s = plan.time_s - took_s;
    let longer = plan.durations.sum_s() - plan.search_durations().sum_s();
    let round_s = measurement.runnable() as f64 * (took_s / trials.max(1) as f64 + longer);
    if plan.rounds.is_none() && 2.0 * round_s > remaining_s {
        let message = "no time was left to measure the best sizes beside the published ones: allow \
                       more by --time, name fewer cases by --case, or fix a size by --buffer-size \
                       or --pipe-size";
        let warning = Warning::new(WarningKind::Quick, message);
        measurement.work.run.warnings.push(warning);
        return Ok(());
    }
    let start_s = measurement.work.runner.now_s();
    measurement.pilot(observer)?;
    let pilot_s = measurement.work.runner.now_s() - start_s;
    let cases = measurement.runnable();
    let fitting = || rounds_for_budget(pilot_s, remaining_s - pilot_s, cases, plan.min_rounds);
    let rounds = plan.rounds.unwrap_or_else(fitting);
    begin(observer);
    measurement.rounds(rounds, plan.budget.as_ref(), observer)
}

#[cfg(test)]
mod tests;
