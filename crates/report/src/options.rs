//! What a run of the suite options says of each published statement.

use pipespeed_measure::record::{DataUse, Run};

use super::format::ratio;
use super::published::{Bar, CONFIRMED, Claim, Own, REFUTED, UNDECIDED, judge, other_conditions};
use super::steps::{Step, steps};

/// What was published of an option, by the name of its case.
struct Published {
    case: &'static str,
    /// Of what, with the kind of pages.
    what: &'static str,
    /// In a few words.
    figures: &'static str,
    claim: Claim,
}

const fn published(
    case: &'static str,
    what: &'static str,
    figures: &'static str,
    claim: Claim,
) -> Published {
    Published {
        case,
        what,
        figures,
        claim,
    }
}

/// "How fast are Linux pipes anyway?" and the comments of its program. Sleeping
/// stands for its last rung, read the other way round.
const PUBLISHED: [Published; 10] = [
    published(
        "untouched",
        "untouched buffers of base pages",
        "25.0 GiB/s in place of 30",
        Claim::Slower,
    ),
    published("gift", "gifted base pages", NO_GAIN, Claim::NoGain),
    published("locked", "locked base pages", NO_GAIN, Claim::NoGain),
    published(
        "busy_loop_huge",
        "huge pages",
        "51.0 GiB/s in place of 32.8 (sleeping; here spinning)",
        Claim::Faster,
    ),
    published(
        "untouched_huge",
        "untouched buffers of huge pages",
        "no effect",
        Claim::Same,
    ),
    published("gift_huge", "gifted huge pages", NO_GAIN, Claim::NoGain),
    published("locked_huge", "locked huge pages", NO_GAIN, Claim::NoGain),
    published(
        "same_buffer_huge",
        "one buffer of huge pages in halves instead of two",
        "about 20 % slower",
        Claim::Slower,
    ),
    published(
        "vmsplice_splice_huge",
        "sleeping instead of spinning, huge pages",
        "51.0 GiB/s in place of 62.5 to 65",
        Claim::Slower,
    ),
    published(
        "poll_huge",
        "poll(2) before each transfer, huge pages",
        NO_GAIN,
        Claim::NoGain,
    ),
];

const NO_GAIN: &str = "no gain";

/// As on the published ladder's last rungs.
const OWN: Own = Own {
    data: DataUse::Discard,
    buffer_bytes: 256 << 10,
    pipe_bytes: 128 << 10,
};

/// What was published, a sentence for each statement: the confirmed ones first,
/// then those refuted, then the undecided. `doubt` is how far a case was found
/// to differ from itself, as a logarithm.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let steps = steps(run);
    let bar = Bar::of(run, doubt);
    let other = other_conditions(run, OWN);
    let judgement = |known: &Published, step: &Step<'_>| {
        if other.is_empty() {
            judge(known.claim, &step.ratio, bar)
        } else {
            NOT_JUDGED
        }
    };
    let judged: Vec<(&str, String)> = PUBLISHED
        .iter()
        .filter_map(|known| {
            let step = steps.iter().find(|step| step.case == known.case)?;
            Some((judgement(known, step), statement(known, step)))
        })
        .collect();
    let sentence = |judgement: &str, statement: &str| match judgement {
        NOT_JUDGED => format!("Published, not judged by this run ({other}): {statement}"),
        judgement => format!("Published and {judgement} here: {statement}"),
    };
    [CONFIRMED, REFUTED, UNDECIDED, NOT_JUDGED]
        .iter()
        .flat_map(|wanted| judged.iter().filter(move |(of, _)| of == wanted))
        .map(|(judgement, statement)| sentence(judgement, statement))
        .collect()
}

/// The statement is of other conditions.
const NOT_JUDGED: &str = "not judged";

/// `gifted huge pages: no gain; found x1.00 [0.98, 1.02] (gift_huge).`
fn statement(published: &Published, step: &Step<'_>) -> String {
    format!(
        "{}: {}; found {} ({}).",
        published.what,
        published.figures,
        ratio(step.ratio.estimate),
        step.case,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
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
        for said in findings(&run, 0.0) {
            let beginning = "Published, not judged by this run (--data touch): ";
            assert!(said.starts_with(beginning), "{said}");
        }
        run = options();
        run.settings.data = Some("discard".to_owned());
        assert_eq!(findings(&run, 0.0), findings(&options(), 0.0));
    }

    #[test]
    fn the_conditions_of_the_published_figures_are_the_suites_own() {
        let cases = Suite::Options.cases(&Overrides::default());
        for published in &PUBLISHED {
            let case = cases.iter().find(|case| case.name == published.case);
            let case = case.unwrap();
            let pipe = case.subject.pipe_bytes();
            assert_eq!((case.data, pipe), (OWN.data, Some(OWN.pipe_bytes)));
        }
        assert_eq!(cases[0].subject.buffer_bytes(), OWN.buffer_bytes);
    }

    #[test]
    fn what_was_published_is_of_cases_that_exist() {
        let cases = Suite::Options.cases(&Overrides::default());
        for published in &PUBLISHED {
            assert!(cases.iter().any(|case| case.name == published.case));
        }
    }
}
