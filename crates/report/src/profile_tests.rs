//! Tests of the text of a profile.

use super::super::format::longest_line;
use super::*;
use pipespeed_explain::profile::sample;
use pipespeed_measure::record::NotRun;

fn one() -> Profile {
    let mut profile = sample::ladder();
    profile.cases.truncate(1);
    profile
}

/// Lines from the one that begins so to the next empty one.
fn block<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(begins));
    lines.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn bars_go_from_the_biggest_down_and_add_up_to_the_wall_time() {
    let text = profile_case(&one(), 0.02, Style::default());
    let writer = block(&text, "writer  ");
    let ns = |line: &str| -> f64 {
        let (_, figures) = line.split_at(NAME);
        figures.split_whitespace().next().unwrap().parse().unwrap()
    };
    let costs: Vec<f64> = writer[1..]
        .iter()
        .take_while(|line| !line.starts_with("sum"))
        .map(|l| ns(l))
        .collect();
    assert!(
        costs.len() >= 5 && costs.is_sorted_by(|a, b| a >= b),
        "{text}"
    );
    assert!((costs.iter().sum::<f64>() - 1000.0).abs() < 2.0, "{text}");
    // 60 of 100 samples of the 800 ns that it ran.
    assert!(writer[1].starts_with("copy to kernel"), "{text}");
    assert_eq!(ns(writer[1]), 480.0);
    assert!(
        writer[1].ends_with(&format!("48.0 %  {}", "#".repeat(19))),
        "{}",
        writer[1]
    );
    assert!(text.contains("100.0 %  of 1000 ns wall time"), "{text}");
    assert!(
        text.contains("other kernel (15.0 % of samples): never_heard_of 15.0 %"),
        "{text}"
    );
}

#[test]
fn the_call_tree_leaves_out_what_is_below_the_threshold() {
    let text = profile_case(&one(), 0.1, Style::default());
    let tree = block(&text, "writer: running time");
    assert!(
        tree[0].contains("(100 samples, below 10.0 % left out)"),
        "{text}"
    );
    assert!(
        tree.iter()
            .any(|line| line.ends_with("20.0 %  __alloc_pages")),
        "{text}"
    );
    assert!(
        !tree.iter().any(|line| line.contains("user code")),
        "{text}"
    );
    let text = profile_case(&one(), 0.05, Style::default());
    assert!(text.contains("5.0 %  user code"), "{text}");
}

#[test]
fn the_ladder_stands_side_by_side_with_its_sums() {
    let text = profile_ladder(&sample::ladder(), Style::default());
    for end in ["writer: nanoseconds", "reader: nanoseconds"] {
        let table = block(&text, end);
        let row = |name: &str| -> Vec<&str> {
            let line = table
                .iter()
                .find(|line| line.trim_start().starts_with(name));
            let figures = line.unwrap().trim_start().strip_prefix(name).unwrap();
            figures.split_whitespace().collect()
        };
        assert_eq!(row("sum"), ["1000.0", "400.0"], "{text}");
        assert_eq!(row("wall time"), ["1000.0", "400.0"], "{text}");
    }
    let writer = block(&text, "writer: nanoseconds");
    let copying = writer.iter().find(|line| line.contains("copy to kernel"));
    assert!(copying.is_some_and(|line| line.ends_with('-')), "{text}");
    assert!(
        !writer.iter().any(|line| line.contains("copy to user")),
        "{text}"
    );
}

#[test]
fn a_step_names_what_changed_most() {
    let text = profile_ladder(&sample::ladder(), Style::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let writer = "write_read -> vmsplice_read (vmsplice): writer 1000 to 400: copy to kernel -480";
    let reader = "reader 1000 to 400: asleep, waiting for the other end -490";
    assert!(text.contains(writer) && text.contains(reader), "{text}");
}

#[test]
fn a_refused_case_says_why_and_is_no_step() {
    let mut profile = sample::ladder();
    profile.cases[1].not_run = Some(NotRun::refused("no huge pages"));
    profile.cases[1].ends.clear();
    let text = profile_ladder(&profile, Style::default());
    assert!(
        text.contains("vmsplice_read: refused: no huge pages"),
        "{text}"
    );
    assert!(!text.contains("->"), "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut pipeline = sample::pipeline();
    pipeline.warnings.clear();
    let stages = pipeline.pipeline.clone().unwrap();
    for width in [60, 80] {
        let style = Style {
            width: Some(width),
            colour: false,
        };
        for text in [
            profile_case(&one(), 0.0, style),
            profile_ladder(&sample::ladder(), style),
            super::super::profile_pipeline(&pipeline, &stages, 0.0, style),
        ] {
            assert!(longest_line(&text) <= width, "{text}");
        }
    }
}

#[test]
fn notes_stand_below() {
    let text = profile_case(&one(), 0.02, Style::default());
    assert!(text.ends_with("note: an invented note\n"), "{text}");
    assert!(text.contains("note: ends: writer on processor 0"), "{text}");
}
