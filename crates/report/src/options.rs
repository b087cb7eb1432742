//! The suite options: published statements on options of pipes.

use itertools::Itertools as _;
use pipespeed_measure::record::Run;

use super::format::ratio;
use super::published::{Bar, Claim, judge, other_conditions};
use super::steps::steps;

/// "How fast are Linux pipes anyway?" and the comments of its program. Sleeping
/// stands for its last rung, read the other way round.
///
/// The case, the option with its kind of pages, the published figures, the claim.
const PUBLISHED: [(&str, &str, &str, Claim); 10] = [
    (
        "untouched",
        "untouched buffers of base pages",
        "25.0 GiB/s in place of 30",
        Claim::Slower,
    ),
    ("gift", "gifted base pages", NO_GAIN, Claim::NoGain),
    ("locked", "locked base pages", NO_GAIN, Claim::NoGain),
    (
        "busy_loop_huge",
        "huge pages",
        "51.0 GiB/s in place of 32.8 (sleeping; here spinning)",
        Claim::Faster,
    ),
    (
        "untouched_huge",
        "untouched buffers of huge pages",
        "no effect",
        Claim::Same,
    ),
    ("gift_huge", "gifted huge pages", NO_GAIN, Claim::NoGain),
    ("locked_huge", "locked huge pages", NO_GAIN, Claim::NoGain),
    (
        "same_buffer_huge",
        "one buffer of huge pages in halves instead of two",
        "about 20 % slower",
        Claim::Slower,
    ),
    (
        "vmsplice_splice_huge",
        "sleeping instead of spinning, huge pages",
        "51.0 GiB/s in place of 62.5 to 65",
        Claim::Slower,
    ),
    (
        "poll_huge",
        "poll(2) before each transfer, huge pages",
        NO_GAIN,
        Claim::NoGain,
    ),
];

const NO_GAIN: &str = "no gain";

/// A sentence for each published statement: first those confirmed, then those
/// refuted, then the undecided. `doubt` is that of the null control, a logarithm.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let (steps, bar) = (steps(run), Bar::of(run, doubt));
    let other = other_conditions(run);
    let judged = PUBLISHED.iter().filter_map(|(case, what, figures, claim)| {
        let step = steps.iter().find(|step| step.case == *case)?;
        let judgement = other.is_empty().then(|| judge(*claim, &step.ratio, bar));
        let beginning = match judgement {
            None => format!("Published, not judged by this run ({other})"),
            Some(judgement) => format!("Published and {} here", judgement.name()),
        };
        let found = ratio(step.ratio.estimate);
        let sentence = format!("{beginning}: {what}: {figures}; found {found} ({case}).");
        Some((judgement, sentence))
    });
    let by_judgement = judged.sorted_by_key(|(judgement, _)| *judgement);
    by_judgement.map(|(_, sentence)| sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::case::Case;
    use pipespeed_measure::record::DataUse;
    use pipespeed_measure::sample::{case, run, within};
    use pipespeed_measure::suite::Overrides;
    use pipespeed_measure::suite::Suite;

    fn options() -> Run {
        let plain = "vmsplice_splice_spin";
        let against = |factor, ratio| Some((plain, factor, ratio));
        run(
            Suite::Options,
            vec![
                case(plain, 28.0, None),
                case(
                    "untouched",
                    10.0,
                    against("untouched buffers", within(0.35, 0.36, 0.37)),
                ),
                case(
                    "gift",
                    28.0,
                    against("gifted pages", within(0.98, 1.0, 1.02)),
                ),
                case(
                    "locked",
                    28.0,
                    against("locked memory", within(0.9, 1.0, 1.2)),
                ),
                case(
                    "untouched_huge",
                    9.0,
                    Some(("gift", "untouched buffers", within(0.7, 0.75, 0.8))),
                ),
                case(
                    "unaligned",
                    20.0,
                    against("unaligned buffers", within(0.9, 1.0, 1.1)),
                ),
                case(
                    "vmsplice_splice_huge",
                    20.0,
                    Some(("gift", "sleeping", within(0.1, 0.2, 0.3))),
                ),
            ],
        )
    }

    #[test]
    fn what_was_published_stands_beside_what_was_found() {
        let run = options();
        insta::assert_snapshot!(findings(&run, 0.0).join("\n"));
        assert_eq!(super::super::findings(&run), findings(&run, 0.0));
    }

    #[test]
    fn other_data_or_sizes_are_not_what_was_published() {
        let mut run = options();
        run.settings.data = Some("touch".to_owned());
        run.cases
            .iter_mut()
            .for_each(|case| case.data = DataUse::Touch);
        for sentence in findings(&run, 0.0) {
            let beginning = "Published, not judged by this run (--data touch): ";
            assert!(sentence.starts_with(beginning), "{sentence}");
        }
        run = options();
        run.settings.data = Some("discard".to_owned());
        assert_eq!(findings(&run, 0.0), findings(&options(), 0.0));
    }

    #[test]
    fn published_cases_exist_under_the_conditions_of_the_first() {
        let cases = Suite::Options.cases(&Overrides::default());
        let conditions = |case: &Case| (case.data, case.subject.pipe_bytes());
        for (name, ..) in PUBLISHED {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            assert_eq!(conditions(case), conditions(&cases[0]));
        }
    }
}
