//! Searches for sizes on this machine: placement of the cases of the suite `sizes`,
//! sizes to try, and plan of the search before the rounds.

use super::lengths::trial_s;
use super::{Request, RunPlan};
use crate::record::{Sizes, Warning, WarningKind};
use crate::search::{SearchPlan, SearchPurpose};
use crate::spec::{Case, PageKind};
use crate::suite::sizes::{Grid, with_one_processor, with_sizes};
use crate::suite::{Preparation, touched};
use pipespeed_base::size;
use pipespeed_base::text::pluralize;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;

/// Adds the cases on one processor, unless a placement was requested, and records
/// that in the relation of the processors.
pub(super) fn placed(
    cases: Vec<Case>,
    request: &Request,
    topology: &Topology,
    chosen: &mut Chosen,
) -> anyhow::Result<Vec<Case>> {
    let is_requested = request.cpus.is_some() || request.placement.is_some();
    if is_requested || chosen.writer == chosen.reader {
        return Ok(cases);
    }
    let same = placement::choose(Placement::Same, topology)?;
    let Some(cpu) = same.writer else {
        return Ok(cases);
    };
    chosen.relation += &format!("; cases named _same on processor {cpu} alone");
    Ok(with_one_processor(cases, cpu))
}

/// Warnings about refused pipe sizes and the lack of huge pages.
pub(super) fn warnings(grid: &Grid, pages: Option<PageKind>) -> Vec<Warning> {
    let refused = grid.refused.iter().map(|(bytes, reason)| {
        let pipe = size::format(*bytes as u64);
        format!("a pipe of {pipe} is refused: {reason}")
    });
    let base = (pages == Some(PageKind::Base)).then(|| {
        "this process gets no huge pages, so vmspliced buffers are in base pages, unlike the \
         published ones"
            .to_owned()
    });
    let warning = |message: String| Warning::new(WarningKind::Configuration, message);
    refused.chain(base).map(warning).collect()
}

impl SearchPlan {
    /// Estimates the seconds of the search.
    pub(super) fn estimate_s(&self) -> f64 {
        let trials_s = self.max_trials() as f64 * trial_s(self.search_durations());
        trials_s.min(self.purpose.effort().search_end * self.time_s)
    }
}

impl RunPlan {
    /// Returns the cases with their largest sizes: those of the grid, in a search.
    pub fn sized_cases(&self) -> Vec<Case> {
        let Preparation::Search(grid) = &self.preparation else {
            return self.cases.clone();
        };
        let (buffer, pipe) = (grid.buffers.iter().max(), grid.pipes.iter().max());
        let Some((&buffer_bytes, &pipe_bytes)) = buffer.zip(pipe) else {
            return self.cases.clone();
        };
        let largest = Sizes {
            buffer_bytes,
            pipe_bytes,
        };
        let cases = self.cases.iter();
        cases.map(|case| with_sizes(case, largest)).collect()
    }

    /// Returns the plan of the search; none in other suites, or without a case to search.
    pub fn search(&self) -> Option<SearchPlan> {
        let (purpose, grid) = match &self.preparation {
            Preparation::Search(grid) => (SearchPurpose::Sizes, grid),
            Preparation::Baseline(grid) => (SearchPurpose::Baseline, grid),
            Preparation::Pilot | Preparation::Combination | Preparation::Volumes => return None,
        };
        let is_searched = |case: &&Case| {
            let is_named = purpose == SearchPurpose::Sizes || case.name == touched::BEST;
            is_named && !self.refused.contains_key(&case.name)
        };
        let plan = SearchPlan {
            purpose,
            cases: self.cases.iter().filter(is_searched).cloned().collect(),
            grid: grid.clone(),
            cpus: self.chosen.writer.zip(self.chosen.reader),
            time_s: self.budget.trials_s(),
            budget: self.limit(),
            rounds: self.rounds,
            min_rounds: if self.budget.is_given {
                1
            } else {
                self.lengths.min_rounds
            },
            durations: self.lengths.durations,
        };
        (!plan.cases.is_empty()).then_some(plan)
    }

    /// Refuses a --time that is too short for one trial of each pair of sizes, or for
    /// enough rounds for verdicts.
    pub(super) fn check_search_time(&self, plan: &SearchPlan) -> anyhow::Result<()> {
        let (pairs, cases) = (plan.grid.runnable(), plan.cases.len());
        let grid_s = (pairs * cases) as f64 * trial_s(plan.search_durations());
        let rounds = plan.rounds.unwrap_or(self.lengths.min_rounds_in_time);
        let rounds_s = self.lengths.estimate_s(rounds, 2 * cases + 1);
        let needed_s = (grid_s + rounds_s).max(grid_s / plan.purpose.effort().grid_end);
        let what = format!(
            "{} of sizes of {} and {} of the best",
            pluralize(pairs, "pair"),
            pluralize(cases, "case"),
            pluralize(rounds, "round"),
        );
        let way_out = "choose fewer cases with --case, fix a size with --buffer-size or --pipe-size, or add --quick";
        self.budget.require(needed_s, &what, way_out)
    }
}

#[cfg(test)]
mod tests {
    use crate::search::fake::{baseline_plan, plan};

    #[test]
    fn the_estimate_of_a_search_never_exceeds_its_share() {
        let baseline = baseline_plan(60.0);
        // Eight pairs, three trials each, and four of them seven more.
        assert_eq!(baseline.max_trials(), 8 * 3 + 4 * 7);
        let trial_s = baseline.search_durations().sum_s() + 0.01;
        assert!((baseline.estimate_s() - 52.0 * trial_s).abs() < 1e-9);
        assert!((baseline_plan(5.0).estimate_s() - 0.75).abs() < 1e-9);
        assert!((plan(60.0).estimate_s() - 30.0).abs() < 1e-9);
    }
}
