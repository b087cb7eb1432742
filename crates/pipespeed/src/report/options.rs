//! What a run of the suite options says of each published statement.

use crate::results::Run;
use crate::suite::Suite;

use super::format::{ratio_interval, times};
use super::published::{Claim, judge};
use super::steps::{Step, phrase, steps};

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

/// A sentence for each option; `doubt` is how far a case was found to differ
/// from itself, as a logarithm.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    steps(run)
        .iter()
        .map(|step| sentence(step, doubt))
        .collect()
}

fn sentence(step: &Step<'_>, doubt: f64) -> String {
    let factor = step.factor.unwrap_or(step.case);
    let shown = ratio_interval(step.ratio.low, step.ratio.high);
    let space = if shown.is_empty() { "" } else { " " };
    let mut sentence = format!(
        "{} ({}): {}{space}{shown} {} {}",
        capitalised(factor),
        step.case,
        times(step.ratio.median),
        phrase(step.ratio.verdict),
        step.base
    );
    if let Some(published) = PUBLISHED.iter().find(|known| known.case == step.case) {
        sentence.push_str(&format!(
            "; published: {}: {} here",
            published.figures,
            judge(published.claim, &step.ratio, doubt)
        ));
    }
    sentence.push('.');
    sentence
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{case, run, within};
    use crate::suite::Overrides;

    #[test]
    fn each_option_has_a_sentence_with_its_figures() {
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
