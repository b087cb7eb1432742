use super::*;
use crate::report::sample::{ladder, sizes};
use crate::results::{Sizes, Verdict};
use crate::search::sample::{Fake, usual_axes, usual_panels, whole_run};

#[test]
fn what_was_found_is_measured_afresh_beside_the_published_sizes() {
    let run = sizes();
    let search = run.search.as_ref().unwrap();
    for panel in &search.panels {
        let case = |name: &str| run.cases.iter().find(|case| case.name == name).unwrap();
        let published = case(&panel.published_case);
        assert_eq!(published.samples.len(), 15);
        let won = case(panel.winner_case.as_ref().unwrap());
        assert_eq!(won.samples.len(), 15);
        if panel.winner != Some(panel.published) {
            assert_eq!(won.compared_with.as_ref(), Some(&panel.published_case));
            assert_eq!(won.ratio.unwrap().verdict, Verdict::Faster, "{}", won.name);
        }
    }
}

#[test]
fn there_is_a_best_for_each_kind_of_reader_against_what_is_published() {
    let run = sizes();
    let best = &run.search.as_ref().unwrap().best;
    let against: Vec<(&str, &str, Vec<&str>)> = best
        .iter()
        .map(|best| {
            let others = best.against.iter().map(|other| &*other.case).collect();
            (&*best.reader, &*best.wait, others)
        })
        .collect();
    assert_eq!(
        against,
        [
            (
                "read",
                "block",
                vec![
                    "vmsplice_read_huge_same",
                    "vmsplice_read_huge",
                    "write_read"
                ]
            ),
            (
                "read",
                "spin",
                vec![
                    "vmsplice_read_huge_spin",
                    "vmsplice_read_huge",
                    "write_read"
                ]
            ),
            (
                "splice",
                "block",
                vec![
                    "vmsplice_splice_huge_same",
                    "vmsplice_splice_huge",
                    "write_read"
                ]
            ),
            ("splice", "spin", vec!["busy_loop_huge", "write_read"]),
        ]
    );
    for other in best.iter().flat_map(|best| &best.against) {
        assert_eq!(other.ratio.unwrap().verdict, Verdict::Faster, "{other:?}");
    }
}

#[test]
fn sizes_that_were_published_are_measured_once_and_not_compared_with_themselves() {
    let panels = usual_panels();
    let axes = crate::search::Axes::new(1, 4096, Some(256 << 10), Some(128 << 10), |_| None);
    let run = whole_run(ladder(), &panels, &axes, Fake::default());
    let case = run.cases.iter().find(|case| case.name == "busy_loop_huge");
    assert_eq!(case.unwrap().compared_with, None);
    let mut names: Vec<&str> = run.cases.iter().map(|case| &*case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_leaders_of_an_unfinished_search_are_those_that_got_furthest() {
    let mut search = Search::default();
    let panels = usual_panels();
    let mut panel = panels[0].empty_result(&usual_axes(1));
    let reached = [(9.0, 1), (3.0, 2), (4.0, 2), (2.0, 2), (1.0, 2)];
    for (cell, (median, stages)) in panel.cells.iter_mut().zip(reached) {
        (cell.median, cell.stages) = (Some(median), stages);
    }
    search.panels.push(panel);
    let leading = |search: &Search| -> Vec<Sizes> {
        leaders(&search.panels[0]).iter().map(|c| c.sizes).collect()
    };
    let expected = [2, 1, 3, 4].map(|at| search.panels[0].cells[at].sizes);
    assert_eq!(leading(&search), expected);
    // One that had a turn in a stage whose time was over leads nothing by that.
    search.panels[0].cells[4].stages = 3;
    assert_eq!(leading(&search), expected);
}
