//! Tests of the text of a run.

use super::*;
use crate::style::{BOLD, DIM, GREEN, RED, YELLOW};
use pipespeed_measure::fixtures::{ladder, ratio, refuse, run, set_control, within};
use pipespeed_measure::record::{NullControl, Verdict};
use pipespeed_measure::spec::Suite;
use pipespeed_testing::fits;

fn at(run: &Run, width: usize) -> String {
    table(run, Style::of_width(width))
}

fn with_a_refusal() -> Run {
    let mut run = ladder();
    refuse(
        &mut run,
        "busy_loop_huge",
        "one processor, and both ends would spin on it; try --placement different on a machine with two",
    );
    run
}

#[test]
fn the_ladder_at_80_columns() {
    insta::assert_snapshot!(at(&ladder(), 80));
}

#[test]
fn the_ladder_at_100_columns_with_a_refused_case() {
    insta::assert_snapshot!(at(&with_a_refusal(), 100));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for run in [ladder(), with_a_refusal()] {
        for width in 48..140 {
            fits(&at(&run, width), width);
        }
    }
}

#[test]
fn colours_change_no_character() {
    let run = with_a_refusal();
    for width in [60, 80, 120] {
        let style = Style {
            colour: true,
            ..Style::of_width(width)
        };
        let coloured = table(&run, style);
        assert!(coloured.contains("\x1b[32mfaster than"), "{coloured}");
        let mut plain = coloured;
        for code in ["0", BOLD, DIM, RED, GREEN, YELLOW] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, at(&run, width));
    }
}

#[test]
fn a_null_control_that_differs_makes_the_run_suspect() {
    let shown = |ratio| {
        let mut run = run(Suite::Ladder, Vec::new());
        run.null_control = Some(NullControl {
            case: "write_read".to_owned(),
            twin: "write_read_again".to_owned(),
            ratio: Some(ratio),
        });
        at(&run, 200)
    };
    let texts = [within(0.97, 1.0, 1.03), within(0.91, 1.0, 1.07), ratio(1.2)].map(shown);
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn the_table_says_what_is_saved_and_why() {
    let mut run = ladder();
    set_control(&mut run, within(0.55, 1.0, 1.7));
    let saved = run.cases.iter().find(|case| case.name == "write_read_128k");
    let ratio = saved.unwrap().ratio.unwrap();
    assert_eq!(ratio.verdict, Verdict::Undecided);
    let text = at(&run, 120);
    let line = text
        .lines()
        .find(|line| line.starts_with("write_read_128k") && line.contains('x'))
        .unwrap();
    assert!(
        line.ends_with("undecided against write_read (pipe size): the null control allows as much"),
        "{line}"
    );
    assert!(text.contains("faster than vmsplice_splice_huge"), "{text}");
}
