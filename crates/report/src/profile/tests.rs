//! Tests of the text of a profile.

use super::*;
use crate::testing::{has_texts, texts};
use pipespeed_explain::profile::fixtures;
use pipespeed_measure::record::NotRun;
use pipespeed_testing::{fits, says};

fn one() -> Profile {
    let mut profile = fixtures::ladder();
    profile.cases.truncate(1);
    profile
}

/// The lines from one with this beginning to the next empty one.
fn block<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(begins));
    lines.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn one_case_has_bars_call_trees_and_notes() {
    insta::assert_snapshot!(profile_case(&one(), 0.02, Style::of_width(80)));
}

#[test]
fn the_call_tree_omits_branches_below_the_threshold() {
    let has_user_code = |threshold| {
        let text = profile_case(&one(), threshold, Style::default());
        let tree = block(&text, "writer: running time");
        tree.iter().any(|line| line.contains("user code"))
    };
    assert!(has_user_code(0.05));
    assert!(!has_user_code(0.1));
}

#[test]
fn fewer_than_a_hundred_samples_give_no_shares() {
    for (samples, is_divided) in [(1, false), (99, false), (100, true)] {
        let end = fixtures::end(
            "writer",
            1000.0,
            200.0,
            &[("ksys_write never_heard_of", samples)],
        );
        let mut profile = one();
        profile.cases[0].ends = vec![end];
        let text = profile_case(&profile, 0.0, Style::default());
        let shares = ["other kernel", "call chains", "100.0 %  ksys_write"];
        for words in shares {
            assert_eq!(
                text.contains(words),
                is_divided,
                "{samples}, {words}: {text}"
            );
        }
        let undivided = ["running (not divided)", "fewer than 100 give no shares"];
        for words in undivided {
            assert_eq!(
                text.contains(words),
                !is_divided,
                "{samples}, {words}: {text}"
            );
        }
        let ladder = profile_ladder(&profile, Style::default());
        assert_eq!(ladder.contains("never_heard_of"), is_divided, "{ladder}");
    }
}

#[test]
fn the_ladder_has_a_table_with_sums_and_steps() {
    insta::assert_snapshot!(profile_ladder(&fixtures::ladder(), Style::of_width(80)));
}

#[test]
fn a_refused_case_has_a_reason_and_no_bar() {
    let mut profile = fixtures::ladder();
    profile.cases[1].not_run = Some(NotRun::refused("no huge pages"));
    profile.cases[1].ends.clear();
    let text = profile_ladder(&profile, Style::default());
    says(&text, &["vmsplice_read: refused: no huge pages"]);
    assert!(!text.contains("->"), "{text}");
    let texts = texts(&profile_chart(&profile));
    assert!(!texts.contains(&"vmsplice_read".to_owned()), "{texts:?}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut pipeline = fixtures::pipeline();
    pipeline.warnings.clear();
    let stages = pipeline.pipeline.clone().unwrap();
    for width in [60, 80] {
        let style = Style::of_width(width);
        for text in [
            profile_case(&one(), 0.0, style),
            profile_ladder(&fixtures::ladder(), style),
            super::super::profile_pipeline(&pipeline, &stages, 0.0, style),
        ] {
            fits(&text, width);
        }
    }
}

/// The widths of the filled rectangles of a picture by colour.
fn rectangles(svg: &str) -> Vec<(String, f64)> {
    let document = roxmltree::Document::parse(svg).expect("well-formed XML");
    let all = document.descendants();
    let rectangles = all.filter(|node| node.tag_name().name() == "rect");
    let filled = rectangles.filter_map(|node| {
        let width = node.attribute("width")?.parse().ok()?;
        Some((node.attribute("fill")?.to_owned(), width))
    });
    filled.collect()
}

fn fill(group: CostGroup) -> String {
    palette::of_cost(group).to_string()
}

#[test]
fn the_parts_of_a_bar_are_proportional_to_their_shares() {
    let mut profile = fixtures::ladder();
    profile.cases.truncate(1);
    let svg = profile_chart(&profile);
    let rectangles = rectangles(&svg);
    let width = |group: CostGroup| -> f64 {
        let parts = rectangles
            .iter()
            .filter(|(fill_is, _)| *fill_is == fill(group));
        // Without the legend's.
        parts.map(|(_, width)| width).sum::<f64>() - 12.0
    };
    // The writer copies for 48 % of its time and sleeps for 20 %; the reader sleeps for 50 %.
    let ratio = width(CostGroup::CopyToKernel) / width(CostGroup::Asleep);
    assert!((ratio - 0.48 / 0.7).abs() < 0.02, "{ratio}");
    has_texts(&svg, &["48 %", "1000 ns", "write_read"]);
}

#[test]
fn the_legend_has_the_costs_present_in_order() {
    let texts = texts(&profile_chart(&fixtures::ladder()));
    let place = |group: CostGroup| texts.iter().position(|text| text == group.name());
    let shown: Vec<usize> = CostGroup::all().filter_map(place).collect();
    assert!(shown.len() > 4 && shown.is_sorted(), "{texts:?}");
    assert_eq!(place(CostGroup::Spinning), None);
}

#[test]
fn commands_of_any_kind_are_escaped() {
    let mut profile = fixtures::pipeline();
    let pipeline = profile.pipeline.as_mut().unwrap();
    pipeline.command = "sed 's/<&>//' | \"x\"".to_owned();
    pipeline.stages[0].end.role = "1: sed 's/<&>//'".to_owned();
    let svg = profile_chart(&profile);
    has_texts(
        &svg,
        &[
            "1: sed 's/<&>//'",
            "sed 's/<&>//' | \"x\"",
            "1.02 s",
            "10000 ns",
        ],
    );
}

#[test]
fn every_group_has_a_colour_of_its_own() {
    let mut colours: Vec<String> = CostGroup::all().map(fill).collect();
    colours.sort();
    colours.dedup();
    assert_eq!(colours.len(), CostGroup::all().count());
}
