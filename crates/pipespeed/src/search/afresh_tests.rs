use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::case::Durations;
use crate::report::sample::ladder;
use crate::results::Run;
use crate::search::sample::{Fake, Nobody, planned, usual_axes, usual_panels};
use crate::search::{judge, walk};

/// A run as the suite plans it, with trials that take so much besides their
/// parts, and the seconds that it took. It began so many seconds before.
fn run(whole_s: f64, overhead_s: f64, before_s: f64) -> (Run, f64) {
    let budget = Budget {
        whole_s,
        rounds: None,
        least_rounds: 10,
        durations: Durations {
            warm_up_s: 0.015,
            timed_s: 0.100,
        },
    };
    let panels = usual_panels();
    let mut runner = Fake {
        overhead_s,
        ..Fake::default()
    };
    let mut run = planned(ladder(), &panels, &usual_axes(1));
    run.search.as_mut().unwrap().budget_s = budget.search_s(19, 0.0);
    let nobody = &mut Nobody::default();
    let overhead_s = walk::walk(&mut runner, &panels, &mut run, &budget, nobody).unwrap();
    let cases = judge::candidates(run.search.as_ref().unwrap(), &panels);
    let control = cases.first().map(|case| case.name.clone());
    let mut measurement =
        Measurement::new(runner, cases, control.as_deref(), run, &BTreeMap::new());
    let begun = (-before_s, overhead_s);
    measure(&mut measurement, &budget, begun, nobody, |_, _, _| {}).unwrap();
    let took_s = measurement.runner_mut().took_s;
    (measurement.finish(None), took_s)
}

#[test]
fn a_run_keeps_to_its_time_however_slow_trials_are() {
    for whole_s in [30.0, 115.0] {
        for overhead_s in [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0] {
            let (run, took_s) = run(whole_s, overhead_s, 0.0);
            let said = format!("{overhead_s} s a trial: {took_s} of {whole_s} s");
            assert!(took_s <= 1.1 * whole_s, "{said}");
            let search = run.search.unwrap();
            let tried = search.panels.iter().filter(|it| it.winner.is_some());
            let all = if overhead_s <= 0.2 { 9 } else { 1 };
            assert!(tried.count() >= all, "{said}");
        }
    }
}

#[test]
fn where_time_is_short_it_is_said_and_the_rounds_that_verdicts_need_come_first() {
    for (overhead_s, rounds, short) in [(0.01, 10, false), (0.1, 10, true), (1.0, 1, true)] {
        let (run, _) = run(115.0, overhead_s, 0.0);
        let search = run.search.as_ref().unwrap();
        assert_eq!(search.short_of_time, short, "{overhead_s}");
        let done = run.settings.rounds_done;
        assert!(done >= rounds, "{overhead_s}: {done}");
        for cell in search.panels.iter().flat_map(|panel| &panel.cells) {
            assert_eq!(
                cell.trials.is_empty(),
                cell.stages == 0 || cell.refused.is_some()
            );
            if cell.refused.is_none() {
                let had: HashSet<usize> = cell.trials.iter().map(|trial| trial.stage).collect();
                assert_eq!(cell.stages, had.len(), "{overhead_s}: {cell:?}");
            }
        }
    }
}

#[test]
fn rounds_that_find_no_room_are_told_of() {
    let (run, _) = run(115.0, 0.01, 200.0);
    assert!(run.cases.iter().all(|case| case.samples.is_empty()));
    let told = |warning: &Warning| warning.message.contains("no time was left");
    assert!(run.warnings.iter().any(told));
}
