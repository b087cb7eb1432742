//! What a run of the suite options says of each published statement.

use crate::results::Run;
use crate::suite::Suite;

use super::format::{ratio_interval, times};
use super::published::{CONFIRMED, Claim, REFUTED, UNDECIDED, judge};
use super::steps::{Step, steps};

/// What was published of an option, by the name of its case.
struct Published {
    case: &'static str,
    /// In a few words.
    figures: &'static str,
    claim: Claim,
}

const fn published(case: &'static str, figures: &'static str, claim: Claim) -> Published {
    Published {
        case,
        figures,
        claim,
    }
}

/// "How fast are Linux pipes anyway?" and the comments of its program.
const PUBLISHED: [Published; 9] = [
    published("untouched", "25.0 GiB/s in place of 30", Claim::Slower),
    published("untouched_huge", "no effect", Claim::Same),
    published("gift", "no gain", Claim::NoGain),
    published("gift_huge", "no gain", Claim::NoGain),
    published("locked", "no gain", Claim::NoGain),
    published("locked_huge", "no gain", Claim::NoGain),
    published("same_buffer_huge", "about 20 % slower", Claim::Slower),
    published("busy_loop_huge", "a gain", Claim::Faster),
    published("poll_huge", "no gain", Claim::NoGain),
];

/// Whether a run is one of the suite options.
pub(super) fn are_compared(run: &Run) -> bool {
    run.suite == Suite::Options.name()
}

/// What was published, in a sentence for each judgement; `doubt` is how far a
/// case was found to differ from itself, as a logarithm.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let steps = steps(run);
    let judged: Vec<(&str, String)> = PUBLISHED
        .iter()
        .filter_map(|known| {
            let step = steps.iter().find(|step| step.case == known.case)?;
            let judgement = judge(known.claim, &step.ratio, doubt);
            Some((judgement, statement(known, step)))
        })
        .collect();
    let sentence = |judgement: &str, beginning: &str| {
        let of_it = judged.iter().filter(|(known, _)| *known == judgement);
        let statements: Vec<&str> = of_it.map(|(_, statement)| &**statement).collect();
        let all = statements.join("; ");
        (!all.is_empty()).then(|| format!("{beginning}: {all}."))
    };
    [
        sentence(CONFIRMED, "Published and confirmed here"),
        sentence(REFUTED, "Published and refuted here"),
        sentence(UNDECIDED, "Published and undecided here"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `untouched buffers, 25.0 GiB/s in place of 30 (untouched: x0.41 [0.39, 0.43])`.
fn statement(published: &Published, step: &Step<'_>) -> String {
    let shown = ratio_interval(step.ratio.low, step.ratio.high);
    format!(
        "{}: {} ({}: {})",
        step.factor.unwrap_or(step.case),
        published.figures,
        step.case,
        format!("{} {shown}", times(step.ratio.median)).trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{case, run, within};
    use crate::suite::Overrides;

    #[test]
    fn what_was_published_stands_beside_what_was_found() {
        let run = run(
            "options",
            vec![
                case("vmsplice_splice_spin", 28.0, None),
                case(
                    "untouched",
                    10.0,
                    Some((
                        "vmsplice_splice_spin",
                        "untouched buffers",
                        within(0.35, 0.36, 0.37),
                    )),
                ),
                case(
                    "gift",
                    28.0,
                    Some((
                        "vmsplice_splice_spin",
                        "gifted pages",
                        within(0.98, 1.0, 1.02),
                    )),
                ),
                case(
                    "locked",
                    28.0,
                    Some((
                        "vmsplice_splice_spin",
                        "locked memory",
                        within(0.9, 1.0, 1.2),
                    )),
                ),
                case(
                    "untouched_huge",
                    9.0,
                    Some(("gift", "untouched buffers", within(0.7, 0.75, 0.8))),
                ),
                case(
                    "unaligned",
                    20.0,
                    Some((
                        "vmsplice_splice_spin",
                        "unaligned buffers",
                        within(0.9, 1.0, 1.1),
                    )),
                ),
            ],
        );
        insta::assert_snapshot!(findings(&run, 0.0).join("\n"));
        assert_eq!(super::super::findings(&run), findings(&run, 0.0));
    }

    #[test]
    fn what_was_published_is_of_cases_that_exist() {
        let cases = Suite::Options.cases(&Overrides::default());
        for published in &PUBLISHED {
            assert!(cases.iter().any(|case| case.name == published.case));
        }
    }
}
