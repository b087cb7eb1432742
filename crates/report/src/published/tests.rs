//! Tests of published statements.

use super::Judgement::{Confirmed, MuchLarger, MuchSmaller, Refuted, Undecided};
use super::*;
use pipespeed_measure::fixtures::{case, run, within};
use pipespeed_measure::spec::Suite;
use pipespeed_stats::holm_ratios;
use proptest::prelude::*;

fn threshold(tolerance: f64) -> Threshold {
    Threshold {
        tolerance,
        level: 0.99,
    }
}

fn judged(claim: Claim, low: f64, high: f64) -> Judgement {
    judge(
        claim,
        &within(low, f64::midpoint(low, high), high),
        threshold(0.0),
    )
}

#[test]
fn a_claim_is_judged_by_the_interval() {
    assert_eq!(judged(Claim::Slower, 0.7, 0.8), Confirmed);
    assert_eq!(judged(Claim::Slower, 0.97, 1.02), Refuted);
    assert_eq!(judged(Claim::Slower, 1.2, 1.3), Refuted);
    assert_eq!(judged(Claim::Slower, 0.8, 1.1), Undecided);
    assert_eq!(judged(Claim::Same, 0.97, 1.02), Confirmed);
    assert_eq!(judged(Claim::Same, 0.7, 0.8), Refuted);
    assert_eq!(judged(Claim::Faster, 1.1, 1.3), Confirmed);
}

#[test]
fn no_gain_includes_a_certain_or_possible_loss() {
    assert_eq!(judged(Claim::NoGain, 0.7, 0.8), Confirmed);
    assert_eq!(judged(Claim::NoGain, 0.9, 1.04), Confirmed);
    assert_eq!(judged(Claim::NoGain, 0.9, 1.2), Undecided);
    assert_eq!(judged(Claim::NoGain, 1.1, 1.2), Refuted);
}

#[test]
fn a_difference_within_the_null_controls_is_undecided() {
    let allowing = |claim, ratio: Ratio, tolerance| {
        judge(claim, &ratio.allowing_for(tolerance), threshold(tolerance))
    };
    let ratio = within(0.8, 0.85, 0.9);
    assert_eq!(allowing(Claim::Slower, ratio, 0.05), Confirmed);
    assert_eq!(allowing(Claim::Slower, ratio, 0.2), Undecided);
    let open = within(0.8, 0.9, 1.01);
    assert_eq!(allowing(Claim::NoGain, open, 0.03), Confirmed);
    assert_eq!(allowing(Claim::NoGain, open, 0.3), Undecided);
    let same = within(0.98, 1.0, 1.02);
    assert_eq!(allowing(Claim::Same, same, 0.3), Undecided);
    assert_eq!(allowing(Claim::NoGain, same, 0.3), Undecided);
}

#[test]
fn a_confirmed_effect_of_another_size_is_not_called_confirmed() {
    let sized = |published, low, high, tolerance| {
        let ratio = within(low, f64::midpoint(low, high), high);
        compare_sizes(published, &ratio, tolerance)
    };
    // The published loss of 20 %: twice its logarithm is that of 0.64, half of it that of 0.894.
    assert_eq!(sized(0.8, 0.05, 0.08, 0.0), MuchLarger);
    assert_eq!(sized(0.8, 0.5, 0.63, 0.0), MuchLarger);
    assert_eq!(sized(0.8, 0.5, 0.65, 0.0), Confirmed);
    assert_eq!(sized(0.8, 0.5, 0.63, 0.1), Confirmed);
    assert_eq!(sized(0.8, 0.88, 0.92, 0.0), Confirmed);
    assert_eq!(sized(0.8, 0.9, 0.92, 0.0), MuchSmaller);
    // A gain of 1.55: 2.4 and 1.245.
    assert_eq!(sized(1.55, 2.5, 4.0, 0.0), MuchLarger);
    assert_eq!(sized(1.55, 2.3, 4.0, 0.0), Confirmed);
    assert_eq!(sized(1.55, 1.1, 1.2, 0.0), MuchSmaller);
    assert_eq!(sized(1.55, 1.1, 1.3, 0.0), Confirmed);
}

proptest! {
    #[test]
    fn exchanging_gain_and_loss_changes_no_size(
        published in 1.05f64..4.0,
        low in 1.01f64..8.0,
        width in 1.0f64..2.0,
        tolerance in 0.0f64..0.2,
    ) {
        let high = low * width;
        let gain = compare_sizes(published, &within(low, low, high), tolerance);
        let loss = within(1.0 / high, 1.0 / low, 1.0 / low);
        prop_assert_eq!(gain, compare_sizes(1.0 / published, &loss, tolerance));
    }
}

#[test]
fn too_few_rounds_are_undecided() {
    let mut ratio = within(0.8, 1.0, 1.2);
    ratio.estimate.interval = None;
    for claim in [Claim::Faster, Claim::Slower, Claim::Same, Claim::NoGain] {
        assert_eq!(judge(claim, &ratio, threshold(0.0)), Undecided);
    }
}

/// A run with these comparisons.
fn compared(ratios: &[Option<Ratio>]) -> Run {
    let mut cases = vec![case("base", 1.0, None)];
    for (at, ratio) in ratios.iter().flatten().enumerate() {
        cases.push(case(&format!("c{at}"), 1.0, Some(("base", "x", *ratio))));
    }
    run(Suite::Ladder, cases)
}

#[test]
fn a_range_below_its_level_is_undecided() {
    // Six rounds, all with a loss: 96.9 %, where six comparisons need 99.2 %.
    let losses: Vec<Vec<f64>> = (0..6)
        .map(|_| vec![0.86, 0.87, 0.88, 0.89, 0.87, 0.86])
        .collect();
    let ratios = holm_ratios(&losses, 0.95);
    let threshold = Threshold::new(&compared(&ratios));
    let ratio = ratios[0].unwrap();
    assert!(ratio.estimate.ends().1 < 0.95 && ratio.verdict == Verdict::Undecided);
    assert_eq!(judge(Claim::NoGain, &ratio, threshold), Undecided);
    // Alone it would be decided.
    let alone = holm_ratios(&losses[..1], 0.95);
    let threshold = Threshold::new(&compared(&alone));
    assert_eq!(
        judge(Claim::NoGain, &alone[0].unwrap(), threshold),
        Confirmed
    );
}

proptest! {
    #[test]
    fn the_level_is_that_of_the_step_down(
        comparisons in prop::collection::vec(
            prop::collection::vec(0.5f64..1.6, 6..40), 1..9),
    ) {
        let ratios = holm_ratios(&comparisons, 0.95);
        let level = level(&steps(&compared(&ratios)), 0.95);
        for (ratios, ratio) in comparisons.iter().zip(ratios.iter().flatten()) {
            if ratio.verdict != Verdict::Undecided {
                continue;
            }
            // Tested alone at that level, it has the same result.
            let alone = holm_ratios(std::slice::from_ref(ratios), level)[0].unwrap();
            prop_assert_eq!(alone, *ratio);
            let interval = ratio.estimate.interval.unwrap();
            let reached = interval.coverage >= level - 1e-9;
            prop_assert!(!reached || (interval.low <= 1.0 && interval.high >= 1.0));
        }
    }
}

#[test]
fn deviations_from_the_suites_conditions_are_listed() {
    let mut run = run(Suite::Volumes, Vec::new());
    assert_eq!(deviations(&run), "");
    run.settings.data = Some("read".to_owned());
    run.settings.pipe_size = Some(65_536);
    assert_eq!(deviations(&run), "");
    run.settings.data = Some("touch".to_owned());
    run.settings.work = 3;
    run.settings.pipe_size = Some(1 << 20);
    run.settings.buffer_size = Some(1 << 20);
    run.settings.reader_cpu = run.settings.writer_cpu;
    assert_eq!(
        deviations(&run),
        "--data touch, --work 3, --buffer-size 1MiB, --pipe-size 1MiB, one processor"
    );
}

pub(crate) mod of_options {
    use super::super::*;
    use pipespeed_measure::fixtures::{case, run, within};
    use pipespeed_measure::spec::{Case, DataUse, Suite};
    use pipespeed_measure::suite::Overrides;

    pub(crate) fn run_of_options() -> Run {
        let plain = "vmsplice_splice_spin";
        let made = |name, base, factor, ratio| case(name, 20.0, Some((base, factor, ratio)));
        run(
            Suite::Options,
            vec![
                case(plain, 28.0, None),
                made(
                    "untouched",
                    plain,
                    "untouched buffers",
                    within(0.35, 0.36, 0.37),
                ),
                made("gift", plain, "gifted pages", within(0.98, 1.0, 1.02)),
                made("locked", plain, "locked memory", within(0.9, 1.0, 1.2)),
                made(
                    "untouched_huge",
                    "gift",
                    "untouched buffers",
                    within(0.7, 0.75, 0.8),
                ),
                made(
                    "unaligned",
                    plain,
                    "unaligned buffers",
                    within(0.9, 1.0, 1.1),
                ),
                made(
                    "vmsplice_splice_huge",
                    "gift",
                    "sleeping",
                    within(0.1, 0.2, 0.3),
                ),
            ],
        )
    }

    #[test]
    fn statements_are_compared_with_results() {
        let run = run_of_options();
        insta::assert_snapshot!(findings(&run).join("\n"));
        assert_eq!(crate::findings(&run), findings(&run));
    }

    #[test]
    fn other_data_is_not_judged() {
        let mut run = run_of_options();
        run.settings.data = Some("touch".to_owned());
        run.cases
            .iter_mut()
            .for_each(|case| case.data = DataUse::Touch);
        for sentence in findings(&run) {
            let beginning = "Published, not judged by this run (--data touch): ";
            assert!(sentence.starts_with(beginning), "{sentence}");
        }
        run = run_of_options();
        run.settings.data = Some("discard".to_owned());
        assert_eq!(findings(&run), findings(&run_of_options()));
    }

    #[test]
    fn published_cases_exist_under_the_same_conditions() {
        let cases = Suite::Options.cases(&Overrides::default());
        let conditions = |case: &Case| (case.data, case.subject.pipe_bytes());
        let options = RESULTS
            .iter()
            .filter(|result| result.suite == Suite::Options);
        for option in options {
            let case = cases.iter().find(|case| case.name == option.case).unwrap();
            assert_eq!(conditions(case), conditions(&cases[0]));
        }
    }
}

mod of_volumes {
    use super::super::*;
    use pipespeed_measure::fixtures::{case, run, within};
    use pipespeed_measure::record::{Estimate, Ratio};
    use pipespeed_measure::spec::Suite;

    fn run_of_volumes() -> Run {
        let few = Ratio::new(Estimate {
            median: 1.02,
            interval: None,
        });
        let against = |ratio| Some(("volume_0.25g", "volume", ratio));
        let mut run = run(
            Suite::Volumes,
            vec![
                case("volume_0.25g", 4.0, None),
                case("volume_2.5g", 4.0, against(within(0.99, 1.0, 1.01))),
                case("volume_25g", 4.1, against(few)),
            ],
        );
        for (case, bytes) in run.cases.iter_mut().zip([GIB / 4, GIB * 5 / 2, GIB * 25]) {
            case.configuration.volume_bytes = Some(bytes);
        }
        let large = &mut run.cases[2];
        large.samples.truncate(2);
        for sample in &mut large.samples {
            sample.parts_gib_per_s = (0..100).map(|at| 4.1 + 0.01 * f64::from(at % 7)).collect();
            sample.seconds = 6.1;
        }
        run
    }

    #[test]
    fn each_volume_has_a_sentence_and_the_largest_a_trend() {
        let run = run_of_volumes();
        insta::assert_snapshot!(volumes(&run).join("\n"));
        assert_eq!(crate::findings(&run), volumes(&run));
    }

    #[test]
    fn volumes_under_other_conditions_are_not_judged() {
        let mut run = run_of_volumes();
        run.settings.pipe_size = Some(1 << 20);
        let found = volumes(&run);
        let shown = "; published from single runs of other data, sizes or processors: x0.88.";
        assert!(found[0].ends_with(shown), "{found:?}");
        assert!(!found.concat().contains("ed here"), "{found:?}");
    }

    #[test]
    fn short_parts_show_no_trend() {
        let mut run = run_of_volumes();
        for sample in &mut run.cases[2].samples {
            sample.seconds = 1.9;
        }
        let found = volumes(&run).concat();
        assert!(!found.contains("Within trials of"), "{found}");
    }

    #[test]
    fn without_measurements_there_are_no_findings() {
        let mut run = run_of_volumes();
        for case in &mut run.cases {
            case.samples.clear();
            case.ratio = None;
        }
        assert_eq!(volumes(&run), Vec::<String>::new());
    }
}

mod of_profiles {
    use super::super::*;
    use crate::Style;
    use pipespeed_explain::profile::fixtures;

    #[test]
    fn shares_count_samples_in_a_function_and_what_it_calls() {
        let text = shares(&fixtures::ladder())
            .unwrap()
            .render(Style::default());
        let rows: Vec<String> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "write_read pipe_write 48 % 95.0 %",
                "write_read copying 24 % 60.0 %",
                "write_read allocating pages 12 % 20.0 %",
            ]
        );
    }

    #[test]
    fn a_profile_without_samples_or_published_cases_has_no_table() {
        let mut profile = fixtures::ladder();
        profile.cases.remove(0);
        assert!(shares(&profile).is_none());
        let mut profile = fixtures::ladder();
        for case in &mut profile.cases {
            case.ends.iter_mut().for_each(|end| end.stacks.clear());
        }
        assert!(shares(&profile).is_none());
    }
}
