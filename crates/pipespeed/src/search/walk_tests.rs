use super::*;
use crate::report::sample::ladder;
use crate::results::PanelResult;
use crate::search::sample::{Fake, Nobody, budget, planned, rate, usual_axes, usual_panels};
use std::collections::HashMap;

fn search(runner: &mut Fake) -> (Run, Result<(), Stopped>, Nobody) {
    let panels = usual_panels();
    let mut run = planned(ladder(), &panels, &usual_axes(1));
    let mut observer = Nobody::default();
    let outcome = walk(runner, &panels, &mut run, &budget(), &mut observer).map(drop);
    (run, outcome, observer)
}

fn panels(run: &Run) -> &[PanelResult] {
    &run.search.as_ref().unwrap().panels
}

#[test]
fn each_stage_halves_the_cells_of_each_panel_and_doubles_their_trials() {
    let (run, outcome, observer) = search(&mut Fake::default());
    outcome.unwrap();
    let stages = &run.search.as_ref().unwrap().stages;
    let cells: Vec<usize> = stages.iter().map(|stage| stage.cells).collect();
    assert_eq!(cells, [99, 50, 25, 13, 7].map(|each| 9 * each));
    // After each pass.
    assert_eq!(observer.rounds, 16);
    for panel in panels(&run) {
        for cell in &panel.cells {
            let expected = match (&cell.refused, cell.stages) {
                (Some(_), _) => 0,
                (None, stages) => 1 << (stages - 1),
            };
            assert_eq!(cell.trials.len(), expected, "{cell:?}");
        }
    }
}

#[test]
fn the_fastest_sizes_are_found_in_spite_of_noise() {
    let (run, outcome, _) = search(&mut Fake::default());
    outcome.unwrap();
    for (result, panel) in panels(&run).iter().zip(usual_panels()) {
        let of = |sizes| rate(&panel.case("x", sizes));
        let runnable = result.cells.iter().filter(|cell| cell.refused.is_none());
        let highest = runnable.map(|cell| of(cell.sizes)).fold(0.0, f64::max);
        let won = of(result.winner.unwrap());
        assert!(won > 0.94 * highest, "{}: {won} of {highest}", result.name);
    }
}

#[test]
fn a_refused_pipe_is_never_tried() {
    let mut runner = Fake::default();
    search(&mut runner).1.unwrap();
    let largest = runner.log.iter().filter_map(|(case, _)| case.pipe_bytes);
    assert_eq!(largest.max(), Some(1 << 20));
}

#[test]
fn what_is_refused_when_it_is_tried_is_out_and_the_others_go_on() {
    let mut runner = Fake {
        refused_pipe: Some(1 << 20),
        ..Fake::default()
    };
    let (run, outcome, _) = search(&mut runner);
    outcome.unwrap();
    for panel in panels(&run) {
        assert_eq!(panel.winner.unwrap().pipe_bytes, 512 << 10);
        let large = panel.cells.iter().filter(|c| c.sizes.pipe_bytes == 1 << 20);
        assert!(large.clone().count() == 11);
        for cell in large {
            assert!(cell.refused.is_some() && cell.trials.is_empty());
        }
    }
}

#[test]
fn the_order_is_random_and_follows_from_the_seed() {
    let order = || {
        let mut runner = Fake::default();
        search(&mut runner).1.unwrap();
        let names = runner.log.into_iter().map(|(case, _)| case.name);
        names.collect::<Vec<String>>()
    };
    let once = order();
    assert_eq!(once, order());
    // After the pilot's nine: not panel by panel.
    let panels = |names: &[String]| {
        let first = names
            .iter()
            .filter(|name| name.starts_with("write_read_spin"));
        first.count()
    };
    let early = panels(&once[9..9 + 300]);
    assert!((15..60).contains(&early), "{early} of 300");
}

#[test]
fn every_pass_runs_each_cell_once() {
    let mut runner = Fake::default();
    search(&mut runner).1.unwrap();
    let trials = runner.log.iter().skip(9 + (99 + 50) * 9);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (case, _) in trials.take(25 * 9) {
        *seen.entry(&case.name).or_default() += 1;
    }
    assert_eq!(seen.len(), 25 * 9);
}

#[test]
fn a_signal_ends_it_and_what_was_found_is_kept() {
    let mut runner = Fake {
        signal_at: Some(9 + 99 * 9 + 100),
        ..Fake::default()
    };
    let (run, outcome, _) = search(&mut runner);
    assert!(matches!(outcome, Err(Stopped::Signal(2))));
    for panel in panels(&run) {
        assert_eq!(panel.winner, None);
        let measured = panel.cells.iter().filter(|cell| cell.median.is_some());
        assert_eq!(measured.count(), 99, "{}", panel.name);
        assert!(!judge::leaders(panel).is_empty());
    }
}

#[test]
fn a_few_failed_trials_are_let_be_and_many_end_it() {
    let mut runner = Fake {
        failing_from: Some(50),
        ..Fake::default()
    };
    let (run, outcome, observer) = search(&mut runner);
    let Err(Stopped::Error(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(format!("{error:#}").contains("keep failing"), "{error:#}");
    assert_eq!(observer.failed, MOST_FAILURES - 1);
    let cells = panels(&run).iter().flat_map(|panel| &panel.cells);
    let failed = cells.filter(|cell| cell.refused.as_deref() == Some("failed: invented"));
    assert_eq!(failed.count(), MOST_FAILURES - 1);
}
