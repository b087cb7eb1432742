//! Tests of conclusions.

use super::*;
use crate::run::findings;
use pipespeed_measure::fixtures::{case, ladder, ratio, run, set_control, within};
use pipespeed_measure::record::Ends;
use pipespeed_measure::spec::{DataUse, Suite};

#[test]
fn the_ladder_names_large_steps_and_those_without_effect() {
    insta::assert_snapshot!(of_steps(&ladder()).join("\n"), @r"
    What mattered most here: spinning instead of sleeping, x10.4 [10.1, 10.7] (busy_loop_huge against vmsplice_splice_huge).
    Made no difference (within 5 %): huge pages (write_read_huge against write_read).
    The published gain of vmsplice (write_read to vmsplice_read, here about x4.38) consists of x1.61 from the larger pipe and x2.72 from vmsplice itself.
    ");
}

#[test]
fn the_certain_gain_decides_not_the_median() {
    let run = run(
        Suite::Ladder,
        vec![
            case("a", 1.0, None),
            case("b", 4.0, Some(("a", "steady", ratio(4.0)))),
            case("c", 9.0, Some(("a", "wild", within(1.2, 9.0, 40.0)))),
        ],
    );
    assert!(findings(&run)[0].contains("steady"));
}

#[test]
fn a_large_loss_matters_as_much_as_a_gain() {
    let run = run(
        Suite::Ladder,
        vec![
            case("a", 1.0, None),
            case("b", 1.5, Some(("a", "gain", ratio(1.5)))),
            case("c", 0.2, Some(("a", "loss", ratio(0.2)))),
        ],
    );
    assert!(findings(&run)[0].starts_with("What mattered most here: loss, x0.20"));
}

#[test]
fn undecided_comparisons_have_a_single_finding() {
    let run = run(
        Suite::Ladder,
        vec![
            case("a", 1.0, None),
            case("b", 1.1, Some(("a", "something", within(0.9, 1.1, 1.4)))),
        ],
    );
    let found = findings(&run);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("Nothing is decided here"));
}

#[test]
fn without_comparisons_there_are_no_findings() {
    assert!(findings(&run(Suite::Ladder, vec![case("a", 1.0, None)])).is_empty());
}

#[test]
fn a_step_no_larger_than_the_null_control_is_not_reported() {
    let mut run = run(
        Suite::Ladder,
        vec![
            case("a", 1.0, None),
            case("a_again", 1.2, None),
            case("b", 1.2, Some(("a", "something", ratio(1.2)))),
        ],
    );
    set_control(&mut run, ratio(1.2));
    assert!(
        findings(&run)
            .iter()
            .all(|found| !found.contains("mattered most"))
    );
}

#[test]
fn a_step_within_the_null_controls_interval_is_not_reported() {
    let found = |control| {
        let step = case("b", 1.2, Some(("a", "something", ratio(1.2))));
        let mut run = run(Suite::Ladder, vec![case("a", 1.0, None), step]);
        set_control(&mut run, control);
        findings(&run).remove(0)
    };
    assert!(found(within(0.95, 1.0, 1.06)).contains("mattered most"));
    assert!(found(within(0.66, 1.0, 1.02)).starts_with("Nothing is decided here"));
}

#[test]
fn no_factor_is_said_to_make_no_difference_that_the_table_calls_undecided() {
    let mut run = ladder();
    assert!(findings(&run).concat().contains("Made no difference"));
    set_control(&mut run, within(0.85, 1.0, 1.2));
    let found = findings(&run).concat();
    assert!(!found.contains("Made no difference"), "{found}");
}

fn alone(name: &str, rate: f64) -> CaseResult {
    let mut alone = case(name, rate, None);
    alone.configuration.ends = Ends::Writer;
    alone
}

fn touched(fastest: f64) -> Run {
    let mut run = run(
        Suite::Touched,
        vec![
            alone("produce_alone", 22.0),
            alone("consume_alone", 18.0),
            case("write_read", 2.9, None),
            case(
                "vmsplice_drained",
                fastest,
                Some(("write_read", "vmsplice", ratio(fastest / 2.9))),
            ),
        ],
    );
    for case in &mut run.cases {
        case.data = DataUse::Touch;
    }
    run
}

#[test]
fn the_fastest_use_of_data_is_compared_with_the_ends() {
    let found = findings(&touched(14.2));
    assert_eq!(
        found.last().unwrap(),
        "With data produced and consumed, vmsplice_drained moves 14.2 GiB/s, x4.90 the rate of \
         write_read (2.90); the slower end alone (consume_alone) reaches 18.0."
    );
}

#[test]
fn overlapping_rates_are_not_called_a_gain() {
    let found = findings(&touched(3.0));
    assert!(
        found
            .last()
            .unwrap()
            .contains("not clearly more than write_read (")
    );
}

#[test]
fn a_gain_by_the_pipe_size_alone_is_reported() {
    let mut run = ladder();
    let vmsplice = run
        .cases
        .iter_mut()
        .find(|case| case.name == "vmsplice_read")
        .unwrap();
    vmsplice.ratio = Some(within(0.98, 1.0, 1.02));
    assert!(
        findings(&run)
            .iter()
            .any(|found| found.contains("larger pipe alone (x1.61)"))
    );
}
