use super::fake::{Fake, baseline_plan, plan, rate, whole_run};
use super::*;
use crate::fixtures::{ladder, overrides};
use crate::record::Verdict;
use crate::suite::Overrides;

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
            let runner = Fake::slow(overhead_s);
            let (run, took_s) = whole_run(ladder(), &plan(time_s), runner);
            let context = format!("{overhead_s} s a trial: {took_s} of {time_s} s");
            assert!(took_s <= time_s, "{context}");
            if let Some(reason) = &run.interrupted {
                assert!(reason.contains("trials take too long"), "{reason}");
            }
            let confirmed = run.settings.rounds_done > 0;
            let skipped = |warning: &Warning| warning.message.contains("no time was left");
            let explained = run.warnings.iter().any(skipped) || run.interrupted.is_some();
            assert_ne!(confirmed, explained, "{context}");
            assert!(confirmed || overhead_s >= 0.5, "{context}");
        }
    }
}

#[test]
fn grid_has_trial_of_every_pair_and_best_have_more() {
    let run = run_of(60.0, Fake::default());
    for panel in &searched(&run).panels {
        for cell in &panel.cells {
            assert_eq!(cell.grid.is_empty(), cell.not_run.is_some(), "{cell:?}");
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
        let of = |sizes| rate(&sizes::with_sizes(&case, sizes));
        let allowed = panel.cells.iter().filter(|cell| cell.not_run.is_none());
        let highest = allowed.map(|cell| of(cell.sizes)).fold(0.0, f64::max);
        let best = panel.best.as_ref().unwrap();
        assert!(of(best.sizes) > 0.98 * highest, "{}", panel.case);
        let measured = run
            .cases
            .iter()
            .find(|case| case.name == best.case)
            .unwrap();
        assert_eq!(measured.compared_with.as_ref(), Some(&panel.case));
        assert_eq!(measured.ratio.unwrap().verdict, Verdict::Faster);
    }
}

#[test]
fn rounds_that_verdicts_need_may_exceed_the_time() {
    let rounds = |time_s, min_rounds| {
        let plan = SearchPlan {
            min_rounds,
            ..plan(time_s)
        };
        let (run, _) = whole_run(ladder(), &plan, Fake::default());
        run.settings.rounds_done
    };
    let mut times_s = (5..60).map(f64::from);
    let time_s = times_s.find(|time_s| (1..9).contains(&rounds(*time_s, 1)));
    assert_eq!(rounds(time_s.unwrap(), 9), 9);
}

#[test]
fn published_sizes_that_win_are_measured_once() {
    let published = overrides(|asked| {
        (asked.buffer_bytes, asked.pipe_bytes) = (Some(256 << 10), Some(128 << 10));
    });
    let grid = sizes::grid(4096, &published, |_| None);
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
            (cell.not_run.is_some(), cell.median.is_none()),
            (large, large)
        );
    }
    let best = searched(&run)
        .panels
        .iter()
        .filter_map(|panel| panel.best.as_ref());
    assert!(best.clone().all(|best| best.sizes.pipe_bytes < 1 << 20));
    assert_eq!(best.count(), 9);
}

#[test]
fn the_order_is_random_and_follows_from_the_seed() {
    let order = || {
        let (mut runner, mut run) = (Fake::default(), ladder());
        search(&plan(60.0), &mut runner, &mut run, &mut ()).unwrap();
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

/// A search for the best write, and the cases to measure.
fn baseline(plan: &SearchPlan, runner: &mut Fake) -> (Run, anyhow::Result<Vec<Case>>) {
    let mut run = ladder();
    let found = search(plan, runner, &mut run, &mut ());
    (run, found)
}

#[test]
fn search_for_a_baseline_is_short_and_restores_the_durations() {
    for (overhead_s, is_complete) in [(0.01, true), (0.2, false)] {
        let (plan, mut runner) = (baseline_plan(60.0), Fake::slow(overhead_s));
        let (run, _) = baseline(&plan, &mut runner);
        assert_eq!(searched(&run).trials() == plan.max_trials(), is_complete);
        // The last trial may end later.
        let trial_s = overhead_s + plan.search_durations().sum_s();
        assert!(runner.now_s <= 0.15 * 60.0 + trial_s, "{}", runner.now_s);
        assert_eq!(runner.durations, plan.durations);
    }
}

#[test]
fn a_baseline_without_any_trial_is_left_to_the_pilot() {
    let refused = |_| Some("no pipes, invented".to_owned());
    let plan = SearchPlan {
        grid: touched::grid(4096, &Overrides::default(), refused),
        ..baseline_plan(60.0)
    };
    let (run, found) = baseline(&plan, &mut Fake::default());
    assert_eq!(found.unwrap(), plan.cases);
    assert!(searched(&run).panels[0].best.is_none());
}

#[test]
fn a_baseline_is_found_without_time_for_finals() {
    let mut runner = Fake::slow(10.0);
    let (run, found) = baseline(&baseline_plan(60.0), &mut runner);
    let panel = &searched(&run).panels[0];
    assert_eq!(searched(&run).trials(), 1);
    assert_eq!(
        sizes::sizes_of(&found.unwrap()[0]),
        panel.leader().unwrap().sizes
    );
}
