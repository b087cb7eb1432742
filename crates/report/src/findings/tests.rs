//! Tests of conclusions.

use super::*;
use crate::run::findings;
use pipespeed_measure::fixtures::{case, ladder, ratio, run, set_control, within};
use pipespeed_measure::record::{Ends, Ratio};
use pipespeed_measure::spec::{DataUse, Suite};
use pipespeed_testing::says;

#[test]
fn the_ladder_names_large_steps_and_those_without_effect() {
    insta::assert_snapshot!(of_steps(&ladder()).join("\n"), @r"
    What mattered most here: spinning instead of sleeping, x10.4 [10.1, 10.7] (busy_loop_huge against vmsplice_splice_huge).
    Made no difference (within 5 %): huge pages (write_read_huge against write_read).
    The published gain of vmsplice (write_read to vmsplice_read, here about x4.38) consists of x1.61 from the larger pipe and x2.72 from vmsplice itself.
    ");
}

/// The first finding of a ladder with these steps from its first case, and their number.
fn found(steps: &[(&str, Ratio)]) -> (String, usize) {
    let steps = steps.iter().zip(["b", "c"]);
    let steps = steps.map(|((factor, ratio), name)| case(name, 1.0, Some(("a", *factor, *ratio))));
    let cases = [case("a", 1.0, None)].into_iter().chain(steps).collect();
    let found = findings(&run(Suite::Ladder, cases));
    (found[0].clone(), found.len())
}

#[test]
fn the_certain_gain_or_loss_decides_not_the_median() {
    let (first, _) = found(&[("steady", ratio(4.0)), ("wild", within(1.2, 9.0, 40.0))]);
    assert!(first.contains("steady"));
    let (first, _) = found(&[("gain", ratio(1.5)), ("loss", ratio(0.2))]);
    assert!(first.starts_with("What mattered most here: loss, x0.20"));
    let (only, count) = found(&[("something", within(0.9, 1.1, 1.4))]);
    assert!(only.starts_with("Nothing is decided here"));
    assert_eq!(count, 1);
}

#[test]
fn without_comparisons_there_are_no_findings() {
    assert!(findings(&run(Suite::Ladder, vec![case("a", 1.0, None)])).is_empty());
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
    says(
        found.last().unwrap(),
        &["not clearly more than write_read ("],
    );
}

#[test]
fn a_gain_by_the_pipe_size_alone_is_reported() {
    let mut run = ladder();
    let mut cases = run.cases.iter_mut();
    let vmsplice = cases.find(|case| case.name == "vmsplice_read").unwrap();
    vmsplice.ratio = Some(within(0.98, 1.0, 1.02));
    says(findings(&run).concat(), &["larger pipe alone (x1.61)"]);
}
